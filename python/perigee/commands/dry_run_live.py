# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A dry run between real hosts: start time and data volume of each run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from perigee.commands.dry_run import counted_runs, listing, new_table, shown_indices
from perigee.engines.live.engine import Live
from perigee.engines.live.timetable import time_of_day
from perigee.engines.plan.contract import Plan
from perigee.engines.plan.runs import describe
from perigee.numbers import span

if TYPE_CHECKING:
    from perigee._core import LiveFlow, LiveRun

MBIT_S = 100
"""Rate at which the data volume of unlimited flows is estimated."""


def live_listing(plan: Plan, now: float) -> tuple[Table, str]:
    """Return a table of the runs with their start times, and their data volume.

    Args:
        plan: the runs, of real hosts.
        now: seconds of Unix time, when they would begin.
    """
    if not isinstance(plan, Live):
        return listing(plan)
    table = new_table("Run", "Begins", "What", "Flows")
    begins = plan.beginnings(now)
    total = Data()
    for number, details in enumerate(plan.distinct):
        times = sum(begin != LEFT_OUT for begin in begins[number :: len(plan.distinct)])
        total.add(details, times)
    for index in shown_indices(len(plan.runs)):
        if index is None:
            table.add_row(*["..."] * 4)
            continue
        run, begin, details = plan.runs[index], begins[index], plan.details(index)
        flows = [
            f"{flow.name}: {_what(flow)} {'from' if command.job.reverse else 'to'} the server, {command.server}"
            for flow, command in zip(details.flows, plan.commands(details), strict=True)
        ]
        if begin is None:
            shown = "after the one before"
        elif begin == LEFT_OUT:
            shown = "left out (live.for)"
        else:
            shown = time_of_day(begin)
        table.add_row(str(index), shown, escape(describe(run)), escape("\n".join(flows)))
    return table, f"{counted_runs(plan.runs)}; {total}; nothing was run"


LEFT_OUT = -1.0
"""Shown in place of a start time: the run is skipped."""


class Data:
    """Data volume over the path.

    Examples:
        >>> from types import SimpleNamespace as Planned
        >>> flow = {"kind": "bulk", "size": None, "length_ns": None}
        >>> sized, greedy = Planned(**flow | {"size": 10**9}), Planned(**flow | {"length_ns": 60 * 10**9})
        >>> data = Data()
        >>> data.add(Planned(flows=[sized, greedy]), 1)
        >>> str(data)
        '1.00 GB, and 1 min of flows without a limit (at 100 Mbit/s: 0.75 GB)'
    """

    def __init__(self) -> None:
        self._bytes = 0.0
        self._greedy_s = 0.0

    def add(self, details: LiveRun, times: int) -> None:
        """Add the flows of a run that is repeated `times` times."""
        for flow in details.flows:
            length_s = (flow.length_ns or 0) / 1e9
            if flow.kind == "udp":
                self._bytes += times * flow.rate_bps / 8 * length_s
            elif flow.size is not None:
                self._bytes += times * flow.size
            else:
                self._greedy_s += times * length_s

    def __str__(self) -> str:
        text = f"{self._bytes / 1e9:.2f} GB"
        if not self._greedy_s:
            return text
        at = self._greedy_s * MBIT_S / 8e3
        greedy = f"{span(self._greedy_s)} of flows without a limit (at {MBIT_S} Mbit/s: {at:.2f} GB)"
        return f"{text}, and {greedy}" if self._bytes else greedy


def _what(flow: LiveFlow) -> str:
    amount = f"{flow.size / 1e6:g} MB" if flow.size is not None else f"{(flow.length_ns or 0) / 1e9:g} s"
    how = f"UDP at {flow.rate_bps / 1e6:g} Mbit/s" if flow.kind == "udp" else str(flow.cc)
    start = f", from {flow.start_ns / 1e9:g} s on" if flow.start_ns else ""
    return f"{how}, {amount}{start}"

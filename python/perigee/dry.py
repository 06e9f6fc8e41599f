# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What `perigee run --dry-run` shows: the runs, and between real hosts when each begins and how much data it is.

Of many runs the first and the last are shown: a million lines say less than their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.engines import Plan, describe
from perigee.files import shown_bytes
from perigee.live.engine import LivePlan
from perigee.live.timetable import time_of_day
from perigee.memory import Roomy
from perigee.runs import Runs

ALL_SHOWN = 100
"""Up to so many runs are all shown."""
FIRST_SHOWN, LAST_SHOWN = 10, 3
"""Otherwise so many of them."""
MBIT_S = 100
"""The rate at which the data of flows is told that take what the path gives."""


def listing(plan: Plan, now: float) -> tuple[Table, str]:
    """Return a table of the runs, and what they are together.

    Args:
        plan: the runs.
        now: seconds of Unix time, when they would begin.
    """
    if isinstance(plan, LivePlan):
        return _of_hosts(plan, now)
    table = _table("Run", "What", "Flows", "Links")
    for index in _shown(len(plan.runs)):
        if index is None:
            table.add_row(*["..."] * 4)
            continue
        run = plan.runs[index]
        flows, links = (", ".join(map(str, run.get(key, ()))) for key in ("flows", "links"))
        table.add_row(str(index), escape(describe(run)), escape(flows), escape(links))
    return table, f"{_counted(plan.runs)}{_size(plan)}; nothing was run"


def _of_hosts(plan: LivePlan, now: float) -> tuple[Table, str]:
    table = _table("Run", "Begins", "What", "Flows")
    begins = plan.beginnings(now)
    total = Data()
    for number, details in enumerate(plan.distinct):
        times = sum(begin != LEFT_OUT for begin in begins[number :: len(plan.distinct)])
        total.add(details, times)
    for index in _shown(len(plan.runs)):
        if index is None:
            table.add_row(*["..."] * 4)
            continue
        run, begin, details = plan.runs[index], begins[index], plan.details(index)
        flows = [
            f"{flow['name']}: {_what(flow)} {_way(flow, plan)}, {command.server}"
            for flow, command in zip(details["flows"], plan.commands(details), strict=True)
        ]
        if begin is None:
            shown = "after the one before"
        elif begin == LEFT_OUT:
            shown = "left out (live.for)"
        else:
            shown = time_of_day(begin)
        table.add_row(str(index), shown, escape(describe(run)), escape("\n".join(flows)))
    return table, f"{_counted(plan.runs)}; {total}; nothing was run"


def _shown(count: int) -> Iterator[int | None]:
    """Yield the runs to show; none: some are left out here.

    Examples:
        >>> list(_shown(1_000_000))[8:]
        [8, 9, None, 999997, 999998, 999999]
    """
    if count <= ALL_SHOWN:
        yield from range(count)
        return
    yield from range(FIRST_SHOWN)
    yield None
    yield from range(count - LAST_SHOWN, count)


def _size(plan: Plan) -> str:
    """Say how much a plan writes at the most, where it knows."""
    if not isinstance(plan, Roomy):
        return ""
    size = plan.runs.rounds * sum(part["file"] for parts in plan.rooms for part in parts)
    return f"; results of at most about {shown_bytes(size)} before they are compressed"


def _counted(runs: Runs) -> str:
    points, rounds = len(runs.points), runs.rounds
    if len(runs) <= ALL_SHOWN:
        return f"{len(runs)} runs"
    return f"{len(runs)} runs: {points} point{'s' * (points > 1)} in {rounds} round{'s' * (rounds > 1)}"


LEFT_OUT = -1.0
"""In place of an instant: the run is not begun any more."""


class Data:
    """How much goes over the path.

    Examples:
        >>> data = Data()
        >>> data.add({"flows": [{"kind": "bulk", "size": 10**9}, {"kind": "bulk", "length_ns": 60 * 10**9}]}, 1)
        >>> str(data)
        '1.00 GB, and 1 min of flows that take what the path gives (at 100 Mbit/s: 0.75 GB)'
    """

    def __init__(self) -> None:
        self._bytes = 0.0
        self._greedy_s = 0.0

    def add(self, details: Mapping[str, Any], times: int) -> None:
        """Count the flows of a run that is carried out so many times."""
        for flow in details["flows"]:
            length_s = (flow.get("length_ns") or 0) / 1e9
            if flow["kind"] == "udp":
                self._bytes += times * flow["rate_bps"] / 8 * length_s
            elif flow.get("size") is not None:
                self._bytes += times * flow["size"]
            else:
                self._greedy_s += times * length_s

    def __str__(self) -> str:
        text = f"{self._bytes / 1e9:.2f} GB"
        if not self._greedy_s:
            return text
        at = self._greedy_s * MBIT_S / 8e3
        greedy = f"{self._greedy_s / 60:g} min of flows that take what the path gives (at {MBIT_S} Mbit/s: {at:.2f} GB)"
        return f"{text}, and {greedy}" if self._bytes else greedy


def _what(flow: Mapping[str, Any]) -> str:
    amount = f"{flow['size'] / 1e6:g} MB" if flow.get("size") is not None else f"{flow['length_ns'] / 1e9:g} s"
    how = f"UDP at {flow['rate_bps'] / 1e6:g} Mbit/s" if flow["kind"] == "udp" else str(flow["cc"])
    start = f", from {flow['start_ns'] / 1e9:g} s on" if flow["start_ns"] else ""
    return f"{how}, {amount}{start}"


def _way(flow: Mapping[str, Any], plan: LivePlan) -> str:
    return "from the server" if flow["to"] == plan.hosts.here else "to the server"


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading)
    return table

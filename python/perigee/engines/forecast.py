# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What is known of a plan before it begins: how long simulating it takes, and flows that cannot come to their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from perigee.engines.real_time import span

if TYPE_CHECKING:
    from perigee import _core

CROSSING_S = 2.5e-7
"""Processor time of the simulator for a packet on a link, s: a download of 1 GB over three links takes some 0.5 s."""
RUN_S = 5e-3
"""Processor time of a run besides that, s."""
MOST_POINTS = 1000
"""So many points of a study are looked at."""


@runtime_checkable
class Forecast(Protocol):
    """A plan that knows something of its runs before they begin."""

    @property
    def processor_s(self) -> float | None:
        """Processor time of all runs together, s, roughly; none: they are in real time."""

    @property
    def remarks(self) -> Sequence[str]:
        """What a user should know before they begin."""


def processor_seconds(outlook: _core.Outlook) -> float:
    """Return the processor time that simulating the runs takes, s; flows that lose packets or wait take less.

    Args:
        outlook: what the core knows of the runs.

    Examples:
        >>> from types import SimpleNamespace as Known
        >>> run = Known(packets_per_s=1e5, least_s=60.0)
        >>> round(processor_seconds(Known(rounds=10, runs=[run, run])))
        30
    """
    crossings = sum(run.packets_per_s * run.least_s for run in outlook.runs)
    return outlook.rounds * (crossings * CROSSING_S + len(outlook.runs) * RUN_S)


def cut_short(plan: _core.Plan, points: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield a warning where `time_limit` ends flows before the end of their `duration`: they count as not completed.

    Args:
        plan: the core's.
        points: what each point of the study says.
    """
    found: dict[str, tuple[float, float, int]] = {}
    looked_at = min(len(points), MOST_POINTS)
    for index in range(looked_at):
        run = plan.live_run(index)
        for flow in run.flows:
            end = flow.start_ns + (flow.length_ns or 0)
            if flow.length_ns is not None and end > run.time_limit_ns:
                latest, _, count = found.get(flow.name, (0.0, 0.0, 0))
                found[flow.name] = (max(latest, end / 1e9), run.time_limit_ns / 1e9, count + 1)
    for name, (end_s, limit_s, count) in found.items():
        where = "every run" if count == looked_at else f"runs of {count} of {looked_at} points"
        yield (
            f"warning: in {where} flow `{name}` ends at {span(end_s)}, after time_limit = {span(limit_s)}: it does "
            f'not complete; raise time_limit (--set time_limit="{round(end_s + 60)} s") or shorten its duration'
        )

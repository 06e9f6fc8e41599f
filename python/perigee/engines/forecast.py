# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What is known of a plan before it begins: how long it takes, flows that cannot end, paths not to be believed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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

    Flows that one table declares (`count`) are warned about together.

    Args:
        plan: the core's.
        points: what each point of the study says.
    """
    found: dict[str, _CutShort] = {}
    looked_at = min(len(points), MOST_POINTS)
    for index in range(looked_at):
        run = plan.live_run(index)
        for flow in run.flows:
            end = flow.start_ns + (flow.length_ns or 0)
            if flow.length_ns is not None and end > run.time_limit_ns:
                late = found.setdefault(_declared(flow.name), _CutShort())
                late.names.setdefault(flow.name)
                late.points.add(index)
                late.end_s = max(late.end_s, end / 1e9)
                late.limit_s = run.time_limit_ns / 1e9
    for declared, late in found.items():
        count = len(late.points)
        where = "every run" if count == looked_at else f"runs of {count} of {looked_at} points"
        if len(late.names) == 1:
            which, they = f"flow `{next(iter(late.names))}` ends at {span(late.end_s)}", "it does"
            duration = "its duration"
        else:
            which, they = f"{len(late.names)} flows `{declared}` end, the last at {span(late.end_s)}", "they do"
            duration = "their duration"
        yield (
            f"warning: in {where} {which}, after time_limit = {span(late.limit_s)}: {they} not complete; raise "
            f'time_limit (--set time_limit="{round(late.end_s + 60)} s") or shorten {duration}'
        )


@dataclass
class _CutShort:
    """Flows of one table that end after the time limit.

    Attributes:
        names: the flows, in order.
        points: the points in which they do.
        end_s: when the last of them ends, s.
        limit_s: the time limit, s.
    """

    names: dict[str, None] = field(default_factory=dict)
    points: set[int] = field(default_factory=set)
    end_s: float = 0.0
    limit_s: float = 0.0


def _declared(flow: str) -> str:
    """Return the name of the table that declares a flow.

    Examples:
        >>> _declared("web"), _declared("web.12")
        ('web', 'web')
    """
    return re.sub(r"\.\d+$", "", flow)


def path_warnings(setup: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a user should know of computed paths: satellites that have decayed, elements of another time.

    Args:
        setup: links in words, see `Plan.setup`.

    Examples:
        >>> words = "66 satellites; light and 5 ms; warning: 2 of 66 have decayed; warning: old; use newer (varied)"
        >>> link = {"properties": [["rate", "1 Mbit/s"], ["delay", words]]}
        >>> list(path_warnings({"links": [{"name": "sat.down", **link}, {"name": "sat.up", **link}]}))
        ['warning: links sat.down, sat.up: 2 of 66 have decayed', 'warning: links sat.down, sat.up: old; use newer']
    """
    found: dict[str, list[str]] = {}
    for link in setup.get("links", []):
        words = re.sub(r" (and others )?\(varied[^()]*\)$", "", dict(link["properties"]).get("delay", ""))
        for warning in words.split("; warning: ")[1:]:
            found.setdefault(warning, []).append(link["name"])
    for warning, names in found.items():
        yield f"warning: link{'s' * (len(names) > 1)} {', '.join(names)}: {warning}"

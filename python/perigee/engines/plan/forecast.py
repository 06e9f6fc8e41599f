# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Forecasts of a plan: duration, flows that cannot end or fill their path, and doubtful satellite paths."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perigee.engines.host.buffers import Buffer, LinkSize, advice, too_small

if TYPE_CHECKING:
    from perigee import _core
    from perigee.engines.host.memory import Room

CROSSING_S = 2.5e-7
"""Processor time of the simulator for a packet on a link, s: a download of 1 GB over three links takes some 0.5 s."""
RUN_S = 5e-3
"""Processor time of a run besides packets, s."""
WRITTEN_S = 8e-7
"""Processor time per row of the upper bound of a log or capture, s: a fifth to a third are written, in 2 us to 4 us."""
LOGS = frozenset({"events", "states", "captures"})
"""Parts of results with a row per packet."""
MOST_POINTS = 1000
"""Maximum number of points to check."""
MOST_TABLES = 3
"""Tables of flows that have a warning each; of more, such as in a study's reduced size, one says it."""
AMPLE = 4
"""Proposed size of a buffer over the one that fills the path: BBR begins with three products in flight."""
LOOKED_AT_S = 3600.0
"""Maximum total time of runs to check for slots without a path, s."""


def processor_seconds(outlook: _core.Outlook, rooms: Sequence[Room] = ()) -> float:
    """Return an estimate of the processor time for simulating the runs, s; flows that lose packets or wait take less.

    Args:
        outlook: the core's estimates of the runs.
        rooms: what the results of each run take at the most.

    Examples:
        >>> from types import SimpleNamespace as Known
        >>> run = Known(packets=6e6)
        >>> known = Known(rounds=10, runs=[run, run])
        >>> log = Known(name="events", rows=5_000_000)
        >>> round(processor_seconds(known)), round(processor_seconds(known, [[log], [log]]))
        (30, 110)
    """
    crossings = sum(run.packets for run in outlook.runs)
    rows = sum(part.rows for parts in rooms for part in parts if part.name in LOGS)
    return outlook.rounds * (crossings * CROSSING_S + len(outlook.runs) * RUN_S + rows * WRITTEN_S)


def elapsed_seconds(processor_s: float, runs: int) -> float:
    """Return about how long simulated runs take on this machine, s: on all its cores, or as many as there are runs.

    The command line and the laboratory say this.
    """
    return processor_s / cores_for(runs)


def cores_for(runs: int) -> int:
    """Return how many cores of this machine simulate a number of runs."""
    return max(1, min(os.cpu_count() or 1, runs))


def real_seconds(outlook: _core.Outlook) -> float:
    """Return how long runs in real time take at least, one after the other, s."""
    return float(outlook.rounds * sum(run.least_s for run in outlook.runs))


def cut_short(plan: _core.Plan, points: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield a warning where `time_limit` ends flows before the end of their `duration`, or before they begin.

    Flows of one table (`count`) share a warning; so do those of more than `MOST_TABLES` tables.

    Args:
        plan: the core's.
        points: content of each point of the study.
    """
    found: dict[str, _CutShort] = {}
    looked_at = min(len(points), MOST_POINTS)
    for index in range(looked_at):
        run = plan.live_run(index)
        for flow in run.flows:
            end = flow.start_ns + (flow.length_ns or 0)
            if (flow.length_ns is not None and end > run.time_limit_ns) or flow.start_ns >= run.time_limit_ns:
                late = found.setdefault(_declared(flow.name), _CutShort())
                late.names.setdefault(flow.name)
                late.points.add(index)
                late.end_s = max(late.end_s, end / 1e9)
                late.start_s = min(late.start_s, flow.start_ns / 1e9)
                late.limit_s = run.time_limit_ns / 1e9
    ending = {declared: late for declared, late in found.items() if late.start_s < late.limit_s}
    if len(ending) > MOST_TABLES:
        first, *_, last = ending
        joined = _CutShort.joined(list(ending.values()))
        found = {one: late for one, late in found.items() if one not in ending} | {f"{first}` to `{last}": joined}
    for declared, late in found.items():
        count = len(late.points)
        where = "every run" if count == looked_at else f"runs of {count} of {looked_at} points"
        # Half as long again, for packets in flight; a whole number of seconds, and never more than a minute.
        seconds = math.ceil(late.end_s + min(0.5 * late.end_s, 60))
        limit, at_end = f"time_limit = {late.limit_s:g} s", f"{late.end_s:g} s"
        raised = f'raise time_limit (--set time_limit="{seconds} s")'
        if len(late.names) == 1:
            which, they, their = f"flow `{next(iter(late.names))}` ends at {at_end}", "it does", "its"
        else:
            which, they, their = f"{len(late.names)} flows `{declared}` end, the last at {at_end}", "they do", "their"
        if late.start_s >= late.limit_s:
            begin = f"flow{'s' * (len(late.names) > 1)} `{declared}` would begin at {late.start_s:g} s"
            yield f"warning: in {where} {begin}, after {limit}: nothing of it is carried out; {raised} or begin earlier"
        else:
            yield (
                f"warning: in {where} {which}, after {limit}: {they} not complete; {raised} or shorten {their} duration"
            )


@dataclass
class _CutShort:
    """Flows of one table that end after the time limit.

    Attributes:
        names: the flows, in order.
        points: the points with such flows.
        end_s: end of the last flow, s.
        start_s: begin of the first flow, s.
        limit_s: the time limit, s.
    """

    names: dict[str, None] = field(default_factory=dict)
    points: set[int] = field(default_factory=set)
    end_s: float = 0.0
    start_s: float = math.inf
    limit_s: float = 0.0

    @classmethod
    def joined(cls, several: Sequence[_CutShort]) -> _CutShort:
        """Return the flows of several tables as those of one."""
        return cls(
            {name: None for one in several for name in one.names},
            {point for one in several for point in one.points},
            max(one.end_s for one in several),
            min(one.start_s for one in several),
            max(one.limit_s for one in several),
        )


def small_buffers(plan: _core.Plan, points: int) -> Iterator[str]:
    """Yield a note where socket buffers keep a bulk transfer from filling its path, as `perigee exec` does for a link.

    Transfers that share a link are taken to have equal shares of it. Of several points the largest product counts. The
    proposed size leaves every decision to the congestion window.

    Args:
        plan: the core's.
        points: the number of points of the study.

    Examples:
        >>> from types import SimpleNamespace as Known
        >>> ends = {"sender": "server", "wmem": (4096, 16384, 4194304), "receiver": "client"}
        >>> reach = Known(flow="download", rmem=(4096, 131072, 33554432), rate_bps=100e6, rtt_s=0.6, **ends)
        >>> print(*small_buffers(Known(reaches=lambda index: [reach]), 1))
        note: wmem of server ends at 4.2 MB, and flow `download` needs 15 MB to fill its path (100 Mbit/s x 600 ms = \
7.5 MB in flight); raise it with: --set hosts.wmem='["4096 B", "16384 B", "60 MB"]' --set \
hosts.rmem='["4096 B", "131072 B", "60 MB"]'
    """
    found: dict[tuple[str, ...], tuple[LinkSize, Sequence[Buffer], dict[str, None]]] = {}
    for index in range(min(points, MOST_POINTS)):
        for reach in plan.reaches(index):
            path = LinkSize(reach.rate_bps, reach.rtt_s)
            ends = (Buffer(f"wmem of {reach.sender}", reach.wmem), Buffer(f"rmem of {reach.receiver}", reach.rmem))
            if small := too_small(path, ends):
                names = tuple(buffer.name for buffer in small)
                worst, buffers, flows = found.get(names, (path, ends, {}))
                if path.product_bytes > worst.product_bytes:
                    worst, buffers = path, ends
                found[names] = (worst, buffers, flows | {_declared(reach.flow): None})
    for path, buffers, flows in found.values():
        several = f"each of the flows {', '.join(f'`{name}`' for name in flows)}"
        who = several if len(flows) > 1 else f"flow `{next(iter(flows))}`"
        settings = " ".join(setting for buffer in buffers if (setting := _ample(buffer, path)))
        yield f"note: {advice(path, too_small(path, buffers), (who, 'its path'), settings)}"


def _ample(buffer: Buffer, path: LinkSize) -> str:
    """Return the setting with which a buffer leaves every decision to the congestion window; empty if it does."""
    least, first, largest = buffer.sizes
    ample = AMPLE * path.buffer_bytes
    if largest >= ample:
        return ""
    name = buffer.name.partition(" ")[0]
    return f"""--set hosts.{name}='["{least} B", "{first} B", "{ample // 1_000_000} MB"]'"""


def _declared(flow: str) -> str:
    """Return the name of the table that declares a flow.

    Examples:
        >>> _declared("web"), _declared("web.12")
        ('web', 'web')
    """
    return re.sub(r"\.\d+$", "", flow)


def path_warnings(setup: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about computed paths: decayed satellites, outdated elements.

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


def slots_without_path(plan: _core.Plan, outlook: _core.Outlook) -> Iterator[str]:
    """Yield a warning where a constellation leaves a link without a path for part of the time.

    Args:
        plan: the core's.
        outlook: the core's estimates of its runs.

    Examples:
        >>> from types import SimpleNamespace as Known
        >>> plan = Known(slots_without_path=lambda index, span_s: [("sat.down", 1, 4), ("sat.up", 1, 4)])
        >>> list(slots_without_path(plan, Known(rounds=2, runs=[Known(least_s=60.0)])))
        ['warning: links sat.down, sat.up: no satellite is in view of user and gateway in 2 of 8 slots, and packets of \
these are lost; perigee orbit show lists them']
    """
    counts: dict[str, tuple[int, int]] = {}
    points, left_s = len(outlook.runs), LOOKED_AT_S
    for index in range(min(points * outlook.rounds, MOST_POINTS)):
        span_s = min(outlook.runs[index % points].least_s, left_s)
        if span_s <= 0:
            break
        here = plan.slots_without_path(index, span_s)
        left_s -= span_s
        for name, without, slots in here:
            before = counts.get(name, (0, 0))
            counts[name] = (before[0] + without, before[1] + slots)
    names: dict[tuple[int, int], list[str]] = {}
    for name, count in counts.items():
        names.setdefault(count, []).append(name)
    which = "slots" if left_s > 0 else "slots of the first hour"
    for (without, slots), links in names.items():
        if without:
            yield (
                f"warning: link{'s' * (len(links) > 1)} {', '.join(links)}: no satellite is in view of user and "
                f"gateway in {without} of {slots} {which}, and packets of these are lost; perigee orbit show lists them"
            )

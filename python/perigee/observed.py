# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What another program saw of flows, made into the tables of results by the definitions that all engines share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from perigee.engines import arrow_table, native_core

Arrival = tuple[int, int]
"""An instant in ns since the flow began, and the payload that had arrived by then."""

Sample = tuple[int, int | None, int | None, int | None]
"""What a sender said: instant (ns), packets sent again so far, window (packets), smoothed round trip (ns)."""


@dataclass(frozen=True)
class Measure:
    """What is to be measured, by default as in a study that does not say.

    Attributes:
        series_ns: interval of the series; none: no series.
        startup_bytes: the startup phase ends when so much has arrived,
        startup_ns: or after this time; neither: there is no such phase.
        steady: the steady phase is this last share; none: there is none.
        goodput_bin_ns: bin of the goodput whose percentiles are taken.
        rtt_bin_ns: width of the bins of round trips; none: no such table.
        milestones: sizes whose times are written, growing.
    """

    series_ns: int | None = 1_000_000_000
    startup_bytes: int | None = None
    startup_ns: int | None = None
    steady: float | None = 0.5
    goodput_bin_ns: int = 1_000_000_000
    rtt_bin_ns: int | None = 1_000_000
    milestones: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class About:
    """What a flow's row says without being measured; see `schema/results.md`."""

    study: str
    flow: str
    kind: str
    from_node: str
    to_node: str
    cc: str = ""
    cc_params: str = "{}"
    engine: str = "live"
    run: int = 0
    round: int = 0
    seed: int = 0
    point: str = "{}"
    outcome: str = "completed"
    handshake_ms: float | None = None
    lost_packets: int | None = None
    jitter_ms: float | None = None


@dataclass(frozen=True)
class Seen:
    """What was seen of a flow.

    Attributes:
        duration_ns: how long it took.
        arrivals: payload over time; instants and counts grow, the last is the whole.
        samples: what its sender said, in order.
        start_ns: when it began, in the run's time.
        size: what it was to carry, bytes,
        length_ns: or for how long; neither: it has no steady phase.
        segment: payload of a full packet; none: packets are not counted.
        sent_packets: packets sent, where they were counted themselves.
        retransmitted_packets: packets sent again, of the whole flow.
    """

    duration_ns: int
    arrivals: list[Arrival]
    samples: list[Sample] = field(default_factory=list)
    start_ns: int = 0
    size: int | None = None
    length_ns: int | None = None
    segment: int | None = None
    sent_packets: int | None = None
    retransmitted_packets: int | None = None


def blank(schema: pa.Schema) -> dict[str, Any]:
    """Return a row that says nothing: empty where that may be, otherwise 0 or an empty text."""
    nothing = {True: None, False: 0}
    return {field.name: "" if pa.types.is_large_string(field.type) else nothing[field.nullable] for field in schema}


def tables(flows: Iterable[tuple[About, Measure, Seen]]) -> dict[str, pa.Table]:
    """Measure flows, one row of `flows` each.

    Examples:
        >>> seen = Seen(2_000_000_000, [(1_000_000_000, 125_000), (2_000_000_000, 500_000)])
        >>> made = tables([(About("a", "f", "bulk", "server", "client"), Measure(), seen)])
        >>> made["flows"]["goodput_mbps"].to_pylist(), made["series"]["goodput_mbps"].to_pylist()
        ([2.0], [1.0, 3.0])
    """
    told = [
        {"about": asdict(about), "measure": asdict(measure), "seen": asdict(seen)} for about, measure, seen in flows
    ]
    made = native_core().observed(json.dumps(told))
    return {name: arrow_table(rows, columns) for name, (rows, columns) in made.items()}

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Observations of flows by other programs, made into tables of results by the definitions of all engines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from perigee.core import native

Measure = native.Measure
"""The measurements of a flow; the defaults are those of a study."""

Arrival = tuple[int, int]
"""An instant in ns since the flow began, and the payload that had arrived by then."""

Sample = tuple[int, int | None, int | None, int | None]
"""State of a sender: instant (ns), retransmissions so far, window (packets), smoothed round trip (ns)."""


@dataclass(frozen=True)
class FlowDescription:
    """The part of a flow's row that is not measured; see `schema/results.md`."""

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
class Observation:
    """Another program's observation of a flow.

    Attributes:
        duration_ns: how long it took.
        arrivals: payload over time; instants and counts grow, the last is the whole.
        samples: what its sender said, in order.
        start_ns: when it began, in the run's time.
        size: what it was to carry, bytes,
        length_ns: or for how long; neither: it has no steady phase.
        segment: payload of a full packet; none: packets are not counted.
        sent_packets: packets sent, where they were counted themselves.
        retransmitted_packets: retransmissions of the whole flow.
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


def tables(flows: Iterable[tuple[FlowDescription, Measure, Observation]]) -> dict[str, bytes]:
    """Measure flows, one row of `flows` each; return their tables as streams.

    Examples:
        >>> seen = Observation(2_000_000_000, [(1_000_000_000, 125_000), (2_000_000_000, 500_000)])
        >>> made = tables([(FlowDescription("a", "f", "bulk", "server", "client"), Measure(), seen)])
        >>> from perigee.store.streams import frame_of
        >>> [frame_of(made[name])["goodput_mbps"].to_list() for name in ("flows", "series")]
        [[2.0], [1.0, 3.0]]
    """
    return native.observed(list(flows))

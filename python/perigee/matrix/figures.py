# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figures of cells: medians of their rounds, which stack is best over GEO, and what another run gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

WITHIN = 0.05
"""Difference of two runs of a cell up to which it is said to repeat, as a share of their mean."""
MEDIANS = ("completion_s", "goodput_mbps", "throughput_mbps", "handshake_ms", "retransmitted_percent", "lost_percent")
LATE_US = 1000.0
"""99th percentile of how late packets left the link, above which a cell says little."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Figures:
    """Medians over the rounds of a cell; empty where no round has it, or the cell has a fault.

    Attributes:
        completed: whether all rounds completed.
        completion_s: of those rounds.
        goodput_mbps: likewise.
        throughput_mbps: what arrived, headers of QUIC and repetitions included, while the download lasted.
        handshake_ms: from the client's first packet to the first one that answers the server's.
        retransmitted_percent: of the server's packets.
        lost_percent: of the packets towards the client, by queue and link.
        is_late: whether this machine was too busy.
    """

    completed: bool
    completion_s: float | None
    goodput_mbps: float | None
    throughput_mbps: float | None
    handshake_ms: float | None
    retransmitted_percent: float | None
    lost_percent: float | None
    is_late: bool


def figures(record: Record) -> Figures:
    """Return the figures of a cell."""
    rounds = record["rounds"]
    several = {key: [one[key] for one in rounds if one[key] is not None] for key in MEDIANS}
    completed = bool(rounds) and all(one["completed"] for one in rounds)
    medians = {key: median(values) if values else None for key, values in several.items()}
    if not completed:
        medians |= {"completion_s": None, "goodput_mbps": None}
    return Figures(completed, **medians, is_late=any(one["late_p99_us"] > LATE_US for one in rounds))


def download_s(record: Record) -> float | None:
    """Return how long the download takes; of one that was cut, how long it would at the rate that it had.

    Examples:
        >>> known = dict.fromkeys(MEDIANS) | {"completed": False, "throughput_mbps": 2.0, "late_p99_us": 0}
        >>> download_s({"rounds": [known], "size_bytes": 10_000_000})
        40.0
    """
    found = figures(record)
    if found.completion_s is not None:
        return found.completion_s
    return 8e-6 * record["size_bytes"] / found.throughput_mbps if found.throughput_mbps else None


@dataclass(frozen=True)
class Rank:
    """A server with a client and a control, over both links of GEO.

    Attributes:
        clean: the cell without loss.
        lossy: the cell with loss; None: not measured.
        total_s: of both downloads.
    """

    clean: Record
    lossy: Record | None
    total_s: float


def ranked(records: Sequence[Record]) -> list[Rank]:
    """Return what was measured over GEO, best first: by the time of the downloads without and with loss, together.

    Where cells with loss were measured, what has none is left out; so is what has a fault over either link.
    """
    lossy = {_rest(one): one for one in records if one["link"] == "geo-loss"}
    found = []
    for one in records:
        if one["link"] != "geo" or one["is_tuned"]:
            continue
        other = lossy.get(_rest(one))
        times = [download_s(one), *([download_s(other)] if other else [])]
        known = [time_s for time_s in times if time_s is not None]
        if len(known) == len(times) == (2 if lossy else 1):
            found.append(Rank(one, other, sum(known)))
    return sorted(found, key=lambda rank: rank.total_s)


def _rest(record: Record) -> tuple[str, str, str]:
    return record["server"], record["client"], record["control"]


@dataclass(frozen=True)
class Difference:
    """A cell in two runs.

    Attributes:
        cell: its name.
        ours: throughput, Mbit/s; None: none, since it has a fault.
        theirs: likewise of the other run.
    """

    cell: str
    ours: float | None
    theirs: float | None

    @property
    def share(self) -> float | None:
        """The difference as a share of the mean; None where one run has a fault."""
        if self.ours is None or self.theirs is None:
            return None
        return abs(self.ours - self.theirs) / ((self.ours + self.theirs) / 2)

    @property
    def repeats(self) -> bool:
        """Whether both are alike: within 5 %, or both a fault."""
        return (self.share or 0) <= WITHIN if self.share is not None else self.ours is self.theirs is None


def differences(ours: Sequence[Record], theirs: Sequence[Record]) -> list[Difference]:
    """Return how the cells that both runs have differ, the largest difference first."""
    other = {one["cell"]: one for one in theirs}
    pairs = [(one, other[one["cell"]]) for one in ours if one["cell"] in other]
    found = [Difference(one["cell"], _rate(one), _rate(two)) for one, two in pairs]
    return sorted(found, key=lambda each: (each.repeats, -(each.share if each.share is not None else 2.0)))


def _rate(record: Record) -> float | None:
    """Return bytes of the file per time where all arrived, or else what arrived per time."""
    found = figures(record)
    return found.goodput_mbps if found.completed else found.throughput_mbps

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figures of cells: medians of their rounds, which stack is best over GEO, and what another run gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

WITHIN = 0.05
"""Difference of two runs of a cell up to which it is said to repeat, as a share of their mean."""
GEO = ("geo", "geo-loss")
"""Links that decide which stack is best: without loss, and with."""
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
        throughput_mbps: what arrived while the download lasted: of programs payload of UDP, so with headers of QUIC and
            repetitions; of flows of ours bytes of the file.
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


def order(record: Record) -> tuple[int, float]:
    """Return what sorts cells: finished ones by their time, then cut ones by what arrived per time, then faults.

    Examples:
        >>> known = dict.fromkeys(MEDIANS) | {"completed": False, "throughput_mbps": 2.0, "late_p99_us": 0}
        >>> order({"rounds": [known], "size_bytes": 10_000_000}), order({"rounds": []})
        ((1, 40.0), (2, 0.0))
    """
    found = figures(record)
    if found.completion_s is not None:
        return 0, found.completion_s
    # An extrapolation, which sorts and is printed nowhere.
    return (1, 8e-6 * record["size_bytes"] / found.throughput_mbps) if found.throughput_mbps else (2, 0.0)


def is_busy(record: Record) -> bool:
    """Whether other programs took time of this machine: a load above its cores, or late packets."""
    loaded = any(each["load_before"] > record["cores"] for each in record["rounds"])
    return loaded or figures(record).is_late


def is_full(record: Record) -> bool:
    """Whether the client's socket was full in a round: it read too slowly, or not at all for a while."""
    return any(each.get("socket_drops") for each in record["rounds"])


@dataclass(frozen=True)
class Rank:
    """A server with a client and a control, over one or both links of GEO.

    Attributes:
        clean: the cell without loss; None: not measured.
        lossy: the cell with loss; None: likewise.
    """

    clean: Record | None
    lossy: Record | None

    @property
    def cells(self) -> list[Record]:
        """Those that were measured, at least one."""
        return [one for one in (self.clean, self.lossy) if one is not None]

    @property
    def cuts(self) -> int:
        """How many of its downloads were cut."""
        return sum(order(one)[0] == 1 for one in self.cells)

    @property
    def has_fault(self) -> bool:
        """Whether one of its cells has no number."""
        return any(order(one)[0] == 2 for one in self.cells)

    @property
    def total_s(self) -> float:
        """Time of its downloads, those that were cut at the rate that they had: it sorts, and is printed nowhere."""
        return sum(order(one)[1] for one in self.cells)


def ranked(records: Sequence[Record]) -> list[Rank]:
    """Return all that was measured over GEO: best first, then what was measured over one link, then what has a fault.

    What finished both downloads comes before what finished one.
    """
    over: dict[tuple[str, str, str], dict[str, Record]] = {}
    for one in records:
        if one["link"] in GEO and not one["is_tuned"]:
            over.setdefault((one["server"], one["client"], one["control"]), {})[one["link"]] = one
    return _sorted(Rank(*map(cells.get, GEO)) for cells in over.values())


def compared(ranks: Sequence[Rank]) -> list[Rank]:
    """Return what can be held against each other, best first: what has both links, or else the same one of them.

    What has a fault is left out. The links are the first of these over which two stacks or more were measured.
    """
    sound = [rank for rank in ranks if not rank.has_fault]
    ways = (
        [rank for rank in sound if rank.clean and rank.lossy],
        [Rank(rank.clean, None) for rank in sound if rank.clean],
        [Rank(None, rank.lossy) for rank in sound if rank.lossy],
    )
    several = (way for way in ways if len({rank.cells[0]["server"] for rank in way}) > 1)
    return _sorted(next(several, next(filter(None, ways), [])))


def alike(ranks: Sequence[Rank]) -> list[Rank]:
    """Return the first of these, and those that tie with it."""
    most_s = (1 + WITHIN) * ranks[0].total_s
    return [rank for rank in ranks if rank.cuts == ranks[0].cuts and rank.total_s <= most_s]


def _sorted(ranks: Iterable[Rank]) -> list[Rank]:
    return sorted(
        ranks, key=lambda rank: (rank.has_fault, -len(rank.cells), rank.clean is None, rank.cuts, rank.total_s)
    )


@dataclass(frozen=True)
class Difference:
    """A cell in two runs.

    Attributes:
        cell: its name.
        ours: goodput, or what arrived until the cut, Mbit/s; None: none, since it has a fault.
        theirs: likewise of the other run.
        is_full: whether the client's socket was full in either, so that packets were lost which had arrived.
    """

    cell: str
    ours: float | None
    theirs: float | None
    is_full: bool

    @property
    def share(self) -> float | None:
        """The difference as a share of the mean; None where one run has a fault."""
        if self.ours is None or self.theirs is None:
            return None
        mean = (self.ours + self.theirs) / 2
        return abs(self.ours - self.theirs) / mean if mean else 0.0

    @property
    def repeats(self) -> bool:
        """Whether both are alike: within 5 %, or both a fault."""
        return self.share <= WITHIN if self.share is not None else self.ours is self.theirs is None


def differences(ours: Sequence[Record], theirs: Sequence[Record]) -> list[Difference]:
    """Return how the cells that both runs have differ, the largest difference first."""
    other = {one["cell"]: one for one in theirs}
    pairs = [(one, other[one["cell"]]) for one in ours if one["cell"] in other]
    found = [Difference(one["cell"], _rate(one), _rate(two), is_full(one) or is_full(two)) for one, two in pairs]
    return sorted(found, key=lambda each: (each.repeats, -(each.share if each.share is not None else 2.0)))


def _rate(record: Record) -> float | None:
    """Return bytes of the file per time where all arrived, or else what arrived per time."""
    found = figures(record)
    return found.goodput_mbps if found.completed else found.throughput_mbps

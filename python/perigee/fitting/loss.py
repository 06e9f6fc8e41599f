# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Loss processes out of losses in a row: alone, in bursts of packets, or in outages of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perigee.statistics import special

Floats = npt.NDArray[np.float64]

SIGNIFICANT = 0.01
"""A process with more parameters is taken where chance gives as much less often than this."""
LEAST_EVENTS = 10
"""Fewer times that something was lost say nothing about how long it lasts."""
ROUNDS_OF_EM = 500


@dataclass(frozen=True)
class Runs:
    """Losses in a row.

    Attributes:
        sent: packets.
        lengths: losses in a row: length and how many, by length.
    """

    sent: int
    lengths: tuple[tuple[int, int], ...]

    @property
    def lost(self) -> int:
        """Packets lost."""
        return sum(length * count for length, count in self.lengths)

    @property
    def events(self) -> int:
        """Times that one or several in a row were lost."""
        return sum(count for _, count in self.lengths)

    @property
    def share(self) -> float:
        """Packets lost, of those sent."""
        return self.lost / max(self.sent, 1)

    @property
    def mean(self) -> float:
        """Packets of a run."""
        return self.lost / max(self.events, 1)


@dataclass(frozen=True)
class Loss:
    """A loss process.

    Attributes:
        kind: `single` (each packet for itself), `burst` (Gilbert's two states, from packet to packet) or `outage` (two
            states over time).
        share: packets it loses, of all.
        burst: packets of a burst, on average.
        gap_s: between two outages, on average.
        length_s: of an outage, on average.
        events: times that it was seen.
        p: how often chance alone gives bursts like these.
    """

    kind: str
    share: float
    events: int
    burst: float = 1.0
    gap_s: float = 0.0
    length_s: float = 0.0
    p: float = 1.0


def runs_of(lost: npt.NDArray[np.bool_], follows: npt.NDArray[np.bool_] | None = None) -> Runs:
    """Count the losses in a row of a series; a pause ends a run.

    Examples:
        >>> runs_of(np.array([False, True, True, False, True]))
        Runs(sent=5, lengths=((1, 1), (2, 1)))
    """
    if not len(lost):
        return Runs(0, ())
    begins = lost.copy()
    begins[1:] &= ~lost[:-1] if follows is None else ~(lost[:-1] & follows)
    number = np.cumsum(begins)[lost]
    lengths, counts = np.unique(np.unique(number, return_counts=True)[1], return_counts=True)
    return Runs(len(lost), tuple((int(length), int(count)) for length, count in zip(lengths, counts, strict=True)))


def bursty(runs: Runs) -> float:
    """Return how often independent losses would be as bunched as these: the likelihood ratio of Gilbert's two states
    against one, with one parameter more.

    Examples:
        >>> bursty(Runs(100_000, ((1, 100),))) > 0.4, bursty(Runs(100_000, ((1, 30), (2, 10), (5, 10)))) < 1e-9
        (True, True)
    """  # noqa: D205
    lost, events = runs.lost, runs.events
    if not lost or lost == runs.sent:
        return 1.0
    good = runs.sent - lost
    # From good: to bad, to good; from bad: to good, to bad.
    to_bad, to_good, stays_bad = events, events, lost - events
    share = lost / runs.sent
    two = _entropy(to_bad, good - to_bad) + _entropy(to_good, stays_bad)
    one = _terms(to_bad + stays_bad, share) + _terms(good - to_bad + to_good, 1 - share)
    ratio = 2 * (two - one)
    if stays_bad / lost <= share or ratio <= 0:
        return 1.0
    return special.normal_share(-math.sqrt(ratio))


def fit_bursts(runs: Runs) -> Loss | None:
    """Fit independent losses, or Gilbert's two states where the runs say so, to packets that are close to each other.

    Gilbert's chain loses all in its bad state: the mean burst is 1/r and the share p / (p + r). None without a loss.
    """
    if not runs.lost:
        return None
    chance = bursty(runs)
    if chance < SIGNIFICANT and runs.events >= LEAST_EVENTS:
        return Loss("burst", runs.share, runs.events, runs.mean, p=chance)
    return Loss("single", runs.share, runs.events, p=chance)


def fit_outages(runs: Runs, interval_s: float) -> list[Loss]:
    """Fit losses of pings, which are far from each other: single ones, and outages over time of one or two lengths.

    A run of pings is as long as its outage was: with an exponential length L, each ping after the first one is lost
    too with probability q = exp(-interval / L), so runs are geometric. Where two geometric distributions are
    significantly better than one, there are two processes. One whose runs are all single is loss packet by packet.
    """
    if not runs.lost:
        return []
    chance = bursty(runs)
    if chance >= SIGNIFICANT or runs.events < LEAST_EVENTS:
        return [Loss("single", runs.share, runs.events, p=chance)]
    one_q = 1 - 1 / runs.mean
    parts = [(1.0, one_q)]
    mixed = _two_lengths(runs)
    if mixed is not None:
        better = 2 * (_likelihood(runs, mixed) - _likelihood(runs, parts))
        if math.exp(-better / 2) < SIGNIFICANT:
            parts = mixed
    found = []
    for weight, q in parts:
        events = weight * runs.events
        if round(events) < 1:
            continue
        share = events / (1 - q) / runs.sent
        if q < _UNRESOLVED:
            found.append(Loss("single", share, round(events), p=chance))
            continue
        length = -interval_s / math.log(q)
        found.append(Loss("outage", share, round(events), 1 / (1 - q), length * (1 - share) / share, length, chance))
    return found


def _two_lengths(runs: Runs) -> list[tuple[float, float]] | None:
    """Expectation and maximisation: shares of the runs and how they go on, of two geometric distributions."""
    length = np.array([length for length, _ in runs.lengths], float)
    count = np.array([count for _, count in runs.lengths], float)
    if len(length) < _LENGTHS_FOR_TWO:
        return None
    weight, short, long = 0.5, 0.05, min(0.95, 1 - 1 / float(length.max()))
    for _ in range(ROUNDS_OF_EM):
        a = weight * (1 - short) * short ** (length - 1)
        b = (1 - weight) * (1 - long) * long ** (length - 1)
        own = a / np.maximum(a + b, 1e-300)
        in_a, in_b = float(np.sum(own * count)), float(np.sum((1 - own) * count))
        if min(in_a, in_b) < 1:
            return None
        short = 1 - in_a / float(np.sum(own * count * length))
        long = 1 - in_b / float(np.sum((1 - own) * count * length))
        weight = in_a / (in_a + in_b)
    return [(weight, max(short, 0.0)), (1 - weight, min(max(long, 0.0), 1 - 1e-9))]


def _likelihood(runs: Runs, parts: Sequence[tuple[float, float]]) -> float:
    total = 0.0
    for length, count in runs.lengths:
        total += count * math.log(max(sum(w * (1 - q) * q ** (length - 1) for w, q in parts), 1e-300))
    return total


def _entropy(yes: int, no: int) -> float:
    """Logarithm of the largest likelihood of two counts."""
    return _terms(yes, yes / max(yes + no, 1)) + _terms(no, no / max(yes + no, 1))


def _terms(count: int, share: float) -> float:
    return count * math.log(share) if count and share > 0 else 0.0


def interval_of(lost: int, sent: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a share (Clopper and Pearson 1934).

    Examples:
        >>> [round(bound, 5) for bound in interval_of(0, 1000)], [round(bound, 3) for bound in interval_of(10, 100)]
        ([0.0, 0.00368], [0.049, 0.176])
    """
    if not sent:
        return 0.0, 1.0
    beyond = (1 - level) / 2
    low = special.beta_quantile(lost, sent - lost + 1, beyond) if lost else 0.0
    high = special.beta_quantile(lost + 1, sent - lost, 1 - beyond) if lost < sent else 1.0
    return low, high


_UNRESOLVED = 0.05
"""Below this share of losses among pings after a lost one, the lengths of outages are not resolved."""
_LENGTHS_FOR_TWO = 3

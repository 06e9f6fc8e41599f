# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The round trips and queues between which a finding is at least half as bad, each changed alone, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from perigee.attack.bench import Bench, Result
from perigee.attack.figures import Goal
from perigee.attack.trial import Trial, number, scaled
from perigee.numbers import significant

RTTS_MS = (5.0, 1500.0)
QUEUES_BDP = (0.05, 16.0)
NEAR = 1.02
"""An edge is known once the two values around it have this ratio."""


@dataclass(frozen=True)
class Edges:
    """Where a finding is at least half as bad; where it is so up to an end of `RTTS_MS` or `QUEUES_BDP`, that end.

    Attributes:
        rtt_ms: from and to which round trip, the queue being as large in bandwidth-delay products.
        queue_bdp: from and to which queue, in bandwidth-delay products.
    """

    rtt_ms: tuple[float, float]
    queue_bdp: tuple[float, float]

    @property
    def sentence(self) -> str:
        """The edges in words.

        Examples:
            >>> print(Edges((611, 1500), (0.05, 1.52)).sentence)  # doctest: +NORMALIZE_WHITESPACE
            It is at least half as bad for round trips from 611 ms to 1500 ms or more,
            and for queues from 0.05 or less to 1.52 bandwidth-delay products.
        """
        rtts = f"{_end(self.rtt_ms[0], RTTS_MS, ' ms')} to {_end(self.rtt_ms[1], RTTS_MS, ' ms')}"
        queues = f"{_end(self.queue_bdp[0], QUEUES_BDP)} to {_end(self.queue_bdp[1], QUEUES_BDP)}"
        return (
            f"It is at least half as bad for round trips from {rtts}, and for queues from {queues} "
            "bandwidth-delay products."
        )


def _end(value: float, bounds: tuple[float, float], unit: str = "") -> str:
    beyond = " or less" if value <= bounds[0] else " or more" if value >= bounds[1] else ""
    return f"{number(value)}{unit}{beyond}"


@dataclass
class _Edge:
    """One edge: a value on the side of the finding, and one beyond, once that is known."""

    make: Callable[[float], Trial]
    inside: float
    end: float
    outside: float | None = None
    is_open: bool = False

    @property
    def is_known(self) -> bool:
        if self.outside is None:
            return self.is_open
        return max(self.inside, self.outside) / min(self.inside, self.outside) < NEAR

    @property
    def next(self) -> float:
        return self.end if self.outside is None else (self.inside * self.outside) ** 0.5

    def learn(self, value: float, *, holds: bool) -> None:
        if holds:
            self.is_open = self.outside is None
            self.inside = value
        else:
            self.outside = value


def edges(
    bench: Bench, goal: Goal, found: Result, rounds: int, is_over: Callable[[], bool] = lambda: False
) -> Edges | None:
    """Return where a finding is at least half as bad; none: the time was over before all edges were known.

    Args:
        bench: carries trials out.
        goal: what the finding is about.
        found: the trial.
        rounds: number of runs of each congestion control.
        is_over: whether to stop.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    trial = found.trial
    queue = trial.queue_kb / trial.bdp_kb
    bound = found.excess(goal) / 2

    def with_rtt(value: float) -> Trial:
        return scaled(trial, rtt_ms=significant(value))

    def with_queue(value: float) -> Trial:
        return replace(trial, queue_kb=significant(value * trial.bdp_kb))

    sought = [_Edge(with_rtt, trial.rtt_ms, end) for end in RTTS_MS]
    sought += [_Edge(with_queue, queue, end) for end in QUEUES_BDP]
    while left := [edge for edge in sought if not edge.is_known]:
        if is_over():
            return None
        values = [edge.next for edge in left]
        results = bench.measure([edge.make(value) for edge, value in zip(left, values, strict=True)], rounds)
        for edge, value, result in zip(left, values, results, strict=True):
            edge.learn(value, holds=result.excess(goal) >= bound)
    low_rtt, high_rtt, low_queue, high_queue = (significant(edge.inside) for edge in sought)
    return Edges((low_rtt, high_rtt), (low_queue, high_queue))

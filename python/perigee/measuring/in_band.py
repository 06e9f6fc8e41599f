# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Delay of a probe's own packets beside that of sparse pings, and which packets a full queue drops.

Whether pings wait in the queue of the flow follows from a sign test. The kind of the queue follows from the losses at
the end of the flow. While a flow of constant rate keeps a queue full, the kinds look alike: the same share of the
packets is lost, evenly, and the others wait for a constant time. Once the last packet has arrived, nothing drops the
packets at the head any more: a queue that drops from its front delivers the last queue's worth whole, and one that
drops arrivals has lost the usual share of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perigee.measuring.probe_steps import Floats, Step
from perigee.numbers import number
from perigee.statistics import special

LEVEL = 0.01
"""Level of all tests."""
LEAST_WINDOWS = 5
"""Windows before the end, from which the mean and the variance of their losses are estimated."""
WINDOW = 0.75
"""Length of a window, queue's worths; chosen: a delay measured a third too large still leaves it within the queue."""


@dataclass(frozen=True)
class Difference:
    """Delays beside load over those of the idle path, ms: of the flow that is the load, and of pings.

    Attributes:
        flow_ms: median of the flow's packets.
        ping_ms: median of the pings; NaN: none was answered.
        pings: how many were sent; 0 if none was answered on the idle path.
        above: how many of them waited for more than half of `flow_ms`, or were lost.
    """

    flow_ms: float
    ping_ms: float
    pings: int
    above: int

    @property
    def hidden(self) -> bool | None:
        """Whether pings pass beside the queue of the flow; none: undecided (sign test)."""
        below = self.pings - self.above
        if special.binomial_beyond(below - 1, self.pings, 0.5) < LEVEL:
            return True
        return False if special.binomial_beyond(self.above - 1, self.pings, 0.5) < LEVEL else None

    @property
    def finding(self) -> str:
        """The difference in a sentence, without the direction."""
        flow, ping = number(self.flow_ms, 1), number(self.ping_ms, 1)
        if self.hidden is None:
            return f"the flow waits {flow} ms; {self.pings} pings leave open whether they wait with it"
        if not self.hidden:
            waits = f"a ping {ping} ms" if math.isfinite(self.ping_ms) else "and no ping comes back"
            return f"a ping sees the queue: the flow waits {flow} ms, {waits}"
        unseen = number(self.flow_ms - max(self.ping_ms, 0.0), 1)
        return f"the busy flow waits {unseen} ms that a ping does not see (flow {flow} ms, ping {ping} ms)"


@dataclass(frozen=True)
class Waits(Difference):
    """Delays of one rate that filled the path, in its second half.

    Attributes:
        step: the rate.
        idle_ms: median round trip of the pings before all rates of the direction; NaN: none was answered.
    """

    step: Step
    idle_ms: float


@dataclass(frozen=True)
class Ending:
    """Losses among the last packets of a rate that filled the path, `WINDOW` of a queue's worth of them.

    Attributes:
        packets: packets sent in this window.
        lost: those lost.
        usual: mean loss of as many packets before.
        p_arrivals: probability of as few losses if the queue drops arrivals.
        p_heads: probability of as many losses if it drops from its front.
    """

    packets: int
    lost: int
    usual: float
    p_arrivals: float
    p_heads: float


@dataclass(frozen=True)
class Kind:
    """Which packets the full queue of a direction drops.

    Attributes:
        name: `drop-tail`, `drop-front`, or none: undecided. A queue limited in time loses the same packets at either
            end, and counts as drop-tail.
        endings: the ends of the rates that filled the path, were they long enough.
        why: the evidence in a sentence.
    """

    name: str | None
    endings: tuple[Ending, ...]
    why: str


def waits(steps: list[Step], direction: str) -> list[Waits]:
    """Return the delays of each rate of a direction that filled the path and had pings, the lowest rate first."""
    own = [step for step in steps if step.direction == direction and step.pings is not None]
    idle_ms = _idle_ping_ms(own)
    found = []
    for step in sorted((step for step in own if step.is_full(own)), key=lambda step: step.offered_bps):
        flow_ms = added_ms(step, own)
        if flow_ms is None:
            continue
        between = difference(flow_ms, _loaded_pings_ms(step), idle_ms)
        found.append(Waits(**vars(between), step=step, idle_ms=idle_ms))
    return found


def difference(flow_ms: float, rtt_ms: Floats, idle_ms: float) -> Difference:
    """Compare a flow with the pings beside it.

    Args:
        flow_ms: median delay of the flow over that of the idle path, ms.
        rtt_ms: round trips of the pings, ms; NaN: lost.
        idle_ms: median round trip of the idle path, ms; NaN: not known.
    """
    grown = rtt_ms - idle_ms if math.isfinite(idle_ms) else np.empty(0)
    answered = grown[np.isfinite(grown)]
    ping_ms = float(np.median(answered)) if len(answered) else math.nan
    # A full queue may have dropped those that were lost.
    return Difference(flow_ms, ping_ms, len(grown), len(grown) - int((answered <= flow_ms / 2).sum()))


def added_ms(step: Step, others: list[Step]) -> float | None:
    """Return the median delay of the second half of a rate over that of lower rates, ms; none: nothing arrived."""
    mean = step.delays_ms["mean"]
    # Data sent in the last block may have been cut off.
    late = mean[len(mean) // 2 : -1]
    if not np.isfinite(late).any():
        return None
    return max(float(np.nanmedian(late)) - idle_flow_ms(step, others), 0.0)


def idle_flow_ms(step: Step, others: list[Step]) -> float:
    """Return the least median of the delays (ms) of the lower rates in the direction of a rate; 0 without any."""
    lower = [s for s in others if s.direction == step.direction and s.offered_bps < step.offered_bps and s.received]
    return min((float(np.nanmedian(s.delays_ms["mean"])) for s in lower), default=0.0)


def fit_kind(steps: list[Step], direction: str) -> Kind:
    """Find the kind of queue of a direction by the losses at the ends of its rates."""
    own = [step for step in steps if step.direction == direction]
    full = [step for step in own if step.is_full(own)]
    endings = tuple(found for step in full if (found := _ending(step, own)) is not None)
    if not endings:
        why = "no rate filled the path" if not full else _TOO_LITTLE
        return Kind(None, (), f"the kind of the queue is undecided: {why}")
    arrivals, heads = (_together([getattr(e, name) for e in endings]) for name in ("p_arrivals", "p_heads"))
    lost, packets, usual = (sum(getattr(e, name) for e in endings) for name in ("lost", "packets", "usual"))
    seen = f"{lost} of the last {packets} packets were lost, of as many before {number(usual, 1)}"
    if arrivals < LEVEL <= heads:
        lowest = min(full, key=lambda step: step.offered_bps)
        held_ms = (added_ms(lowest, own) or 0.0) * lowest.sent_bps / lowest.received_bps
        held = f"a flow at the rate of the link would wait {number(held_ms, 1)} ms"
        return Kind("drop-front", endings, f"the queue drops from its front: {seen}; {held}")
    if heads < LEVEL <= arrivals:
        return Kind("drop-tail", endings, f"the queue is drop-tail or limited in time: {seen}")
    return Kind(None, endings, f"the kind of the queue is undecided: {seen}")


def _ending(step: Step, own: list[Step]) -> Ending | None:
    """Compare the losses at the end of a rate with those of windows of the same length before."""
    quiet = [s for s in own if s.offered_bps < step.offered_bps and not s.is_full(own)]
    delay_ms = added_ms(step, own)
    if delay_ms is None or not quiet:
        return None
    per_block = step.record["report"]["per_block"]
    # If heads are dropped, a packet waits until as many have arrived as the queue holds: those are sent in its delay.
    blocks = int(WINDOW * delay_ms / 1000 / step.interval_s)
    lost = step.lost_over_time
    # The queue is taken as full after a quarter; the last queue's worth is left out, with a margin.
    before = lost[len(lost) // 4 : len(lost) - 2 * blocks]
    if blocks < 1 or len(before) < LEAST_WINDOWS * blocks:
        return None
    windows = before[len(before) % blocks :].reshape(-1, blocks).sum(axis=1)
    usual, variance = float(windows.mean()), float(windows.var(ddof=1))
    last = int(lost[-blocks:].sum())
    packets = blocks * per_block
    if usual == 0:
        return None
    # A rate close to the capacity may have losses of the queue, too.
    share, clustering = _loss_of(min(quiet, key=lambda step: step.loss))
    # The better of two tests, by Bonferroni: by rank, which needs many windows, and by their mean and variance.
    by_rank = (1 + int((windows <= last).sum())) / (1 + len(windows))
    p_arrivals = min(2 * min(by_rank, _at_most(last, usual, variance / usual)), 1.0)
    return Ending(packets, last, usual, p_arrivals, _at_least(last, packets * share, clustering))


def _loss_of(quiet: Step) -> tuple[float, float]:
    """Return the loss of a rate that did not fill the path, and by how much its bursts raise the variance of counts."""
    squares = sum(length * length * count for length, count in quiet.runs)
    # Half a loss is added (Krichevsky and Trofimov), since none in the sample is not none.
    return (quiet.lost + 0.5) / (quiet.sent + 1), squares / quiet.lost if quiet.lost else 1.0


def _at_most(count: int, mean: float, spread: float) -> float:
    """Return the probability of a count or less, of a negative binomial; of Poisson if the variance is the mean.

    Args:
        count: the count.
        mean: of the distribution.
        spread: variance over mean; below one counts as one, which makes constant rates look less regular than they are.
    """
    if count < 0:
        return 0.0
    if spread <= 1 + _POISSON:
        return special.gamma_beyond(count + 1, mean)
    return special.beta_share(mean / (spread - 1), count + 1, 1 / spread)


def _at_least(count: int, mean: float, spread: float) -> float:
    return 1 - _at_most(count - 1, mean, spread)


def _together(values: list[float]) -> float:
    """Return the probability of independent tests together (Fisher's method)."""
    least = np.maximum(values, np.finfo(float).tiny)
    return special.gamma_beyond(len(values), -float(np.log(least).sum()))


def _idle_ping_ms(own: list[Step]) -> float:
    """Return the median round trip of the pings before the rates; NaN: none was answered."""
    idle: list[Floats] = [rtt_ms[sent_s < 0] for sent_s, rtt_ms in (step.pings for step in own if step.pings)]
    values = np.concatenate(idle) if idle else np.empty(0)
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else math.nan


def _loaded_pings_ms(step: Step) -> Floats:
    sent = step.record["sent"]
    length_s = (sent["last_ns"] - sent["first_ns"]) / 1e9
    sent_s, rtt_ms = step.pings or (np.empty(0), np.empty(0))
    return np.asarray(rtt_ms[(sent_s >= length_s / 2) & (sent_s <= length_s)], float)


_POISSON = 1e-3
_TOO_LITTLE = "it takes a rate below the capacity, a longer --time or a shorter --interval"

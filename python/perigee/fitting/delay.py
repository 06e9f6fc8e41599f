# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A delay out of round trips: a floor, a body around it, a heavy tail on top, and how long a value holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt

from perigee.errors import InputError
from perigee.fitting.minimum import minimum, minimum_of_several
from perigee.statistics.special import normal_quantile, normal_share

Floats = npt.NDArray[np.float64]

CONSTANT_BELOW_MS = 1.0
"""A body narrower than this is a machine's, not a link's."""
LEAST_IN_TAIL = 10
"""Fewer values beyond the body are no distribution."""
GRID = np.linspace(0.005, 0.995, 199)
"""Shares at which quantiles of the body are compared."""
PLAINER = 0.8
"""A body of three parameters is taken where its error is below this share of that of the best of two."""
MOST_LAGS = 400


@dataclass(frozen=True)
class Tail:
    """A delay that is added now and then.

    Attributes:
        kind: `pareto` or `log-normal`.
        share: of the intervals that have it.
        scale_ms: the least value, or the median.
        shape: Pareto's shape, or the standard deviation of the logarithm.
        most_ms: the largest that was seen.
        count: round trips that were in it.
    """

    kind: str
    share: float
    scale_ms: float
    shape: float
    most_ms: float
    count: int


@dataclass(frozen=True)
class Delay:
    """A delay that moves, over both directions.

    Attributes:
        least_ms: the shortest round trip.
        base_ms: centre of a normal body, floor of the others; the value itself without a body.
        body: `constant`, `normal`, `uniform`, `triangular` or `log-normal`.
        width_ms: standard deviation, width, or median of what a log-normal body adds.
        sigma: standard deviation of its logarithm, of a log-normal body.
        error_ms: root of the mean square of the quantiles' error, of the body.
        tail: the heavy tail.
        every_s: time for which a value holds.
        memory_s: time in which the correlation falls to 1/e; 0: each value is drawn for itself.
        resolved: whether the pings were close enough to see for how long a value holds.
        interval_s: between two pings; the tail is drawn anew with each.
        count: round trips.
        spread_ms: how far delays within a block of a probe are apart, where that says for how long a value holds.
    """

    least_ms: float
    base_ms: float
    body: str
    every_s: float
    interval_s: float
    count: int
    width_ms: float = 0.0
    sigma: float = 0.0
    error_ms: float = 0.0
    tail: Tail | None = None
    memory_s: float = 0.0
    resolved: bool = False
    spread_ms: float | None = None

    def quantile_ms(self, share: float) -> float:
        """Return a quantile of the round trip without its tail, ms.

        Examples:
            >>> flat = Delay(500, 500, "uniform", 0.2, 0.2, 1000, width_ms=40)
            >>> flat.quantile_ms(0.25), Delay(500, 510, "normal", 0.2, 0.2, 1000, width_ms=8).quantile_ms(0.5)
            (510.0, 510.0)
        """
        match self.body:
            case "normal":
                return self.base_ms + self.width_ms * normal_quantile(share)
            case "uniform":
                return self.base_ms + self.width_ms * share
            case "triangular":
                return self.base_ms + self.width_ms * float(_triangular(np.array([share]))[0])
            case "log-normal":
                return self.base_ms + self.width_ms * math.exp(self.sigma * normal_quantile(share))
        return self.base_ms


@dataclass(frozen=True)
class _Body:
    kind: str
    base: float
    width: float
    sigma: float = 0.0
    error: float = 0.0


def fit_delay(rtt_ms: Floats, interval_s: float, follows: npt.NDArray[np.bool_]) -> Delay:
    """Fit a delay to round trips at equal intervals.

    Args:
        rtt_ms: round trips in order; NaN: lost.
        interval_s: between two.
        follows: whether each, but the first, is one interval after the one before.

    Raises:
        InputError: none came back.
    """
    known = np.isfinite(rtt_ms)
    values = rtt_ms[known]
    if not len(values):
        raise InputError("no ping came back; there is no round trip to fit a delay to")
    least, median = float(values.min()), float(np.median(values))
    body = _fit_body(values, GRID[GRID < _BEFORE_A_TAIL])
    above = _edge(body, len(values))
    # Once more, without what turned out to be the tail.
    body = _fit_body(values[values <= above], GRID)
    above = _edge(body, len(values))
    inside = values[values <= above]
    tail = _fit_tail(
        values[(values > above) & ~_overtaken(rtt_ms, interval_s, follows)[known]], above, inside, len(values)
    )
    if float(np.quantile(inside, 0.99) - inside.min()) < CONSTANT_BELOW_MS:
        return Delay(least, median, "constant", interval_s, interval_s, len(values), tail=tail)
    scores = np.full(len(rtt_ms), np.nan)
    in_body = known & (np.nan_to_num(rtt_ms, nan=math.inf) <= above)
    scores[in_body] = _normal_scores(rtt_ms[in_body])
    every, memory, resolved = _persistence(scores, interval_s, follows)
    return Delay(
        least, body.base, body.kind, every, interval_s, len(values), body.width, body.sigma, body.error, tail, memory,
        resolved,
    )  # fmt: skip


def with_spreads(delay: Delay, spreads_ms: Floats, block_s: float) -> Delay:
    """Return the delay with the time for which a value holds, where pings were too far apart to see it.

    Args:
        delay: as the pings have it.
        spreads_ms: largest less least delay of dense packets in each block of time.
        block_s: length of a block.

    A block has block / every + 1 values of the body on average; the mean spread is that of this many draws. Where it
    says more than the pings' interval, or as good as nothing changes within a block, the delay stays as it is.
    """
    if delay.resolved or delay.body == "constant" or not len(spreads_ms):
        return delay
    low, high = 1.0, _MOST_DRAWS
    # Delays beyond the body are a tail's.
    spread = float(np.mean(np.minimum(spreads_ms, _range(delay, high))))
    if not _range(delay, _LEAST_DRAWS) < spread < _range(delay, high):
        return delay
    while high - low > _DRAWS_WITHIN * low:
        middle = (low + high) / 2
        low, high = (middle, high) if _range(delay, middle) < spread else (low, middle)
    every = block_s / (low - 1)
    return delay if every >= delay.every_s else replace(delay, every_s=every, spread_ms=spread)


def _range(delay: Delay, draws: float) -> float:
    """Mean of largest less least of n = `draws` draws of the body: the integral of Q(u) n (u^(n-1) - (1-u)^(n-1))."""
    shares = (np.arange(2000) + 0.5) / 2000
    if delay.body == "uniform":
        values = delay.width_ms * shares
    elif delay.body == "triangular":
        values = delay.width_ms * _triangular(shares)
    elif delay.body == "normal":
        values = delay.width_ms * _normal(shares)
    else:
        values = delay.width_ms * np.exp(delay.sigma * _normal(shares))
    weights = draws * (shares ** (draws - 1) - (1 - shares) ** (draws - 1))
    return float(np.mean(values * weights))


def _overtaken(rtt_ms: Floats, interval_s: float, follows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether each arrived together with the one before: a link in order holds it back behind that one's delay."""
    held = np.zeros(len(rtt_ms), bool)
    held[1:] = follows & (rtt_ms[1:] < rtt_ms[:-1] - 1000 * interval_s + _TOGETHER_MS)
    return held


def _fit_body(values: Floats, shares: Floats) -> _Body:
    """Return the distribution whose quantiles at some shares are nearest to those of the values."""
    seen = np.quantile(values, shares)
    normal = _normal(shares)
    plain = [
        _line("normal", seen, normal),
        _line("uniform", seen, shares),
        _line("triangular", seen, _triangular(shares)),
    ]
    best = min(plain, key=lambda body: body.error)
    skewed = _log_normal(seen, normal, float(values.min()))
    return skewed if skewed.error < PLAINER * best.error else best


def _line(kind: str, seen: Floats, standard: Floats) -> _Body:
    """Least squares of seen = base + width * standard."""
    width, base = np.polyfit(standard, seen, 1)
    width = max(float(width), 0.0)
    base = max(float(base), 0.0)
    error = float(np.sqrt(np.mean((seen - base - width * standard) ** 2)))
    return _Body(kind, base, width, 0.0, error)


def _log_normal(seen: Floats, normal: Floats, least: float) -> _Body:
    def at(sigma: float) -> _Body:
        body = _line("log-normal", seen, np.exp(sigma * normal))
        return _Body(body.kind, min(body.base, least), body.width, sigma, body.error)

    return at(minimum(lambda sigma: at(sigma).error, 0.05, 2.0)[0])


def _normal(shares: Floats) -> Floats:
    return np.array([normal_quantile(share) for share in shares.tolist()])


def _normal_scores(values: Floats) -> Floats:
    """Return the normal quantile of each value's rank; equal values have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return _normal((ranks - 0.5) / len(values))[place]


def _triangular(share: Floats) -> Floats:
    return np.where(share < 0.5, np.sqrt(share / 2), 1 - np.sqrt((1 - share) / 2))


def _edge(body: _Body, count: int) -> float:
    """Return a bound that none of `count` values should exceed without a tail."""
    far = -normal_quantile(min(1e-4, 0.1 / count))
    if body.kind == "normal":
        return body.base + body.width * far
    if body.kind == "log-normal":
        return body.base + body.width * math.exp(body.sigma * far)
    # A body of two waits of different length has no corner where one of a single wait has.
    return body.base + 1.1 * body.width + 0.1


def _fit_tail(beyond: Floats, above: float, body: Floats, count: int) -> Tail | None:
    """Fit what is added to the body where the sum lies beyond it, by its likelihood given that it lies there.

    The tail is taken together with the body that it is added to: densities are averaged over the body's quantiles.
    """
    if len(beyond) < LEAST_IN_TAIL:
        return None
    median = float(np.median(body))
    extra, cut = beyond - median, above - median
    some = extra[:: math.ceil(len(extra) / _MOST_OF_TAIL)]
    body_s = np.quantile(body, np.linspace(0.0, 1.0, 33)) - median
    added, least = np.maximum(some[:, None] - body_s, 1e-3), np.maximum(cut - body_s, 1e-3)

    def log_normal(parameters: Floats) -> tuple[Floats, float]:
        centre, sigma = float(parameters[0]), float(np.exp(parameters[1]))
        density = np.exp(-0.5 * ((np.log(added) - centre) / sigma) ** 2) / (added * sigma * math.sqrt(2 * math.pi))
        return density, fmean(map(normal_share, ((centre - np.log(least)) / sigma).tolist()))

    def pareto(parameters: Floats) -> tuple[Floats, float]:
        start, shape = float(np.exp(parameters[0])), float(np.exp(parameters[1]))
        density = np.where(added >= start, shape / added * (start / added) ** shape, 0.0)
        return density, float(np.mean(np.minimum(1.0, (start / least) ** shape)))

    logs = np.log(some)
    spread = math.log(max(float(logs.std()), 0.1))
    starts = {"log-normal": (float(logs.mean()), spread), "pareto": (float(logs.min()), -spread)}
    found = {
        kind: minimum_of_several(
            lambda parameters, law=law: _against(*law(parameters)), starts[kind],  # type: ignore[misc]
            [(-3.0, float(logs.max())), (-3.0, 3.0)],
        )
        for kind, law in (("log-normal", log_normal), ("pareto", pareto))
    }  # fmt: skip
    kind = min(found, key=lambda kind: found[kind][1])
    parameters = found[kind][0]
    first, second = (float(np.exp(value)) for value in parameters)
    visible = (log_normal if kind == "log-normal" else pareto)(parameters)[1]
    return Tail(kind, len(extra) / count / visible, first, second, float(extra.max()), len(extra))


def _against(density: Floats, visible: float) -> float:
    """Less the logarithm of the likelihood of values that are seen only beyond the body.

    No more than three times what is seen may be hidden in the body: beyond that the data say nothing.
    """
    if visible < _LEAST_VISIBLE:
        return _IMPOSSIBLE * (1 + _LEAST_VISIBLE - visible)
    return -float(np.sum(np.log(np.maximum(density.mean(axis=1), 1e-300)))) + len(density) * math.log(visible)


def autocorrelation(scores: Floats, lags: int, follows: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the correlation of values by their distance, from 1 on, and its 99 % bound for independent ones.

    Pairs with a value that is not there, or with a pause in between, do not count.
    """
    gaps = np.concatenate(([0], np.cumsum(~follows)))
    variance = float(np.nanvar(scores))
    centred = scores - np.nanmean(scores)
    found, bound = [], []
    for lag in range(1, lags + 1):
        both = centred[:-lag] * centred[lag:]
        both = both[np.isfinite(both) & (gaps[lag:] == gaps[:-lag])]
        found.append(float(both.mean()) / variance if len(both) and variance else 0.0)
        bound.append(_Z99 / math.sqrt(max(len(both), 1)))
    return np.array(found), np.array(bound)


def _persistence(scores: Floats, interval_s: float, follows: npt.NDArray[np.bool_]) -> tuple[float, float, bool]:
    """Return for how long a value holds, its memory, and whether that was seen.

    A value that holds for a time T and is then drawn anew has a correlation that falls in a line to 0 at T; one that
    drifts has one that falls by e in each length of its memory. The one that is nearer is taken.
    """
    lags = min(MOST_LAGS, len(scores) // 4)
    if lags < 1:
        return interval_s, 0.0, False
    seen, bound = autocorrelation(scores, lags, follows)
    insignificant = np.flatnonzero(seen <= bound)
    reach = int(insignificant[0]) if len(insignificant) else lags
    if reach == 0 or seen[0] < _WORTH_A_MEMORY:
        return interval_s, 0.0, False
    used = np.arange(1, min(2 * reach + 2, lags) + 1)
    target = seen[: len(used)]

    def held(steps: float) -> float:
        return float(np.mean((target - np.maximum(0.0, 1 - used / steps)) ** 2))

    def drifting(steps: float) -> float:
        return float(np.mean((target - np.exp(-used / steps)) ** 2))

    longest = 4.0 * lags
    hold, at_hold = minimum(held, 1.0, longest)
    drift, at_drift = minimum(drifting, 0.2, longest)
    if at_hold < at_drift:
        return hold * interval_s, 0.0, True
    return interval_s, drift * interval_s, True


_Z99 = 2.576
_MOST_OF_TAIL = 5000
_LEAST_VISIBLE = 0.25
_IMPOSSIBLE = 1e12
_TOGETHER_MS = 1.0
_LEAST_DRAWS, _MOST_DRAWS, _DRAWS_WITHIN = 1.5, 100.0, 1e-3
"""Draws of the body in a block: with fewer the delay hardly changes within it, with more all blocks are alike."""
_BEFORE_A_TAIL = 0.9
"""Quantiles below are a body's, whatever the tail."""
_WORTH_A_MEMORY = 0.1

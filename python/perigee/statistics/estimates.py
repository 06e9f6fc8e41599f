# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The statistics of the tables and figures: each a small function over plain arrays.

Arrays are one-dimensional, of any numeric type, without missing values; units go through unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from perigee.statistics import special
from perigee.statistics.signed_ranks import signed_rank_p

Array = npt.NDArray[np.float64]

WHISKER_IQR = 1.4
"""Outliers of a box plot lie further than this many interquartile ranges from the box (Claypool 2021)."""


CONFIDENCE = 0.95
"""Level of the confidence intervals, where none is chosen."""

CONFIDENCES = (0.5, 0.999)
"""The lowest and the highest level that can be chosen."""

EQUAL_SHARE = 0.01
"""Means that differ by less than this share of the larger one are practically equal."""

FEWEST_OF_WORDS = 5
"""Values of a sample from which an effect is said to be small, medium or large."""

ALIKE = 1.25
"""Sizes, and standard deviations, of two samples that differ by this factor at the most are alike."""

NORMAL_FROM_T = 30.0
"""Beyond it the noncentral t distribution is taken as normal."""

PRECISE = 1e-6
"""Error of a noncentrality."""

SURELY = 1e-12
"""Probabilities closer to 0 and 1 are not told apart from these."""

ROUNDING = 1e-9
"""A standard deviation below this share of the largest value is the rounding of the arithmetic, not variation."""

EFFECT_BOUNDS = (0.2, 0.5, 0.8)
"""Sizes from which an effect has the next word."""

EFFECTS = ("negligible", "small", "medium", "large")
"""Words for the sizes of effects, those of Cohen 1988."""


@dataclass(frozen=True)
class Box:
    """The numbers of a box plot of a sample, in the sample's unit.

    Attributes:
        low: end of the lower whisker, the smallest value that is no outlier.
        q1: lower quartile.
        median: the median.
        q3: upper quartile.
        high: end of the upper whisker, the largest value that is no outlier.
        outliers: the values beyond the whiskers, sorted.
    """

    low: float
    q1: float
    median: float
    q3: float
    high: float
    outliers: tuple[float, ...]


def box(values: npt.ArrayLike, whisker: float = WHISKER_IQR) -> Box:
    """Return the box plot of a sample of at least one value.

    Args:
        values: the sample, shape (n,), n > 0.
        whisker: distance from the box, in interquartile ranges, beyond which a value is an outlier.

    Raises:
        ValueError: the sample is empty.

    Examples:
        >>> box([1, 2, 3, 4, 5, 20])
        Box(low=1.0, q1=2.25, median=3.5, q3=4.75, high=5.0, outliers=(20.0,))
    """
    sample = _sample(values)
    q1, median, q3 = (float(v) for v in np.percentile(sample, [25, 50, 75]))
    reach = whisker * (q3 - q1)
    inside = sample[(sample >= q1 - reach) & (sample <= q3 + reach)]
    outside = sample[(sample < q1 - reach) | (sample > q3 + reach)]
    return Box(float(inside.min()), q1, median, q3, float(inside.max()), tuple(float(v) for v in np.sort(outside)))


def cumulative(values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> tuple[Array, Array]:
    """Return the cumulative distribution: the distinct values and the share of the sample at or below each.

    Args:
        values: shape (n,), n > 0.
        weights: how often each value was seen, shape (n,); none: once.

    Returns:
        Values in rising order and shares in 0..1, the last of them 1.

    Raises:
        ValueError: the sample is empty.

    Examples:
        >>> x, share = cumulative([3, 1, 1, 2])
        >>> x.tolist(), share.tolist()
        ([1.0, 2.0, 3.0], [0.5, 0.75, 1.0])
    """
    sample = _sample(values)
    weight = np.ones_like(sample) if weights is None else np.asarray(weights, dtype=np.float64)
    distinct, place = np.unique(sample, return_inverse=True)
    counts = np.bincount(place, weights=weight)
    below = np.cumsum(counts)
    return distinct, below / below[-1]


def spread(values: npt.ArrayLike) -> float | None:
    """Return the standard deviation of a sample; none for fewer than two values, and where they do not vary.

    Equal values have a computed deviation of some 1e-16 of their size, which is not a spread.

    Examples:
        >>> spread([1, 2, 3]), spread([0.1] * 3 + [0.1 + 1e-16]), spread([4])
        (1.0, None, None)
    """
    sample = _sample(values)
    if len(sample) < 2:
        return None
    deviation = float(sample.std(ddof=1))
    return deviation if deviation > _noise(sample) else None


def _noise(*samples: Array) -> float:
    """Return the standard deviation that rounding alone may leave."""
    return ROUNDING * max(float(np.abs(sample).max()) for sample in samples)


def level_of_tests(confidence: float) -> float:
    """Return the probability below which a difference is significant: that of the intervals' level of confidence.

    Examples:
        >>> level_of_tests(0.95), level_of_tests(0.9)
        (0.05, 0.1)
    """
    return round(1 - confidence, 6)


def percent(confidence: float) -> str:
    """Return a level of confidence as it is written.

    Examples:
        >>> percent(0.95), percent(0.995)
        ('95 %', '99.5 %')
    """
    return f"{100 * confidence:g} %"


def at_level(name: str, confidence: float) -> str:
    """Return what a column of tables is called that depends on the level of confidence.

    Examples:
        >>> at_level("half_width", 0.9)
        'half_width_90'
    """
    return f"{name}_{100 * confidence:g}"


def mean_interval(values: npt.ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the mean and the half width of its confidence interval (Student's t).

    A single value has no interval, and neither have values that do not vary: its half width is NaN.

    Examples:
        >>> mean, half = mean_interval([9.0, 10.0, 11.0])
        >>> mean, round(half, 3)
        (10.0, 2.484)
        >>> round(mean_interval([9.0, 10.0, 11.0], 0.90)[1], 3)
        1.686
    """
    sample = _sample(values)
    deviation = spread(sample)
    if deviation is None:
        return float(sample.mean()), float("nan")
    n = len(sample)
    return float(sample.mean()), special.student_quantile(n - 1, 0.5 + confidence / 2) * deviation / n**0.5


def mean_band(values: npt.ArrayLike, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Return the mean of each column and the half width of its confidence interval (Student's t), row by row a sample.

    Args:
        values: shape (n, k), n > 1.
        confidence: of the interval of each column; not of all of them at once.

    Returns:
        Two arrays of shape (k,); a column that does not vary has a half width of 0.

    Examples:
        >>> mean, half = mean_band([[9.0, 1.0], [10.0, 1.0], [11.0, 1.0]])
        >>> mean.tolist(), half.round(3).tolist()
        ([10.0, 1.0], [2.484, 0.0])
    """
    table = np.asarray(values, dtype=np.float64)
    n = len(table)
    half = special.student_quantile(n - 1, 0.5 + confidence / 2) * table.std(axis=0, ddof=1) / n**0.5
    return table.mean(axis=0), np.asarray(half, dtype=np.float64)


@dataclass(frozen=True)
class Contrast:
    """The mean of one sample minus that of another, and whether chance alone makes such a difference.

    Attributes:
        difference: of the means, first minus second.
        half_width: of its confidence interval.
        t: Student's t; positive where the first mean is the larger.
        degrees: degrees of freedom.
        p: two-tailed probability of a difference as large by chance, by the t test.
        d: Cohen's d: the difference over the pooled standard deviation of both samples.
        effect: the effect in the terms of the test: of pairs Cohen's d_z, the mean of their differences over the
            standard deviation of these; of independent samples Hedges' g, Cohen's d without its bias in small samples.
        effect_low: lower end of the effect's confidence interval; none where that would claim too much, see `welch`.
        effect_high: upper end.
        p_wilcoxon: the same as `p` by Wilcoxon's signed-rank test; none where the samples are not paired.
    """

    difference: float
    half_width: float
    t: float
    degrees: float
    p: float
    d: float
    effect: float
    effect_low: float | None
    effect_high: float | None
    p_wilcoxon: float | None = None


def paired(first: npt.ArrayLike, second: npt.ArrayLike, confidence: float = CONFIDENCE) -> Contrast | None:
    """Compare two samples whose values belong together in pairs: by the t test of their differences.

    Args:
        first: shape (n,), n > 1.
        second: shape (n,), in the order of `first`.
        confidence: level of the intervals.

    Returns:
        The comparison, or none where there are fewer than two pairs or the differences do not vary.

    Examples:
        >>> found = paired([5, 6, 7, 9], [1, 2, 3, 4])
        >>> found.difference, round(found.t, 3), round(found.p, 5), found.p_wilcoxon
        (4.25, 17.0, 0.00044, 0.125)
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = a - b
    n, noise = len(a), _noise(a, b)
    if n < 2 or float(differences.std(ddof=1)) <= noise:
        return None
    differences[np.abs(differences) <= noise] = 0.0
    found = _contrast(a, b, float(differences.var(ddof=1)) / n, float(n - 1), confidence)
    low, high = noncentrality(found.t, n - 1, confidence)
    found = replace(found, effect=found.t / n**0.5, effect_low=low / n**0.5, effect_high=high / n**0.5)
    return replace(found, p_wilcoxon=signed_rank_p(differences))


def welch(first: npt.ArrayLike, second: npt.ArrayLike, confidence: float = CONFIDENCE) -> Contrast | None:
    """Compare two independent samples, whose variances may differ (Welch's t test).

    The interval of Hedges' g assumes equal variances. Where they differ it still holds for samples of one size, from
    about ten values on: of two with 2 values, the deviation of one three times that of the other, an interval of 95 %
    holds in 90 % of cases. It is left out where sizes and standard deviations both differ by more than `ALIKE`.

    Args:
        first: shape (n,), n > 1.
        second: shape (m,), m > 1.
        confidence: level of the intervals.

    Returns:
        The comparison, or none where a sample has fewer than two values or neither varies.

    Examples:
        >>> found = welch([5, 6, 7, 8], [1, 2, 3, 4])
        >>> found.difference, round(found.half_width, 2), round(found.t, 3), round(found.p, 5), round(found.d, 2)
        (4.0, 2.23, 4.382, 0.00466, 3.1)
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = len(a), len(b)
    if min(n, m) < 2 or max(float(a.std(ddof=1)), float(b.std(ddof=1))) <= _noise(a, b):
        return None
    ours, theirs = float(a.var(ddof=1)) / n, float(b.var(ddof=1)) / m
    degrees = (ours + theirs) ** 2 / (ours**2 / (n - 1) + theirs**2 / (m - 1))
    found = _contrast(a, b, ours + theirs, degrees, confidence)
    # Hedges (1981): g = J d, J = 1 - 3 / (4 (n + m - 2) - 1); d (n m / (n + m))^0.5 is a noncentral t.
    pooled_degrees = n + m - 2
    unbiased, root = 1 - 3 / (4 * pooled_degrees - 1), (n * m / (n + m)) ** 0.5
    found = replace(found, effect=unbiased * found.d, effect_low=None, effect_high=None)
    narrow, wide = sorted((float(a.std(ddof=1)), float(b.std(ddof=1))))
    if max(n, m) > ALIKE * min(n, m) and wide > ALIKE * narrow:
        return found
    low, high = noncentrality(found.d * root, pooled_degrees, confidence)
    factor = unbiased / root
    return replace(found, effect_low=factor * low, effect_high=factor * high)


def noncentrality(t: float, degrees: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the confidence interval of the noncentrality of which Student's t was drawn.

    At 95 % its ends are those under which a t as large, or as small, has a probability of 2.5 %. Source: Cumming and
    Finch, Educational and Psychological Measurement 61 (2001). Beyond |t| = 30 the distribution is taken as normal,
    with variance 1 + t^2 / (2 degrees).

    Examples:
        >>> low, high = noncentrality(3.0, 9)
        >>> round(low, 2), round(high, 2)
        (0.56, 5.33)
    """
    if abs(t) > NORMAL_FROM_T:
        half = special.normal_quantile(0.5 + confidence / 2) * (1 + t * t / (2 * degrees)) ** 0.5
        return t - half, t + half
    if t < 0:
        low, high = noncentrality(-t, degrees, confidence)
        return -high, -low
    tail = (1 - confidence) / 2
    return _noncentrality_with(1 - tail, degrees, t), _noncentrality_with(tail, degrees, t)


def _noncentrality_with(wanted: float, degrees: float, t: float) -> float:
    """Return the noncentrality with which a value up to `t` has a probability."""

    # The probability falls as the noncentrality rises, its normal quantile nearly in a line.
    def beyond(noncentrality: float) -> float:
        share = special.student_share_with(degrees, noncentrality, t)
        return special.normal_quantile(min(max(share, SURELY), 1 - SURELY)) - special.normal_quantile(wanted)

    # Below -10 the probability is 1 for any t that is not negative.
    return special.falling_root(beyond, -10.0, 10 + t * (2 + 4 / degrees**0.5), PRECISE)


def _contrast(a: Array, b: Array, squared_error: float, degrees: float, confidence: float) -> Contrast:
    difference = float(a.mean() - b.mean())
    error = squared_error**0.5
    t = difference / error
    n, m = len(a), len(b)
    pooled = ((n - 1) * float(a.var(ddof=1)) + (m - 1) * float(b.var(ddof=1))) / (n + m - 2)
    return Contrast(
        difference=difference,
        half_width=special.student_quantile(degrees, 0.5 + confidence / 2) * error,
        t=t,
        degrees=degrees,
        p=2 * special.student_beyond(degrees, abs(t)),
        d=difference / pooled**0.5 if pooled else float("nan"),
        effect=float("nan"),
        effect_low=float("nan"),
        effect_high=float("nan"),
    )


def at_alpha(found: Contrast, alpha: float, confidence: float) -> Contrast:
    """Return a contrast whose interval is of the level 1 - `alpha` instead of `confidence`.

    Examples:
        >>> found = paired([5, 6, 7, 9], [1, 2, 3, 4])
        >>> round(found.half_width, 3), round(at_alpha(found, 0.05 / 4, 0.95).half_width, 3)
        (0.796, 1.348)
    """
    wide, usual = (special.student_quantile(found.degrees, 1 - one / 2) for one in (alpha, 1 - confidence))
    return replace(found, half_width=found.half_width * wide / usual)


def holm(p: Sequence[float]) -> list[float]:
    """Return the probabilities of several tests, corrected for their number (Holm's step-down procedure).

    Where those below 5 % are taken as findings, the chance of even one wrong finding among all tests is at most 5 %.
    Source: Holm, Scandinavian Journal of Statistics 6 (1979).

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(p), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=lambda place: p[place])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[place]))
        corrected[place] = largest
    return corrected


def holm_levels(p: Sequence[float], alpha: float) -> list[float]:
    """Return the level at which Holm's procedure tests each of several hypotheses, or would have stopped before it.

    An interval of this level holds 0 exactly where the corrected probability is not below `alpha`.

    Examples:
        >>> [round(level, 4) for level in holm_levels([0.01, 0.05, 0.02], 0.06)]
        [0.02, 0.06, 0.03]
        >>> [round(level, 4) for level in holm_levels([0.01, 0.2, 0.04], 0.06)]
        [0.02, 0.03, 0.03]
    """
    levels, level = [alpha] * len(p), alpha
    is_stopped = False
    for rank, place in enumerate(sorted(range(len(p)), key=lambda place: p[place])):
        if not is_stopped:
            level = alpha / (len(p) - rank)
            is_stopped = p[place] >= level
        levels[place] = level
    return levels


def glass_delta(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Return Glass's Δ: the difference of the means over the standard deviation of the second sample.

    Args:
        first: shape (n,), the treated.
        second: shape (m,), the control.

    Returns:
        The effect, positive where the first mean is the larger; none where the control does not vary, or has two
        values only: the standard deviation of these is mostly chance.

    Examples:
        >>> glass_delta([5, 6, 7], [2, 3, 4]), glass_delta([5, 6, 7], [2, 2, 2]), glass_delta([5, 6], [2, 3])
        (3.0, None, None)
    """
    deviation = spread(second)
    if deviation is None or len(np.asarray(second)) < 3:
        return None
    return (
        float(np.mean(np.asarray(first, dtype=np.float64))) - float(np.mean(np.asarray(second, dtype=np.float64)))
    ) / deviation


def effect_said(d: float, values: int, p: float | None, alpha: float, words: Sequence[str] = EFFECTS) -> str:
    """Say how large an effect is, in brackets; nothing of few values, or of what chance alone may have made.

    Args:
        d: the effect.
        values: of the smaller sample.
        p: of the difference, as it is reported.
        alpha: the level of the tests.
        words: for effects below 0.2, 0.5 and 0.8, and for larger ones.

    Examples:
        >>> effect_said(107.7, 2, 0.881, 0.05), effect_said(0.9, 10, 0.2, 0.05), effect_said(0.9, 10, 0.01, 0.05)
        ('', '', ' (large)')
    """
    is_said = values >= FEWEST_OF_WORDS and p is not None and p < alpha
    return f" ({effect_word(d, words)})" if is_said else ""


def effect_word(d: float, words: Sequence[str] = EFFECTS) -> str:
    """Say how large an effect is: by Cohen's words at least 0.2 small, 0.5 medium, 0.8 large, or by four other words.

    Examples:
        >>> [effect_word(d) for d in (0.1, -0.3, 0.5, -2)]
        ['negligible', 'small', 'medium', 'large']
        >>> effect_word(0.3, ("small", "medium", "large", "very large"))
        'medium'
    """
    return words[sum(abs(d) >= bound for bound in EFFECT_BOUNDS)]


def bands_said(words: Sequence[str]) -> str:
    """Say which effects have which word.

    Examples:
        >>> bands_said(EFFECTS)
        'below 0.2 negligible, 0.5 small, 0.8 medium, from there on large'
    """
    below = ", ".join(f"{bound:g} {word}" for bound, word in zip(EFFECT_BOUNDS, words, strict=False))
    return f"below {below}, from there on {words[-1]}"


def jain(shares: npt.ArrayLike) -> float:
    """Return Jain's fairness index of the rates of n flows: 1 where all are equal, 1/n where one has all.

    Source: Jain, Chiu, Hawe, DEC TR-301 (1984).

    Examples:
        >>> jain([10, 10]), jain([10, 0])
        (1.0, 0.5)
    """
    rates = _sample(shares)
    squares = float((rates**2).sum())
    return float(rates.sum()) ** 2 / (len(rates) * squares) if squares else float("nan")


def time_of_size(t_s: npt.ArrayLike, acked_bytes: npt.ArrayLike, sizes: npt.ArrayLike) -> Array:
    """Return when a download had got so far, interpolated between the points of its series.

    Args:
        t_s: rising times since the download began, shape (n,).
        acked_bytes: bytes acknowledged by then, never falling, shape (n,).
        sizes: bytes, shape (k,).

    Returns:
        Seconds, shape (k,); NaN for a size that was not reached.

    Examples:
        >>> time_of_size([1, 2], [1000, 3000], [500, 2000, 4000]).tolist()
        [0.5, 1.5, nan]
    """
    t = np.concatenate([[0.0], np.asarray(t_s, dtype=np.float64)])
    size = np.concatenate([[0.0], np.asarray(acked_bytes, dtype=np.float64)])
    return np.asarray(np.interp(np.asarray(sizes, dtype=np.float64), size, t, right=np.nan), dtype=np.float64)


def sliding_mean(ends_s: npt.ArrayLike, lengths_s: npt.ArrayLike, rates: npt.ArrayLike, window_s: float) -> Array:
    """Return the mean of a rate over the window before each instant; at first over what there is of it.

    Args:
        ends_s: rising ends of intervals, shape (n,).
        lengths_s: their lengths, shape (n,).
        rates: mean rate in each, shape (n,).
        window_s: length of the window.

    Examples:
        >>> sliding_mean([1, 2, 3, 4], [1, 1, 1, 1], [4, 0, 2, 6], 2).tolist()
        [4.0, 2.0, 1.0, 4.0]
    """
    ends, lengths = np.asarray(ends_s, dtype=np.float64), np.asarray(lengths_s, dtype=np.float64)
    edges = np.concatenate([[ends[0] - lengths[0]], ends])
    carried = np.concatenate([[0.0], np.cumsum(np.asarray(rates, dtype=np.float64) * lengths)])
    starts = np.maximum(ends - window_s, edges[0])
    within = carried[1:] - np.interp(starts, edges, carried)
    return np.asarray(within / np.maximum(ends - starts, 1e-9), dtype=np.float64)


def most_typical(measures: npt.ArrayLike) -> int:
    """Return which of n flows is nearest to the median of all its measures, each scaled by its spread.

    Args:
        measures: shape (n, k), n > 0: a row per flow. A measure that no flow has (NaN) does not count.

    Examples:
        >>> most_typical([[1, 10], [2, 20], [9, 90]])
        1
        >>> most_typical([[1, np.nan], [2, np.nan], [9, np.nan]]), most_typical([[np.nan], [np.nan]])
        (1, 0)
    """
    table = np.asarray(measures, dtype=np.float64)
    table = table[:, ~np.isnan(table).all(axis=0)]
    if table.shape[1] == 0:
        return 0
    centre = np.nanmedian(table, axis=0)
    low, high = np.nanpercentile(table, [25, 75], axis=0)
    scale = np.where(high > low, high - low, 1.0)
    distance = np.nansum(((table - centre) / scale) ** 2, axis=1)
    return int(np.argmin(distance))


def _sample(values: npt.ArrayLike) -> Array:
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise ValueError("the sample is empty")
    return sample

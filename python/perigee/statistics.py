# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The statistics of the tables and figures: each a small function over plain arrays.

Arrays are one-dimensional, of any numeric type, without missing values; units go through unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]

WHISKER_IQR = 1.4
"""Outliers of a box plot lie further than this many interquartile ranges from the box (Claypool 2021)."""


@dataclass(frozen=True)
class Box:
    """What a box plot shows of a sample, in the sample's unit.

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


def mean_interval(values: npt.ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the mean and the half width of its confidence interval (Student's t).

    A single value has no interval: its half width is NaN.

    Examples:
        >>> mean, half = mean_interval([9.0, 10.0, 11.0])
        >>> mean, round(half, 3)
        (10.0, 2.484)
    """
    sample = _sample(values)
    n = len(sample)
    if n < 2:
        return float(sample.mean()), float("nan")
    standard_error = float(sample.std(ddof=1)) / n**0.5
    return float(sample.mean()), float(special.stdtrit(n - 1, 0.5 + confidence / 2)) * standard_error


@dataclass(frozen=True)
class TTest:
    """An independent two-tailed t test of one sample against another.

    Attributes:
        t: Student's t; positive where the first sample's mean is the larger.
        degrees: degrees of freedom.
        p: probability of a difference as large by chance.
        p_adjusted: `p` times the number of comparisons (Bonferroni), at most 1.
        d: Cohen's d.
    """

    t: float
    degrees: float
    p: float
    p_adjusted: float
    d: float

    def is_significant(self, alpha: float = 0.05) -> bool:
        """Whether the difference stands after the correction."""
        return self.p_adjusted < alpha


def t_test(first: npt.ArrayLike, second: npt.ArrayLike, comparisons: int = 1, *, welch: bool = False) -> TTest | None:
    """Compare the means of two independent samples.

    Args:
        first: shape (n,), n > 1.
        second: shape (m,), m > 1.
        comparisons: how many comparisons are made together, for the Bonferroni correction.
        welch: do not assume equal variances (Welch's test); otherwise Student's, with the pooled variance.

    Returns:
        The test, or none where a sample has fewer than two values or neither varies.

    Examples:
        >>> test = t_test([5, 6, 7, 8], [1, 2, 3, 4], comparisons=3)
        >>> round(test.t, 3), round(test.p, 5), round(test.p_adjusted, 4), round(test.d, 2)
        (4.382, 0.00466, 0.014, 3.1)
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = len(a), len(b)
    if n < 2 or m < 2:
        return None
    va, vb = float(a.var(ddof=1)), float(b.var(ddof=1))
    pooled = ((n - 1) * va + (m - 1) * vb) / (n + m - 2)
    if pooled == 0:
        return None
    difference = float(a.mean() - b.mean())
    if welch:
        spread = va / n + vb / m
        degrees = spread**2 / ((va / n) ** 2 / (n - 1) + (vb / m) ** 2 / (m - 1))
    else:
        spread = pooled * (1 / n + 1 / m)
        degrees = float(n + m - 2)
    t = difference / spread**0.5
    p = float(2 * special.stdtr(degrees, -abs(t)))
    return TTest(t, degrees, p, min(1.0, p * comparisons), difference / pooled**0.5)


def difference_interval(first: npt.ArrayLike, second: npt.ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the difference of two means, first minus second, and its confidence interval's half width (Welch).

    Examples:
        >>> difference, half = difference_interval([5, 6, 7, 8], [1, 2, 3, 4])
        >>> difference, round(half, 2)
        (4.0, 2.23)
    """
    a, b = _sample(first), _sample(second)
    difference = float(a.mean() - b.mean())
    test = t_test(a, b, welch=True)
    if test is None or test.t == 0:
        spread = (a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)) ** 0.5 if min(len(a), len(b)) > 1 else float("nan")
        degrees = float(max(1, len(a) + len(b) - 2))
    else:
        spread, degrees = difference / test.t, test.degrees
    return difference, float(special.stdtrit(degrees, 0.5 + confidence / 2)) * float(spread)


def effect_word(d: float) -> str:
    """Say how large an effect Cohen's d is: at least 0.2 small, 0.5 medium, 0.8 large.

    Examples:
        >>> [effect_word(d) for d in (0.1, -0.3, 0.5, -2)]
        ['negligible', 'small', 'medium', 'large']
    """
    size = abs(d)
    return "large" if size >= 0.8 else "medium" if size >= 0.5 else "small" if size >= 0.2 else "negligible"


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
        measures: shape (n, k), n > 0: a row per flow.

    Examples:
        >>> most_typical([[1, 10], [2, 20], [9, 90]])
        1
    """
    table = np.asarray(measures, dtype=np.float64)
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

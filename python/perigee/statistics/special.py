# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Probabilities and quantiles of the distributions that the statistics need, to about ten digits.

A quantile of Student's t within 1e-5 of the median's probability has fewer, which no interval asks for.

Formulas are those of the NIST Digital Library of Mathematical Functions (DLMF). The normal quantile is Python's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from statistics import NormalDist

import numpy as np

normal_quantile = NormalDist().inv_cdf
"""The quantile of the normal distribution of a probability between 0 and 1."""
SMALLEST = 1e-300
PRECISION = 1e-15
NEGLIGIBLE = 25.0
"""Negative logarithm of densities that nothing depends on."""


def normal_share(x: float) -> float:
    """Return the probability of a normal value up to `x`.

    Examples:
        >>> round(normal_share(1.96), 5)
        0.975
    """
    return math.erfc(-x / math.sqrt(2)) / 2


def beta_share(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22).

    Examples:
        >>> round(beta_share(2, 3, 0.5), 4)
        0.6875
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The fraction converges fast on this side of the mean only (DLMF 8.17.4).
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_share(b, a, 1 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log) / a * _fraction(_of_beta(a, b, x))


def _of_beta(a: float, b: float, x: float) -> Iterator[tuple[float, float]]:
    """Yield numerators and denominators of the fraction of the incomplete beta function."""
    yield 1.0, 1.0
    m = 0
    while True:
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), 1.0
        m += 1
        yield m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), 1.0


def gamma_beyond(a: float, x: float) -> float:
    """Return the regularized incomplete gamma function Q(a, x), by its series or fraction (DLMF 8.11.4, 8.9.2).

    Examples:
        >>> round(gamma_beyond(1, 2.0), 6) == round(math.exp(-2), 6)
        True
    """
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x >= a + 1:
        return scale * _fraction(_of_gamma(a, x))
    term = total = 1 / a
    while term > total * PRECISION:
        a += 1
        term *= x / a
        total += term
    return 1 - scale * total


def _of_gamma(a: float, x: float) -> Iterator[tuple[float, float]]:
    """Yield numerators and denominators of the fraction of the incomplete gamma function."""
    yield 1.0, x + 1 - a
    n = 1
    while True:
        yield -n * (n - a), x + 2 * n + 1 - a
        n += 1


def _fraction(terms: Iterator[tuple[float, float]]) -> float:
    """Return the value of a continued fraction (Lentz's method, DLMF 3.10)."""
    value, c, d = SMALLEST, SMALLEST, 0.0
    for numerator, denominator in terms:
        d = 1 / ((denominator + numerator * d) or SMALLEST)
        c = (denominator + numerator / c) or SMALLEST
        value *= c * d
        if abs(c * d - 1) < PRECISION:
            break
    return value


def student_beyond(degrees: float, t: float) -> float:
    """Return the probability of a Student's t beyond `t`, which is not negative, on one side (DLMF 8.17)."""
    return beta_share(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2


@functools.lru_cache(maxsize=4096)
def student_quantile(degrees: float, p: float) -> float:
    """Return the quantile of Student's t of a probability of at least a half.

    Examples:
        >>> round(student_quantile(4, 0.975), 3)
        2.776
    """
    log = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    # Newton's method: from below it only rises, since the density falls.
    t, step = max(normal_quantile(p), 0.0), 1.0
    while step > t * 1e-11:
        density = math.exp(log - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = (student_beyond(degrees, t) - (1 - p)) / density
        t += step
    return t


def student_share_with(degrees: float, noncentrality: float, t: float) -> float:
    """Return the probability of a noncentral t up to `t`.

    It is that of a normal value up to t S - noncentrality, where S^2 is chi squared over its degrees.

    Examples:
        >>> abs(student_share_with(9, 0.0, 1.5) - (1 - student_beyond(9, 1.5))) < 1e-10
        True
    """
    deviations, weights = _roots_of_chi_squared(degrees, _fineness(t))
    shares = [normal_share(x) for x in (t * deviations - noncentrality).tolist()]
    return float(np.dot(weights, shares))


def _fineness(t: float) -> int:
    """Return how many times finer than the density the integral is cut, since the normal share has a width of 1 / t."""
    return 1 << max(math.ceil(math.log2(max(abs(t), 1.0))), 0)


@functools.lru_cache(maxsize=256)
def _roots_of_chi_squared(degrees: float, fineness: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values of S and their weights, of the trapezoidal rule over its logarithm."""
    step = min(0.5 / math.sqrt(degrees), 0.7 / fineness, 0.14)
    least = -(NEGLIGIBLE / degrees + math.sqrt(NEGLIGIBLE / degrees))
    u = np.arange(least, math.log1p(9 / math.sqrt(degrees)), step)
    half = degrees / 2
    log = math.log(2) + half * math.log(half) - math.lgamma(half) + degrees * u - half * np.exp(2 * u)
    return np.exp(u), np.exp(log) * step


def falling_root(function: Callable[[float], float], low: float, high: float, within: float) -> float:
    """Return where a falling function passes zero between two places (Illinois, Dowell and Jarratt 1971).

    Examples:
        >>> round(falling_root(lambda x: 2 - x * x, 0, 9, 1e-9), 6)
        1.414214
    """
    at_low, at_high = function(low), function(high)
    middle, moved = low, high - low
    while moved > within:
        before, middle = middle, (low * at_high - high * at_low) / (at_high - at_low)
        value, moved = function(middle), abs(middle - before)
        # An end that stays twice counts half.
        if value > 0:
            at_high = at_high / 2 if before == low else at_high
            low, at_low = middle, value
        else:
            at_low = at_low / 2 if before == high else at_low
            high, at_high = middle, value
    return middle


def binomial_beyond(count: int, of: int, share: float) -> float:
    """Return the probability of more than `count` of a binomial distribution (DLMF 8.17.5).

    Examples:
        >>> round(1024 * binomial_beyond(8, 10, 0.5), 6)
        11.0
    """
    return 1.0 if count < 0 else 0.0 if count >= of else beta_share(count + 1, of - count, share)


def beta_quantile(a: float, b: float, p: float) -> float:
    """Return the quantile of a beta distribution.

    Examples:
        >>> round(beta_quantile(1, 1000, 0.975), 5)
        0.00368
    """
    low, high = 0.0, 1.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if beta_share(a, b, middle) < p else (low, middle)
    return (low + high) / 2

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Does something come back at equal intervals? Autocorrelation, what chance alone would give, and the period.

Links whose satellites are assigned anew at a fixed interval lose packets at those instants; a series of
retransmissions, one value per second, then resembles itself shifted by that time (Pawirotaroeno 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MOST_LAG_S = 600.0
"""Lags up to here, either way."""
LEAST_VALUES = 60
"""A shorter series says nothing about periods, nor does a shorter overlap of one with itself."""
CHANCE = 0.05
"""Probability that chance alone, in a series without order, exceeds the bound anywhere."""
SHUFFLES = 200
_TRIES_OF_A_PERIOD = 3


@dataclass(frozen=True)
class Periodicity:
    """How a series resembles itself.

    Attributes:
        lags_s: shifts, from 0 on; the same holds for the negative ones.
        correlation: Pearson's coefficient of the series with itself, shifted by each.
        searched_s: the largest shift of the period's search, a third of the series at most.
        bound: what the largest coefficient of the same values in random order exceeds with probability `CHANCE`,
            up to there.
        period_s: the detected period; none: nothing beyond the bound comes back.
        strength: the coefficient at the period.
    """

    lags_s: Array
    correlation: Array
    searched_s: float
    bound: float
    period_s: float | None
    strength: float | None


def periodicity(values: npt.ArrayLike, interval_s: float = 1.0) -> Periodicity | None:
    """Return the autocorrelation of a series and its period; none where it is too short or does not vary.

    Args:
        values: one value per interval, shape (n,).
        interval_s: length of an interval.

    Examples:
        >>> found = periodicity([9.0 if second % 15 == 3 else 0.0 for second in range(600)])
        >>> found.period_s, round(found.strength, 2), found.strength > found.bound
        (15.0, 1.0, True)
        >>> periodicity(np.random.default_rng(1).poisson(2.0, 600)).period_s is None
        True
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) < LEAST_VALUES or not np.isfinite(series).all() or series.std() == 0:
        return None
    most = int(min(MOST_LAG_S / interval_s, max(len(series) - LEAST_VALUES, len(series) // 3)))
    searched = min(most, len(series) // 3)
    correlation = autocorrelation(series, most)
    bound = _bound(series, searched)
    period = _period(correlation[: searched + 1], bound)
    return Periodicity(
        lags_s=np.arange(most + 1, dtype=np.float64) * np.float64(interval_s),
        correlation=correlation,
        searched_s=searched * interval_s,
        bound=bound,
        period_s=None if period is None else period * interval_s,
        strength=None if period is None else float(correlation[period]),
    )


def autocorrelation(values: npt.ArrayLike, most: int) -> Array:
    """Return Pearson's coefficient of a series and itself shifted by 0 to `most` places; 0 where a part does not vary.

    Args:
        values: shape (n,), n > `most` + 1.
        most: the largest shift.

    Returns:
        Shape (`most` + 1,).

    Examples:
        >>> autocorrelation([1, 2, 1, 2, 1, 2, 1, 2], 2).round(6).tolist()
        [1.0, -1.0, 1.0]
    """
    series = np.asarray(values, dtype=np.float64)
    found = np.zeros(most + 1)
    for lag in range(most + 1):
        first, second = series[: len(series) - lag], series[lag:]
        a, b = first - first.mean(), second - second.mean()
        spread = np.sqrt((a @ a) * (b @ b))
        found[lag] = (a @ b) / spread if spread > 0 else 0.0
    return found


def _bound(series: Array, most: int) -> float:
    """Return the largest coefficient of the shuffled series, lag 0 apart, that one in twenty shuffles exceeds."""
    random = np.random.default_rng(0)
    centred = series - series.mean()
    size = 1 << int(2 * len(series) - 1).bit_length()
    largest = np.empty(SHUFFLES)
    for number in range(SHUFFLES):
        spectrum = np.fft.rfft(random.permutation(centred), size)
        products = np.fft.irfft(spectrum * spectrum.conj(), size)[: most + 1]
        # Each lag has fewer products than the one before.
        largest[number] = (products[1:] / products[0] * len(series) / (len(series) - np.arange(1, most + 1))).max()
    return float(np.quantile(largest, 1 - CHANCE))


def _period(correlation: Array, bound: float) -> int | None:
    """Return the lag of which the series is most like itself at its multiples and least halfway between them."""
    last = len(correlation) - 1
    best: tuple[float, int] | None = None
    for lag in range(2, last // 2 + 1):
        around = correlation[lag - 1 : lag + 2]
        if correlation[lag] <= bound or correlation[lag] < around.max():
            continue
        multiples = np.arange(1, _TRIES_OF_A_PERIOD + 1) * lag
        multiples = multiples[multiples <= last]
        if correlation[multiples].min() <= bound:
            continue
        between = correlation[multiples - lag // 2]
        score = float(correlation[multiples].mean() - between.mean())
        # Multiples of a period score as it does: of nearly equal ones the shortest.
        if score > 0 and (best is None or score > best[0] * 1.1):
            best = (score, lag)
    return None if best is None else best[1]

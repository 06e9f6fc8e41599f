# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Readings of a curve: its height at a place, a statistic of a range, relative to another, or places along it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from perigee.scoring.samples import OF_SAMPLE, of_sample
from perigee.statistics.estimates import Array

Place = float | tuple[float, float]
"""A place along a curve, or a range with both ends."""

TIME = "t_s"
"""The column along which nothing is known before the first and after the last point."""

RECOVERY = "recovery"
"""The statistic that is a distance along the curve."""

PLACES = ("least_at", "most_at")
"""Statistics that are places along the curve: of its least height in a range, and of its greatest."""

OF_CURVE = (*OF_SAMPLE, "sum", *PLACES, RECOVERY)
"""Statistics of a curve."""

OF_SOME_POINTS = ("mean", RECOVERY)
"""Those that a curve of fewer points has too, but for the distance of two of them."""


def read(
    curve: pl.DataFrame,
    column: str,
    at: Mapping[str, Place],
    over_at: Mapping[str, Place],
    statistic: str = "mean",
    below: float = 0.0,
) -> float:
    """Return a reading of a column; NaN where the range has no point.

    `recovery` is the distance from the beginning of the range to the first point, from its lowest on, that is as high
    as the curve was at `over_at`; infinite without one. The others are divided by the height there.

    Examples:
        >>> curve = pl.DataFrame({"t_s": [0.0, 10.0, 20.0, 30.0], "y": [1.0, 0.2, 0.6, 1.0]})
        >>> read(curve, "y", {"t_s": 5}, {}), read(curve, "y", {"t_s": (10, 30)}, {})
        (0.6, 0.6)
        >>> read(curve, "y", {"t_s": (5, 30)}, {"t_s": (20, 30)}, "min"), read(curve, "y", {"t_s": (40, 50)}, {}, "sum")
        (0.25, nan)
        >>> [read(curve, "y", {"t_s": (0, end)}, {"t_s": 20}, "recovery") for end in (30, 15)]
        [20.0, inf]
        >>> read(curve, "y", {"t_s": (0, 30)}, {}, "least_at"), read(curve, "y", {"t_s": 31}, {})
        (10.0, nan)
    """
    ((key, place),) = at.items()
    line = curve.sort(key)
    along, heights = (line[name].cast(pl.Float64).to_numpy() for name in (key, column))
    known = key != TIME
    reference = _height(along, heights, over_at[key], "mean", below, known) if over_at else 1.0
    if statistic != RECOVERY:
        return _height(along, heights, place, statistic, below, known) / reference if reference else float("nan")
    first, last = place if isinstance(place, tuple) else (place, float("inf"))
    within = (along >= first) & (along <= last)
    along, heights = along[within], heights[within]
    if not len(along) or np.isnan(reference):
        return float("nan")
    back = (heights >= reference) & (along >= along[np.argmin(heights)])
    return float(along[back][0]) - first if back.any() else float("inf")


def _height(along: Array, heights: Array, at: Place, statistic: str, below: float, known_beyond: bool) -> float:
    """Return a reading; beyond its ends a distribution keeps its height, and of a time nothing is known."""
    if not isinstance(at, tuple):
        end = (None, None) if known_beyond else (float("nan"), float("nan"))
        return float(np.interp(at, along, heights, *end))
    within = (along >= at[0]) & (along <= at[1])
    along, heights = along[within], heights[within]
    if not len(heights):
        return float("nan")
    if statistic in PLACES:
        return float(along[np.argmin(heights) if statistic == "least_at" else np.argmax(heights)])
    return float(heights.sum()) if statistic == "sum" else of_sample(heights, statistic, below)

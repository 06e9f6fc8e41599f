# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A curve is read at a place or over a range, relative to another place, or for the way back to a height."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

Place = float | tuple[float, float]
"""A place along a curve, or a range with both ends."""

RECOVERY = "recovery"
"""The statistic that is a distance along the curve."""

OF_RANGE: Mapping[str, Callable[[NDArray[np.float64]], np.float64]] = {
    "mean": np.mean, "min": np.min, "max": np.max, "sum": np.sum,
}  # fmt: skip
"""Statistics over the points within a range."""

OF_CURVE = (*OF_RANGE, RECOVERY)
"""Statistics of a curve."""


def read(
    curve: pl.DataFrame, column: str, at: Mapping[str, Place], over_at: Mapping[str, Place], statistic: str
) -> float:
    """Return what is read off a column; NaN where the range has no point.

    `recovery` is the distance from the beginning of the range to the first point, from its lowest on, that is as high
    as the curve was at `over_at`; infinite without one. The others are divided by the height there.

    Examples:
        >>> curve = pl.DataFrame({"t_s": [0.0, 10.0, 20.0, 30.0], "y": [1.0, 0.2, 0.6, 1.0]})
        >>> read(curve, "y", {"t_s": 5}, {}, "mean"), read(curve, "y", {"t_s": (10, 30)}, {}, "mean")
        (0.6, 0.6)
        >>> read(curve, "y", {"t_s": (5, 30)}, {"t_s": (20, 30)}, "min"), read(curve, "y", {"t_s": (40, 50)}, {}, "sum")
        (0.25, nan)
        >>> [read(curve, "y", {"t_s": (0, end)}, {"t_s": 20}, "recovery") for end in (30, 15)]
        [20.0, inf]
    """
    ((key, place),) = at.items()
    line = curve.sort(key)
    along, heights = (line[name].cast(pl.Float64).to_numpy() for name in (key, column))
    reference = _height(along, heights, over_at[key], "mean") if over_at else 1.0
    if statistic != RECOVERY:
        return _height(along, heights, place, statistic) / reference if reference else float("nan")
    first, last = place if isinstance(place, tuple) else (place, float("inf"))
    within = (along >= first) & (along <= last)
    along, heights = along[within], heights[within]
    if not len(along):
        return float("nan")
    back = (heights >= reference) & (along >= along[np.argmin(heights)])
    return float(along[back][0]) - first if back.any() else float("inf")


def _height(along: NDArray[np.float64], heights: NDArray[np.float64], at: Place, statistic: str) -> float:
    if not isinstance(at, tuple):
        return float(np.interp(at, along, heights))
    within = heights[(along >= at[0]) & (along <= at[1])]
    return float(OF_RANGE[statistic](within)) if len(within) else float("nan")

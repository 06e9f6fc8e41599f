# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Minima of functions whose derivatives are not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

GOLDEN = (math.sqrt(5) - 1) / 2
MOST_STEPS = 400
"""Steps of a simplex at the most: one of two parameters needs some 60."""


def minimum(function: Callable[[float], float], low: float, high: float, within: float = 1e-5) -> tuple[float, float]:
    """Return where a function of one minimum between two bounds is least, and its value (golden section, Kiefer 1953).

    Examples:
        >>> x, least = minimum(lambda x: (x - 2) ** 2 + 1, 0, 10)
        >>> round(x, 4), round(least, 4)
        (2.0, 1.0)
    """
    first, second = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_first, at_second = function(first), function(second)
    while high - low > within:
        if at_first < at_second:
            high, second, at_second = second, first, at_first
            first = high - GOLDEN * (high - low)
            at_first = function(first)
        else:
            low, first, at_first = first, second, at_second
            second = low + GOLDEN * (high - low)
            at_second = function(second)
    return (first, at_first) if at_first < at_second else (second, at_second)


def minimum_of_several(
    function: Callable[[Floats], float],
    start: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    within: float = 1e-4,
) -> tuple[Floats, float]:
    """Return where a function of several parameters is least near a start, and its value (Nelder, Mead 1965).

    Args:
        function: of the parameters, which stay within their bounds.
        start: where the search begins.
        bounds: of each parameter.
        within: how far the points of the last simplex may be from its best one, and their values from its value.

    Examples:
        >>> x, least = minimum_of_several(lambda x: (x[0] - 1) ** 2 + (x[1] + 2) ** 2, (5, 5), [(-9, 9), (-1.5, 9)])
        >>> x.round(3).tolist(), round(least, 3)
        ([1.0, -1.5], 0.25)
    """
    low, high = np.array(bounds, float).T
    points = np.clip(np.tile(np.array(start, float), (len(start) + 1, 1)), low, high)
    for axis, point in enumerate(points[1:]):
        moved = point[axis] * 1.05 if point[axis] else 0.00025
        point[axis] = moved if moved <= high[axis] else 2 * high[axis] - moved
    points = np.clip(points, low, high)
    values = np.array([function(point) for point in points])

    def tried(towards: float) -> tuple[Floats, float]:
        """Return the point at a multiple of the worst one's distance from the middle of the others, beyond it."""
        middle = points[:-1].mean(axis=0)
        point = np.clip(middle + towards * (middle - points[-1]), low, high)
        return point, function(point)

    for _ in range(MOST_STEPS):
        order = np.argsort(values, kind="stable")
        points, values = points[order], values[order]
        if np.abs(points[1:] - points[0]).max() <= within and values[-1] - values[0] <= within:
            break
        point, value = tried(1.0)
        if value < values[0]:
            further = tried(2.0)
            point, value = further if further[1] < value else (point, value)
        elif value >= values[-2]:
            point, value = tried(0.5) if value < values[-1] else tried(-0.5)
        if value < values[-1]:
            points[-1], values[-1] = point, value
        else:
            points[1:] = (points[1:] + points[0]) / 2
            values[1:] = [function(point) for point in points[1:]]
    best = int(np.argmin(values))
    return points[best], float(values[best])

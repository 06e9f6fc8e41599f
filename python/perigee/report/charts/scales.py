# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Axes of factors: linear or logarithmic for numbers; words side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from perigee.groups.factors import Factor
from perigee.report.legends import POINTS_PER_IN, broken, size_of, width_of
from perigee.report.style import plain_numbers

LOG_FROM = 20.0
"""Ratio from which a factor has a logarithmic scale."""

CROWDED_FROM = 10.0
"""Ratio from which a factor has a logarithmic scale if a linear one would crowd it at one end."""

LOG_VALUES_FROM = 100.0
"""Ratio from which measured values above zero have a logarithmic scale."""

MOST_TICKS = 8
"""Maximum number of values with a tick each."""


def places(x: Factor) -> list[float]:
    """Return the positions of a factor's levels on its axis: their numbers, or 0, 1, 2, ... for words."""
    return x.numbers if x.is_number else [float(place) for place in range(len(x.levels))]


def scale_of(numbers: Sequence[float]) -> str:
    """Return the scale for numbers: `linear`, `log`, or `symlog` where zero is among numbers that span decades.

    Examples:
        >>> scale_of([10, 20, 50]), scale_of([0.01, 1]), scale_of([0, 0.01, 1]), scale_of([-1, 100]), scale_of([0, 1])
        ('linear', 'log', 'symlog', 'linear', 'linear')
        >>> scale_of([10, 20, 50, 100, 150]), scale_of([50, 100, 200, 400])
        ('log', 'linear')
        >>> scale_of([10, 106, 203, 300]), scale_of([0, 100, 200, 300, 400]), scale_of([10, 100, 300])
        ('linear', 'linear', 'log')
    """
    positive = sorted(number for number in numbers if number > 0)
    if min(numbers) < 0 or not positive:
        return "linear"
    if positive[-1] < LOG_FROM * positive[0] and not _is_crowded(positive):
        return "linear"
    if len(positive) > 2 and _nearest(numbers) > _nearest([math.log(number) for number in positive]):
        return "linear"
    return "log" if len(positive) == len(numbers) else "symlog"


def _is_crowded(positive: Sequence[float]) -> bool:
    """True if numbers over a decade or more are far more even on a logarithmic scale."""
    if len(positive) < 3 or positive[-1] < CROWDED_FROM * positive[0]:
        return False
    return _nearest(positive) < _nearest([math.log(number) for number in positive]) / 2


def _nearest(numbers: Sequence[float]) -> float:
    """Return the least distance of ascending numbers, as a share of their range."""
    ordered = sorted(numbers)
    return min(b - a for a, b in pairwise(ordered)) / (ordered[-1] - ordered[0])


def lay_out(axes: Axes, x: Factor, width_in: float) -> None:
    """Set up the horizontal axis of panels, each `width_in` wide, for a factor."""
    at = places(x)
    if x.is_number:
        scale = scale_of(at)
        if scale == "symlog":
            least = min(number for number in at if number > 0)
            axes.set_xscale("symlog", linthresh=least, linscale=0.6)
        else:
            axes.set_xscale(scale)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
        if len(at) > MOST_TICKS:
            if scale == "log":
                axes.xaxis.set_major_locator(LogLocator())
            plain_numbers(axes.xaxis)
            return
        texts = [f"{number:g}" for number in at]
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_major_locator(FixedLocator(at))
        axes.set_xticks(at, _apart(axes, at, texts, 0.85 * width_in * POINTS_PER_IN))
        return
    texts = [broken(level.text, max(0.5, width_in / len(at)), _size()) for level in x.levels]
    axes.set_xlim(-0.6, len(at) - 0.4)
    axes.xaxis.set_major_locator(FixedLocator(at))
    axes.set_xticks(at, texts)
    needed = sum(max(width_of(line, _size()) for line in text.splitlines() or [""]) + _size() for text in texts)
    if needed > 0.8 * width_in * POINTS_PER_IN:
        axes.tick_params(axis="x", labelrotation=45)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _apart(axes: Axes, at: Sequence[float], texts: Sequence[str], width_points: float) -> list[str]:
    """Return the labels of ascending ticks without those that overlap; both ends keep theirs.

    Args:
        axes: the axes, with their scale set.
        at: positions of the ticks.
        texts: labels of the ticks.
        width_points: approximate width of the panel.
    """
    scale = axes.xaxis.get_transform()
    shown = np.asarray(scale.transform(np.asarray(at, dtype=float)))
    span = float(shown[-1] - shown[0]) or 1.0
    places = [width_points * float(one - shown[0]) / span for one in shown]
    halves = [(width_of(text, _size()) + 0.6 * _size()) / 2 for text in texts]
    kept = [0]
    for place in range(1, len(at)):
        is_free = places[place] - halves[place] >= places[kept[-1]] + halves[kept[-1]]
        if place == len(at) - 1 or (is_free and places[place] + halves[place] <= places[-1] - halves[-1]):
            kept.append(place)
    return [text if place in kept else "" for place, text in enumerate(texts)]


def values_axis(panels: Sequence[Axes], least: float, largest: float) -> None:
    """Begin vertical axes at zero, or make them logarithmic if the values, from least to largest, span decades."""
    for axes in panels:
        if least > 0 and largest >= LOG_VALUES_FROM * least:
            axes.set_yscale("log")
            axes.set_ylim(least / 1.5, largest * 1.5)
            plain_numbers(axes.yaxis)
        elif least >= 0:
            axes.set_ylim(0, 1.06 * largest if largest > 0 else 1.0)


def _size() -> float:
    return size_of("xtick.labelsize")

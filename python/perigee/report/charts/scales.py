# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Axes of factors: linear or logarithmic for numbers; words side by side. Axes of values, and their better end."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from perigee.groups.factors import Factor
from perigee.report.legends import POINTS_PER_IN, broken, size_of, width_of, with_units
from perigee.report.style import WHOLE, WHOLE_FROM, plain_numbers

LOG_FROM = 20.0
"""Ratio from which a factor has a logarithmic scale."""

CROWDED_FROM = 10.0
"""Ratio from which a factor has a logarithmic scale if a linear one would crowd it at one end."""

LOG_VALUES_FROM = 100.0
"""Ratio from which measured values above zero have a logarithmic scale."""

MOST_TICKS = 8
"""Maximum number of values with a tick each."""

LEAST_SPAN = 0.05
"""Share of its values that an axis spans at least: means that are practically equal do not stand in two corners."""

LONGEST_SLANTED = 32
"""Letters of a slanted word on an axis, at the most."""

_DIRECTION = re.compile(r" (?:← )?(?:higher|lower) is better(?: →)?$")
"""The end of a label in a line that `with_direction` has added."""


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


def lay_out(axes: Axes, x: Factor, width_in: float) -> float:
    """Set up the horizontal axis of panels, each `width_in` wide, for a factor; return the height of slanted words."""
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
            return 0.0
        texts = [f"{number:g}" for number in at]
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_major_locator(FixedLocator(at))
        axes.set_xticks(at, _apart(axes, at, texts, 0.85 * width_in * POINTS_PER_IN))
        return 0.0
    texts = [broken(level.text, max(0.5, width_in / len(at)), _size()) for level in x.levels]
    axes.set_xlim(-0.6, len(at) - 0.4)
    axes.xaxis.set_major_locator(FixedLocator(at))
    axes.set_xticks(at, texts)
    needed = sum(max(width_of(line, _size()) for line in text.splitlines() or [""]) + _size() for text in texts)
    if needed <= 0.8 * width_in * POINTS_PER_IN:
        return 0.0
    return slant(axes, at, [level.text for level in x.levels])


def slant(axes: Axes, at: Sequence[float], words: Sequence[str]) -> float:
    """Slant the words of a horizontal axis, which then have one line, and are cut off; return their height, inches."""
    shown = [textwrap.shorten(with_units(word), LONGEST_SLANTED, placeholder=" …") for word in words]
    axes.set_xticks(at, shown)
    axes.tick_params(axis="x", labelrotation=45)
    for label in axes.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")
    return max(width_of(text, _size()) for text in shown) * math.sin(math.radians(45)) / POINTS_PER_IN


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


def values_axis(panels: Sequence[Sequence[Axes]], drawn: Sequence[Sequence[float]], unit: str) -> None:
    """Begin vertical axes at zero, or make all of them logarithmic where the values of one scale span decades.

    Args:
        panels: panels side by side, those of one scale together.
        drawn: the values that each scale must show.
        unit: of the values; a share in percent does not go beyond 100.
    """
    ends = [(min(values), max(values)) if values else (0.0, 0.0) for values in drawn]
    is_log = any(low > 0 and high >= LOG_VALUES_FROM * low for low, high in ends)
    is_log = is_log and all(low > 0 or high == 0 for low, high in ends)
    for several, (low, high) in zip(panels, ends, strict=True):
        for axes in several:
            if is_log and high > 0:
                axes.set_yscale("log")
                axes.set_ylim(low / 1.5, high * 1.5)
                plain_numbers(axes.yaxis)
            elif low >= 0:
                axes.set_ylim(0, top_of(high, unit))


def top_of(high: float, unit: str) -> float:
    """Return where an axis of values from zero on ends: a little above them, for large shares in percent at 100.

    Examples:
        >>> top_of(10.0, "ms"), top_of(0.5, "%"), top_of(80.0, "%"), top_of(0.0, "ms")
        (10.6, 0.53, 102.0, 1.0)
    """
    if unit == "%" and high > WHOLE_FROM:
        return WHOLE
    return round(1.06 * high, 12) if high > 0 else 1.0


def at_least(low: float, high: float) -> tuple[float, float]:
    """Return the limits of an axis, apart by `LEAST_SPAN` of their middle at least.

    Examples:
        >>> at_least(10.0, 30.0), at_least(99.9, 100.1)
        ((10.0, 30.0), (97.5, 102.5))
    """
    middle = (low + high) / 2
    least = LEAST_SPAN * abs(middle)
    return (low, high) if high - low >= least else (middle - least / 2, middle + least / 2)


def with_direction(text: str, higher_is_better: bool | None, *, is_reversed: bool = False) -> str:
    r"""Return the label of an axis with an arrow to its better end; a vertical label reads upwards, and so it points.

    Args:
        text: the label.
        higher_is_better: None: neither is.
        is_reversed: whether the axis has its large values at its beginning.

    Examples:
        >>> with_direction("Throughput (Mbit/s)", True), with_direction("Delay (ms)", False)
        ('Throughput (Mbit/s)\nhigher is better →', 'Delay (ms)\n← lower is better')
        >>> with_direction("Delay (ms)", False, is_reversed=True), with_direction("Size (B)", None)
        ('Delay (ms)\nlower is better →', 'Size (B)')
    """
    if higher_is_better is None:
        return text
    word = "higher is better" if higher_is_better else "lower is better"
    return f"{text}\n{word} →" if higher_is_better is not is_reversed else f"{text}\n← {word}"


def without_direction(text: str) -> str:
    r"""Return the label of an axis in a line, without `with_direction`.

    Examples:
        >>> without_direction(with_direction("Delay\n(ms)", False))
        'Delay (ms)'
    """
    return _DIRECTION.sub("", " ".join(text.split()))


def _size() -> float:
    return size_of("xtick.labelsize")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Practically equal groups: the sentence in the place of their figure, and the band that shows the bound."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from perigee.groups.factors import lowered
from perigee.numbers import decimals, number
from perigee.report.charts.sample import Mean, Sample, mean_of
from perigee.report.style import FAINT
from perigee.statistics.estimates import EQUAL_SHARE
from perigee.statistics.metrics import Metric

BAND = "_practically equal"
"""Label of the band within which groups are practically equal to the best."""


def means_of_groups(sample: Sample, metric: Metric) -> list[Mean]:
    """Return the means of a metric of each group of a sample that has it."""
    parts = sample.flows.partition_by("group", maintain_order=True) if not sample.flows.is_empty() else []
    return [found for part in parts if (found := mean_of(part, metric, sample.confidence)) is not None]


def are_equal(means: Sequence[Mean]) -> bool:
    """Return True if several means are practically equal, as far as their intervals tell.

    Examples:
        >>> nan = float("nan")
        >>> are_equal([Mean(10.0, nan, 1), Mean(10.05, nan, 1)]), are_equal([Mean(10.0, 2.0, 3), Mean(10.05, 0.0, 3)])
        (True, False)
        >>> are_equal([Mean(10.0, nan, 1), Mean(11.0, nan, 1)]), are_equal([Mean(10.0, nan, 1)])
        (False, False)
    """
    if len(means) < 2:
        return False
    values = [one.mean for one in means]
    bound = EQUAL_SHARE * max(map(abs, values))
    # A half-width that is NaN is none.
    is_known = all(not one.half_width >= max(bound, 1e-12) for one in means)
    return is_known and (max(values) - min(values) < bound or max(values) == min(values))


def sentence(sample: Sample, metrics: Sequence[Metric]) -> str:
    """Return the sentence in the place of a figure of metrics in which all groups are practically equal."""
    return in_words([(one.title, one.unit, one.digits, means_of_groups(sample, one)) for one in metrics])


def in_words(quantities: Sequence[tuple[str, str, int, Sequence[Mean]]]) -> str:
    """Return `sentence` for quantities: of each its title, unit, decimals, and the means of the groups.

    Examples:
        >>> in_words([("Overall throughput", "Mbit/s", 1, [Mean(10.0, 0.01, 3), Mean(10.08, 0.01, 3)])])
        'Practically equal in all 2 groups, and so without a figure: overall throughput, 10.0 to 10.1 Mbit/s.'
    """
    words = []
    for title, unit, digits, means in quantities:
        values = [one.mean for one in means]
        places = decimals(digits, max(values, key=abs))
        ends = list(dict.fromkeys(number(end, places) for end in (min(values), max(values))))
        words.append(f"{lowered(title)}, {' to '.join(ends)} {unit}".rstrip())
    count = max(len(means) for *_, means in quantities)
    return f"Practically equal in all {count} groups, and so without a figure: {'; '.join(words)}."


def instead(sample: Sample, metrics: Sequence[Metric]) -> str:
    """Return the sentence in the place of a figure of metrics; empty if groups differ in one of them."""
    found = [means_of_groups(sample, one) for one in metrics]
    return sentence(sample, metrics) if found and all(map(are_equal, found)) else ""


def box(axes: Axes, x: float, y: float) -> None:
    """Draw the box within which groups are practically equal to one with these means."""
    low, high = (1 - EQUAL_SHARE, 1 / (1 - EQUAL_SHARE))
    width, height = ((high - low) * value for value in (x, y))
    axes.add_patch(Rectangle((low * x, low * y), width, height, facecolor=FAINT, lw=0, zorder=0.5, label=BAND))


def is_seen(drawing: Figure, mark_pt: float) -> bool:
    """Return whether a box of a figure is larger than the marks of this size, the best of which stands in it."""
    boxes = [patch.get_window_extent() for axes in drawing.axes for patch in axes.patches if patch.get_label() == BAND]
    return any(max(box.width, box.height) > mark_pt * drawing.dpi / 72 for box in boxes)


def band(axes: Axes, x: float) -> None:
    """Draw the band over a horizontal scale within which groups are practically equal to one with this mean."""
    axes.axvspan((1 - EQUAL_SHARE) * x, x / (1 - EQUAL_SHARE), facecolor=FAINT, lw=0, zorder=0.5, label=BAND)

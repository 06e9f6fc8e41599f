# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Throughput against delay, as the Pantheon of congestion control draws it: better is up and to the right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator

from perigee.groups.factors import Factor
from perigee.report.charts import equal
from perigee.report.charts.grid import grid, together
from perigee.report.charts.sample import Sample, texts
from perigee.report.charts.scales import at_least, with_direction
from perigee.report.style import COLUMN_IN, WHOLE, tint
from perigee.statistics.estimates import Array
from perigee.statistics.metrics import Metric

LEAST_FOR_AN_ELLIPSE = 3
"""Minimum number of flows of an ellipse."""

MARK_PT = 6.5
"""Size of the mark of a mean, points."""


def tradeoff(
    sample_: Sample, metrics: tuple[Metric, Metric], hue: Factor | None, columns: Factor | None, width_in: float
) -> Figure:
    """Draw one quantity against another: a mark per group at its mean, an ellipse of its spread, a dot per flow.

    Args:
        sample_: the flows.
        metrics: metric of the horizontal axis, which is reversed if less is better, and of the vertical one.
        hue: factor of the marks.
        columns: factor of the panels.
        width_in: width of the figure.
    """
    across, up = metrics
    parts = {
        column: sample_.of(sample_.part({columns: text}).drop_nulls([across.name, up.name]))
        for column, text in enumerate(texts(columns))
    }
    there = [(0, column) for column, part in parts.items() if not part.flows.is_empty()]
    scales = [
        together({place: float(np.median(parts[place[1]].flows[one.name].to_numpy())) for place in there}, one.unit)
        for one in metrics
    ]
    own_x, own_y = (len(several) > 1 for several in scales)
    wide = (2.2 if len(there) <= 3 else 1.75) if width_in > COLUMN_IN else 1.65
    laid = grid(
        width_in,
        1,
        [columns.said(text) if columns else "" for text in texts(columns)],
        there,
        labels=sample_.names(hue),
        height_in=3.0 if len(there) == 1 else 2.3 if len(there) <= 3 else 1.9,
        narrowest_in=wide,
        share_x=not own_x,
        own_y=[0] if own_y else [],
    )
    for (_, column), axes in laid.panels.items():
        draw(axes, parts[column], metrics, hue)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        if own_x and not own_y:
            tint(axes)
    for several in scales[0]:
        low, high = _limits([laid.panels[place].get_xlim() for place in several], across)
        for place in several:
            laid.panels[place].set_xlim((high, low) if across.higher_is_better is False else (low, high))
    for several in scales[1]:
        ends = _limits([laid.panels[place].get_ylim() for place in several], up)
        for place in several:
            laid.panels[place].set_ylim(ends)
    laid.label(
        with_direction(across.heading, across.higher_is_better, is_reversed=across.higher_is_better is False),
        [with_direction(up.heading, up.higher_is_better)],
    )
    laid.legend_of_lines()
    return laid.figure


def draw(axes: Axes, sample_: Sample, metrics: tuple[Metric, Metric], hue: Factor | None) -> None:
    """Draw into axes, see `tradeoff`; the axes' limits leave room for all."""
    across, up = metrics
    means = {}
    for text in sample_.in_order(hue):
        own = sample_.part({hue: text}).drop_nulls([across.name, up.name])
        if own.is_empty():
            continue
        style = sample_.look(text)
        x, y = (own[one.name].to_numpy().astype(np.float64) for one in metrics)
        means[text] = float(x.mean()), float(y.mean())
        if len(x) >= LEAST_FOR_AN_ELLIPSE and (oval := ellipse(x, y)):
            (width, height), angle = oval
            axes.add_patch(
                Ellipse(means[text], width, height, angle=angle, facecolor=style.color, alpha=0.18,
                        edgecolor=style.color, lw=0.8)
            )  # fmt: skip
        if len(x) > 1:
            axes.plot(x, y, ls="", marker=".", ms=2.2, color=style.color, alpha=0.6)
        axes.plot(
            *means[text], ls="", marker=style.marker, ms=MARK_PT, color=style.color, label=sample_.name(hue, text)
        )  # fmt: skip
    if len(means) > 1:
        equal.box(axes, *max(means.values(), key=lambda mean: -mean[1] if up.higher_is_better is False else mean[1]))
    axes.autoscale_view()
    axes.margins(0.1)


def _limits(drawn: Sequence[tuple[float, float]], metric: Metric) -> tuple[float, float]:
    """Return the limits of panels together: from zero if that leaves little empty; a share in percent ends at 100."""
    low, high = at_least(min(map(min, drawn)), max(map(max, drawn)))
    if metric.higher_is_better and low < 0.5 * high:
        low = 0.0
    return low, min(high, WHOLE) if metric.unit == "%" else high


def ellipse(x: Array, y: Array) -> tuple[tuple[float, float], float] | None:
    """Return the ellipse of one standard deviation around the mean: its two diameters, and its angle in degrees.

    It follows from the covariance of both; None if neither varies.

    Examples:
        >>> (width, height), angle = ellipse(np.array([0.0, 2.0, 0.0, 2.0]), np.array([0.0, 0.0, 0.0, 0.0]))
        >>> round(max(width, height), 3), round(min(width, height), 3)
        (2.309, 0.0)
    """
    covariance = np.cov(x, y)
    sizes, directions = np.linalg.eigh(covariance)
    sizes = np.sqrt(np.maximum(sizes, 0.0))
    if not sizes.max() > 1e-9 * max(float(np.abs(x).max()), float(np.abs(y).max())):
        return None
    longest = directions[:, 1]
    return (2 * float(sizes[1]), 2 * float(sizes[0])), float(np.degrees(np.arctan2(longest[1], longest[0])))

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Throughput against delay, as the Pantheon of congestion control draws it: better is up and to the right."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator

from perigee.groups.factors import Factor
from perigee.report.charts.grid import grid
from perigee.report.charts.sample import Sample, entries, texts
from perigee.report.style import COLUMN_IN
from perigee.statistics.estimates import Array
from perigee.statistics.metrics import Metric

LEAST_SPAN = 0.05
"""Share of its values that an axis spans at least: means that are practically equal do not stand in two corners."""

LEAST_FOR_AN_ELLIPSE = 3
"""Minimum number of flows of an ellipse."""


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
    wide = (2.2 if len(there) <= 3 else 1.75) if width_in > COLUMN_IN else 1.65
    laid = grid(
        width_in,
        1,
        [columns.said(text) if columns else "" for text in texts(columns)],
        there,
        labels=entries(hue),
        height_in=3.0 if len(there) == 1 else 2.3 if len(there) <= 3 else 1.9,
        narrowest_in=wide,
        share_x=False,
        share_y=False,
    )
    for (_, column), axes in laid.panels.items():
        draw(axes, parts[column], metrics, hue)
    laid.label(across.heading, [up.heading])
    laid.legend_of_lines()
    return laid.figure


def draw(axes: Axes, sample_: Sample, metrics: tuple[Metric, Metric], hue: Factor | None) -> None:
    """Draw into axes, see `tradeoff`."""
    across, up = metrics
    for text in texts(hue):
        own = sample_.part({hue: text}).drop_nulls([across.name, up.name])
        if own.is_empty():
            continue
        style = sample_.look(text)
        x, y = (own[one.name].to_numpy().astype(np.float64) for one in metrics)
        if len(x) >= LEAST_FOR_AN_ELLIPSE and (oval := ellipse(x, y)):
            (width, height), angle = oval
            axes.add_patch(
                Ellipse(
                    (float(x.mean()), float(y.mean())),
                    width,
                    height,
                    angle=angle,
                    facecolor=style.color,
                    alpha=0.18,
                    edgecolor=style.color,
                    lw=0.8,
                )
            )
        if len(x) > 1:
            axes.plot(x, y, ls="", marker=".", ms=2.2, color=style.color, alpha=0.6)
        entry = hue.in_legend(text) if hue else ""
        label = f" {entry}" if entry.startswith("_") else entry
        axes.plot(x.mean(), y.mean(), ls="", marker=style.marker, ms=6.5, color=style.color, label=label or None)
    axes.autoscale_view()
    axes.margins(0.1)
    axes.set_xlim(*at_least(*axes.get_xlim()))
    axes.set_ylim(*at_least(*axes.get_ylim()))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    _from_zero(axes, up)
    if across.higher_is_better is False:
        axes.invert_xaxis()


def at_least(low: float, high: float) -> tuple[float, float]:
    """Return the limits of an axis, apart by `LEAST_SPAN` of their middle at least.

    Examples:
        >>> at_least(10.0, 30.0), at_least(99.9, 100.1)
        ((10.0, 30.0), (97.5, 102.5))
    """
    middle = (low + high) / 2
    least = LEAST_SPAN * abs(middle)
    return (low, high) if high - low >= least else (middle - least / 2, middle + least / 2)


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


def _from_zero(axes: Axes, up: Metric) -> None:
    """Begin the vertical axis at zero if that leaves little of it empty."""
    low, high = axes.get_ylim()
    if up.higher_is_better is not None and low < 0.5 * high:
        axes.set_ylim(0, high)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Lines of means with confidence intervals over a factor, one per algorithm; panels for other factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perigee.groups.factors import Factor
from perigee.report.charts.ends import name_ends
from perigee.report.charts.grid import Place, grid, together
from perigee.report.charts.sample import Sample, by_levels, texts
from perigee.report.charts.scales import lay_out, places, values_axis, with_direction
from perigee.report.style import grow
from perigee.statistics.metrics import Metric, sample

FAR = 1.5
"""Intervals are cut off above this multiple of the largest mean."""


def lines(
    sample_: Sample,
    metrics: Sequence[Metric],
    x: Factor,
    hue: Factor | None,
    facets: tuple[Factor | None, Factor | None],
    width_in: float,
    *,
    joined: bool = True,
) -> Figure:
    """Draw means over a factor.

    Args:
        sample_: the flows.
        metrics: the quantities: a row of panels each, or, with `facets[1]`, the one.
        x: factor of the horizontal axis.
        hue: factor of the lines.
        facets: factors of the columns and of the rows.
        width_in: width of the figure.
        joined: whether a line joins the means of a level; otherwise each is a mark.
    """
    columns, rows = facets
    down: list[tuple[Metric, str]] = [(metric, text) for metric in metrics for text in texts(rows)]
    there: dict[Place, bool] = {}
    typical: dict[int, dict[Place, float]] = {row: {} for row in range(len(down))}
    for row, (metric, text) in enumerate(down):
        for column, above in enumerate(texts(columns)):
            part = sample_.part({columns: above, rows: text})
            seen = sample(part, metric.name)
            there[row, column] = len(seen) > 0
            typical[row] |= {(row, column): float(np.median(seen))} if len(seen) else {}
    scales = {row: together(medians, down[row][0].unit) for row, medians in typical.items()}
    laid = grid(
        width_in,
        len(down),
        [columns.said(text) if columns else "" for text in texts(columns)],
        [place for place, has in there.items() if has],
        labels=sample_.names(hue),
        own_y=[row for row, several in scales.items() if len(several) > 1],
    )
    slanted_in = 0.0
    for (row, column), axes in laid.panels.items():
        metric, text = down[row]
        own = sample_.of(sample_.part({columns: texts(columns)[column], rows: text}))
        draw(axes, own, metric, x, hue, joined=joined)
        slanted_in = lay_out(axes, x, 0.75 * width_in / laid.in_a_line)
    for row, (metric, _) in enumerate(down):
        panels = [[laid.panels[place] for place in several] for several in scales[row]]
        values_axis(panels, [[end for axes in several for end in _extent(axes)] for several in panels], metric.unit)
    labels = [
        f"{metric.heading}\n{rows.said(text)}" if rows else metric.heading for metric, text in down
    ]  # fmt: skip
    directed = [with_direction(text, metric.higher_is_better) for text, (metric, _) in zip(labels, down, strict=True)]
    laid.label(x.heading, directed)
    if x.is_number and joined and name_ends(laid, sample_.names(hue)):
        spared_in = laid.legend_in
    else:
        spared_in = 0.0
        laid.legend_of_lines()
    grow(laid.figure, slanted_in * laid.labelled_lines - spared_in)
    return laid.figure


def draw(axes: Axes, sample_: Sample, metric: Metric, x: Factor, hue: Factor | None, *, joined: bool = True) -> None:
    """Draw a line or marks per level of `hue`: means of a metric over `x`, with their confidence intervals."""
    at = dict(zip(texts(x), places(x), strict=True))
    levels, found = texts(hue), by_levels(sample_, metric, [hue, x])
    for text in sample_.in_order(hue):
        number = levels.index(text)
        known = [(where, found[text, level]) for level, where in at.items() if (text, level) in found]
        if not known:
            continue
        style = sample_.look(text)
        # Levels without numbers stand side by side, and so do their marks.
        shift = 0.0 if x.is_number else 0.6 * ((number + 0.5) / len(levels) - 0.5)
        where = np.array([place + shift for place, _ in known])
        mean = np.array([one.mean for _, one in known])
        half = np.array([one.half_width for _, one in known])
        dash = style.dash if x.is_number and joined else ""
        axes.plot(where, mean, color=style.color, ls=dash, marker=style.marker, label=sample_.name(hue, text))
        has = np.isfinite(half)
        if has.any():
            axes.errorbar(where[has], mean[has], half[has], color=style.color, ls="", capsize=2, elinewidth=0.8)


def _extent(axes: Axes) -> list[float]:
    """Return the least and largest of the means that are drawn, and the ends of intervals not far above these."""
    ends = ("_", "|")
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines if line.get_marker() not in ends]
    caps = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines if line.get_marker() in ends]
    values = np.concatenate(drawn) if drawn else np.empty(0)
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return []
    top = max([float(values.max()), *(float(cap.max()) for cap in caps)])
    return [float(values.min()), float(values.max()), min(top, FAR * float(values.max()))]

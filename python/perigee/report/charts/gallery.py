# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Overview of many algorithms: marks on scales side by side, and curves in rows of panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from perigee.groups.looks import Look, other
from perigee.report.charts.equal import band
from perigee.report.charts.scales import at_least, with_direction
from perigee.report.legends import broken, legend_of, rows_of_legend, size_of
from perigee.report.style import COLUMN_IN, FAINT, INK, figure
from perigee.statistics.metrics import largest

GREY = "#aab2bb"
LOST = "#c2410c"

WIDE_FROM_IN = 1.4 * COLUMN_IN
"""Minimum width at which all scales stand in one line, and names beside their panels, inches."""

LINE_IN = 0.17
"""Height of a line of text."""


@dataclass(frozen=True)
class Scale:
    """One scale of an overview.

    Attributes:
        heading: quantity and unit.
        values: by path and algorithm; NaN: no value.
        from_zero: whether it begins at zero.
        higher_is_better: None: neither is.
    """

    heading: str
    values: Mapping[tuple[str, str], float]
    from_zero: bool = True
    higher_is_better: bool | None = None


@dataclass(frozen=True)
class Strip:
    """The row of one algorithm.

    Attributes:
        label: its label.
        look: how it is drawn.
        series: `t_s`, the columns of the quantities, and `retransmitted_packets`.
    """

    label: str
    look: Look
    series: pl.DataFrame


@dataclass(frozen=True)
class Quantity:
    """One column of panels.

    Attributes:
        name: its column of the series.
        heading: quantity and unit.
        high: upper limit of its scale, which begins at zero.
    """

    name: str
    heading: str
    high: float


def overview(algorithms: Mapping[str, Look], paths: Sequence[str], scales: Sequence[Scale], width_in: float) -> Figure:
    """Draw a row per algorithm on several scales, a mark per path; colour is the algorithm, the mark's form the path.

    Args:
        algorithms: look of each by its label, from top to bottom.
        paths: names of the paths.
        scales: the scales, with values by these names.
        width_in: width of the figure.
    """
    names = list(algorithms)
    columns = len(scales) if width_in >= WIDE_FROM_IN else 2
    lines = -(-len(scales) // columns)
    row_in = 0.27 if lines == 1 else 0.2
    height = lines * (0.6 + row_in * len(names)) + LINE_IN * rows_of_legend(paths, width_in)
    drawing = figure(height + 0.2, width_in)
    panels = drawing.subplots(lines, columns, sharey=True, squeeze=False)
    places = np.arange(len(names), dtype=float)
    for axes, scale in zip(panels.flat, scales, strict=False):
        for number, path in enumerate(paths):
            shift = 0.5 * (number / max(len(paths) - 1, 1) - 0.5)
            for place, (name, style) in zip(places, algorithms.items(), strict=True):
                axes.plot(
                    scale.values[path, name], place + shift, ls="", marker=other(number).marker, color=style.color,
                    label=path,
                    clip_on=False, zorder=3,
                )  # fmt: skip
        label = with_direction(scale.heading, scale.higher_is_better)
        axes.set_xlabel(broken(label, 0.62 * width_in / columns, size_of("axes.labelsize")))
        axes.xaxis.set_major_locator(MaxNLocator(5 if lines == 1 else 4))
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        if scale.from_zero:
            axes.set_xlim(left=0)
        else:
            axes.set_xlim(*at_least(*axes.get_xlim()))
            band(axes, max(value for value in scale.values.values() if value == value))
        for line in np.arange(len(names) - 1) + 0.5:
            axes.axhline(line, color=FAINT, lw=0.6)
    for axes in panels.flat[len(scales) :]:
        axes.set_visible(False)
    panels[0, 0].set_yticks(places, names)
    panels[0, 0].set_ylim(len(names) - 0.5, -0.5)
    marks = [Line2D([], [], ls="", marker=other(number).marker, color=INK) for number in range(len(paths))]
    legend_of(drawing, marks, paths)
    return drawing


def strips(
    rows: Sequence[Strip], quantities: Sequence[Quantity], behind: pl.DataFrame | None, title: str, width_in: float
) -> Figure:
    """Draw a row of panels per algorithm over time; ticks under the first panel are intervals with retransmissions.

    Args:
        rows: the algorithms.
        quantities: the columns.
        behind: a series drawn in grey behind the others; None: no series.
        title: of the figure.
        width_in: width of the figure.
    """
    is_wide = width_in >= WIDE_FROM_IN
    letters = 7.0 if is_wide else 6.5
    drawing = figure(0.6 + (0.66 if is_wide else 0.62) * len(rows), width_in)
    panels = drawing.subplots(len(rows), len(quantities), sharex=True, sharey="col", squeeze=False)
    # Set limits before drawing: a curve in axes without limits makes matplotlib search all shared axes.
    panels[0, 0].set_xlim(0, max(largest(strip.series["t_s"]) for strip in rows))
    for axes, quantity in zip(panels[0], quantities, strict=True):
        axes.set_ylim(0, quantity.high)
    for line, strip in zip(panels, rows, strict=True):
        for axes, quantity in zip(line, quantities, strict=True):
            if behind is not None and strip.series is not behind:
                _curve(axes, behind, quantity, GREY, "-", 0.8)
            _curve(axes, strip.series, quantity, strip.look.color, strip.look.dash, 1.1)
            axes.tick_params(labelsize=letters, pad=2)
            _ticks(axes, quantity, 3 if is_wide else 2)
        resent = strip.series.filter(pl.col("retransmitted_packets") > 0)["t_s"].to_numpy()
        at = 0.03 * quantities[0].high
        line[0].plot(resent, np.full(len(resent), at), ls="", marker="|", ms=4, mew=0.8, color=LOST)
        if is_wide:
            line[0].set_ylabel(
                strip.label, rotation=0, ha="right", va="center", fontweight="bold", fontsize=8.5, labelpad=6
            )
        else:
            line[0].set_title(strip.label, fontsize=7, pad=2)
    for axes, quantity in zip(panels[0], quantities, strict=True):
        # The first algorithm's name is below the headings of a column.
        heading = quantity.heading if is_wide else broken(quantity.heading, width_in / 4, 7) + "\n "
        axes.set_title(
            heading, fontsize=8.5 if is_wide else 7, loc="left" if is_wide else "right", pad=6 if is_wide else 2
        )
    for axes in panels[-1]:
        axes.set_xlabel("Time (s)", fontsize=8 if is_wide else 7)
    drawing.suptitle(
        broken(title, 0.95 * width_in, 10, "bold"), fontsize=10 if is_wide else 8, fontweight="bold", x=0.01, ha="left"
    )
    return drawing


def _curve(axes: Axes, part: pl.DataFrame, quantity: Quantity, color: str, dash: object, width: float) -> None:
    values = part[quantity.name].cast(pl.Float64).to_numpy()
    axes.plot(part["t_s"].to_numpy(), values, color=color, ls=dash, lw=width)


def _ticks(axes: Axes, quantity: Quantity, most: int) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(most))
    if quantity.high >= 2000:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}k" if value else "0"))

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Overview of many algorithms: marks on scales side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from perigee.groups.looks import Look, other
from perigee.report.charts.equal import band
from perigee.report.charts.scales import at_least, with_direction
from perigee.report.legends import broken, legend_of, rows_of_legend, size_of
from perigee.report.style import COLUMN_IN, FAINT, INK, figure

GREY = "#aab2bb"

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
        ends: its limits; None: from the values.
        line: position of a dashed line; None: no line.
        higher_is_better: None: neither is.
    """

    heading: str
    values: Mapping[tuple[str, str], float]
    from_zero: bool = True
    ends: tuple[float, float] | None = None
    line: float | None = None
    higher_is_better: bool | None = None


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
        if scale.ends:
            axes.set_xlim(*scale.ends)
        elif scale.from_zero:
            axes.set_xlim(left=0)
        else:
            axes.set_xlim(*at_least(*axes.get_xlim()))
            band(axes, max(value for value in scale.values.values() if value == value))
        if scale.line is not None:
            axes.axvline(scale.line, color=GREY, lw=0.8, ls=(0, (3, 2)))
        for line in np.arange(len(names) - 1) + 0.5:
            axes.axhline(line, color=FAINT, lw=0.6)
    for axes in panels.flat[len(scales) :]:
        axes.set_visible(False)
    panels[0, 0].set_yticks(places, names)
    panels[0, 0].set_ylim(len(names) - 0.5, -0.5)
    marks = [Line2D([], [], ls="", marker=other(number).marker, color=INK) for number in range(len(paths))]
    legend_of(drawing, marks, paths)
    return drawing

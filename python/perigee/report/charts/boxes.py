# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Distribution over the flows of a group: box plots, or points for few flows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from perigee.groups.looks import Look
from perigee.report.charts.few import greyed
from perigee.report.charts.grid import grid
from perigee.report.style import INK, from_zero
from perigee.statistics.estimates import Array, Box, box

FEW = 10
"""Minimum number of flows of a box plot; fewer are drawn as points."""


@dataclass(frozen=True)
class Column:
    """The flows of one group.

    Attributes:
        label: in the legend; empty: it has no entry.
        look: how it is drawn.
        values: of each quantity, those of the flows; shape (n,) each, n may be 0.
    """

    label: str
    look: Look
    values: Sequence[Array]


@dataclass(frozen=True)
class BoxPanel:
    """A panel of columns beside each other, in the order given, at each quantity."""

    title: str
    columns: Sequence[Column]


def boxes_figure(
    panels: Sequence[BoxPanel], ticks: Sequence[str], x: str, y: str, width_in: float, *, unit: str = ""
) -> Figure:
    """Draw boxes or points of groups.

    Args:
        panels: the panels.
        ticks: names of the quantities.
        x: label of the horizontal axes.
        y: label of the vertical axes.
        width_in: width of the figure.
        unit: unit of the values.
    """
    several = len(panels) > 1
    labels = list(dict.fromkeys(column.label for panel in panels for column in panel.columns if column.label))
    laid = grid(
        width_in, 1, [panel.title for panel in panels], [(0, place) for place in range(len(panels))], labels=labels,
        height_in=1.9 if several else 2.5, narrowest_in=2.2 if width_in > 4 else 3.2,
    )  # fmt: skip
    handles: dict[str, Artist] = {}
    for (_, place), axes in laid.panels.items():
        for column in panels[place].columns:
            if column.label:
                handles.setdefault(column.label, _handle(column))
        draw(axes, panels[place].columns)
        axes.set_xticks(range(len(ticks)), _short(ticks) if several or width_in < 4 else list(ticks))
        axes.grid(visible=False, axis="x")
    everything = list(laid.panels.values())
    # A box of equal values is a line, which the edge of the axes would clip.
    everything[0].set_ylim(top=1.03 * everything[0].get_ylim()[1])
    from_zero(everything, unit)
    laid.label(x, [y])
    laid.legend(list(handles.values()), list(handles))
    return laid.figure


def with_few(panels: Sequence[BoxPanel], kept: Collection[str] = ()) -> tuple[list[BoxPanel], str]:
    """Return panels with few groups to tell apart, see `greyed`."""

    def typical(column: Column) -> float:
        return float(column.values[-1].mean()) if len(column.values[-1]) else float("nan")

    few, grey = greyed([panel.columns for panel in panels], typical, kept)
    return [replace(panel, columns=columns) for panel, columns in zip(panels, few, strict=True)], grey


def draw(axes: Axes, columns: Sequence[Column]) -> None:
    """Draw the columns of a panel into axes, those of each quantity at 0, 1, 2, ..."""
    width = 0.8 / max(1, len(columns))
    for number, column in enumerate(columns):
        for place, seen in enumerate(column.values):
            at = place + (number - (len(columns) - 1) / 2) * width
            if len(seen) >= FEW:
                _draw_box(axes, box(seen), at, width * 0.8, column.look)
            elif len(seen):
                _draw_points(axes, seen, at, width * 0.8, column.look)


def _draw_points(axes: Axes, seen: Array, at: float, width: float, look: Look) -> None:
    axes.plot(np.full(len(seen), at), seen, ls="", marker=look.marker, color=look.color, alpha=0.85, ms=4)
    if len(seen) == 1:
        return
    mean = float(seen.mean())
    axes.hlines(mean, at - width / 2, at + width / 2, color=look.color, lw=1.4)


def _draw_box(axes: Axes, numbers: Box, at: float, width: float, look: Look) -> None:
    stats = {
        "whislo": numbers.low, "q1": numbers.q1, "med": numbers.median, "q3": numbers.q3,
        "whishi": numbers.high, "fliers": numbers.outliers,
    }  # fmt: skip
    axes.bxp(
        [stats],
        positions=[at],
        widths=width,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": look.color, "edgecolor": INK, "alpha": 0.75, "hatch": look.hatch, "lw": 0.7},
        medianprops={"color": INK, "lw": 1.6},
        whiskerprops={"color": INK, "lw": 0.8},
        capprops={"color": INK, "lw": 0.8},
        flierprops={"marker": "o", "ms": 2.5, "mfc": "none", "mec": look.color, "mew": 0.7},
    )


def _handle(column: Column) -> Artist:
    if max(len(seen) for seen in column.values) >= FEW:
        return Patch(facecolor=column.look.color, edgecolor=INK, alpha=0.75, hatch=column.look.hatch)
    return Line2D([], [], ls="-", marker=column.look.marker, color=column.look.color)


def _short(ticks: Sequence[str]) -> list[str]:
    return [tick.removesuffix(" percentile") for tick in ticks]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One figure of a choice: a quantity of flows over what varies, a line per colour, a panel per facet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from perigee.errors import InputError
from perigee.report.legends import legend_of
from perigee.report.style import figure, look, plain_numbers
from perigee.statistics.estimates import mean_interval
from perigee.statistics.metrics import sample_of

PANELS_IN_A_ROW = 3
PANEL_HEIGHT_IN = 2.2
DECADES_FROM = 20.0
"""Numbers that span this factor are on a logarithmic scale."""


@dataclass(frozen=True)
class Choice:
    """What a figure shows.

    Attributes:
        x: the column along the horizontal axis.
        y: the column of the quantity.
        hue: the column that has a line per value; none: one line.
        facet: the column that has a panel per value; none: one panel.
    """

    x: str
    y: str
    hue: str | None = None
    facet: str | None = None


def plot_flows(flows: pl.DataFrame, chosen: Choice, headings: Mapping[str, str]) -> Figure:
    """Draw the mean of a quantity with its 95 % confidence interval over what varies.

    Args:
        flows: a row per flow, with the columns that are chosen.
        chosen: what to show. Numbers are at their places along the horizontal axis, logarithmic where they span
            decades; text is side by side.
        headings: of columns, with their units, for the axes; a column without one has its name.

    Raises:
        InputError: a column is not there, or `y` is text.
    """
    for column in (chosen.x, chosen.y, chosen.hue, chosen.facet):
        if column is not None and column not in flows.columns:
            raise InputError(f"there is no column `{column}`; the columns are: {', '.join(flows.columns)}")
    if not flows.schema[chosen.y].is_numeric():
        raise InputError(f"y = {chosen.y}: is text; give a column of numbers")
    known = flows.filter(pl.col(chosen.y).is_not_null() & pl.col(chosen.x).is_not_null())
    if known.is_empty():
        raise InputError(f"no flow has both `{chosen.x}` and `{chosen.y}`; give other columns")
    panels = _values(known, chosen.facet)
    hues = _values(known, chosen.hue)
    across = min(len(panels), PANELS_IN_A_ROW)
    down = -(-len(panels) // across)
    drawing = figure(PANEL_HEIGHT_IN * down + 0.9)
    grid = drawing.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.remove()
            continue
        part = known if chosen.facet is None else known.filter(pl.col(chosen.facet) == panels[place])
        _draw(axes, part, chosen, _values(known, chosen.x), hues)
        if chosen.facet is not None:
            axes.set_title(f"{headings.get(chosen.facet, chosen.facet)}: {_text(panels[place])}")
        if place + across >= len(panels):
            axes.set_xlabel(headings.get(chosen.x, chosen.x))
            axes.tick_params(labelbottom=True)
        if place % across == 0:
            axes.set_ylabel(headings.get(chosen.y, chosen.y))
    if float(sample_of(known[chosen.y]).min()) >= 0:
        # All panels have one scale; it is set once all are drawn.
        drawing.axes[0].set_ylim(bottom=0)
    handles = {label: handle for axes in drawing.axes for handle, label in zip(*_legend(axes), strict=True)}
    legend_of(drawing, list(handles.values()), list(handles))
    return drawing


def _draw(axes: Axes, part: pl.DataFrame, chosen: Choice, levels: Sequence[Any], hues: Sequence[Any]) -> None:
    is_number = part.schema[chosen.x].is_numeric()
    at = {level: float(level) if is_number else float(place) for place, level in enumerate(levels)}
    for place, hue in enumerate(hues):
        own = part if chosen.hue is None else part.filter(pl.col(chosen.hue) == hue)
        rows = []
        for level in levels:
            seen = sample_of(own.filter(pl.col(chosen.x) == level)[chosen.y])
            if len(seen):
                rows.append((at[level], *mean_interval(seen)))
        if not rows:
            continue
        where, mean, half = np.array(rows).T
        if not is_number and len(hues) > 1:
            where = where + 0.5 * ((place + 0.5) / len(hues) - 0.5)
        style = look(place)
        axes.errorbar(
            where, mean, np.nan_to_num(half), color=style.color, ls=style.dash if is_number else "",
            marker=style.marker, capsize=2, elinewidth=0.8, label=None if chosen.hue is None else f" {_text(hue)}",
        )  # fmt: skip
    if is_number:
        _number_axis(axes, [float(level) for level in levels])
    else:
        axes.set_xticks(range(len(levels)), [_text(level) for level in levels])
        axes.set_xlim(-0.5, len(levels) - 0.5)


def _number_axis(axes: Axes, levels: Sequence[float]) -> None:
    """Lay the horizontal axis out for numbers, with a tick at each of few."""
    finite = sorted(level for level in levels if np.isfinite(level))
    positive = [level for level in finite if level > 0]
    if finite and finite[0] >= 0 and positive and positive[-1] >= DECADES_FROM * positive[0]:
        if len(positive) == len(finite):
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=positive[0], linscale=0.6)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    if len(finite) <= 8:
        axes.set_xticks(finite)
        plain_numbers(axes.xaxis)


def _values(flows: pl.DataFrame, column: str | None) -> list[Any]:
    """Return the values of a column, numbers in rising order, text in order of appearance; of none: none once."""
    if column is None:
        return [None]
    found = flows[column].drop_nulls().unique(maintain_order=True)
    return (found.sort() if flows.schema[column].is_numeric() else found).to_list()


def _legend(axes: Axes) -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    return handles, labels


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

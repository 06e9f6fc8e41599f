# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Curves over time or a size in panels: lines with bands of confidence, points, strokes, and areas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from perigee.groups.looks import Look
from perigee.report.charts.grid import grid
from perigee.report.style import FAINT, INK, from_zero, plain_numbers

DENSE, DENSE_STROKES = 4000, 500
"""Numbers of points and of strokes above which they are drawn as pixels, to keep the page small."""

SMALL = 7.0
"""Letters of the numbers of low panels, points."""

MARKS = 10
"""Marks of a line that has some."""

PLAIN = Look(INK, "-", "", "")
"""How curves are drawn that are of no algorithm."""


@dataclass(frozen=True)
class Curve:
    """A quantity over time.

    Attributes:
        label: its entry in the legend; empty: none.
        look: how it is drawn.
        t: times, or sizes.
        y: values.
        band: lower and upper edge of a band around them; None: no band.
        form: a line, also with a few marks, points, strokes from zero, a grey area below steps that end at the times,
            or one in the colour of the look.
        width: of the line, points.
    """

    label: str
    look: Look
    t: npt.ArrayLike
    y: npt.ArrayLike
    band: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    form: Literal["line", "marked", "points", "strokes", "area", "filled"] = "line"
    width: float = 1.1


@dataclass(frozen=True)
class TimePanel:
    """Rows that stand above each other at one time axis.

    Attributes:
        title: what it is of.
        rows: the curves of each row.
    """

    title: str
    rows: Sequence[Sequence[Curve]]


def over_time(
    panels: Sequence[TimePanel], headings: Sequence[str], x: str, width_in: float, *, below: bool = False,
    left: float = 0.0, narrowest_in: float = 2.8, height_in: float | None = None,
    tops: Sequence[Sequence[float]] = (), counts: Collection[int] = (), named: bool = False,
) -> Figure:  # fmt: skip
    """Draw panels side by side, a row per quantity; or below each other, a row per panel.

    Args:
        panels: the panels.
        headings: quantity and unit of each row.
        x: label of the horizontal axis.
        width_in: width of the figure.
        below: whether panels stand below each other; they have one row each then.
        left: where the horizontal axis begins.
        narrowest_in: width of the narrowest panel, inches.
        height_in: height of a row, inches; None: what suits.
        tops: of each row, the end of the scale of each panel; those of a row that differ are shaded. Empty: what suits.
        counts: rows of counts, whose scale is logarithmic from 10 on.
        named: whether `headings` are names of what a row shows, and the panels of a column have one scale.
    """
    titles = [""] if below else [one.title for one in panels]
    places = {(at, 0) if below else (row, at): curves for at, one in enumerate(panels)
              for row, curves in enumerate(one.rows) if curves}  # fmt: skip
    labels = list(dict.fromkeys(curve.label for curves in places.values() for curve in curves if curve.label))
    laid = grid(
        width_in, len(panels) if below else len(headings), titles, list(places), labels=labels,
        height_in=height_in or (2.4 if len(places) == 1 else 1.6), narrowest_in=narrowest_in, is_stacked=True,
        share_y=not (below or named),
        own_y=[row for row, ends in enumerate(tops) if len(set(ends)) > 1 and not named],
    )  # fmt: skip
    for (row, column), axes in laid.panels.items():
        for one in places[row, column]:
            _draw(axes, one)
        if all(one.form == "strokes" for one in places[row, column]):
            axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        if row in counts:
            axes.set_yscale("symlog", linthresh=10)
            plain_numbers(axes.yaxis)
        axes.margins(x=0)
    for axes in laid.panels.values():
        # After all have been drawn: an end that is set no longer grows.
        axes.set_xlim(left=left)
    from_zero(list(laid.panels.values()))
    for row, column in laid.panels if tops else ():
        laid.panels[row, column].set_ylim(top=tops[row][column])
    said = [""] * len(headings) if named else list(headings)
    laid.label(x, [f"{one.title}: {headings[0]}" for one in panels] if below else said)
    for row, column in laid.panels if named else ():
        axes = laid.panels[row, column]
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.tick_params(labelsize=SMALL, pad=2)
        if column == 0:
            axes.set_ylabel(headings[row], rotation=0, ha="right", va="center", fontweight="bold", labelpad=6)
    laid.legend_of_lines()
    laid.figure.align_ylabels()
    return laid.figure


def _draw(axes: Axes, one: Curve) -> None:
    t, y = (np.asarray(values, dtype=np.float64) for values in (one.t, one.y))
    # Labels that begin so have no entry.
    label = f" {one.label}" if one.label.startswith("_") else one.label or None
    color, is_dense = one.look.color, len(t) > DENSE
    if one.form == "strokes":
        axes.vlines(t, 0, y, color=color, lw=0.7, rasterized=len(t) > DENSE_STROKES)
    elif one.form in ("area", "filled"):
        ground = color if one.form == "filled" else FAINT
        axes.fill_between(t, y, step="pre", color=ground, lw=0, label=label, rasterized=is_dense)
    elif one.form == "points":
        axes.plot(t, y, ls="", marker=one.look.marker or ".", ms=3, color=color, label=label,
                  rasterized=len(t) > DENSE_STROKES)  # fmt: skip
    else:
        axes.plot(
            t, y, color=color, ls=one.look.dash, lw=one.width, label=label, rasterized=is_dense,
            marker=one.look.marker if one.form == "marked" else "", markevery=max(1, len(t) // MARKS),
        )  # fmt: skip
    if one.band is not None:
        low, high = (np.asarray(edge, dtype=np.float64) for edge in one.band)
        axes.fill_between(t, low, high, color=color, alpha=0.2, lw=0, rasterized=True)

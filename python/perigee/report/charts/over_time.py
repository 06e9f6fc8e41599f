# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Curves over time in panels: lines with bands of confidence, points, and strokes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from perigee.groups.looks import Look
from perigee.report.charts.grid import grid
from perigee.report.style import FAINT, from_zero, plain_numbers

DENSE, DENSE_STROKES = 4000, 500
"""Numbers of points and of strokes above which they are drawn as pixels, to keep the page small."""


@dataclass(frozen=True)
class Curve:
    """A quantity over time.

    Attributes:
        label: its entry in the legend; empty: none.
        look: how it is drawn.
        t: times.
        y: values.
        band: least and largest values of a band around them; None: no band.
        form: a line, points, strokes from zero, or a grey area below steps that end at the times.
        width: of the line, points.
    """

    label: str
    look: Look
    t: npt.ArrayLike
    y: npt.ArrayLike
    band: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    form: Literal["line", "points", "strokes", "area"] = "line"
    width: float = 1.0


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
    panels: Sequence[TimePanel], headings: Sequence[str], time: str, width_in: float, *, below: bool = False,
    left: float = 0.0, narrowest_in: float = 2.8, height_in: float | None = None, decades: Collection[int] = (),
) -> Figure:  # fmt: skip
    """Draw panels side by side, a row per quantity; or below each other, a row per panel.

    Args:
        panels: the panels.
        headings: quantity and unit of each row.
        time: label of the time axis.
        width_in: width of the figure.
        below: whether panels stand below each other; they have one row each then.
        left: where the time axis begins.
        narrowest_in: width of the narrowest panel, inches.
        height_in: of a panel, inches; None: what suits their number.
        decades: rows whose values span decades.
    """
    titles = [""] if below else [one.title for one in panels]
    places = {(at, 0) if below else (row, at): curves for at, one in enumerate(panels)
              for row, curves in enumerate(one.rows)}  # fmt: skip
    labels = list(dict.fromkeys(curve.label for curves in places.values() for curve in curves if curve.label))
    rows = len(panels) if below else len(headings)
    height_in = height_in or (2.4 if len(places) == 1 else 1.6)
    laid = grid(
        width_in, rows, titles, list(places), labels=labels, height_in=height_in, narrowest_in=narrowest_in,
        is_stacked=True, share_y=not below,
    )  # fmt: skip
    for place, axes in laid.panels.items():
        for one in places[place]:
            t, y = (np.asarray(values, dtype=np.float64) for values in (one.t, one.y))
            # Labels that begin so have no entry.
            label = f" {one.label}" if one.label.startswith("_") else one.label or None
            color = one.look.color
            if one.form == "strokes":
                axes.vlines(t, 0, y, color=color, lw=0.7, rasterized=len(t) > DENSE_STROKES)
            elif one.form == "area":
                axes.fill_between(t, y, step="pre", color=FAINT, lw=0, label=label, rasterized=len(t) > DENSE)
            elif one.form == "points":
                axes.plot(t, y, ls="", marker=one.look.marker or ".", ms=3, color=color, label=label,
                          rasterized=len(t) > DENSE_STROKES)  # fmt: skip
            else:
                axes.plot(t, y, color=color, ls=one.look.dash, lw=one.width, label=label, rasterized=len(t) > DENSE)
            if one.band is not None:
                low, high = (np.asarray(end, dtype=np.float64) for end in one.band)
                axes.fill_between(t, low, high, color=color, alpha=0.2, lw=0, rasterized=True, label=f"_{one.label}")
        if not below and any(one.form == "strokes" for one in places[place]):
            axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        if not below and place[0] in decades:
            axes.set_yscale("symlog", linthresh=10)
            plain_numbers(axes.yaxis)
        axes.margins(x=0)
        axes.set_xlim(left=left)
    from_zero(list(laid.panels.values()))
    laid.label(time, [f"{one.title}: {headings[0]}" for one in panels] if below else headings)
    laid.legend_of_lines()
    laid.figure.align_ylabels()
    return laid.figure

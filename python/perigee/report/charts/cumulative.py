# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cumulative distributions: a step per value, a curve per group, panels for what else varies."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perigee.groups.looks import Look
from perigee.report.charts.equal import are_equal, in_words
from perigee.report.charts.few import UNMARKED, greyed
from perigee.report.charts.grid import Place, grid, together
from perigee.report.charts.sample import Mean
from perigee.report.charts.scales import at_least
from perigee.report.style import tint
from perigee.statistics.estimates import Array

QUARTERS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Shares at which curves are compared."""

MOST_ROWS = 2000
"""Maximum points of a curve in data files; a longer one is thinned evenly in its share, a tail evenly in the logarithm
of the share above."""


@dataclass(frozen=True)
class Curve:
    """A cumulative distribution.

    Attributes:
        label: what it is called in the legend; empty: it has no entry.
        look: how it is drawn.
        values: in rising order.
        share: at or below each value, in 0..1.
    """

    label: str
    look: Look
    values: Array
    share: Array

    def at(self, share: float) -> float:
        """Return the quantile of this share."""
        return float(self.values[min(int(np.searchsorted(self.share, share - 1e-9)), len(self.values) - 1)])


@dataclass(frozen=True)
class CurvePanel:
    """A panel of curves.

    Attributes:
        title: of the column.
        row: of the row; empty where there is one row.
        curves: its curves.
    """

    title: str
    row: str
    curves: Sequence[Curve]


def with_few(panels: Sequence[CurvePanel], kept: Collection[str] = ()) -> tuple[list[CurvePanel], str]:
    """Return panels with few curves to tell apart, see `greyed`; grey ones are below the others."""
    few, grey = greyed([panel.curves for panel in panels], lambda one: one.at(0.5), kept)
    behind = [sorted(curves, key=lambda one: one.look is not UNMARKED) for curves in few]
    return [replace(panel, curves=curves) for panel, curves in zip(panels, behind, strict=True)], grey


def said_if_equal(panels: Sequence[CurvePanel], quantity: str, unit: str, digits: int = 0) -> str:
    """Return a sentence in the place of curves that all are practically equal, see `QUARTERS`; empty if one is not."""
    curves = [curve for panel in panels for curve in panel.curves]
    means = [[Mean(curve.at(share), math.nan, 1) for curve in curves] for share in QUARTERS]
    if len(curves) < 2 or not all(map(are_equal, means)):
        return ""
    return in_words([(f"{quantity}, median", unit, digits, means[len(QUARTERS) // 2])])


def cumulative_figure(
    panels: Sequence[CurvePanel], label: str, of: str, upper_share: float, width_in: float, *, begins_at_zero: bool
) -> Figure:
    """Draw cumulative distributions.

    Args:
        panels: with curves.
        label: of the horizontal axis.
        of: the things whose share is drawn.
        upper_share: the horizontal axes end where the curves reach this share.
        width_in: width of the figure.
        begins_at_zero: whether the values are shares in percent, whose axes begin at zero.
    """
    there = [panel for panel in panels if panel.curves]
    titles = list(dict.fromkeys(panel.title for panel in there))
    rows = list(dict.fromkeys(panel.row for panel in there))
    by_place = {(rows.index(panel.row), titles.index(panel.title)): panel for panel in there}
    labels = list(dict.fromkeys(curve.label for panel in there for curve in panel.curves))
    scales = _together(by_place, "%" if begins_at_zero else "")
    laid = grid(
        width_in, len(rows), titles, by_place, labels=[label for label in labels if label],
        height_in=2.4 if len(by_place) <= 3 else 1.8,
        narrowest_in=(2.2 if len(by_place) <= 3 else 1.7) if width_in > 4 else 1.6, share_x=len(scales) == 1,
    )  # fmt: skip
    for place, axes in laid.panels.items():
        beside = next(several for several in scales if place in several)
        every = [curve for one in beside for curve in by_place[one].curves]
        draw(axes, by_place[place].curves, upper_share, begins_at_zero=begins_at_zero, beside=every)
        if len(scales) > 1:
            tint(axes)
    laid.label(label, [(f"{row}:\n" if row else "") + f"Share of {of}" for row in rows])
    laid.legend_of_lines()
    return laid.figure


def draw(
    axes: Axes,
    curves: Sequence[Curve],
    upper_share: float,
    *,
    begins_at_zero: bool,
    beside: Sequence[Curve] | None = None,
) -> None:
    """Draw cumulative distributions into axes, whose scale leaves room for those `beside` them, too."""
    scaled = curves if beside is None else beside
    right = max(curve.at(upper_share) for curve in scaled)
    least = 0.0 if begins_at_zero else min(float(curve.values[0]) for curve in scaled)
    least, right = (least, right) if begins_at_zero else at_least(least, right)
    end = right * 1.02 if right else 1.0
    for curve in curves:
        low = 0.0 if begins_at_zero else curve.values[0]
        label = f" {curve.label}" if curve.label.startswith("_") else curve.label
        # Extend curves to the end of the axes; a curve of zeros would coincide with their edge otherwise.
        beyond = [max(end, float(curve.values[-1]))]
        axes.step(
            np.concatenate([[low], curve.values, beyond]), np.concatenate([[0], curve.share, curve.share[-1:]]),
            where="post", color=curve.look.color, ls=curve.look.dash, label=label or None,
        )  # fmt: skip
    axes.set_ylim(0, 1.03)
    axes.set_xlim(least - max(0.02 * (end - least), 1e-8), end)


def _together(panels: Mapping[Place, CurvePanel], unit: str = "") -> list[list[Place]]:
    """Return the panels that have one horizontal scale."""
    return together({place: max(curve.at(0.5) for curve in one.curves) for place, one in panels.items()}, unit)


def tail_figure(panels: Sequence[CurvePanel], label: str, of: str, width_in: float) -> Figure:
    """Draw the share above each value on a logarithmic axis, down to that of a single one.

    Args:
        panels: with curves.
        label: of the horizontal axis.
        of: the things whose share is drawn.
        width_in: width of the figure.
    """
    there = {(0, number): panel for number, panel in enumerate(panels) if panel.curves}
    labels = list(dict.fromkeys(curve.label for panel in there.values() for curve in panel.curves))
    is_own = len(_together(there)) > 1
    laid = grid(
        width_in, 1, [panel.title for panel in panels], there, labels=labels, height_in=2.4,
        narrowest_in=2.2 if width_in > 4 else 1.6, share_x=not is_own,
    )  # fmt: skip
    for place, axes in laid.panels.items():
        if is_own:
            tint(axes)
        for curve in there[place].curves:
            values, above = tail(curve)
            look = curve.look
            axes.step(values, above, where="post", color=look.color, ls=look.dash, label=curve.label or None)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axes.set_ylim(top=1.2)
    laid.label(label, [f"Share of {of} above"])
    laid.legend_of_lines()
    return laid.figure


def tail(curve: Curve) -> tuple[Array, Array]:
    """Return values of a curve and the share above each, without the largest value, above which there is none."""
    count = len(curve.values)
    if count < 2:
        return curve.values[:0], curve.share[:0]
    kept = count - 1 - np.unique(np.geomspace(1, count - 1, min(MOST_ROWS, count)).astype(int))[::-1]
    return curve.values[kept], 1 - curve.share[kept]


def tail_data(panels: Sequence[CurvePanel], quantity: str) -> pl.DataFrame:
    """Return the tails in numbers: `panel, curve`, the quantity, and `share_above`."""
    rows = []
    for panel in panels:
        for curve in panel.curves:
            values, above = tail(curve)
            rows.append(
                pl.DataFrame({"panel": panel.title, "curve": curve.label, quantity: values, "share_above": above})
            )
    return pl.concat(rows) if rows else pl.DataFrame()


def data_of(panels: Sequence[CurvePanel], quantity: str) -> pl.DataFrame:
    """Return the curves in numbers: `panel, row, curve`, the quantity, and `share`."""
    rows = []
    for panel in panels:
        for curve in panel.curves:
            step = max(1, len(curve.values) // MOST_ROWS)
            kept = np.unique(np.concatenate([np.arange(0, len(curve.values), step), [len(curve.values) - 1]]))
            rows.append(
                pl.DataFrame(
                    {"panel": panel.title, "row": panel.row, "curve": curve.label, quantity: curve.values[kept],
                     "share": curve.share[kept]}
                )
            )  # fmt: skip
    return pl.concat(rows) if rows else pl.DataFrame()

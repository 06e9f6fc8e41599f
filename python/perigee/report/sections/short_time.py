# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Short-time goodput: payload per second, over a sliding window of ten seconds in steps of one (Caini 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl
from matplotlib.figure import Figure

from perigee.groups.panels import Panel
from perigee.numbers import number
from perigee.report.charts.grid import row
from perigee.report.context import Context
from perigee.report.model import Plot, Section
from perigee.report.sections.representative import DENSE
from perigee.report.style import from_zero
from perigee.statistics.estimates import Array
from perigee.statistics.metrics import SHORT_TIME_S, short_time

MOST_PANELS = 6


def section(context: Context) -> Section | None:
    """Return the short-time goodput of the typical flow of each group over time."""
    if not context.results.has("series"):
        return None
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    curves = {
        group.number: short_time(context.series(*context.typical[group.number]))
        for panel in kept
        for group in panel.groups
    }
    kept = [panel for panel in kept if any(len(curves[group.number][0]) for group in panel.groups)]
    if not kept:
        return None
    drawn = [group for panel in kept for group in panel.groups if len(curves[group.number][0])]
    words = []
    for group in drawn:
        goodput = curves[group.number][1]
        words.append(f"{group.label}: {number(float(goodput.min()), 2)} to {number(float(goodput.max()), 2)} Mbit/s")
    caption = (
        f"Payload that the receiver had got, in order or not, in the {SHORT_TIME_S:g} s before each instant. At the "
        f"sender's side it counts when its acknowledgement, selective or not, comes. {left_out}"
    )
    data = pl.concat(
        [
            pl.DataFrame({"group": group.name, "t_s": curves[group.number][0], "goodput_mbps": curves[group.number][1]})
            for group in drawn
        ]
    )
    plot = Plot.of("short-time", caption.strip(), "; ".join(words), partial(_figure, kept, curves), data=data)
    return Section("short-time", "Short-time goodput", [plot])


def _figure(kept: Sequence[Panel], curves: Mapping[int, tuple[Array, Array]], width_in: float) -> Figure:
    laid = row(width_in, kept, 2.4 if len(kept) == 1 else 1.8)
    for (_, column), axes in laid.panels.items():
        for group, text in kept[column].labelled():
            t, goodput = curves[group.number]
            axes.plot(
                t, goodput, color=group.look.color, ls=group.look.dash, label=text or None, rasterized=len(t) > DENSE
            )
        axes.set_xlim(left=0)
    from_zero(list(laid.panels.values()))
    laid.label("Time since the flow began (s)", ["Short-time goodput (Mbit/s)"])
    laid.legend_of_lines()
    return laid.figure

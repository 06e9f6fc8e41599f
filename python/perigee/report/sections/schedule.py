# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""When each flow begins and ends."""

from __future__ import annotations

from functools import partial

import polars as pl
from matplotlib.figure import Figure

from perigee.numbers import number
from perigee.report.charts.grid import grid
from perigee.report.context import Context
from perigee.report.model import Plot, Section
from perigee.report.style import INK

NAME = "schedule"
BAR_IN = 0.2
"""Height of a flow's bar with its space, inches."""


def section(context: Context) -> Section | None:
    """Return a figure of when each flow begins and ends; None for results without flows."""
    flows = context.rows.filter(pl.col("start_s").is_not_null() & pl.col("duration_s").is_not_null())
    if flows.is_empty():
        return None
    flows = flows.with_columns(end_s=pl.col("start_s") + pl.col("duration_s"))
    spans = flows.group_by("flow", maintain_order=True).agg(pl.col("start_s").min(), pl.col("end_s").max())
    caption = "When each flow begins and ends: over all runs, the earliest begin and the latest end."
    alt = "; ".join(f"{flow}: {number(start)} to {number(end)} s" for flow, start, end in spans.iter_rows())
    return Section(NAME, "Begin and end", [Plot.of(NAME, caption, alt, partial(_figure, spans), data=spans)])


def _figure(spans: pl.DataFrame, width_in: float) -> Figure:
    laid = grid(width_in, 1, [""], [(0, 0)], height_in=0.4 + BAR_IN * spans.height)
    axes = laid.panels[0, 0]
    places = range(spans.height)
    axes.barh(places, spans["end_s"] - spans["start_s"], left=spans["start_s"], height=0.6, color=INK, alpha=0.6)
    axes.set_yticks(places, spans["flow"].to_list())
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    laid.label("Time since the run began (s)", [""])
    return laid.figure

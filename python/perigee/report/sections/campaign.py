# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Campaigns: transfers repeated over a long time, with interpolated gaps and a moving average."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from perigee.groups.looks import Look
from perigee.groups.names import without_number
from perigee.numbers import number, with_interval
from perigee.report.charts.grid import grid
from perigee.report.context import Context
from perigee.report.model import Cell, Plot, Section, Table
from perigee.report.sections.representative import DENSE, DENSE_STROKES
from perigee.report.style import INK, from_zero
from perigee.statistics.campaigns import AVERAGE_S, STEP_S, Campaign, campaign
from perigee.statistics.estimates import at_level, mean_interval, percent, spread
from perigee.store.outcomes import has_failed

LEAST_TRANSFERS = 3
"""Minimum number of consecutive transfers of a flow in a campaign."""

MOST_PANELS = 6
"""Maximum number of campaigns in the figure; the table has all."""


@dataclass(frozen=True)
class Shown:
    """A campaign.

    Attributes:
        label: its label.
        run: its run.
        style: its look.
        rows: rows of `flows` of its transfers, in order of time.
        course: its throughput over time.
    """

    label: str
    run: int
    style: Look
    rows: pl.DataFrame
    course: Campaign


def section(context: Context) -> Section | None:
    """Return a table of campaigns and their throughput over time; None without repeated flows."""
    found = campaigns(context)
    return Section("campaign", "Campaigns", [_table(context, found), _plot(found)]) if found else None


def campaigns(context: Context) -> list[Shown]:
    """Return the campaigns in the first run of each point: flows with consecutive transfers."""
    found = []
    has_series = context.results.has("series")
    for _, rows in context.bulk.filter(~has_failed(), pl.col("goodput_mbps").is_not_null()).group_by(
        "point", maintain_order=True
    ):
        first = rows.filter(pl.col("run") == rows["run"].min())
        named = first.with_columns(base=pl.col("flow").map_elements(without_number, return_dtype=pl.String))
        bases = named["base"].unique(maintain_order=True)
        for base in bases:
            own = named.filter(pl.col("base") == base).sort("start_s")
            spans = list(zip(own["start_s"], own["start_s"] + own["duration_s"], strict=True))
            follow = all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
            if own.height < LEAST_TRANSFERS or not follow:
                continue
            row, run = own.row(0, named=True), int(own["run"][0])
            parts = []
            for flow, (start, end), mean in zip(own["flow"], spans, own["goodput_mbps"], strict=True):
                series = context.series(run, flow) if has_series else pl.DataFrame()
                if series.is_empty():
                    parts.append(([start, end], [mean]))
                else:
                    parts.append(([start, *(series["t_s"] + start)], series["goodput_mbps"].to_list()))
            label = context.algorithm(row) or base
            label = f"{label} ({base})" if len(bases) > 1 else label
            found.append(Shown(label, run, context.look_of(row), own, campaign(parts)))
    return found


def _table(context: Context, found: Sequence[Shown]) -> Table:
    level = context.settings.confidence
    rows, data = [], []
    for one in found:
        mean, half = mean_interval(one.rows["goodput_mbps"].to_numpy(), level)
        deviation = spread(one.rows["goodput_mbps"].to_numpy())
        average = one.course.average_mbps
        low, high = int(np.argmin(average)), int(np.argmax(average))
        hours = one.course.t_s / 3600
        extremes = [f"{number(float(average[place]))} at {number(float(hours[place]))} h" for place in (low, high)]
        cells = [with_interval(mean, half), number(deviation), *extremes, str(one.rows.height)]
        rows.append([Cell(one.label), *(Cell(text) for text in cells)])
        data.append(
            {"campaign": one.label, "run": one.run, "goodput_mbps": mean, at_level("half_width", level): half,
             "sd_mbps": deviation, "lowest_average_mbps": float(average[low]), "lowest_at_h": float(hours[low]),
             "highest_average_mbps": float(average[high]), "highest_at_h": float(hours[high]),
             "transfers": one.rows.height}
        )  # fmt: skip
    return Table(
        name="campaign",
        caption=f"Throughput of the transfers of each campaign in Mbit/s: mean with its {percent(level)} "
        f"confidence interval, standard deviation; and the extremes of the moving average over {AVERAGE_S / 3600:g} h",
        head=["", "Mean (Mbit/s)", "SD (Mbit/s)", "Lowest average", "Highest average", "Transfers"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )


def _plot(found: Sequence[Shown]) -> Plot:
    shown = found[:MOST_PANELS]
    data = pl.concat(
        [
            pl.DataFrame(
                {
                    "campaign": one.label,
                    "t_s": one.course.t_s,
                    "goodput_mbps": one.course.rates_mbps,
                    "is_interpolated": one.course.is_gap,
                    "average_mbps": one.course.average_mbps,
                }
            )
            for one in found
        ]
    )
    caption = (
        f"Throughput in steps of {STEP_S:g} s (points), gaps between transfers interpolated linearly (thin line), and "
        f"its moving average over the last {AVERAGE_S / 3600:g} h (black), at the begin over what there is."
    )
    if len(shown) < len(found):
        caption += f" Shown are the first {len(shown)} of {len(found)} campaigns; the table has all."
    alt = "; ".join(f"{one.label}: {number(float(one.rows['goodput_mbps'].mean()))} Mbit/s" for one in shown)  # type: ignore[arg-type]
    return Plot.of("campaign", caption, alt, partial(_figure, shown), data=data)


def _figure(shown: Sequence[Shown], width_in: float) -> Figure:
    laid = grid(
        width_in, len(shown), [""], [(row, 0) for row in range(len(shown))], height_in=1.5, is_stacked=True
    )  # fmt: skip
    for (row, _), axes in laid.panels.items():
        one, course = shown[row], shown[row].course
        hours, seen = course.t_s / 3600, ~course.is_gap
        axes.plot(hours, course.rates_mbps, color=one.style.color, lw=0.4, alpha=0.6,
                  rasterized=len(hours) > DENSE)  # fmt: skip
        axes.plot(hours[seen], course.rates_mbps[seen], ls="", marker=".", ms=1.8, color=one.style.color,
                  rasterized=int(seen.sum()) > DENSE_STROKES)  # fmt: skip
        axes.plot(hours, course.average_mbps, color=INK, lw=1.3)
    laid.panels[0, 0].margins(x=0)
    from_zero(list(laid.panels.values()))
    laid.label("Time since the run began (h)", [f"{one.label}: throughput (Mbit/s)" for one in shown])
    return laid.figure

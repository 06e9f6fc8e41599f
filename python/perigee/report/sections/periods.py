# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Periodicity of retransmissions: autocorrelation of each group's typical flow, and the period."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from perigee.groups.group import Group
from perigee.numbers import number
from perigee.report.charts.over_time import DENSE_STROKES
from perigee.report.context import Context
from perigee.report.legends import broken_title
from perigee.report.measures import GROUP, Fact, Measure, measures
from perigee.report.model import Block, Plot, Section, Table
from perigee.report.style import INK, WIDTH_IN, figure
from perigee.statistics.periodicity import CHANCE, Periodicity, periodicity

MOST_PANELS = 4
"""Maximum number of points with drawn flows."""


def section(context: Context) -> Section | None:
    """Return a table of periods, and a figure of each; None without a long enough flow with retransmissions."""
    if not context.results.has("series"):
        return None
    found = [
        (group, of_series(context.series(*context.typical[group.number]))) for group in context.some(MOST_PANELS)[0]
    ]
    known = [(group, one) for group, one in found if one is not None]
    if not known:
        return None
    # Without a period a figure shows nothing that the table does not say.
    drawn = [(group, one) for group, one in known if one.period_s is not None]
    blocks: list[Block] = [_table(known), *(_plot(place, group, one) for place, (group, one) in enumerate(drawn, 1))]
    return Section("periods", "Autocorrelation of retransmissions", blocks)


def of_series(series: pl.DataFrame) -> Periodicity | None:
    """Return the periodicity of retransmissions in a flow's series with intervals of equal length."""
    if series.height < 2 or not series["retransmitted_packets"].count():
        return None
    t = series["t_s"].to_numpy()
    # The first interval and the last may be shorter.
    inner = series["retransmitted_packets"].cast(pl.Float64).fill_null(0.0).to_numpy()[1:-1]
    return periodicity(inner, float(np.median(np.diff(t))))


def _table(known: list[tuple[Group, Periodicity]]) -> Table:
    facts = [
        {"group": group, "period_s": one.period_s, "correlation": one.strength, "bound": one.bound,
         "largest_lag_s": one.searched_s}
        for group, one in known
    ]  # fmt: skip
    columns = [
        GROUP, Measure("period_s", "Period (s)", 1, words=_period), Measure("correlation", "Correlation there", 2),
        Measure("bound", f"Bound ({100 * CHANCE:g} % by chance)", 2),
    ]  # fmt: skip
    return measures("periods", "Period of the retransmissions", columns, facts)


def _period(fact: Fact) -> str:
    return "none" if fact["period_s"] is None else number(fact["period_s"], 1)


def _plot(place: int, group: Group, one: Periodicity) -> Plot:
    said = "no period" if one.period_s is None else f"period {number(one.period_s, 1)} s"
    return Plot.of(
        f"periods-{place}",
        "Pearson correlation of the retransmissions per interval with themselves, shifted, where both overlap. "
        "Dashed, as far as a period is looked for: what the same values in random order exceed anywhere there once in "
        "twenty times; dotted: the detected period.",
        f"{group.label}: {said}",
        partial(_figure, group, one),
        data=pl.DataFrame({"lag_s": one.lags_s, "correlation": one.correlation}),
    )


def _figure(group: Group, one: Periodicity, width_in: float) -> Figure:
    drawing = figure(2.6 if width_in == WIDTH_IN else 1.9, width_in)
    axes = drawing.subplots()
    lags = np.concatenate([-one.lags_s[:0:-1], one.lags_s])
    both = np.concatenate([one.correlation[:0:-1], one.correlation])
    axes.vlines(lags, 0, both, color=group.look.color, lw=0.8, rasterized=len(lags) > DENSE_STROKES)
    axes.hlines(one.bound, -one.searched_s, one.searched_s, color=INK, lw=0.8, ls=(0, (4, 3)))
    if one.period_s is not None:
        axes.axvline(one.period_s, color=INK, lw=0.8, ls=(0, (1, 2)))
    axes.set_title(broken_title(group.label, 0.7 * width_in))
    axes.set_xlabel("Lag (s)")
    axes.set_ylabel("Correlation")
    axes.set_ylim(min(-0.2, float(both.min()) * 1.1), 1.0)
    return drawing

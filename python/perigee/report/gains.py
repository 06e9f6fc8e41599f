# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figure `gain`: what a switch, such as a proxy, changes on each path of a study, as maps of medians."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from perigee.errors import InputError, NothingToDrawError
from perigee.groups.factors import in_words, lowered
from perigee.groups.settings import Choice
from perigee.numbers import number
from perigee.report.charts.heat import maps_figure
from perigee.report.charts.sample import texts
from perigee.report.context import Context
from perigee.report.model import Plot
from perigee.statistics.estimates import Array
from perigee.statistics.metrics import Metric, with_metric
from perigee.store.outcomes import has_failed
from perigee.store.points import PointColumn, Value

PAYS = 1.1
"""From this gain on a switch pays, and below its inverse it costs."""


def gains_of(context: Context, metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    """Return a figure per metric: medians of the gain over all that varies beside the axes, a map per level of the hue.

    The gain of a point is the metric with the switch on over that with it off, or the inverse where less is better.
    It is taken of the runs themselves, not of groups, so that a study may have very many points.

    Raises:
        InputError: no switch varies, or the axes are not two different keys; facets are asked for.
        NothingToDrawError: no point has the metric both ways.
    """
    columns = context.results.points.columns
    switch = _switch(context, columns)
    others = [one for one in columns if one is not switch]
    if len(choice.x) != 2:
        raise InputError("--figure gain: name two axes, such as --x links.far.delay --x loss")
    if choice.facets:
        raise InputError(f"--facet {choice.facets[0]}: --figure gain has a map for each value of --hue, and no facets")
    across, up = (_column(others, key, "--x") for key in choice.x)
    panel = None if choice.hue == "none" else _panel(others, choice, (across, up))
    if across is up or panel in (across, up):
        raise InputError("--figure gain: the two axes and --hue must be different keys")
    made = []
    for one in metrics:
        found = _gains(context, one, switch, others, choice.flows)
        if found.is_empty():
            raise NothingToDrawError(f"--metric {one.name}: no point has it with and without {switch.key}")
        made.append(_plot(context, found, one, switch, (across, up), panel))
    return made


def _gains(
    context: Context, one: Metric, switch: PointColumn, others: Sequence[PointColumn], flows: Sequence[str]
) -> pl.DataFrame:
    """Return a row per point without the switch, flow and round: what varies, and `gain`; of these flows, or all."""
    if one.of_means:
        raise InputError(f"--metric {one.name}: is a ratio of means, which no flow has alone")
    rows = context.results.table("flows").filter(~has_failed())
    if flows:
        rows = rows.filter(pl.col("flow").is_in(flows) | pl.col("flow").str.replace(r"\.\d+$", "").is_in(flows))
    rows = with_metric(rows, one.name, context.results)
    rows = context.results.points.join(rows.select("run", "round", "flow", pl.col(one.name).alias("value")))
    keys = [*(column.name for column in others), "round", "flow"]
    off, on = (
        rows.filter(pl.col(switch.name) == value).group_by(keys).agg(pl.col("value").mean()) for value in (False, True)
    )
    both = off.join(on, on=keys, suffix="_on", nulls_equal=True)
    ratio = pl.col("value_on") / pl.col("value")
    gain = 1 / ratio if one.higher_is_better is False else ratio
    return both.with_columns(gain=gain).filter(pl.col("gain").is_finite(), pl.col("gain") > 0).drop("value", "value_on")


def _plot(
    context: Context,
    gains: pl.DataFrame,
    one: Metric,
    switch: PointColumn,
    axes: tuple[PointColumn, PointColumn],
    panel: PointColumn | None,
) -> Plot:
    factors = (context.factor_of(axes[0]), context.factor_of(axes[1]))
    panels = context.factor_of(panel) if panel else None
    parts = {"": gains}
    if panel and panels:
        pairs = zip(texts(panels), _ordered(panel), strict=True)
        parts = {text: gains.filter(pl.col(panel.name) == value) for text, value in pairs}
    parts = {text: part for text, part in parts.items() if not part.is_empty()}
    drawn = Metric(f"gain-{one.name}", f"Gain in {one.title.lower()}", "", 2, True)
    shares = "; ".join(_shares(part, panels.said(text) if panels else "") for text, part in parts.items())
    maps = {text: _map(part, axes) for text, part in parts.items()}
    names = [column.name for column in (*([panel] if panel else []), *axes)]
    return Plot.of(
        drawn.name,
        f"{drawn.title} by {lowered(context.title(switch.key) or in_words(switch.key))}: medians over all else that "
        "varies, on one scale of colours; above 1 it pays.",
        shares,
        partial(maps_figure, maps, drawn, factors, panels, is_ratio=True),
        data=gains.group_by(names)
        .agg(
            gain=pl.col("gain").median(),
            pays_percent=100 * (pl.col("gain") > PAYS).mean(),
            costs_percent=100 * (pl.col("gain") < 1 / PAYS).mean(),
            points=pl.len(),
        )
        .sort(names),
    )  # fmt: skip


def _map(part: pl.DataFrame, axes: tuple[PointColumn, PointColumn]) -> Array:
    """Return the medians, shape (levels of the vertical axis, of the horizontal one); NaN: no point."""
    across, up = axes
    medians = part.group_by(across.name, up.name).agg(pl.col("gain").median())
    found = {(row, column): gain for column, row, gain in medians.iter_rows()}
    return np.array([[found.get((row, column), np.nan) for column in _ordered(across)] for row in _ordered(up)])


def _ordered(column: PointColumn) -> list[Value]:
    """Return the values in the order of the factor's levels."""
    return sorted(column.values) if column.is_number else list(column.values)


def _shares(part: pl.DataFrame, name: str) -> str:
    """Say on how many points the switch pays and costs."""
    pays, costs = (
        number(100 * part.filter(there).height / part.height, 0)
        for there in (pl.col("gain") > PAYS, pl.col("gain") < 1 / PAYS)
    )
    words = f"10 % better or more at {pays} % of {part.height} points, worse at {costs} %"
    return f"{name}: {words}" if name else words


def _switch(context: Context, columns: Sequence[PointColumn]) -> PointColumn:
    named = context.settings.between
    for one in columns:
        is_switch = len(one.values) == 2 and all(isinstance(value, bool) for value in one.values)
        if is_switch and named in (None, "", one.key, one.name):
            return one
    raise InputError("--figure gain: shows what a switch changes, and none varies here, such as proxy.enabled")


def _panel(others: Sequence[PointColumn], choice: Choice, axes: Sequence[PointColumn]) -> PointColumn | None:
    if choice.hue:
        return _column(others, choice.hue, "--hue")
    return next((one for one in others if not one.is_number and one not in axes), None)


def _column(columns: Sequence[PointColumn], key: str, option: str) -> PointColumn:
    for one in columns:
        if key in (one.name, one.key, one.name.removeprefix("point.")):
            return one
    there = ", ".join(one.name.removeprefix("point.") for one in columns) or "nothing"
    raise NothingToDrawError(f"{option} {key}: does not vary in these results; there vary {there}")

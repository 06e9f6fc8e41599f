# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A quantity over what varies as a small table: a row per setting, a column per algorithm, shaded by its values."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from perigee.groups.factors import Factor, capital
from perigee.groups.group import Group
from perigee.groups.panels import panels, roles
from perigee.numbers import decimals, number
from perigee.report.context import Context
from perigee.report.headline import Headline
from perigee.report.model import Cell, Table
from perigee.report.ranking import Ranking
from perigee.statistics.metrics import Metric

FEWEST_CELLS = 6
LEAST_FILLED = 0.6
MOST_ROWS, MOST_COLUMNS = 16, 14
"""A matrix is larger than a sentence, smaller than a screen, and mostly filled."""


def matrix(context: Context, asked: Headline, found: Sequence[Ranking]) -> Table | None:
    """Return the matrix of a quantity; None if too little or too much varies, or the quantity is the same everywhere.

    Args:
        context: the results.
        asked: the quantity and its groups.
        found: its rankings, for the marks.
    """
    metric = asked.metric
    values = {group.number: context.value(group, metric) for group in asked.groups}
    groups = [group for group in asked.groups if values[group.number] == values[group.number]]
    factors = context.factors(groups)
    across = _columns(factors)
    if across is None or len({number(values[group.number], metric.digits) for group in groups}) < 2:
        return None
    down = [one for one in factors if one is not across]
    rows = panels(groups, factors, across)
    if not (2 <= len(rows) <= MOST_ROWS and len(across.levels) <= MOST_COLUMNS and len(groups) >= FEWEST_CELLS):
        return None
    if len(groups) < LEAST_FILLED * len(rows) * len(across.levels):
        return None
    if any(len({group.levels.get(across.key) for group in row.groups}) < len(row.groups) for row in rows):
        return None
    best = {one.best.number for one in found if one.best is not None}
    levels = [level.text for level in across.levels]
    is_ranked = any(one.against != "first" for one in found)
    shades = _shades(metric, [[values[group.number] for group in row.groups] for row in rows], by_row=is_ranked)
    # The smallest values have two digits.
    least = min((abs(value) for value in values.values() if value), default=None)
    digits = decimals(metric.digits, least)
    cells = []
    for place, row in enumerate(rows):
        by_level = {
            group.levels[across.key]: _cell(number(values[group.number], digits), shade, is_best=group.number in best)
            for group, shade in zip(row.groups, shades[place], strict=True)
        }
        heads = (Cell(_said(one, row.levels[one.key])) for one in down)
        cells.append([*heads, *(by_level.get(text, Cell("–")) for text in levels)])
    return Table(
        name=f"short-{metric.name}",
        caption=_caption(asked, has_best=bool(best), by_row=is_ranked),
        head=[*(capital(one.word or one.title) for one in down), *(_said(across, text) for text in levels)],
        groups=[
            ("", len(down)),
            (across.title if across.is_algorithm else capital(across.word or across.title), len(levels)),
        ],
        rows=cells,
        data=_data(groups, factors, metric, values),
        words=tuple(range(len(down))),
        lead=len(down),
    )


def _columns(factors: Sequence[Factor]) -> Factor | None:
    """Return the factor of the columns: algorithms, else the number with the most values, else words."""
    if len(factors) < 2:
        return None
    placed = roles(factors)
    if placed.hue is not None and placed.hue.is_algorithm:
        return placed.hue
    return placed.x or placed.hue


def _cell(text: str, shade: float, *, is_best: bool) -> Cell:
    return Cell(text, "best" if is_best else "", "best" if is_best else "", shade=shade)


def _said(one: Factor, text: str) -> str:
    return one.said(text) if text in ("true", "false") else text


def _shades(metric: Metric, rows: Sequence[Sequence[float]], *, by_row: bool) -> list[list[float]]:
    """Return the depth of each cell, 1 the best: within its row, or within the matrix.

    Examples:
        >>> _shades(Metric("x", "X", "", 1, False), [[1.0, 3.0, 2.0]], by_row=True)
        [[1.0, 0.0, 0.5]]
    """
    sign = -1 if metric.higher_is_better is False else 1
    everything = [value for row in rows for value in row]
    made = []
    for row in rows:
        known = row if by_row else everything
        low, high = min(sign * value for value in known), max(sign * value for value in known)
        made.append([(sign * value - low) / (high - low) if high > low else 0.0 for value in row])
    return made


def _caption(asked: Headline, *, has_best: bool, by_row: bool) -> str:
    unit = f" ({asked.metric.unit})" if asked.metric.unit else ""
    better = {True: ", ↑ higher is better", False: ", ↓ lower is better", None: ""}[asked.metric.higher_is_better]
    shade = f"darker is better{' within a row' if by_row else ''}" if better else "darker is more"
    bold = ", bold the best of its row where the difference is clear" if has_best else ""
    return f"{capital(asked.noun)}{unit}{better}; {shade}{bold}"


def _data(groups: Sequence[Group], factors: Sequence[Factor], metric: Metric, values: dict[int, float]) -> pl.DataFrame:
    rows = [
        {
            **{one.key: group.levels.get(one.key, "") for one in factors},
            "quantity": metric.name,
            "unit": metric.unit,
            "mean": values[group.number],
            "flows": group.flows.height,
        }
        for group in groups
    ]
    return pl.DataFrame(rows, infer_schema_length=None)

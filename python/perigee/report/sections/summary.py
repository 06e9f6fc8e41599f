# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Summary: main means of each group with their spread; the best of comparable groups is marked."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from perigee.numbers import with_spread
from perigee.report.context import Context
from perigee.report.family import family
from perigee.report.model import Cell, Section, Table
from perigee.report.ranking import Ranking
from perigee.statistics.estimates import level_of_tests
from perigee.statistics.metrics import group_spread


def section(context: Context) -> Section | None:
    """Return the summary table."""
    metrics = context.metrics(context.settings.summary)
    if not metrics:
        return None
    caption = "Single flows"
    if any(group.flows.height > 1 for group in context.groups):
        caption = "Means ± standard deviations over flows, where they vary"
    found = family(context).marks
    best = {(one.best.number, one.metric.name) for one in found if one.best is not None}
    if any(group.flows.height < group.rows.height for group in context.groups):
        caption += "; flows that failed are left out"
    counted = any(group.rows.height > 1 for group in context.groups)
    rows, data = [], []
    for group in context.pooled(context.groups):
        cells = [Cell.naming(group), Cell(group.size)] if counted else [Cell.naming(group)]
        for one in metrics:
            mean = context.value(group, one)
            flows = context.with_metric(group, one.name)
            spread, count = group_spread(flows, one), flows[one.name].count()
            is_best = (group.number, one.name) in best
            text = with_spread(mean, spread, one.digits)
            if 0 < count < flows.height:
                text += f" (of {count})"
            cells.append(Cell(text + (" ★" if is_best else ""), "best" if is_best else ""))
            data.append(
                {"group": group.name, "quantity": one.name, "unit": one.unit, "mean": mean, "sd": spread,
                 "flows": count, "best": is_best}
            )  # fmt: skip
        rows.append(cells)
    table = Table(
        name="summary",
        caption=caption,
        head=["", *(["flows"] if counted else []), *(one.heading for one in metrics)],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
        notes=[_legend(context, found)] if best else [],
        across=True,
    )
    return Section("summary", "Summary", [table])


def _legend(context: Context, found: Sequence[Ranking]) -> str:
    """Explain the marks."""
    if not any(rival.is_tested for one in found for rival in one.rivals):
        clear = "it differs from the next as printed; nothing here can be tested"
    else:
        other = context.label(context.settings.reference) if context.settings.reference else "the next"
        tests = family(context).size
        clear = (
            f"its difference from {other} is significant (p < {level_of_tests(context.settings.confidence):g}, t test, "
            f"corrected for the {tests} comparisons on this page by Holm)"
        )
    return f"★ the best of the groups that differ in their algorithm only, where {clear}."

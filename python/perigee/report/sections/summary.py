# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One row per group: the means that matter, with their spread, the best of each marked."""

from __future__ import annotations

import polars as pl

from perigee.numbers import with_spread
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.statistics.metrics import Metric, group_spread


def section(context: Context) -> Section | None:
    """Return the summary table."""
    metrics = context.metrics(context.settings.summary)
    if not metrics:
        return None
    caption = "Mean ± standard deviation over flows, where they vary; the best of each column in bold with a star"
    return Section("summary", "Summary", [metric_table(context, metrics, "summary", caption)])


def metric_table(context: Context, metrics: list[Metric], name: str, caption: str) -> Table:
    """Return a table with a row per group and a column per metric."""
    means = {(g.number, m.name): context.value(g, m) for g in context.groups for m in metrics}
    best = {m.name: _best(m, [means[g.number, m.name] for g in context.groups]) for m in metrics}
    if any(group.flows.height < group.rows.height for group in context.groups):
        caption += "; flows that failed are left out"
    rows, data = [], []
    for group in context.groups:
        cells = [Cell(group.label), Cell(group.size)]
        for one in metrics:
            mean = means[group.number, one.name]
            flows = context.with_metric(group, one.name)
            spread, count = group_spread(flows, one), flows[one.name].count()
            is_best = mean == best[one.name] and len(context.groups) > 1
            text = with_spread(mean, spread, one.digits)
            if 0 < count < flows.height:
                text += f" (of {count})"
            cells.append(Cell(text + (" ★" if is_best else ""), "best" if is_best else ""))
            data.append(
                {"group": group.name, "quantity": one.name, "unit": one.unit, "mean": mean, "sd": spread,
                 "flows": count}
            )  # fmt: skip
        rows.append(cells)
    return Table(
        name=name,
        caption=caption,
        head=["", "flows", *(one.heading for one in metrics)],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )


def _best(metric: Metric, means: list[float]) -> float | None:
    known = [mean for mean in means if mean == mean]
    if metric.higher_is_better is None or len(set(known)) < 2:
        return None
    return max(known) if metric.higher_is_better else min(known)

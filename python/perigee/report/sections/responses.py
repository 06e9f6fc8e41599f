# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Populations: duration of transactions by size of the response."""

from __future__ import annotations

import polars as pl

from perigee.groups.kinds import kinds_of
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.report.sections import sweep
from perigee.statistics.metrics import RESPONSES, metric

KINDS = kinds_of("responses")


def section(context: Context) -> Section | None:
    """Return a table of the response times of populations per group and size, and their mean over factors."""
    groups = [group for group in context.pooled(context.groups_of(*KINDS)) if not group.flows.is_empty()]
    if not groups or not context.results.has("responses"):
        return None
    responses = context.results.table("responses")
    rows, data = [], []
    for group in groups:
        own = responses.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        for one in _by_size(own).iter_rows(named=True):
            sizes = [number(one[edge] / 1e3, 3) for edge in ("least_bytes", "most_bytes")]
            counts = [str(one[name]) for name in ("transactions", "completed", "failed")]
            times = [number(one[name] if one[name] is not None else float("nan"), 0) for name in ("mean_ms", "p95_ms")]
            size = sizes[0] if sizes[0] == sizes[1] else f"{sizes[0]} to {sizes[1]}"
            rows.append([Cell.naming(group), Cell(size), *(Cell(text) for text in (*counts, *times))])
            data.append({"group": group.name, **one})
    table = Table(
        name="responses",
        caption="Transactions of populations, from the opening of a connection to the last byte of the response; "
        "the 95th percentile is a mean over flows",
        head=["", "Response (kB)", "opened", "completed", "failed", "mean (ms)", "95th percentile (ms)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        words=(1,),
    )
    lines = sweep.over_what_varies(context, groups, [metric(RESPONSES)])
    return Section("responses", "Response times of users", [*lines, table])


def _by_size(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the union of the size classes of several flows."""
    weighted = (pl.col("mean_ms") * pl.col("completed")).sum() / pl.col("completed").sum()
    return (
        rows.group_by("least_bytes", "most_bytes")
        .agg(
            pl.col("transactions", "completed", "failed").sum(),
            pl.when(pl.col("completed").sum() > 0).then(weighted).alias("mean_ms"),
            pl.col("p95_ms").mean(),
        )
        .sort("least_bytes")
    )

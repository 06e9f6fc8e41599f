# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Populations: duration of transactions by size of the response."""

from __future__ import annotations

import polars as pl

from perigee.groups.kinds import kinds_of
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.measures import GROUP, Fact, Measure, measures
from perigee.report.model import Section
from perigee.report.sections import sweep
from perigee.statistics.metrics import RESPONSES, metric

KINDS = kinds_of("responses")

HEADS = {
    "transactions": "opened", "completed": "completed", "failed": "failed", "mean_ms": "mean (ms)",
    "p95_ms": "95th percentile (ms)",
}  # fmt: skip
"""Headings of the numbers, by their columns."""


def section(context: Context) -> Section | None:
    """Return a table of the response times of populations per group and size, and their mean over factors."""
    groups = [group for group in context.pooled(context.groups_of(*KINDS)) if not group.flows.is_empty()]
    if not groups or not context.results.has("responses"):
        return None
    responses = context.results.table("responses")
    facts = []
    for group in groups:
        own = responses.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        facts += [{"group": group, **one} for one in _by_size(own).iter_rows(named=True)]
    table = measures(
        "responses",
        "Transactions of populations, from the opening of a connection to the last byte of the response; "
        "the 95th percentile is a mean over flows",
        [
            GROUP, Measure("least_bytes", "Response (kB)", words=_size),
            *(Measure(name, head, 0) for name, head in HEADS.items()),
        ],
        facts,
    )  # fmt: skip
    lines = sweep.over_what_varies(context, groups, [metric(RESPONSES)])
    return Section("responses", "Response times of users", [*lines, table])


def _size(fact: Fact) -> str:
    sizes = dict.fromkeys(number(fact[edge] / 1e3, 3) for edge in ("least_bytes", "most_bytes"))
    return " to ".join(sizes)


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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The main link over the factors of a study: utilisation, drops and queue."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from perigee.groups.factors import capital
from perigee.groups.group import Group
from perigee.groups.panels import roles
from perigee.report.context import Context
from perigee.report.model import Block, Text
from perigee.report.sections import sweep
from perigee.report.utilisation import DROPS, Span, utilisation
from perigee.statistics.metrics import Metric, metric


def blocks(context: Context, link: str) -> list[Block]:
    """Return figures of a directed link's means over factors; None without a varied number, or for a design.

    A run is measured in the steady phase of one flow over the link, the same in all runs; the first figure names it.
    """
    groups = _one_flow(context, link)
    place = roles(context.factors(groups))
    if place.x is None or context.design(groups):
        return []
    name = context.link_said(link)
    metrics = [
        Metric("link_utilisation_percent", f"Utilisation of {name}", "%", 1, True),
        Metric("link_dropped_percent", f"Packets dropped at {name}", "%", 3, False),
        Metric("link_queue_mb", f"Mean queue of {name}", "MB", 2, False),
    ]
    spans = _spans(groups)
    # The throughput decides which of many algorithms have a name.
    plain = context.sample(groups, [metric("goodput_mbps")], place.hue)
    sample = plain.of(plain.flows.join(_measured(context, link, spans), on="run"))
    # A steady phase may be shorter than an interval of the link's series.
    metrics = [one for one in metrics if sample.flows[one.name].count()]
    if not metrics:
        return []
    flow = context.label(str(groups[0].rows["flow"][0]))
    made: list[Block] = [Text(f"{capital(name)} is measured while the flow {flow} is in its steady phase.")]
    return made + sweep.lines_of(groups, sample, metrics, place)


def _one_flow(context: Context, link: str) -> Sequence[Group]:
    """Return the groups of the most frequent flow over the link, preferably a transfer."""
    with_phase = context.bulk.filter(pl.col("steady_s").is_not_null() & (pl.col("steady_s") > 0))
    rows = [row for row in with_phase.iter_rows(named=True) if context.network.takes(row, link)]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["flow"]] = counts.get(row["flow"], 0) + 1
    if not counts or context.results.is_analysis:
        return []
    chosen = max(counts, key=lambda name: counts[name])
    return [group for group in context.pooled(context.groups_named([chosen])) if not group.flows.is_empty()]


def _spans(groups: Sequence[Group]) -> list[Span]:
    """Return the steady phase of each flow, in time of its run."""
    return [
        (row["run"], row["start_s"] + row["duration_s"] - row["steady_s"], row["start_s"] + row["duration_s"])
        for group in groups
        for row in group.flows.drop_nulls("steady_s").iter_rows(named=True)
    ]


def _measured(context: Context, link: str, spans: Sequence[Span]) -> pl.DataFrame:
    """Return `run` and the quantities of the link in its span."""
    wanted = pl.DataFrame(
        spans, schema={"run": context.rows.schema["run"], "from_s": pl.Float64, "until_s": pl.Float64}, orient="row"
    )
    used = wanted.with_columns(link_utilisation_percent=utilisation(context, link, spans))
    rows = context.results.table("links").filter(pl.col("link") == link).join(wanted, on="run")
    within = rows.filter((pl.col("t_s") > pl.col("from_s")) & (pl.col("t_s") <= pl.col("until_s")))
    dropped = pl.sum_horizontal([pl.col(name).sum() for name in DROPS if name in rows.columns])
    means = within.group_by("run").agg(
        (100 * dropped / pl.col("offered_packets").sum()).alias("link_dropped_percent"),
        (pl.col("queue_bytes").mean() / 1e6).alias("link_queue_mb"),
    )
    return used.join(means, on="run", how="left").drop("from_s", "until_s")

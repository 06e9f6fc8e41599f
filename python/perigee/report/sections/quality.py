# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Quality of Outcome: pings scored against what applications need."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from perigee.groups.group import Group
from perigee.report.context import Context
from perigee.report.measures import GROUP, Measure, measures
from perigee.report.model import Section
from perigee.statistics.metrics import sample_of
from perigee.statistics.quality import Requirements, Score, score

COLUMNS = ("score", "latency", "loss", "throughput")


def section(context: Context) -> Section | None:
    """Return a table of scores per group of pings and `[[quality]]`; None without either."""
    wanted = context.settings.quality
    groups = [group for group in context.groups_of("ping") if not group.flows.is_empty()]
    if not wanted or not groups or not context.results.has("exchanges"):
        return None
    exchanges = context.results.table("exchanges")
    facts = []
    for required in wanted:
        for group in groups:
            found = _score(context, exchanges, group, required)
            values = [found.total, found.latency, found.loss, found.throughput]
            facts.append({"quality": required.name, "group": group, **dict(zip(COLUMNS, values, strict=True))})
    caption = (
        "Quality of Outcome (draft-ietf-ippm-qoo-10): 100 where the application works as well as it can, 0 where "
        "it is of no use; the least of the parts, from the pings of all rounds"
    )
    columns = [Measure("quality", "of"), GROUP, *(Measure(name, name, 0) for name in COLUMNS)]
    table = measures("quality", caption, columns, facts)
    table = replace(table, data=table.data.cast(dict.fromkeys(COLUMNS, pl.Float64)))
    return Section("quality", "Quality of Outcome", [table])


def _score(context: Context, exchanges: pl.DataFrame, group: Group, required: Requirements) -> Score:
    """Return the score of a group: its pings of all rounds, and the mean throughput of the flow that counts."""
    own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
    answered = sample_of(own["duration_ms"])
    lost_percent = 100 * (own.height - len(answered)) / own.height if own.height else 0.0
    flows = context.results.table("flows")
    carried = flows.filter(
        (pl.col("flow") == required.throughput_of) & pl.col("run").is_in(group.flows["run"].unique().implode())
    )
    return score(required, answered, lost_percent, _mean(carried["goodput_mbps"]))


def _mean(values: pl.Series) -> float | None:
    sample = sample_of(values)
    return float(sample.mean()) if len(sample) else None

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Durations of requests with their responses, and of pings; pings without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.group import Group
from perigee.groups.kinds import kinds_of
from perigee.report.charts.cumulative import tail_data, tail_figure, with_few
from perigee.report.context import Context
from perigee.report.measures import GROUP, Measure, measures
from perigee.report.model import Block, Plot, Section, Table
from perigee.report.sections import sweep
from perigee.report.sections.distributions import Words, cumulative_plot, curves_of
from perigee.statistics.estimates import Array, cumulative
from perigee.statistics.metrics import EXCHANGE, metric, sample_of

KINDS = kinds_of("exchanges")

TITLES = {"request": "Mean duration of a request", "ping": "Mean round trip of a ping"}
"""Quantity drawn over factors: mean over the exchanges of each flow."""

COLUMNS = {
    "mean_ms": "mean", "median_ms": "median", "p95_ms": "95th percentile", "p99_ms": "99th percentile",
    "least_ms": "least", "most_ms": "most", "mdev_ms": "mdev",
}  # fmt: skip
"""Headings of the durations, by their columns."""

FAR_FROM = 1000
"""Pings from which on the figure leaves out the highest thousandth; that of the tail has it."""

MOST_PANELS = 12
"""Maximum panels of a figure."""


def section(context: Context) -> Section | None:
    """Return a table of durations per group and their cumulative distributions."""
    groups = context.pooled(context.groups_of(*KINDS))
    if not groups or not context.results.has("exchanges"):
        return None
    exchanges = context.results.table("exchanges")
    facts = []
    for group in groups:
        own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        took = sample_of(own["duration_ms"])
        # The last is what ping prints as `mdev`: the deviation of all, not of a sample.
        values = [took.mean(), *np.percentile(took, [50, 95, 99, 0, 100]), took.std()] if len(took) else [np.nan] * 7
        of_group = dict(zip(COLUMNS, map(float, values), strict=True))
        facts.append({"group": group, "exchanges": own.height, **of_group, "unanswered": own.height - len(took)})
    heads = {"exchanges": "exchanges", **COLUMNS, "unanswered": "unanswered"}
    table = measures(
        "exchanges",
        "Requests until their response's last byte, and pings: duration (ms); mdev, as ping prints it, is the "
        "standard deviation",
        [GROUP, *(Measure(name, head, 0) for name, head in heads.items())],
        facts,
    )
    lines: list[Block] = []
    for kind in KINDS:
        those = [group for group in context.pooled(context.groups_of(kind)) if not group.flows.is_empty()]
        lines += sweep.over_what_varies(context, those, [replace(metric(EXCHANGE), title=TITLES[kind])])
    tables = [table, *_unanswered(context, exchanges)]
    return Section("exchanges", "Requests and pings", [*lines, *tables, *_distributions(context, exchanges)])


def _unanswered(context: Context, exchanges: pl.DataFrame) -> list[Table]:
    """Return a table of pings without an answer, alone and in a row; none if all were answered."""
    facts = []
    for group in context.pooled(context.groups_of("ping")):
        own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        bursts = bursts_of(own)
        if lost := int(bursts.sum()):
            facts.append({
                "group": group, "pings": own.height, "unanswered": lost, "unanswered_percent": 100 * lost / own.height,
                "single_percent": 100 * int((bursts == 1).sum()) / lost, "events_of_several": int((bursts > 1).sum()),
                "longest": int(bursts.max()),
            })  # fmt: skip
    if not facts:
        return []
    columns = [
        GROUP, Measure("pings", "pings", 0), Measure("unanswered", "unanswered", 0),
        Measure("unanswered_percent", "% of pings", 3), Measure("single_percent", "single, % of these", 0),
        Measure("events_of_several", "events of several", 0), Measure("longest", "longest", 0),
    ]  # fmt: skip
    caption = (
        "Pings without an answer: the share whose neighbours were answered, how often several in a row have none, and "
        "how many at most"
    )
    return [measures("unanswered", caption, columns, facts)]


def bursts_of(pings: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many pings in a row had no answer, for each such event, in rows of the table `exchanges`."""
    in_order = pings.sort("run", "flow", "number")
    lost = pl.col("duration_ms").is_null()
    events = in_order.with_columns(lost=lost, event=pl.struct("run", "flow", lost).rle_id())
    lengths = events.filter(pl.col("lost")).group_by("event", maintain_order=True).len()
    return lengths["len"].cast(pl.Int64).to_numpy()


def _distributions(context: Context, exchanges: pl.DataFrame) -> Iterator[Plot]:
    def seen(group: Group) -> tuple[Array, Array] | None:
        own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        took = sample_of(own["duration_ms"])
        return cumulative(took) if len(took) else None

    for kind in KINDS:
        kept, left_out = context.panels(context.pooled(context.groups_of(kind)), MOST_PANELS)
        panels = curves_of(kept, [("", seen)])
        if not panels:
            continue
        name, of = {"request": ("exchanges", "requests"), "ping": ("pings", "pings")}[kind]
        caption = f"Cumulative distribution of the durations of {of}."
        # A round trip that is far beyond the others would press their curve against the axis.
        has_tail = kind == "ping" and max(len(curve.values) for panel in panels for curve in panel.curves) > FAR_FROM
        caption += " The highest 0.1\u00a0% lie beyond the right edge." if has_tail else ""
        words = Words(f"{name}-distribution", "Duration (ms)", "duration_ms", caption, 0, "ms", of)
        plot = cumulative_plot(context, panels, words, left_out, 0.999 if has_tail else 1.0)
        yield plot
        if kind == "ping":
            few, grey = with_few(panels, context.yardsticks)
            yield Plot.of(
                "pings-tail",
                " ".join(filter(None, ("Share of pings with a longer round trip.", grey, left_out))),
                plot.alt,
                partial(tail_figure, few, words.directed, "pings"),
                data=tail_data(panels, "duration_ms"),
            )

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Offered, delivered and dropped traffic of each link, and the queue of the main one over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.factors import capital
from perigee.groups.group import Group
from perigee.numbers import number
from perigee.report.charts.few import with_few
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.measures import GROUP, Measure, measures
from perigee.report.model import Block, Plot, Section, Table
from perigee.report.sections import link_sweep
from perigee.statistics.metrics import largest, mean, sample_of

MOST_PANELS = 4
"""Maximum panels of the figure of the queue."""

REASONS = (
    ("dropped_queue_full_packets", "queue full"),
    ("dropped_aqm_packets", "queue management"),
    ("lost_packets", "lost on the air"),
)


def section(context: Context) -> Section | None:
    """Return a table of all links, and the main link's queue over time and means over factors."""
    if not context.results.has("links"):
        return None
    names = context.results.table("links")["link"].unique().sort().to_list()
    main = context.main_link or names[0]
    name = capital(context.link_said(main))
    blocks: list[Block] = [
        *link_sweep.blocks(context, main),
        _table(context, [main], "links-main", f"{name}: means over runs; drops in % of the packets"),
    ]
    if context.results.has("series"):
        blocks.append(_queue(context, main))
    others = [name for name in names if name != main]
    if others:
        blocks.append(_table(context, others, "links", "The other links", folded=True))
    return Section("links", "Links", blocks)


def _table(context: Context, names: list[str], slug: str, caption: str, *, folded: bool = False) -> Table:
    links = context.results.table("links").filter(pl.col("link").is_in(names))
    reasons = [(column, title) for column, title in REASONS if column in links.columns]
    rows_of = links.partition_by("link", "run", as_dict=True)
    # Flows of one run share its links: what they have in common is computed once.
    known: dict[tuple[str, tuple[int, ...]], dict[str, float]] = {}
    facts = []
    for name in names:
        for group in _using(context, name, context.pooled(context.groups)):
            runs = tuple(sorted(group.flows["run"].unique()))
            own = [rows_of[name, run] for run in runs if (name, run) in rows_of]
            if not own:
                continue
            if (name, runs) not in known:
                known[name, runs] = _use(pl.concat(own), [column for column, _ in reasons])
            use = known[name, runs]
            facts.append({"link": name, "group": group, **use, "runs": int(use["runs"])})
    columns = [Measure("link", "Link", words=lambda fact: context.link_said(fact["link"])), GROUP]
    columns.append(Measure("offered_mb_per_run", "offered per run (MB)", 1))
    columns += [Measure(_share(column), f"{title} (%)", 3) for column, title in reasons]
    columns += [Measure("queue_mean_mb", "mean queue (MB)", 2)]
    columns += [Measure("queue_p95_mb", "95th percentile of queue (MB)", 2)]
    columns += [Measure("rate_mean_mbps", "mean rate (Mbit/s)", 1)]
    return measures(slug, caption, columns, facts, folded=folded)


def _share(column: str) -> str:
    return f"{column.removesuffix('_packets')}_percent"


def _use(own: pl.DataFrame, reasons: Sequence[str]) -> dict[str, float]:
    """Return the use of a link: what was offered, dropped by each reason and waiting, and its mean rate.

    Args:
        own: its rows of the table `links`.
        reasons: columns with numbers of packets that were not carried.
    """
    count = float(own["offered_packets"].sum()) if "offered_packets" in own.columns else float("nan")
    waiting = sample_of(own["queue_bytes"]) / 1e6
    low, high = (float(np.percentile(waiting, percent)) for percent in (10, 95))
    runs = own["run"].n_unique()
    shares = {_share(column): 100 * float(own[column].sum()) / count if count else 0.0 for column in reasons}
    return {
        "offered_mb_per_run": float(own["offered_bytes"].sum()) / runs / 1e6, **shares,
        "queue_mean_mb": float(waiting.mean()), "queue_p10_mb": low, "queue_p95_mb": high,
        "rate_mean_mbps": mean(own["rate_mbps"]), "runs": runs,
    }  # fmt: skip


def _using(context: Context, link: str, groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups with flows over a link; all groups for a link with other traffic only."""
    return [one for one in groups if context.network.uses(one.rows.row(0, named=True), link)] or groups


def _queue(context: Context, link: str) -> Plot:
    kept, left_out = context.panels(_using(context, link, context.drawn), MOST_PANELS)
    parts = {
        group.number: context.link_series(context.typical[group.number][0], link).with_columns(
            (pl.col("queue_bytes") / 1e6).alias("queue_mb"), pl.col("dropped_packets").cast(pl.Float64)
        )
        for panel in kept
        for group in panel.groups
    }
    drops = any(part["dropped_packets"].sum() > 0 for part in parts.values())
    rows = [("queue_mb", "Queue (MB)"), *([("dropped_packets", "Dropped packets per interval")] if drops else [])]
    words = [
        f"{group.label}: largest queue {number(largest(parts[group.number]['queue_mb']))} MB, "
        f"{number(float(parts[group.number]['dropped_packets'].sum()), 0)} drops"
        for panel in kept
        for group in panel.groups
    ]
    data = [
        parts[group.number].select(
            pl.lit(group.name).alias("group"), pl.lit(link).alias("link"), "run", "t_s", "queue_mb", "dropped_packets"
        )
        for panel in kept
        for group in panel.groups
    ]
    shown = f"Queue of {context.link_said(link)}" + (" and packets it dropped" if drops else "")
    drawn = [group for panel in kept for group in panel.groups]
    of = "each group's" if len(drawn) > 1 else f"the ({drawn[0].label})"
    few, grey = with_few(kept, {number: mean(part["queue_mb"]) for number, part in parts.items()}, context.yardsticks)
    panels = [
        TimePanel(
            panel.title,
            [
                [Curve(text, group.look, parts[group.number]["t_s"], parts[group.number][column])
                 for group, text in panel.labelled()]
                for column, _ in rows
            ],
        )
        for panel in few
    ]  # fmt: skip
    return Plot.of(
        "queue",
        " ".join(filter(None, (f"{shown}, over time, in the run of {of} representative flow.", grey, left_out))),
        "; ".join(words),
        partial(
            over_time,
            panels,
            [heading for _, heading in rows],
            "Time (s)",
            narrowest_in=1.7,
            height_in=1.4 if len(few) > 1 else 1.7,
            counts=[1],
        ),
        data=pl.concat(data),
    )

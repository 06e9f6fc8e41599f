# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What each link was offered, delivered and dropped, and the queue of the main one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from perigee.numbers import number
from perigee.report.context import Context, Group
from perigee.report.legends import legend_above
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.style import figure, from_zero, plain_numbers
from perigee.statistics.metrics import mean, sample_of

REASONS = (
    ("dropped_queue_full_packets", "queue full"),
    ("dropped_aqm_packets", "queue management"),
    ("lost_packets", "lost on the air"),
)


def section(context: Context) -> Section | None:
    """Return a table of all links and a figure of the main link's queue."""
    if not context.results.has("links"):
        return None
    names = context.results.table("links")["link"].unique().sort().to_list()
    main = context.main_link or names[0]
    blocks: list[Block] = [_table(context, [main], "links-main", f"{main}: means over runs; drops in % of the packets")]
    if context.results.has("series"):
        blocks.append(_queue(context, main))
    others = [name for name in names if name != main]
    if others:
        blocks.append(_table(context, others, "links", "The other links", folded=True))
    return Section("links", "Links", blocks)


def _table(context: Context, names: list[str], slug: str, caption: str, *, folded: bool = False) -> Table:
    links = context.results.table("links").filter(pl.col("link").is_in(names))
    reasons = [(column, title) for column, title in REASONS if column in links.columns]
    packets = "offered_packets" if "offered_packets" in links.columns else None
    rows, data = [], []
    for name in names:
        for group in _using(context, name, context.groups):
            own = links.filter(pl.col("link") == name).join(group.flows.select("run").unique(), on="run", how="semi")
            if own.is_empty():
                continue
            offered = float(own["offered_bytes"].sum())
            count = float(own[packets].sum()) if packets else float("nan")
            drops = [100 * float(own[column].sum()) / count if count else 0.0 for column, _ in reasons]
            waiting = sample_of(own["queue_bytes"]) / 1e6
            queue, high, rate = float(waiting.mean()), float(np.percentile(waiting, 95)), mean(own["rate_mbps"])
            runs = own["run"].n_unique()
            numbers = [(offered / runs / 1e6, 1), *((drop, 3) for drop in drops), (queue, 2), (high, 2), (rate, 1)]
            rows.append([Cell(name), Cell(group.label), *(Cell(number(value, digits)) for value, digits in numbers)])
            shares = {
                f"{column.removesuffix('_packets')}_percent": d for (column, _), d in zip(reasons, drops, strict=True)
            }
            data.append(
                {"link": name, "group": group.name, "offered_mb_per_run": offered / runs / 1e6, **shares,
                 "queue_mean_mb": queue, "queue_p95_mb": high, "rate_mean_mbps": rate, "runs": runs}
            )  # fmt: skip
    return Table(
        name=slug,
        caption=caption,
        head=["Link", "", "offered per run (MB)", *(title + " (%)" for _, title in reasons), "mean queue (MB)",
              "95th percentile of queue (MB)", "mean rate (Mbit/s)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        words=(1,),
        folded=folded,
    )  # fmt: skip


def _using(context: Context, link: str, groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups with flows over a link; of a link that only other traffic takes, all."""
    return [one for one in groups if context.network.uses(one.rows.row(0, named=True), link)] or groups


def _queue(context: Context, link: str) -> Plot:
    drawing = figure(3.6)
    queue, drops = drawing.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    words = []
    groups = _using(context, link, context.drawn)
    for group in groups:
        run, _ = context.typical[group.number]
        part = context.link_series(run, link)
        t, look = part["t_s"].to_numpy(), group.look
        dense = len(t) > 4000
        backlog = (part["queue_bytes"] / 1e6).to_numpy()
        lost = (part["dropped_packets"].cast(pl.Float64)).to_numpy()
        queue.plot(t, backlog, color=look.color, ls=look.dash, lw=1.1, label=group.legend, rasterized=dense)
        drops.plot(t, lost, color=look.color, ls=look.dash, lw=1.1, rasterized=dense)
        words.append(
            f"{group.label}: largest queue {number(float(backlog.max()))} MB, {number(float(lost.sum()), 0)} drops"
        )
    queue.set_ylabel("Queue (MB)")
    drops.set_ylabel("Dropped packets\nper interval")
    drops.set_yscale("symlog", linthresh=10)
    plain_numbers(drops.yaxis)
    drops.set_xlabel("Time (s)")
    drops.set_xlim(left=0)
    from_zero([queue, drops])
    drawing.align_ylabels()
    legend_above(drawing, queue)
    return Plot(
        "queue",
        f"Queue of {link} and packets it dropped, over time, in the run of each group's representative flow.",
        "; ".join(words),
        drawing,
    )

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the link could carry, what a flow got, and the delay it saw, over time: a figure per group."""

from __future__ import annotations

import polars as pl

from perigee.metrics import largest, mean
from perigee.numbers import number
from perigee.report.context import Context, Group
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.sections.representative import line, rtt_of
from perigee.report.style import FAINT, figure


def section(context: Context) -> Section | None:
    """Return capacity, throughput and delay over time for the typical flow of each group, and a table."""
    link = context.main_link
    if link is None or not context.results.has("series"):
        return None
    table = _table(context, link)
    shown = [(group, context.series(*context.typical[group.key])) for group in context.groups]
    delays = pl.concat([rtt_of(part).drop_nulls() for _, part in shown])
    top = float(delays.quantile(0.998) or 1.0) * 1.08
    blocks: list[Block] = [table, *(_plot(context, group, part, link, top) for group, part in shown)]
    return Section("timeline", "Capacity, throughput and delay over time", blocks)


def _table(context: Context, link: str) -> Table:
    rows, data = [], []
    use = utilisation(context, link)
    for group in context.groups:
        own = group.flows.join(use, on="run", how="left")
        goodput = mean(own["goodput_mbps"])
        used = mean(own["utilisation_percent"])
        shares = context.with_metric(group, "retransmitted_percent")
        delay, high = mean(own["rtt_mean_ms"]), mean(own["rtt_p95_ms"])
        lost = mean(shares["retransmitted_percent"])
        numbers = [(goodput, 1), (used, 1), (delay, 1), (high, 1), (lost, 2)]
        rows.append([Cell(group.label), *(Cell(number(value, digits)) for value, digits in numbers)])
        data.append(
            {"group": group.key, "goodput_mbps": goodput, "utilisation_percent": used, "rtt_mean_ms": delay,
             "rtt_p95_ms": high, "retransmitted_percent": lost, "flows": own.height}
        )  # fmt: skip
    return Table(
        name="timeline",
        caption=f"Alone on the link: means over flows; capacity of {link} in use while the flow ran",
        head=["", "Throughput (Mbit/s)", "Capacity in use (%)", "Mean round-trip time (ms)", "95th percentile (ms)",
              "Retransmitted (%)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
    )  # fmt: skip


def utilisation(context: Context, link: str) -> pl.DataFrame:
    """Return the mean capacity of the link while flows ran and the share of it that was used, a row per run.

    Columns: `run, capacity_mbps, utilisation_percent`.
    """
    flows = context.results.table("flows").group_by("run").agg(
        pl.col("start_s").min().alias("from_s"), (pl.col("start_s") + pl.col("duration_s")).max().alias("until_s")
    )  # fmt: skip
    rows = context.results.table("links").filter(pl.col("link") == link).join(flows, on="run").sort("run", "t_s")
    step = pl.col("t_s").diff().over("run").fill_null(pl.col("t_s"))
    during = rows.with_columns(step.alias("step_s")).filter(
        (pl.col("t_s") > pl.col("from_s")) & (pl.col("t_s") - pl.col("step_s") < pl.col("until_s"))
    )
    could = (pl.col("rate_mbps") * pl.col("step_s")).sum()
    return during.group_by("run", maintain_order=True).agg(
        (could / pl.col("step_s").sum()).alias("capacity_mbps"),
        (100 * pl.col("delivered_bytes").sum() * 8e-6 / could).alias("utilisation_percent"),
    )


def _plot(context: Context, group: Group, part: pl.DataFrame, link: str, top: float) -> Plot:
    run, flow = context.typical[group.key]
    capacity = context.link_series(run, link)
    start = group.flows.filter((pl.col("run") == run) & (pl.col("flow") == flow))["start_s"][0]
    drawing = figure(3.4)
    rate, delay = drawing.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    t = (capacity["t_s"] - start).to_numpy()
    rate.fill_between(
        t, capacity["rate_mbps"].to_numpy(), step="pre", color=FAINT, lw=0, label=f"capacity of {link}",
        rasterized=len(t) > 4000,
    )  # fmt: skip
    line(rate, part["t_s"], part["goodput_mbps"], group, label="throughput")
    line(delay, part["t_s"], rtt_of(part), group)
    rate.set_title(group.label)
    rate.set_ylabel("Mbit/s")
    rate.set_ylim(bottom=0)
    rate.legend(loc="upper right", ncols=2, bbox_to_anchor=(1.0, 1.22), borderaxespad=0)
    delay.set_ylabel("Round-trip\ntime (ms)")
    delay.set_xlabel("Time (s)")
    delay.set_ylim(0, top)
    delay.set_xlim(0, largest(part["t_s"]) or 1.0)
    drawing.align_ylabels()
    goodput = mean(part["goodput_mbps"])
    return Plot(
        name=f"timeline-{group.key}".replace(" ", "").replace("=", "-").replace(",", "-"),
        caption=f"{group.label}: capacity of {link}, throughput and round-trip time (run {run}).",
        alt=f"{group.label}: mean throughput {number(goodput)} Mbit/s over the capacity of the link, which varies",
        figure=drawing,
    )

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Capacity of the link, throughput and delay of a flow over time: a figure per group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from perigee.groups.group import Group
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.legends import broken_title, legend_above
from perigee.report.model import Block, Cell, Plot, Section, Table, Text
from perigee.report.sections.representative import DENSE, line, rtt_of
from perigee.report.style import FAINT, WIDTH_IN, figure, plain_numbers
from perigee.report.utilisation import utilisation
from perigee.statistics.metrics import largest, mean, sample_of

MOST_PANELS = 4
"""Maximum number of points with drawn flows."""

LOG_FROM = 8
"""Ratio of delays above which their scale is logarithmic."""


@dataclass(frozen=True)
class _Drawn:
    """A flow over time.

    Attributes:
        group: its group.
        series: `t_s` since it began, `goodput_mbps`, `rtt_ms`.
        capacity: rows of the link in its run; None if the link is not on the flow's path.
        start_s: when it began.
        link: the directed link.
    """

    group: Group
    series: pl.DataFrame
    capacity: pl.DataFrame | None
    start_s: float
    link: str


def section(context: Context) -> Section | None:
    """Return capacity, throughput and delay over time for the typical flow of each group, and a table."""
    link = context.main_link
    if link is None or not context.results.has("series"):
        return None
    table = _table(context, link)
    some, left_out = context.some(MOST_PANELS)
    shown = [(group, context.series(*context.typical[group.number])) for group in some]
    delays = pl.concat([rtt_of(part).drop_nulls() for _, part in shown])
    known = sample_of(delays)
    scale = (float(known.min()) * 0.8, float(np.percentile(known, 99.8)) * 1.2) if len(known) else (0.0, 1.0)
    blocks: list[Block] = [
        table,
        *([Text(left_out)] if left_out else []),
        *(_plot(context, group, part, link, scale) for group, part in shown),
    ]
    return Section("timeline", "Capacity, throughput and delay over time", blocks)


def _table(context: Context, link: str) -> Table:
    rows, data = [], []
    for group in context.pooled(context.groups):
        own = group.flows
        takes = [row for row in own.iter_rows(named=True) if context.network.takes(row, link)]
        spans = [(row["run"], row["start_s"], row["start_s"] + row["duration_s"]) for row in takes]
        goodput = mean(own["goodput_mbps"])
        used = mean(utilisation(context, link, spans))
        shares = context.with_metric(group, "retransmitted_percent")
        delay, high = mean(own["rtt_mean_ms"]), mean(own["rtt_p95_ms"])
        lost = mean(shares["retransmitted_percent"])
        numbers = [(goodput, 1), (used, 1), (delay, 1), (high, 1), (lost, 2)]
        rows.append([Cell.naming(group), *(Cell(number(value, digits)) for value, digits in numbers)])
        data.append(
            {"group": group.name, "goodput_mbps": goodput, "utilisation_percent": used, "rtt_mean_ms": delay,
             "rtt_p95_ms": high, "retransmitted_percent": lost, "flows": own.height}
        )  # fmt: skip
    return Table(
        name="timeline",
        caption=f"Alone on the link: means over flows; capacity of {link} in use while the flow ran, by packets "
        "and what the link adds to each",
        head=["", "Throughput (Mbit/s)", "Capacity in use (%)", "Mean round-trip time (ms)", "95th percentile (ms)",
              "Retransmitted (%)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )  # fmt: skip


def capacity_area(axes: Axes, series: pl.DataFrame, start_s: float, label: str | None = None) -> None:
    """Draw the capacity of the link in each interval as a grey area."""
    ends = series["t_s"].to_numpy() - start_s
    edges = np.concatenate([[ends[0] - (ends[1] - ends[0] if len(ends) > 1 else ends[0])], ends])
    axes.stairs(
        series["rate_mbps"].to_numpy(), edges, fill=True, color=FAINT, lw=0, label=label, rasterized=len(ends) > DENSE,
    )  # fmt: skip


def _plot(context: Context, group: Group, part: pl.DataFrame, link: str, scale: tuple[float, float]) -> Plot:
    run, flow = context.typical[group.number]
    row = group.flows.row(by_predicate=(pl.col("run") == run) & (pl.col("flow") == flow), named=True)
    series = part.select("t_s", "goodput_mbps", rtt_of(part).alias("rtt_ms"))
    capacity = context.link_series(run, link) if context.network.takes(row, link) else None
    drawn = _Drawn(group, series, capacity, float(row["start_s"]), link)
    said = f"capacity of {link}, " if capacity is not None else ""
    goodput = mean(part["goodput_mbps"])
    return Plot.of(
        f"timeline-{group.name}",
        f"{group.label}: {said}throughput and round-trip time (run {run}).",
        f"{group.label}: mean throughput {number(goodput)} Mbit/s"
        + (" over the capacity of the link, which varies" if said else ""),
        partial(_figure, drawn, scale),
        data=series,
    )


def _figure(drawn: _Drawn, scale: tuple[float, float], width_in: float) -> Figure:
    is_wide = width_in == WIDTH_IN
    drawing = figure(3.4 if is_wide else 2.7, width_in)
    rate, delay = drawing.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    if drawn.capacity is not None:
        capacity_area(rate, drawn.capacity, drawn.start_s, f"capacity of {drawn.link}")
    line(rate, drawn.series["t_s"], drawn.series["goodput_mbps"], drawn.group.look, label="throughput")
    line(delay, drawn.series["t_s"], drawn.series["rtt_ms"], drawn.group.look)
    rate.set_title(broken_title(drawn.group.label, 0.7 * width_in))
    rate.set_ylabel("Throughput\n(Mbit/s)")
    rate.set_ylim(bottom=0)
    legend_above(drawing, rate)
    delay.set_ylabel("Round-trip\ntime (ms)")
    delay.set_xlabel("Time (s)")
    if scale[1] > LOG_FROM * scale[0] > 0:
        delay.set_yscale("log")
        delay.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plain_numbers(delay.yaxis)
        delay.yaxis.set_minor_locator(NullLocator())
        delay.set_ylim(scale)
    else:
        delay.set_ylim(0, scale[1])
    delay.set_xlim(0, largest(drawn.series["t_s"]) or 1.0)
    drawing.align_ylabels()
    return drawing

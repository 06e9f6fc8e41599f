# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One flow of each group, the nearest to its group's median, as three stacked graphs over time."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from perigee.numbers import number
from perigee.report.context import Context, Group
from perigee.report.model import Block, Plot, Section, Text
from perigee.report.style import figure
from perigee.statistics.metrics import largest, sample_of


def section(context: Context) -> Section | None:
    """Return a figure per group."""
    if not context.results.has("series"):
        return None
    chosen = {group.number: context.series(*context.typical[group.number]) for group in context.drawn}
    end = max(largest(part["t_s"]) for part in chosen.values())
    top_rate, top_rtt = _tops(list(chosen.values()))
    blocks: list[Block] = [
        Text(
            "The flow of each that is nearest to the median of its group in throughput, start-up throughput, "
            "round-trip time and retransmitted share. The scales are the same in all."
        )
    ]
    blocks += [_plot(context, group, chosen[group.number], (end, top_rate, top_rtt)) for group in context.drawn]
    return Section("representative", "A representative flow of each", blocks)


def _tops(parts: list[pl.DataFrame]) -> tuple[float, float]:
    """Return the upper ends of the scales of throughput and round-trip time, over all but the rarest values."""
    rates = np.concatenate([sample_of(part["goodput_mbps"]) for part in parts])
    delays = np.concatenate([sample_of(rtt_of(part)) for part in parts])
    return (
        float(np.percentile(rates, 99.9)) * 1.08 if len(rates) else 1.0,
        float(np.percentile(delays, 99.8)) * 1.08 if len(delays) else 1.0,
    )


def rtt_of(series: pl.DataFrame) -> pl.Series:
    """Return the round-trip time of each interval: its mean, else the smoothed one."""
    if "rtt_mean_ms" in series.columns and series["rtt_mean_ms"].count():
        return series["rtt_mean_ms"]
    return series["srtt_ms"]


def line(axes: Axes, x: pl.Series, y: pl.Series, group: Group, label: str | None = None) -> None:
    """Draw a time series; a dense one as pixels, so that the page stays small."""
    axes.plot(
        x.to_numpy(), y.cast(pl.Float64).to_numpy(), color=group.look.color, lw=1.1, label=label,
        rasterized=len(x) > 4000,
    )  # fmt: skip


def _plot(context: Context, group: Group, part: pl.DataFrame, tops: tuple[float, float, float]) -> Plot:
    end, top_rate, top_rtt = tops
    drawing = figure(4.3, 5.0)
    rate, delay, lost = drawing.subplots(3, 1, sharex=True, height_ratios=[3, 3, 2])
    t = part["t_s"]
    line(rate, t, part["goodput_mbps"], group)
    line(delay, t, rtt_of(part), group)
    sent = part["sent_packets"] if "sent_packets" in part.columns else part["goodput_mbps"] * 86.3
    share = (100 * part["retransmitted_packets"] / sent).fill_nan(0.0)
    lost.fill_between(t.to_numpy(), share.to_numpy(), step="pre", color=group.look.color, lw=0.6, alpha=0.8)
    rate.set_title(group.label)
    rate.set_ylabel("Throughput\n(Mbit/s)")
    delay.set_ylabel("Round-trip\ntime (ms)")
    lost.set_ylabel("Retrans-\nmitted (%)")
    lost.set_xlabel("Time since the download began (s)")
    rate.set_ylim(0, top_rate)
    delay.set_ylim(0, top_rtt)
    lost.set_ylim(0, max(1.0, largest(share) * 1.1))
    lost.set_xlim(0, end)
    drawing.align_ylabels()
    run, flow = context.typical[group.number]
    row = group.flows.filter((pl.col("run") == run) & (pl.col("flow") == flow)).row(0, named=True)
    mean = f"{number(row['goodput_mbps'])} Mbit/s over {number(row['duration_s'], 0)} s"
    return Plot(
        name=f"representative-{group.name}",
        caption=f"{group.label}: {mean} (run {run}).",
        alt=f"{group.label} over time: {mean}, mean round-trip time {number(row['rtt_mean_ms'], 0)} ms, "
        f"{row['retransmitted_packets']} packets retransmitted",
        figure=drawing,
        half=True,
    )

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The congestion window and retransmissions over time of one flow of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl
from matplotlib.figure import Figure

from perigee.groups.group import Group
from perigee.numbers import number
from perigee.report.charts.grid import grid
from perigee.report.context import Context
from perigee.report.model import Block, Plot, Section, Text
from perigee.report.sections.representative import DENSE_STROKES, line
from perigee.report.style import from_zero
from perigee.statistics.metrics import largest

MOST_PANELS = 4
"""Maximum number of points with drawn flows."""

IN_A_FIGURE = 2
"""Flows side by side."""


@dataclass(frozen=True)
class Trace:
    """A flow over time.

    Attributes:
        group: its group.
        run: its run.
        series: `t_s` since the flow began, `cwnd_packets`, `retransmitted_packets`, and `cwnd_bytes`, the payload of
            that many packets; null where nobody counted packets.
    """

    group: Group
    run: int
    series: pl.DataFrame


def section(context: Context) -> Section | None:
    """Return windows and retransmissions of the typical flow of each group; None if no sender reports its window."""
    if not context.results.has("series"):
        return None
    some, left_out = context.some(MOST_PANELS)
    traces = [_trace(context, group) for group in some]
    traces = [one for one in traces if one.series["cwnd_packets"].count()]
    if not traces:
        return None
    parts = [traces[begin : begin + IN_A_FIGURE] for begin in range(0, len(traces), IN_A_FIGURE)]
    blocks: list[Block] = [Text(left_out)] if left_out else []
    blocks += [_plot(place, part, context.interval_s) for place, part in enumerate(parts, 1)]
    return Section("window", "Window and retransmissions", blocks)


def _trace(context: Context, group: Group) -> Trace:
    run, flow = context.typical[group.number]
    series = context.series(run, flow)
    first_sent = (pl.col("sent_packets") - pl.col("retransmitted_packets")).sum()
    payload = pl.when(first_sent > 0).then(pl.col("acked_bytes").max() / first_sent)
    in_bytes = (pl.col("cwnd_packets") * payload).round().cast(pl.Int64).alias("cwnd_bytes")
    return Trace(group, run, series.select("t_s", "cwnd_packets", "retransmitted_packets", in_bytes))


def _plot(place: int, traces: Sequence[Trace], interval_s: float) -> Plot:
    words = []
    for one in traces:
        again = int(one.series["retransmitted_packets"].fill_null(0).sum())
        most = number(largest(one.series["cwnd_packets"]), 0)
        if one.series["cwnd_bytes"].count():
            most = f"{number(largest(one.series['cwnd_bytes']) / 1e6, 2)} MB, {most}"
        words.append(f"{one.group.label}: window of up to {most} packets, {again} retransmissions (run {one.run})")
    caption = f"Congestion window at the end of each interval of {number(interval_s, 1)} s, and retransmissions. "
    caption += "MB: at the mean payload of a packet. " if _is_in_bytes(traces) else ""
    data = pl.concat([one.series.select(pl.lit(one.group.name).alias("group"), pl.all()) for one in traces])
    said = "; ".join(words)
    return Plot.of(f"window-{place}", f"{caption}{said}.", said, partial(_figure, traces), data=data)


def _is_in_bytes(traces: Sequence[Trace]) -> bool:
    return all(one.series["cwnd_bytes"].count() for one in traces)


def _figure(traces: Sequence[Trace], width_in: float) -> Figure:
    names, label, scale = ("cwnd_packets", "retransmitted_packets"), "Window (packets)", 1.0
    if _is_in_bytes(traces):
        names, label, scale = ("cwnd_bytes", "retransmitted_packets"), "Window (MB)", 1e-6
    there = [(row, column) for row in range(len(names)) for column in range(len(traces))]
    laid = grid(
        width_in, len(names), [one.group.label for one in traces], there, height_in=1.5, narrowest_in=3.0,
        is_stacked=True,
    )  # fmt: skip
    for (row, column), axes in laid.panels.items():
        one = traces[column]
        t, values = one.series["t_s"], one.series[names[row]].fill_null(0)
        if row == 0:
            line(axes, t, values * scale, one.group.look)
        else:
            axes.vlines(t.to_numpy(), 0, values.to_numpy(), color=one.group.look.color, lw=0.7,
                        rasterized=len(t) > DENSE_STROKES)  # fmt: skip
        axes.set_xlim(left=0)
    from_zero(list(laid.panels.values()))
    laid.label("Time since the flow began (s)", [label, "Retransmitted (packets)"])
    laid.figure.align_ylabels()
    return laid.figure

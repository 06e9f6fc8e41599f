# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The congestion window and retransmissions over time of one flow of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl
from matplotlib.figure import Figure

from perigee.groups.group import Group
from perigee.groups.looks import Look
from perigee.groups.panels import hue_of
from perigee.numbers import number
from perigee.report.charts.grid import far_apart, grid
from perigee.report.context import Context
from perigee.report.model import Block, Plot, Section, Text
from perigee.report.sections.representative import DENSE_STROKES, line
from perigee.report.style import from_zero
from perigee.statistics.metrics import largest

MOST_PANELS, IN_A_FIGURE = 4, 2
"""Maximum number of points with drawn flows, and how many stand side by side."""


@dataclass(frozen=True)
class Trace:
    """A flow over time.

    Attributes:
        group: its group.
        label: what tells it from others of its panel; empty: nothing has to.
        look: of its curve.
        run: its run.
        series: `t_s` since the flow began, `cwnd_packets`, `retransmitted_packets`, and `cwnd_bytes`, the payload of
            that many packets; null where nobody counted packets.
    """

    group: Group
    label: str
    look: Look
    run: int
    series: pl.DataFrame


Traces = Sequence[tuple[str, Sequence[Trace]]]
"""The traces of each panel, which differ in their algorithm, and its title."""


def section(context: Context) -> Section | None:
    """Return windows and retransmissions of the typical flow of each group; None if no sender reports its window."""
    if not context.results.has("series"):
        return None
    looks = context.looks(hue_of(context.factors(context.drawn)))
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    drawn = [
        (context.label(panel.title), [_trace(context, group, label, looks.get(label, group.look))
                       for group, label in zip(panel.groups, panel.labels, strict=True)])
        for panel in kept
    ]  # fmt: skip
    drawn = [(title, [one for one in traces if one.series["cwnd_packets"].count()]) for title, traces in drawn]
    drawn = [(title, traces) for title, traces in drawn if traces]
    if not drawn:
        return None
    parts = [drawn[begin : begin + IN_A_FIGURE] for begin in range(0, len(drawn), IN_A_FIGURE)]
    blocks: list[Block] = [Text(left_out)] if left_out else []
    blocks += [_plot(place, part, context.interval_s) for place, part in enumerate(parts, 1)]
    return Section("window", "Window and retransmissions", blocks)


def _trace(context: Context, group: Group, label: str, look: Look) -> Trace:
    run, flow = context.typical[group.number]
    series = context.series(run, flow)
    first_sent = (pl.col("sent_packets") - pl.col("retransmitted_packets")).sum()
    payload = pl.when(first_sent > 0).then(pl.col("acked_bytes").max() / first_sent)
    in_bytes = (pl.col("cwnd_packets") * payload).round().cast(pl.Int64).alias("cwnd_bytes")
    return Trace(group, label, look, run, series.select("t_s", "cwnd_packets", "retransmitted_packets", in_bytes))


def _plot(place: int, drawn: Traces, interval_s: float) -> Plot:
    traces = [one for _, several in drawn for one in several]
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
    return Plot.of(f"window-{place}", caption.strip(), said, partial(_figure, drawn), data=data)


def _is_in_bytes(traces: Sequence[Trace]) -> bool:
    return all(one.series["cwnd_bytes"].count() for one in traces)


def _figure(drawn: Traces, width_in: float) -> Figure:
    names, label, scale = ("cwnd_packets", "retransmitted_packets"), "Window (packets)", 1.0
    if _is_in_bytes([one for _, several in drawn for one in several]):
        names, label, scale = ("cwnd_bytes", "retransmitted_packets"), "Window (MB)", 1e-6
    there = [(row, column) for row in range(len(names)) for column in range(len(drawn))]
    tops = [[max(largest(one.series[name]) for one in several) for _, several in drawn] for name in names]
    laid = grid(
        width_in, len(names), [title for title, _ in drawn], there, height_in=1.5, narrowest_in=3.0, is_stacked=True,
        labels=[one.label for one in drawn[0][1]], own_y=[row for row, top in enumerate(tops) if far_apart(top)],
    )  # fmt: skip
    for (row, column), axes in laid.panels.items():
        for one in drawn[column][1]:
            t, values = one.series["t_s"], one.series[names[row]].fill_null(0)
            if row == 0:
                line(axes, t, values * scale, one.look, one.label)
            else:
                axes.vlines(t.to_numpy(), 0, values.to_numpy(), color=one.look.color, lw=0.7,
                            rasterized=len(t) > DENSE_STROKES)  # fmt: skip
        axes.set_xlim(left=0)
    from_zero(list(laid.panels.values()))
    laid.legend_of_lines()
    laid.label("Time since the flow began (s)", [label, "Retransmitted (packets)"])
    laid.figure.align_ylabels()
    return laid.figure

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One flow of each group, the nearest to its group's median, over time: throughput, round trip, window, queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from perigee.errors import NothingToDrawError
from perigee.groups.group import Group
from perigee.groups.panels import Panel
from perigee.numbers import number
from perigee.report.charts.grid import together
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.model import Block, Plot, Section, Text
from perigee.report.style import WHOLE
from perigee.statistics.metrics import largest, sample_of

MOST_FLOWS = 8
"""Maximum number of flows to show, if not all have one panel."""

IN_A_FIGURE = 4
"""Flows side by side."""

SEGMENT_BYTES = 1448
"""Payload of a segment for the scale of windows, bytes."""

MOST_OF_A_WINDOW = 3.0
"""Upper limit of the scale of windows, as a multiple of the data in flight."""


@dataclass(frozen=True)
class Quantity:
    """A quantity over time.

    Attributes:
        name: name of its column.
        label: label of its axis.
        tail: share of the values within the scale, in %; outliers are cut off.
    """

    name: str
    label: str
    tail: float

    @property
    def unit(self) -> str:
        """The unit, from the label."""
        return self.label.rpartition("(")[2].removesuffix(")")


QUANTITIES = (
    Quantity("goodput_mbps", "Throughput (Mbit/s)", 99.9),
    Quantity("rtt_ms", "Round-trip time (ms)", 99.8),
    Quantity("cwnd_packets", "Window (packets)", 99.8),
    Quantity("queue_mb", "Queue (MB)", 100.0),
    Quantity("retransmitted_percent", "Retrans-\nmitted (%)", 100.0),
)


OVER_TIME = tuple(one.name for one in QUANTITIES)
"""Names of the quantities over time."""


@dataclass(frozen=True)
class Shown:
    """A flow over time.

    Attributes:
        group: its group.
        label: its label.
        run: its run.
        row: its row of `flows`.
        series: `t_s` since it began, and the columns of `QUANTITIES`.
        link: the directed link of the queue, in words; None: unknown.
    """

    group: Group
    label: str
    run: int
    row: Mapping[str, Any]
    series: pl.DataFrame
    link: str | None


def section(context: Context) -> Section | None:
    """Return a figure per point, a column per flow."""
    if not context.results.has("series"):
        return None
    every, _ = context.panels(context.drawn, len(context.drawn))
    largest_panel = max(len(panel.groups) for panel in every)
    kept, left_out = context.panels(context.drawn, max(1, MOST_FLOWS // largest_panel))
    blocks: list[Block] = [
        Text(
            "The flow of each that is nearest to the median of its group in throughput, start-up throughput, "
            "round-trip time and retransmitted share. Windows far beyond what is in flight are cut off. "
            f"{left_out}".strip()
        )
    ]
    for several in _side_by_side(kept):
        blocks += _plots(context, several)
    return Section("representative", "A representative flow of each", blocks)


def plot_of(context: Context, name: str) -> Plot:
    """Return one of `QUANTITIES` of a representative flow of each group over time, a panel per flow.

    Raises:
        NothingToDrawError: the results have no values of it over time.
    """
    (quantity,) = (one for one in QUANTITIES if one.name == name)
    flows = []
    if context.results.has("series"):
        kept, _ = context.panels(context.drawn, max(1, MOST_FLOWS // IN_A_FIGURE))
        every = [shown(context, group, group.label) for panel in kept for group in panel.groups]
        flows = [one for one in every if one.series[name].drop_nans().count()]
    tops = _tops(quantity, flows) if flows else []
    if not tops:
        raise NothingToDrawError(f"{name}: these results have no values of it over time")
    return _plot("", flows, {name: tops})


def rtt_of(series: pl.DataFrame) -> pl.Series:
    """Return the round-trip time of each interval: its mean, else the smoothed one."""
    if "rtt_mean_ms" in series.columns and series["rtt_mean_ms"].count():
        return series["rtt_mean_ms"]
    return series["srtt_ms"]


def shown(context: Context, group: Group, label: str) -> Shown:
    """Return the representative flow of a group."""
    run, flow = context.typical[group.number]
    row = group.flows.row(by_predicate=(pl.col("run") == run) & (pl.col("flow") == flow), named=True)
    part = context.series(run, flow)
    if "sent_packets" in part.columns:
        known = pl.col("sent_packets") > 0
        share: pl.Expr = pl.when(known).then(100 * pl.col("retransmitted_packets") / pl.col("sent_packets"))
    else:
        share = pl.lit(None, pl.Float64)
    series = part.select(
        "t_s", pl.col("goodput_mbps").cast(pl.Float64), rtt_of(part).cast(pl.Float64).alias("rtt_ms"),
        pl.col("cwnd_packets").cast(pl.Float64), share.cast(pl.Float64).alias("retransmitted_percent"),
    )  # fmt: skip
    link = context.link_of(row)
    if link is None:
        return Shown(group, label, run, row, series.with_columns(queue_mb=pl.lit(None, pl.Float64)), None)
    queue = context.link_series(run, link).select(
        (pl.col("t_s") - row["start_s"]).alias("t_s"), (pl.col("queue_bytes") / 1e6).alias("queue_mb")
    )
    near = series.sort("t_s").join_asof(queue.sort("t_s"), on="t_s", strategy="nearest", tolerance=context.interval_s)
    return Shown(group, label, run, row, near, context.link_said(link))


def _side_by_side(kept: Sequence[Panel]) -> list[list[Panel]]:
    """Return panels in figures: as many together as have few flows."""
    figures: list[list[Panel]] = []
    for panel in kept:
        if figures and sum(len(one.groups) for one in (*figures[-1], panel)) <= IN_A_FIGURE:
            figures[-1].append(panel)
        else:
            figures.append([panel])
    return figures


def _plots(context: Context, several: Sequence[Panel]) -> Iterator[Plot]:
    title = several[0].title if len(several) == 1 else ""
    flows = [
        shown(context, group, ", ".join(word for word in (label, "" if title else panel.title) if word) or group.label)
        for panel in several
        for group, label in zip(panel.groups, panel.labels, strict=True)
    ]
    tops = {one.name: _tops(one, flows) for one in QUANTITIES}
    for begin in range(0, len(flows), IN_A_FIGURE):
        part = flows[begin : begin + IN_A_FIGURE]
        yield _plot(title, part, {name: top[begin : begin + IN_A_FIGURE] for name, top in tops.items() if top})


def _tops(quantity: Quantity, flows: Sequence[Shown]) -> list[float]:
    """Return the upper limit of a quantity's scale for each flow: one for all unless they differ tenfold."""
    highest = _top(quantity, flows)
    if highest is None:
        return []
    typical = [float(one.series[quantity.name].drop_nans().median() or 0.0) for one in flows]  # type: ignore[arg-type]
    tops: dict[int, float] = {}
    for several in together(dict(enumerate(typical)), quantity.unit):
        top = _top(quantity, [flows[place] for place in several]) or highest
        tops |= dict.fromkeys(several, top)
    return [tops[place] for place in range(len(flows))]


def _top(quantity: Quantity, flows: Sequence[Shown]) -> float | None:
    """Return the upper limit of a quantity's scale over flows; None if no flow has a value above zero."""
    values = np.concatenate([sample_of(one.series[quantity.name]) for one in flows])
    values = values[np.isfinite(values)]
    if len(values) == 0 or not values.max() > 0:
        return None
    top = float(np.percentile(values, quantity.tail))
    if quantity.name == "cwnd_packets" and (held := max(_in_flight(one.series) for one in flows)) > 0:
        top = min(top, max(MOST_OF_A_WINDOW * held, 1.0))
    return 1.08 * top


def _in_flight(series: pl.DataFrame) -> float:
    """Return the maximum number of packets in flight, from throughput and round-trip time."""
    return largest(series["goodput_mbps"] * series["rtt_ms"]) * 1e3 / 8 / SEGMENT_BYTES


def _plot(title: str, flows: Sequence[Shown], tops: Mapping[str, Sequence[float]]) -> Plot:
    means = [f"{number(one.row['goodput_mbps'])} Mbit/s over {number(one.row['duration_s'], 0)} s" for one in flows]
    of = f"{title}: " if title else ""
    links = dict.fromkeys(one.link for one in flows if one.link)
    said = [f"{one.label}: {mean} (run {one.run})" for one, mean in zip(flows, means, strict=True)]
    caption = f"{of}{'; '.join(said)}." + (f" Queue: of {'; '.join(links)}." if links and "queue_mb" in tops else "")
    alt = "; ".join(
        f"{one.label} over time: {', '.join([mean, *_known(one.row)])}" for one, mean in zip(flows, means, strict=True)
    )
    data = pl.concat(
        [
            one.series.select(
                pl.lit(one.group.name).alias("group"), pl.lit(one.run, pl.Int64).alias("run"), "t_s",
                *(quantity.name for quantity in QUANTITIES),
            )
            for one in flows
        ]
    )  # fmt: skip
    name = "-".join(word for word in ("representative", title, flows[0].label if len(flows) == 1 else "") if word)
    return Plot.of(name, caption, of + alt, _draw(flows, tops), data=data)


def _known(row: Mapping[str, Any]) -> list[str]:
    """Return the round-trip time and retransmissions of a flow in words, as far as known."""
    words = [] if row["rtt_mean_ms"] is None else [f"mean round-trip time {number(row['rtt_mean_ms'], 0)} ms"]
    resent = row["retransmitted_packets"]
    return words if resent is None else [*words, f"{number(resent, 0)} packets retransmitted"]


def _draw(flows: Sequence[Shown], tops: Mapping[str, Sequence[float]]) -> Callable[[float], Figure]:
    rows = [one for one in QUANTITIES if one.name in tops]
    panels = [TimePanel(one.label, [_curves(one, quantity) for quantity in rows]) for one in flows]
    ends = [[min(top, WHOLE) if one.unit == "%" else top for top in tops[one.name]] for one in rows]
    return partial(
        over_time, panels, [one.label for one in rows], "Time since the flow began (s)", narrowest_in=1.6,
        height_in=1.0, tops=ends,
    )  # fmt: skip


def _curves(one: Shown, quantity: Quantity) -> list[Curve]:
    values = one.series[quantity.name]
    if not values.drop_nans().count():
        return []
    if quantity.name == "retransmitted_percent":
        return [Curve("", one.group.look, one.series["t_s"], values.fill_nan(0.0).fill_null(0.0), form="filled")]
    return [Curve("", one.group.look, one.series["t_s"], values)]

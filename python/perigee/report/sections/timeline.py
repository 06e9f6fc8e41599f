# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Capacity of the link, throughput and delay over time: a figure per point, a column per flow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from perigee.groups.factors import capital
from perigee.groups.group import Group
from perigee.groups.looks import other
from perigee.numbers import number
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.measures import GROUP, Measure, measures
from perigee.report.model import Block, Plot, Section, Table, Text
from perigee.report.sections.representative import rtt_of
from perigee.report.utilisation import utilisation
from perigee.statistics.metrics import mean

MOST_PANELS = 4
"""Maximum number of points with drawn flows."""

MOST_COLUMNS = 4
"""Maximum number of flows side by side."""

HEADINGS = ("Throughput (Mbit/s)", "Round-trip time (ms)")


@dataclass(frozen=True)
class _Drawn:
    """A flow over time.

    Attributes:
        group: its group.
        label: what it is called in its figure.
        run: its run.
        series: `t_s` since it began, `goodput_mbps`, `rtt_ms`.
        capacity: rows of the link in its run; None if the link is not on the flow's path.
        start_s: when it began.
        link: the directed link, in words.
    """

    group: Group
    label: str
    run: int
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
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    shown = [
        (panel.title, _drawn(context, group, label or group.label, link))
        for panel in kept
        for group, label in zip(panel.groups, panel.labels, strict=True)
    ]
    blocks: list[Block] = [table, *([Text(left_out)] if left_out else [])]
    for title, rest in itertools.groupby(shown, key=lambda one: one[0]):
        flows = [one for _, one in rest]
        # Lines of about the same length.
        lines = -(-len(flows) // MOST_COLUMNS)
        in_a_line = -(-len(flows) // lines)
        blocks += [
            _plot(title, flows[begin : begin + in_a_line], is_first=begin == 0)
            for begin in range(0, len(flows), in_a_line)
        ]
    return Section("timeline", "Capacity, throughput and delay over time", blocks)


def _table(context: Context, link: str) -> Table:
    facts = []
    for group in context.pooled(context.groups):
        own = group.flows
        takes = [row for row in own.iter_rows(named=True) if context.network.takes(row, link)]
        spans = [(row["run"], row["start_s"], row["start_s"] + row["duration_s"]) for row in takes]
        shares = context.with_metric(group, "retransmitted_percent")
        facts.append({
            "group": group, "goodput_mbps": mean(own["goodput_mbps"]),
            "utilisation_percent": mean(utilisation(context, link, spans)), "rtt_mean_ms": mean(own["rtt_mean_ms"]),
            "rtt_p95_ms": mean(own["rtt_p95_ms"]), "retransmitted_percent": mean(shares["retransmitted_percent"]),
            "flows": own.height,
        })  # fmt: skip
    return measures(
        "timeline",
        f"Alone on the link: means over flows; capacity of {context.link_said(link)} in use while the flow ran, by "
        "packets and what the link adds to each",
        [
            GROUP, Measure("goodput_mbps", "Throughput (Mbit/s)", 1),
            Measure("utilisation_percent", "Capacity in use (%)", 1),
            Measure("rtt_mean_ms", "Mean round-trip time (ms)", 1), Measure("rtt_p95_ms", "95th percentile (ms)", 1),
            Measure("retransmitted_percent", "Retransmitted (%)", 2),
        ],
        facts,
    )  # fmt: skip


def capacity(series: pl.DataFrame, start_s: float, label: str = "") -> Curve:
    """Return the capacity of the link in each interval as a grey area, since an instant."""
    return Curve(label, other(0), series["t_s"] - start_s, series["rate_mbps"], form="area")


def _drawn(context: Context, group: Group, label: str, link: str) -> _Drawn:
    """Return the representative flow of a group over time."""
    run, flow = context.typical[group.number]
    part = context.series(run, flow)
    row = group.flows.row(by_predicate=(pl.col("run") == run) & (pl.col("flow") == flow), named=True)
    series = part.select("t_s", "goodput_mbps", rtt_of(part).alias("rtt_ms"))
    capacity = context.link_series(run, link) if context.network.takes(row, link) else None
    return _Drawn(group, label, run, series, capacity, float(row["start_s"]), context.link_said(link))


def _panel(one: _Drawn) -> TimePanel:
    t, style = one.series["t_s"], one.group.look
    rates = [Curve("", style, t, one.series["goodput_mbps"])]
    if one.capacity is not None:
        rates.insert(0, capacity(one.capacity, one.start_s, f"capacity of {one.link}"))
    return TimePanel(one.label, [rates, [Curve("", style, t, one.series["rtt_ms"])]])


def _plot(title: str, flows: Sequence[_Drawn], *, is_first: bool) -> Plot:
    of = f"{title}: " if title else ""
    names = ", ".join(f"{one.label} (run {one.run})" for one in flows)
    varies = next((one.link for one in flows if one.capacity is not None), None)
    said = f"capacity of {varies}, " if varies else ""
    means = "; ".join(f"{one.label} {number(mean(one.series['goodput_mbps']))} Mbit/s" for one in flows)
    data = pl.concat([one.series.select(pl.lit(one.group.name).alias("group"), pl.all()) for one in flows])
    words = [flows[0].group.name] if len(flows) == 1 else [title, "" if is_first else flows[0].label]
    return Plot.of(
        "-".join(["timeline", *filter(None, words)]),
        capital(f"{of}{said}throughput and round-trip time of {names}."),
        f"{of}mean throughput of {means}" + (", over the capacity of the link, which varies" if varies else ""),
        partial(over_time, [_panel(one) for one in flows], HEADINGS, "Time (s)", narrowest_in=1.6),
        data=data,
    )

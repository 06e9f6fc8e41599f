# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Capacity of the link, throughput and delay over time: a figure per point, a column per flow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import polars as pl

from perigee.groups.looks import other
from perigee.numbers import number
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table, Text
from perigee.report.sections import representative
from perigee.report.sections.representative import Shown
from perigee.report.utilisation import utilisation
from perigee.statistics.metrics import mean

MOST_PANELS = 4
"""Maximum number of points with drawn flows."""

MOST_COLUMNS = 4
"""Maximum number of flows side by side."""

HEADINGS = ("Throughput (Mbit/s)", "Round-trip time (ms)")


def section(context: Context) -> Section | None:
    """Return capacity, throughput and delay over time for the typical flow of each group, and a table."""
    link = context.main_link
    if link is None or not context.results.has("series"):
        return None
    table = _table(context, link)
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    shown = [
        (panel.title, representative.shown(context, group, label or group.label))
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
            _plot(context, link, title, flows[begin : begin + in_a_line], is_first=begin == 0)
            for begin in range(0, len(flows), in_a_line)
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
        caption=f"Alone on the link: means over flows; capacity of {context.link_said(link)} in use while the "
        "flow ran, by packets and what the link adds to each",
        head=["", "Throughput (Mbit/s)", "Capacity in use (%)", "Mean round-trip time (ms)", "95th percentile (ms)",
              "Retransmitted (%)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )  # fmt: skip


def capacity(series: pl.DataFrame, start_s: float, label: str = "") -> Curve:
    """Return the capacity of the link in each interval as a grey area, since an instant."""
    return Curve(label, other(0), series["t_s"] - start_s, series["rate_mbps"], form="area")


def _panel(context: Context, link: str, one: Shown) -> TimePanel:
    t, style = one.series["t_s"], one.group.look
    rates = [Curve("", style, t, one.series["goodput_mbps"], width=1.1)]
    if context.network.takes(one.row, link):
        label = f"capacity of {context.link_said(link)}"
        rates.insert(0, capacity(context.link_series(one.run, link), float(one.row["start_s"]), label))
    return TimePanel(one.label, [rates, [Curve("", style, t, one.series["rtt_ms"], width=1.1)]])


def _plot(context: Context, link: str, title: str, flows: Sequence[Shown], *, is_first: bool) -> Plot:
    of = f"{title}: " if title else ""
    names = ", ".join(f"{one.label} (run {one.run})" for one in flows)
    varies = any(context.network.takes(one.row, link) for one in flows)
    said = f"capacity of {context.link_said(link)}, " if varies else ""
    means = "; ".join(f"{one.label} {number(mean(one.series['goodput_mbps']))} Mbit/s" for one in flows)
    data = pl.concat(
        one.series.select(pl.lit(one.group.name).alias("group"), "t_s", "goodput_mbps", "rtt_ms") for one in flows
    )
    words = [flows[0].group.name] if len(flows) == 1 else [title, "" if is_first else flows[0].label]
    return Plot.of(
        "-".join(["timeline", *filter(None, words)]),
        f"{of}{said}throughput and round-trip time of {names}.",
        f"{of}mean throughput of {means}" + (", over the capacity of the link, which varies" if varies else ""),
        partial(over_time, [_panel(context, link, one) for one in flows], HEADINGS, "Time (s)", narrowest_in=1.6),
        data=data,
    )

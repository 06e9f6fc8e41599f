# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Capacity of the link, throughput and delay over time: a figure per point, a column per flow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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

MOST_COLUMNS, MOST_NARROW_COLUMNS = 4, 2
"""Maximum number of flows side by side, at the full width of a page and in a column of print."""

LOG_FROM = 8
"""Ratio of delays above which their scale is logarithmic."""


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
        link: the directed link.
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
    known = sample_of(pl.concat([one.series["rtt_ms"].drop_nulls() for _, one in shown]))
    scale = (float(known.min()) * 0.8, float(np.percentile(known, 99.8)) * 1.2) if len(known) else (0.0, 1.0)
    blocks: list[Block] = [table, *([Text(left_out)] if left_out else [])]
    for title, rest in itertools.groupby(shown, key=lambda one: one[0]):
        flows = [one for _, one in rest]
        # Lines of about the same length.
        lines = -(-len(flows) // MOST_COLUMNS)
        in_a_line = -(-len(flows) // lines)
        blocks += [
            _plot(title, flows[begin : begin + in_a_line], scale, is_first=begin == 0)
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


def _drawn(context: Context, group: Group, label: str, link: str) -> _Drawn:
    """Return the representative flow of a group over time."""
    run, flow = context.typical[group.number]
    part = context.series(run, flow)
    row = group.flows.row(by_predicate=(pl.col("run") == run) & (pl.col("flow") == flow), named=True)
    series = part.select("t_s", "goodput_mbps", rtt_of(part).alias("rtt_ms"))
    capacity = context.link_series(run, link) if context.network.takes(row, link) else None
    return _Drawn(group, label, run, series, capacity, float(row["start_s"]), link)


def _plot(title: str, flows: Sequence[_Drawn], scale: tuple[float, float], *, is_first: bool) -> Plot:
    of = f"{title}: " if title else ""
    names = ", ".join(f"{one.label} (run {one.run})" for one in flows)
    varies = next((one.link for one in flows if one.capacity is not None), None)
    said = f"capacity of {varies}, " if varies else ""
    means = "; ".join(f"{one.label} {number(mean(one.series['goodput_mbps']))} Mbit/s" for one in flows)
    data = pl.concat([one.series.select(pl.lit(one.group.name).alias("group"), pl.all()) for one in flows])
    words = [flows[0].group.name] if len(flows) == 1 else [title, "" if is_first else flows[0].label]
    return Plot.of(
        "-".join(["timeline", *filter(None, words)]),
        f"{of}{said}throughput and round-trip time of {names}.",
        f"{of}mean throughput of {means}" + (", over the capacity of the link, which varies" if varies else ""),
        partial(_figure, flows, scale),
        data=data,
    )


def _figure(flows: Sequence[_Drawn], scale: tuple[float, float], width_in: float) -> Figure:
    columns = min(len(flows), MOST_COLUMNS if width_in == WIDTH_IN else MOST_NARROW_COLUMNS)
    lines = -(-len(flows) // columns)
    height_in = 3.4 if columns == 1 and width_in == WIDTH_IN else 2.7
    drawing = figure(height_in * lines, width_in)
    panels = drawing.subplots(
        2 * lines, columns, sharex="col", sharey="row", height_ratios=[3, 2] * lines, squeeze=False
    )
    for place, drawn in enumerate(flows):
        line_of, column = divmod(place, columns)
        rate, delay = panels[2 * line_of][column], panels[2 * line_of + 1][column]
        if drawn.capacity is not None:
            capacity_area(rate, drawn.capacity, drawn.start_s, f"capacity of {drawn.link}")
        line(rate, drawn.series["t_s"], drawn.series["goodput_mbps"], drawn.group.look)
        line(delay, drawn.series["t_s"], drawn.series["rtt_ms"], drawn.group.look)
        rate.set_title(broken_title(drawn.label, 0.7 * width_in / columns))
        rate.set_ylim(bottom=0)
        delay.set_xlabel("Time (s)")
        delay.set_xlim(0, largest(drawn.series["t_s"]) or 1.0)
        if column == 0:
            rate.set_ylabel("Throughput\n(Mbit/s)")
            delay.set_ylabel("Round-trip\ntime (ms)")
        if scale[1] > LOG_FROM * scale[0] > 0:
            delay.set_yscale("log")
            delay.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            plain_numbers(delay.yaxis)
            delay.yaxis.set_minor_locator(NullLocator())
            delay.set_ylim(scale)
        else:
            delay.set_ylim(0, scale[1])
    if empty := lines * columns - len(flows):
        for axes in panels[-2:, -empty:].flat:
            axes.set_visible(False)
    legend_above(drawing, panels[0][0])
    drawing.align_ylabels()
    return drawing

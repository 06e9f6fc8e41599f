# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Every algorithm on every path: window, round-trip time and throughput over time, a row of panels for each.

For a study whose flow goes to one node per path, alone and with another flow beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.looks import Look
from perigee.headers import IPV4, TCP, TCP_TIMESTAMPS
from perigee.numbers import number
from perigee.report.charts.gallery import Quantity, Scale, Strip, overview, strips, tops
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table, Text
from perigee.report.sections.representative import rtt_of
from perigee.statistics.estimates import jain
from perigee.statistics.metrics import mean, sample_of
from perigee.store.outcomes import has_failed

REFERENCE = "cubic"
"""Algorithm drawn behind every other one."""

HEADERS_BYTES = IPV4 + TCP + TCP_TIMESTAMPS
"""Header bytes of a packet."""

REACHED = 0.9
"""Share of the capacity that defines full use."""

ALIKE = 0.5
"""Ratio of throughputs below which the scale does not begin at zero."""

CURVES = ("t_s", "cwnd_packets", "rtt_ms", "goodput_mbps", "retransmitted_packets")
"""Columns drawn over time, and written as CSV."""


@dataclass(frozen=True)
class Path:
    """A path with all its flows.

    Attributes:
        node: destination of its flows.
        label: its label.
        alone: flows alone in their run, with `dropped_percent` of their link.
        beside: flows with a competing flow, with `other_mbps`, its throughput in the steady phase.
        rate_mbps: rate of the link.
        payload_mbps: payload share of that rate.
        rtt_ms: round-trip time without queue.
    """

    node: str
    label: str
    alone: pl.DataFrame
    beside: pl.DataFrame
    rate_mbps: float
    payload_mbps: float
    rtt_ms: float

    def of(self, cc: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return an algorithm's flows: alone, and with the competing flow."""
        return self.alone.filter(pl.col("cc") == cc), self.beside.filter(pl.col("cc") == cc)


@dataclass(frozen=True)
class Figures:
    """One algorithm on one path, means over rounds; NaN: no value.

    Attributes:
        to_full_s: time to the end of the first second at 90 % of the capacity.
        goodput_mbps: throughput alone.
        queueing_ms: mean round-trip time in excess of the idle path's.
        dropped_percent: packets that the link dropped or lost.
        share_percent: share of the total throughput in the steady phase, with the competing flow.
        jain: Jain's index in that phase.
    """

    to_full_s: float
    goodput_mbps: float
    queueing_ms: float
    dropped_percent: float
    share_percent: float
    jain: float


def section(context: Context) -> Section | None:
    """Return an overview, and a table and a figure for each path."""
    if not (context.results.has("series") and context.results.has("links")):
        return None
    paths = _paths(context)
    if not paths:
        return None
    names = _algorithms(context, paths)
    found = {(path.node, cc): _figures(context, path, cc) for path in paths for cc in names}
    blocks: list[Block] = [
        Text(_introduction(context, names)),
        _overview(context, paths, names, found),
    ]
    for path in paths:
        blocks += [_table(context, path, names, found), _panels(context, path, names)]
    return Section("gallery", "Gallery", blocks)


def _introduction(context: Context, names: list[str]) -> str:
    behind = f"; behind each lies {context.label(REFERENCE)}'s in grey" if REFERENCE in names else ""
    return (
        f"One flow, alone on each path, and the same with a flow of {context.label(REFERENCE)} beside it. The curves "
        f"are those of the first round, alone{behind}. Marks under a window are intervals with retransmissions."
    )


def _paths(context: Context) -> list[Path]:
    flows = context.rows.filter((pl.col("kind") == "bulk") & ~has_failed())
    flows = flows.with_columns(pl.len().over("run").alias("in_run"))
    alone = flows.filter(pl.col("in_run") == 1).join(_drops(context), on="run", how="left")
    main = alone["flow"].unique()
    others = flows.filter((pl.col("in_run") == 2) & ~pl.col("flow").is_in(main.implode()))
    beside = flows.filter((pl.col("in_run") == 2) & pl.col("flow").is_in(main.implode())).join(
        others.select("run", pl.col("steady_goodput_mbps").alias("other_mbps")), on="run"
    )
    made = []
    for node in alone["to_node"].unique(maintain_order=True):
        own = alone.filter(pl.col("to_node") == node)
        payload = mean(own["received_bytes"] / (own["sent_packets"] - own["retransmitted_packets"]))
        rate = mean(own["rate_mbps"])
        both = flows.filter(pl.col("to_node") == node)
        made.append(
            Path(
                node=node,
                label=context.label(node),
                alone=own,
                beside=beside.filter(pl.col("to_node") == node),
                rate_mbps=rate,
                payload_mbps=rate * payload / (payload + HEADERS_BYTES),
                rtt_ms=float(sample_of(both["rtt_min_ms"]).min()),
            )
        )
    return made


def _drops(context: Context) -> pl.DataFrame:
    """Return the loss, rate and name of the busiest link of each run."""
    links = context.results.table("links").group_by("run", "link").agg(
        pl.col("delivered_bytes").sum(),
        (100 * pl.col("dropped_packets").sum() / pl.col("offered_packets").sum()).alias("dropped_percent"),
        pl.col("rate_mbps").mean(),
    )  # fmt: skip
    busiest = links.sort("run", "delivered_bytes", "link", descending=[False, True, False]).group_by("run").first()
    return busiest.select("run", "dropped_percent", "rate_mbps")


def _algorithms(context: Context, paths: list[Path]) -> list[str]:
    there = list(dict.fromkeys(cc for path in paths for cc in path.alone["cc"]))
    first = [cc for cc in context.settings.order if cc in there]
    return first + [cc for cc in there if cc not in first]


def _figures(context: Context, path: Path, cc: str) -> Figures:
    alone, beside = path.of(cc)
    times = [_time_to_full(context, path, run, flow) for run, flow in alone.select("run", "flow").iter_rows()]
    known = [time for time in times if time is not None]
    pairs = beside.select("steady_goodput_mbps", "other_mbps").drop_nulls()
    own = pairs["steady_goodput_mbps"]
    fair = [jain(np.array(pair)) for pair in pairs.iter_rows()]
    return Figures(
        to_full_s=sum(known) / len(known) if known else math.nan,
        goodput_mbps=mean(alone["goodput_mbps"]),
        queueing_ms=mean(alone["rtt_mean_ms"]) - path.rtt_ms,
        dropped_percent=mean(alone["dropped_percent"]),
        share_percent=100 * mean(own / (own + pairs["other_mbps"])) if len(own) else math.nan,
        jain=sum(fair) / len(fair) if fair else math.nan,
    )


def _time_to_full(context: Context, path: Path, run: int, flow: str) -> float | None:
    series = context.series(run, flow)
    step = float(series["t_s"][1] - series["t_s"][0]) if series.height > 1 else 1.0
    in_a_second = max(1, round(1 / step))
    rates = series["goodput_mbps"].rolling_mean(in_a_second)
    full = series.filter(rates >= REACHED * path.payload_mbps)["t_s"]
    return float(full[0]) if len(full) else None


def _table(context: Context, path: Path, names: list[str], found: dict[tuple[str, str], Figures]) -> Table:
    rows, data = [], []
    for cc in names:
        own = found[path.node, cc]
        never = Cell("never") if math.isnan(own.to_full_s) else Cell(number(own.to_full_s, 1))
        cells = [(own.goodput_mbps, 1), (own.queueing_ms, 1), (own.dropped_percent, 2), (own.share_percent, 0)]
        rows.append(
            [Cell(context.label(cc)), never, *(Cell(number(value, digits)) for value, digits in cells),
             Cell(number(own.jain, 2))]
        )  # fmt: skip
        data.append(
            {
                "path": path.node,
                "cc": cc,
                **{key: None if math.isnan(value) else value for key, value in vars(own).items()},
            }
        )
    return Table(
        name=f"gallery-{path.node}",
        caption=f"{path.label}: means over rounds",
        head=["", "Time to 90 % of the capacity (s)", "Throughput (Mbit/s)", "Queueing delay (ms)", "Lost (%)",
              "Share (%)", "Jain"],
        groups=[("", 1), ("alone", 4), (f"beside {context.label(REFERENCE)}", 2)],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        notes=[
            f"Capacity: {number(path.payload_mbps)} Mbit/s of payload. Queueing delay: mean round trip beyond "
            f"{number(path.rtt_ms, 0)} ms. Lost: on the link, in its queue or in the air. Share and Jain's index "
            "(1: equal): of the throughputs in the second half."
        ],
    )  # fmt: skip


def _overview(context: Context, paths: list[Path], names: list[str], found: dict[tuple[str, str], Figures]) -> Plot:
    columns = {
        (path.label, context.label(cc)): _at_a_glance(path, found[path.node, cc]) for path in paths for cc in names
    }
    by_scale = [{key: values[place] for key, values in columns.items()} for place in range(4)]
    rates_percent = [value for value in by_scale[1].values() if not math.isnan(value)]
    alike = bool(rates_percent) and min(rates_percent) > ALIKE * max(rates_percent)
    scales = [
        Scale("Time to 90 % of the capacity (s)", by_scale[0], higher_is_better=False),
        Scale("Throughput (% of the capacity)", by_scale[1], from_zero=not alike, higher_is_better=True),
        Scale("Queueing delay (% of idle round trip)", by_scale[2], higher_is_better=False),
        Scale(f"Share beside {context.label(REFERENCE)} (%)", by_scale[3], ends=(0, 100), line=50),
    ]
    never = any(math.isnan(value) for value in by_scale[0].values())
    words = []
    for cc in names:
        rates = [f"{number(found[path.node, cc].goodput_mbps)} Mbit/s on {path.node}" for path in paths]
        words.append(f"{context.label(cc)}: {', '.join(rates)}")
    return Plot.of(
        "gallery-overview",
        "All paths at a glance, means over rounds"
        + ("; no mark in the first column: never reached. " if never else ". ")
        + (
            "The scale of the throughputs does not begin at zero; in the grey band they are practically equal to the "
            "highest. "
            if alike
            else ""
        )
        + f"Dashed: an equal share with {context.label(REFERENCE)}.",
        "; ".join(words),
        partial(overview, _looks(context, names), [path.label for path in paths], scales),
    )


def _at_a_glance(path: Path, own: Figures) -> tuple[float, float, float, float]:
    return (
        own.to_full_s,
        100 * own.goodput_mbps / path.payload_mbps,
        100 * own.queueing_ms / path.rtt_ms,
        own.share_percent,
    )


def _panels(context: Context, path: Path, names: list[str]) -> Plot:
    shown = {cc: _first(context, path, cc) for cc in names}
    reference = shown.get(REFERENCE)
    held = path.rate_mbps * 1e6 / 8 * path.rtt_ms / 1e3 / 1500
    window, delay = tops(list(shown.values()), held, path.rtt_ms)
    quantities = (
        Quantity("cwnd_packets", "Window (packets)", 0, window, held),
        Quantity("rtt_ms", "Round-trip time (ms)", 0.9 * path.rtt_ms, delay, path.rtt_ms),
        Quantity(
            "goodput_mbps", "Throughput (Mbit/s)", 0, 1.15 * path.payload_mbps, path.payload_mbps,
            ticks=(0, path.rate_mbps / 2, path.rate_mbps),
        ),
    )  # fmt: skip
    rows = [
        Strip(label, look, shown[cc]) for cc, (label, look) in zip(names, _looks(context, names).items(), strict=True)
    ]
    words = [
        f"{context.label(cc)} {number(mean(part['goodput_mbps']))} Mbit/s at {number(mean(part['rtt_ms']), 0)} ms"
        for cc, part in shown.items()
    ]
    return Plot.of(
        f"gallery-{path.node}",
        f"{path.label}. Dashed: the bandwidth-delay product, the idle round trip, the capacity. "
        + (f"Grey: {context.label(REFERENCE)}. " if reference is not None else "")
        + "Windows beyond the scale are cut off.",
        "; ".join(words),
        partial(strips, rows, quantities, reference, path.label),
        data=pl.concat([part.select(pl.lit(cc).alias("cc"), *CURVES) for cc, part in shown.items()]),
    )


def _first(context: Context, path: Path, cc: str) -> pl.DataFrame:
    """Return the series of the algorithm's flow in the first round, with its round trips as `rtt_ms`."""
    row = path.of(cc)[0].sort("round", "run").row(0, named=True)
    series = context.series(row["run"], row["flow"])
    return series.with_columns(rtt_of(series).alias("rtt_ms"))


def _looks(context: Context, names: list[str]) -> dict[str, Look]:
    """Return the look of each algorithm by its label, as in every figure of the report."""
    return {context.label(cc): context.look_of_algorithm(context.label(cc)) for cc in names}

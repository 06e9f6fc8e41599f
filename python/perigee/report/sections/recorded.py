# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The first screen of recordings: in a sentence what they hold, throughput with its losses, and what limited flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from perigee.groups.group import Group
from perigee.groups.looks import Look
from perigee.numbers import counted, number
from perigee.report.charts.grid import grid
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.sections.representative import DENSE_STROKES, line, rtt_of
from perigee.report.style import INK, from_zero
from perigee.store.results import Results

MOST_DRAWN, MOST_NAMED = 4, 2
"""Flows in the figure, the largest; files with their names in the title."""
FULL_WINDOW = 0.9
"""Share of the receiver's largest window from which data in flight fill it."""
RAISED_SHARE, RAISED_MS = 0.1, 5.0
"""A queue stands where the round trip is above the shortest one by this share of it, and by at least these ms."""
LIMITS = {
    "path": ("Path full", "a queue on the path, which is full"),
    "receiver": ("Receiver's window", "the receiver's window"),
    "window": ("Sender's window", "the sender's own window, below what the path holds"),
    "silent": ("Silence", "silence: nothing was sent"),
}
"""Limits of a flow: at the head of a column, and in a sentence."""
HOW = (
    "Judged in each interval of the series, in this order: silence where nothing was sent; the receiver's window where "
    f"data in flight fill {100 * FULL_WINDOW:.0f} % of the largest one; a queue where the round trip is longer than "
    f"the shortest by {100 * RAISED_SHARE:.0f} % and {RAISED_MS:g} ms; otherwise the sender's window. Where the "
    "round trip of a link varies by itself, that counts as a queue. A sender's own qlog has the "
    "seconds of flow control (the receiver's window) and of silence."
)


@dataclass(frozen=True)
class Recorded:
    """A flow of a recording.

    Attributes:
        label: its name.
        look: of its curve.
        row: its row of `flows`.
        seen: its row of `connections`; empty where no capture has it.
        series: in order, `t_s` from its beginning.
        losses: `t_s` and `packets` of each loss; of a file without them, of each interval with retransmissions.
    """

    label: str
    look: Look
    row: Mapping[str, Any]
    seen: Mapping[str, Any]
    series: pl.DataFrame
    losses: pl.DataFrame

    def limits(self) -> dict[str, float]:
        """Return the share of its time for which each of `LIMITS` held it; empty where round trips are unknown."""
        shortest_ms, trips = self.row["rtt_min_ms"], rtt_of(self.series)
        if shortest_ms is None or not trips.count():
            return {}
        in_flight = pl.col("inflight_packets") * self.seen.get("segment_bytes")
        window_bytes = self.seen.get("receive_window_max_bytes")
        raised_ms = max(RAISED_SHARE * shortest_ms, RAISED_MS)
        judged = self.series.select(
            length=pl.col("t_s").diff().fill_null(pl.col("t_s").first()),
            limit=pl.when((pl.col("goodput_mbps") <= 0) & (pl.col("sent_packets").fill_null(0) == 0))
            .then(pl.lit("silent"))
            .when((in_flight >= FULL_WINDOW * window_bytes) if window_bytes else pl.lit(value=False))
            .then(pl.lit("receiver"))
            .when(trips >= shortest_ms + raised_ms)
            .then(pl.lit("path"))
            .otherwise(pl.lit("window")),
        )
        whole = float(judged["length"].sum())
        sums = dict(judged.group_by("limit").agg(pl.sum("length")).iter_rows())
        return self._told({name: sums.get(name, 0.0) / whole for name in LIMITS}) if whole > 0 else {}

    def _told(self, judged: Mapping[str, float]) -> dict[str, float]:
        """Return shares with those that the sender's own log knows; the rest is divided as it was judged."""
        columns = {"receiver": "rwnd_limited_s", "silent": "app_limited_s"}
        seconds = {name: self.row.get(column) for name, column in columns.items()}
        told = {name: length / self.row["duration_s"] for name, length in seconds.items() if length is not None}
        if not told:
            return dict(judged)
        left = {name: share for name, share in judged.items() if name not in told}
        scale = max(1 - sum(told.values()), 0.0) / (sum(left.values()) or 1.0)
        return {name: told.get(name, judged[name] * scale) for name in LIMITS}


def section(context: Context) -> Section | None:
    """Return throughput over time with the losses of the largest flows, and what limited each; None without flows."""
    flows = _flows(context)
    blocks: list[Block] = [_plot(flows)] if flows else []
    if any(one.limits() for one in flows):
        blocks.append(_table(flows))
    return Section("recorded", "What limited each flow", blocks) if blocks else None


def title(results: Results) -> str:
    """Return the title of an analysis: its files, or the name that its user chose."""
    names = [str(about["name"]) for about in results.files()]
    if not names or names[0].rpartition("/")[2].split(".")[0] != results.study:
        return results.study
    if len(names) <= MOST_NAMED:
        return " and ".join(names)
    return f"{names[0]} and {counted(len(names) - 1, 'other file')}"


def sentence(context: Context) -> str:
    """Return what the files hold and what held the largest flow; empty of files without transfers and pings."""
    flows = _flows(context)
    if flows:
        largest = max(flows, key=lambda one: one.row["received_bytes"] or 0)
        return " ".join(filter(None, (_holds(context, largest), _lost(largest), _held(largest))))
    pings = context.results.table("flows").filter(pl.col("kind") == "ping")
    if pings.is_empty():
        return ""
    sent, lost = int(pings["sent_packets"].sum()), int(pings["lost_packets"].fill_null(0).sum())
    median = f", whose median round trip is {number(pings['rtt_p50_ms'][0], 1)} ms" if pings.height == 1 else ""
    return f"{counted(sent, 'ping')}{median}; {number(100 * lost / max(sent, 1), 2)} % of them were lost."


def unended(context: Context) -> str:
    """Return a sentence on flows that go on behind the end of their file; empty if none does."""
    count = sum(not one.row["completed"] for one in _flows(context))
    return f"The end of {counted(count, 'flow')} is not in the files." if count else ""


def _flows(context: Context) -> list[Recorded]:
    """Return the transfers with a series, a connection that was captured twice once: as its sender saw it."""
    found = [_recorded(context, group) for group in context.drawn]
    found = [one for one in found if not one.series.is_empty()]
    once: dict[tuple[str, object], Recorded] = {}
    for one in found:
        is_matched = one.seen.get("matched_packets") is not None
        key = (str(one.row["flow"]), "twice" if is_matched else one.row["run"])
        if key not in once or one.seen.get("side") == "sender":
            once[key] = one
    return list(once.values())


def _recorded(context: Context, group: Group) -> Recorded:
    row = group.flows.row(0, named=True)
    own = (pl.col("run") == row["run"]) & (pl.col("flow") == row["flow"])
    seen = context.results.table("connections").filter(own)
    series = context.series(int(row["run"]), str(row["flow"]))
    losses = context.results.table("losses").filter(own & (pl.col("how") != "matched"))
    losses = losses.select(pl.col("t_s") - row["start_s"], "packets")
    if seen.is_empty():
        again = series.filter(pl.col("retransmitted_packets").fill_null(0) > 0)
        losses = again.select("t_s", packets="retransmitted_packets")
    return Recorded(group.label, group.look, row, seen.row(0, named=True) if len(seen) else {}, series, losses)


def _holds(context: Context, one: Recorded) -> str:
    count = len(_flows(context))
    row, side = one.row, one.seen.get("side")
    seen = f", captured at its {side}" if side in ("sender", "receiver") else ""
    if one.seen.get("matched_packets") is not None:
        seen = ", captured at both its ends"
    trips = "" if row["rtt_min_ms"] is None else f", over round trips of {number(row['rtt_min_ms'], 0)} ms and more"
    amount = f"{number((row['received_bytes'] or 0) / 1e6, 1)} MB in {number(row['duration_s'], 1)} s"
    subject = "One transfer" if count == 1 else f"{count} transfers, the largest"
    return f"{subject} of {amount}, {number(row['goodput_mbps'], 1)} Mbit/s{trips}{seen}."


def _lost(one: Recorded) -> str:
    matched, lost = one.seen.get("matched_packets"), one.seen.get("matched_lost_packets")
    if matched and lost is not None:
        share = number(100 * lost / matched, 2)
        return f"Of {number(matched, 0)} data packets {number(lost, 0)} were lost on the way ({share} %)."
    if one.losses.is_empty():
        return "" if one.row["retransmitted_packets"] is None else "It lost nothing."
    packets = int(one.losses["packets"].sum())
    if one.seen:
        return f"It lost {counted(packets, 'packet')} in {counted(len(one.losses), 'event')}."
    return f"It sent {counted(packets, 'packet')} again."


def _held(one: Recorded) -> str:
    """Return what held a flow for most of its time, and what else for a tenth of it or more."""
    shares = sorted(one.limits().items(), key=lambda pair: -pair[1])
    said = [f"{LIMITS[name][1]} ({100 * share:.0f} % of the time)" for name, share in shares if share >= 0.1]
    return f"What held it was {', then '.join(said)}." if said else ""


def _table(flows: Sequence[Recorded]) -> Table:
    rows, data = [], []
    for one in flows:
        shares = one.limits()
        cells = [Cell(number(100 * shares[name], 0) if shares else "–") for name in LIMITS]
        rows.append([Cell(one.label), *cells])
        data.append({"flow": one.label, **{f"{name}_share": shares.get(name) for name in LIMITS}})
    return Table(
        name="limits",
        caption="Share of its time for which each held a flow (%)",
        head=["", *(head for head, _ in LIMITS.values())],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        notes=[HOW],
    )


def _plot(flows: Sequence[Recorded]) -> Plot:
    drawn = sorted(flows, key=lambda one: -(one.row["received_bytes"] or 0))[:MOST_DRAWN]
    left_out = f" The {MOST_DRAWN} largest of {len(flows)} flows." if len(flows) > MOST_DRAWN else ""
    data = pl.concat(
        one.series.select(pl.lit(one.label).alias("flow"), "t_s", "goodput_mbps", rtt_of(one.series).alias("rtt_ms"))
        for one in drawn
    )
    return Plot.of(
        "recorded",
        f"Throughput, with a stroke for each loss as high as its packets, and round trips.{left_out}",
        "; ".join(
            f"{one.label}: {number(one.row['goodput_mbps'], 1)} Mbit/s, {len(one.losses)} losses" for one in drawn
        ),
        partial(_figure, drawn),
        data=data,
    )


def _figure(drawn: Sequence[Recorded], width_in: float) -> Figure:
    has_trips = any(rtt_of(one.series).count() for one in drawn)
    has_losses = any(len(one.losses) for one in drawn)
    rows = [
        "Throughput (Mbit/s)",
        *(["Lost (packets)"] if has_losses else []),
        *(["Round trip (ms)"] if has_trips else []),
    ]
    there = [(row, column) for row in range(len(rows)) for column in range(len(drawn))]
    titles = [one.label for one in drawn] if len(drawn) > 1 else [""]
    laid = grid(width_in, len(rows), titles, there, height_in=1.2, narrowest_in=2.0, is_stacked=True)
    for (row, column), axes in laid.panels.items():
        one = drawn[column]
        if rows[row].startswith("Throughput"):
            line(axes, one.series["t_s"], one.series["goodput_mbps"], one.look)
        elif rows[row].startswith("Lost"):
            axes.vlines(one.losses["t_s"].to_numpy(), 0, one.losses["packets"].to_numpy(), color=INK, lw=0.9,
                        rasterized=len(one.losses) > DENSE_STROKES)  # fmt: skip
        else:
            line(axes, one.series["t_s"], rtt_of(one.series), one.look)
        axes.set_xlim(0, max(float(np.nanmax(each.series["t_s"].to_numpy())) for each in drawn))
        if rows[row].startswith("Lost"):
            axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    from_zero(list(laid.panels.values()))
    laid.label("Time since the flow began (s)", rows)
    laid.figure.align_ylabels()
    return laid.figure

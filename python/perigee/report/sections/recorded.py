# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The first screen of recordings: in a sentence what they hold, throughput with its losses, and what limited flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from perigee.groups.group import Group
from perigee.groups.looks import Look
from perigee.numbers import counted, number
from perigee.report.charts.over_time import PLAIN, Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.measures import Measure
from perigee.report.model import Block, Plot, Section, Table
from perigee.report.sections.limits import TITLE, table
from perigee.report.sections.representative import rtt_of
from perigee.statistics import limits
from perigee.statistics.flow_limits import judge
from perigee.store.results import Results

MOST_DRAWN, MOST_NAMED = 4, 2
"""Flows in the figure, the largest; files with their names in the title."""


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
        limits: the share of its time for which each cause limited it; empty where that is unknown.
    """

    label: str
    look: Look
    row: Mapping[str, Any]
    seen: Mapping[str, Any]
    series: pl.DataFrame
    losses: pl.DataFrame
    limits: Mapping[str, float]


def section(context: Context) -> Section | None:
    """Return throughput over time with the losses of the largest flows, and what limited each; None without flows."""
    flows = _flows(context)
    blocks: list[Block] = [_plot(flows)] if flows else []
    if any(one.limits for one in flows):
        blocks.append(_table(flows))
    return Section("recorded", TITLE, blocks) if blocks else None


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
        return " ".join(filter(None, (_holds(context, largest), _lost(largest), limits.sentence(largest.limits))))
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
    losses = losses.select(pl.col("t_s") - row["start_s"], "packets").sort("t_s")
    ((_, found),) = judge(context.results.table, group.flows.head(1))
    if seen.is_empty():
        again = series.filter(pl.col("retransmitted_packets").fill_null(0) > 0)
        losses = again.select("t_s", packets="retransmitted_packets")
    return Recorded(group.label, group.look, row, seen.row(0, named=True) if len(seen) else {}, series, losses, found)


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
        kind = limits.KINDS_OF_LOSSES.get(limits.kind_of_losses(one.losses))
        return (
            f"It lost {counted(packets, 'packet')} in {counted(len(one.losses), 'event')}{f', {kind}' if kind else ''}."
        )
    return f"It sent {counted(packets, 'packet')} again."


def _table(flows: Sequence[Recorded]) -> Table:
    facts = [{"flow": one.label, "limits": one.limits} for one in flows]
    return table([Measure("flow")], facts, "Share of its time for which each limited a flow (%)", [limits.HOW])


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
        _draw(drawn),
        data=data,
    )


def _draw(drawn: Sequence[Recorded]) -> Callable[[float], Figure]:
    has_trips = any(rtt_of(one.series).count() for one in drawn)
    has_losses = any(len(one.losses) for one in drawn)
    rows = ["Throughput (Mbit/s)"] + ["Lost (packets)"] * has_losses + ["Round trip (ms)"] * has_trips
    panels = []
    for one in drawn:
        t, losses = one.series["t_s"], one.losses
        curves = [Curve("", one.look, t, one.series["goodput_mbps"])]
        curves += [Curve("", PLAIN, losses["t_s"], losses["packets"], form="strokes")] if has_losses else []
        curves += [Curve("", one.look, t, rtt_of(one.series))] if has_trips else []
        panels.append(TimePanel(one.label if len(drawn) > 1 else "", [[curve] for curve in curves]))
    return partial(over_time, panels, rows, "Time since the flow began (s)", narrowest_in=2.0, height_in=1.2)

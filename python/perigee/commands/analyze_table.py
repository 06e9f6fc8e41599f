# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table that `perigee analyze` prints: the largest flows of an analysis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import polars as pl
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.analysis import outside, together
from perigee.analysis.limited import Limited, limited
from perigee.analysis.recordings import Analysis
from perigee.console import out_console
from perigee.numbers import number
from perigee.report.sections.periods import of_series
from perigee.store.schema import empty_table
from perigee.store.small_flows import and_small, is_small

MOST_SHOWN = 12
"""Flows in the summary: the largest."""
MOST_EXPLAINED = 3
"""Flows of which the summary says what limited them."""


def show(analysis: Analysis) -> None:
    """Print the largest flows."""
    flows = analysis.table("flows")
    seen = analysis.table("connections")
    if not seen.is_empty():
        own = ("side", "reordered_packets", "loss_events", "loss_event_max_packets")
        flows = flows.join(seen.select("run", "flow", *own), on=["run", "flow"], how="left", maintain_order="left")
    series = analysis.table("series")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Flow")
    table.add_column("Seen at")
    for heading in ("MB", "s", "Mbit/s", "Round trip (ms)\nleast / mean / 95 %", "Retransmitted\n(%)",
                    "Late\n(packets)", "Losses\n(most in a row)", "Period\n(s)"):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=heading.startswith("Round"))
    small = flows.filter(is_small())
    large = flows.filter(~is_small())
    largest = large.sort("received_bytes", descending=True, maintain_order=True).head(MOST_SHOWN)
    for row in largest.iter_rows(named=True):
        part = series.filter((pl.col("run") == row["run"]) & (pl.col("flow") == row["flow"]))
        table.add_row(*_cells(row, part, several=len(analysis.runs) > 1 and analysis.runs[row["run"]].name))
    if not small.is_empty():
        carried = number(float(small["received_bytes"].sum()) / 1e6, 2)
        table.add_row(and_small(small.height), "", carried, *[""] * 7)
    out_console.print(table)
    for sentence in _explained(analysis, largest):
        out_console.print(sentence, highlight=False, markup=False)
    for sentence in together.in_words(analysis.placed):
        out_console.print(sentence, highlight=False, markup=False)
    if large.height > MOST_SHOWN:
        out_console.print(f"the {MOST_SHOWN} largest of {large.height} flows", highlight=False)


def _explained(analysis: Analysis, largest: pl.DataFrame) -> Iterator[str]:
    """Yield sentences on the largest flows; of one that both ends captured, its sender's capture is asked."""
    keys = ["run", "flow"]
    several = set(largest["flow"].filter(largest["flow"].is_duplicated()))
    matched = analysis.table("connections").filter(pl.col("matched_packets").is_not_null()).select(keys)
    twice = largest.join(matched, on=keys, how="semi", maintain_order="left")
    if not twice.is_empty():
        once = twice.sort(pl.col("side").eq_missing("sender"), descending=True, maintain_order=True)
        once = once.unique("flow", keep="first", maintain_order=True)
        largest = largest.join(twice.join(once, on=keys, how="anti"), on=keys, how="anti", maintain_order="left")
    asked = largest.head(MOST_EXPLAINED)
    quic = {(row["run"], row["flow"]): row for row in analysis.table("quic").iter_rows(named=True)}
    for row, found in zip(asked.iter_rows(named=True), limited(analysis, asked), strict=True):
        run, flow = row["run"], row["flow"]
        name = f"{flow} ({analysis.runs[run].name})" if flow in several else flow
        if (run, flow) in quic:
            yield f"{name}: {outside.sentence(quic[run, flow])}"
        if found.sentence:
            yield f"{name}: {found.sentence}"


def as_json(analysis: Analysis) -> str:
    """Return the figures of all flows, and the notes, as JSON; what is not known is null."""
    seen = analysis.table("connections")
    files = []
    for run in analysis.runs:
        flows = run.tables["flows"]
        judged = [_limits(one) for one in limited(analysis, flows)]
        quic = {row["flow"]: row for row in run.tables.get("quic", empty_table("quic")).iter_rows(named=True)}
        if (own := run.tables.get("connections", seen)).height:
            flows = flows.join(own, on=["run", "flow"], how="left", maintain_order="left")
        files.append(
            {"name": run.name, "kind": run.kind, "system": run.system, "notes": list(run.notes),
             "began_unix_s": run.began_s, "clock": "none" if run.began_s is None else "time of day",
             "flows": [row | found | {"quic": _outside(quic.get(row["flow"]))}
                       for row, found in zip(flows.to_dicts(), judged, strict=True)]}
        )  # fmt: skip
    return json.dumps({"name": analysis.study, "files": files, "time": together.as_json(analysis.placed)}, indent=1)


def _limits(found: Limited) -> dict[str, object]:
    """Return the share of a flow's time by what limited it, and the kind of its losses; null where it is unknown."""
    return {"limits": dict(found.shares) or None, "kind_of_losses": found.losses or None}


def _outside(seen: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return what a capture shows of a flow over QUIC; null of any other flow."""
    return None if seen is None else {name: value for name, value in seen.items() if name not in ("run", "flow")}


def _cells(row: dict[str, object], series: pl.DataFrame, *, several: str | bool) -> list[str]:
    def value(name: str) -> float | None:
        found = row.get(name)
        return float(found) if isinstance(found, int | float) else None

    sent, again = value("sent_packets"), value("retransmitted_packets")
    share = None if not sent or again is None else 100 * again / sent
    digits = 1 if (value("rtt_mean_ms") or 0) >= 10 else 3
    trips = [number(value(name), digits) for name in ("rtt_min_ms", "rtt_mean_ms", "rtt_p95_ms")]
    events, most = value("loss_events"), value("loss_event_max_packets")
    period = of_series(series) if not series.is_empty() else None
    name = escape(str(row["flow"])) + (f"\n[dim]{escape(str(several))}[/dim]" if several else "")
    carried = [number((value("received_bytes") or 0) / 1e6, 2), number(value("duration_s"), 1),
               number(value("goodput_mbps"), 2)]  # fmt: skip
    if row["kind"] == "ping":
        share, events = None, None
        carried[0] = carried[2] = "–"
    if (lost := value("lost_packets")) is not None and sent is not None:
        name += f"\n{number(lost, 0)} of {number(sent, 0)} lost"
    if (delay := value("delay_mean_ms")) is not None:
        name += f"\n{number(delay, 1)} ms one way"
    return [
        name,
        str(row.get("side") or "–"),
        *carried,
        " / ".join(trips),
        number(share, 3),
        number(value("reordered_packets"), 0),
        "–" if events is None else f"{number(events, 0)} ({number(most, 0)})",
        "–" if period is None else "none" if period.period_s is None else number(period.period_s, 1),
    ]

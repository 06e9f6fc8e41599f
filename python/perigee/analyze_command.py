# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee analyze`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee import progress
from perigee.analysis import Analysis, Options, analyze, keep
from perigee.console import error_console, out_console, result, say
from perigee.numbers import number
from perigee.report.sections.periods import of_series

MOST_SHOWN = 12
"""Flows in the summary: the largest."""


def analyze_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Captures (pcap, pcapng, also .gz), iperf3's JSON, logs of pings and probes.", metavar="FILE..."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Keep it as a folder of results, for `perigee report`.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What results and report are called. \\[default: the first file]")
    ] = None,
    joined: Annotated[
        bool, typer.Option("--joined", help="The captures are parts of one, in this order (tcpdump -C or -G).")
    ] = False,
    series: Annotated[str, typer.Option(help="Interval of a captured flow's values over time.")] = "1 s",
    startup: Annotated[
        str, typer.Option(help='End of the start-up phase of captured flows: "50 MB", "30 s", off.')
    ] = "off",
    steady: Annotated[str, typer.Option(help="Steady phase: this last share of a flow's bytes, or off.")] = "50 %",
    most: Annotated[int, typer.Option(min=1, help="Connections to measure of each capture: the largest.")] = 100,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace results that are in the folder.")] = False,
) -> None:
    """Measure what others wrote down of real transfers, in the same figures as a study's.

    Captures may be taken at either end or between, of any length: they are streamed. Captures of both ends of a
    connection, given together, also tell exactly which packets were lost on the way.

    [bold]Examples[/bold]

      perigee analyze download.pcapng
      perigee analyze server.pcap client.pcap --out results/download
      perigee report results/download
      perigee analyze iperf3.json baseline.csv
    """
    options = Options(series=series, startup=startup, steady=steady, most=most, joined=joined)
    with progress.share(error_console, "analyze") as watch:

        def go_on(done: float) -> bool:
            watch(done)
            return True

        found = analyze(files, options, go_on, name)
    if found is None:
        return
    _show(found)
    for run in found.runs:
        for note in run.notes:
            say(f"note: {run.name}: {note}")
    if out is None:
        say("--out DIR keeps all of it, with a report of figures over time")
        return
    keep(found, files, out, fresh=fresh)
    say(f"next: perigee report {shlex.quote(str(out))}")
    result(str(out))


def _show(analysis: Analysis) -> None:
    flows = analysis.table("flows")
    seen = analysis.table("connections")
    if not seen.is_empty():
        own = ("side", "reordered_packets", "loss_events", "loss_event_max_packets")
        flows = flows.join(seen.select("run", "flow", *own), on=["run", "flow"], how="left", maintain_order="left")
    series = analysis.table("series")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Flow")
    table.add_column("Seen at")
    for heading in ("MB", "s", "Mbit/s", "Round trip (ms)\nleast / mean / 95 %", "Sent again\n(%)", "Late\n(packets)",
                    "Losses\n(most in a row)", "Period\n(s)"):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=heading.startswith("Round"))
    largest = flows.sort("received_bytes", descending=True, maintain_order=True).head(MOST_SHOWN)
    for row in largest.iter_rows(named=True):
        part = series.filter((pl.col("run") == row["run"]) & (pl.col("flow") == row["flow"]))
        table.add_row(*_cells(row, part, several=len(analysis.runs) > 1 and analysis.runs[row["run"]].name))
    out_console.print(table)
    if flows.height > MOST_SHOWN:
        out_console.print(f"the {MOST_SHOWN} largest of {flows.height} flows", highlight=False)


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
        name += f"\n{number(value('lost_packets'), 0)} of {number(sent, 0)} lost"
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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee analyze`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from perigee.console import error_console, result, say


@dataclass(frozen=True)
class AnalyzeOptions:
    """Options and arguments of `perigee analyze`."""

    files: Annotated[
        list[Path],
        typer.Argument(
            help="Captures (pcap, pcapng), qlogs, also .gz; iperf3's JSON, logs of pings and probes.", metavar="FILE..."
        ),
    ]
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Write a results folder, for `perigee report`."),
    ] = None
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the results and the report. \\[default: the first file]")
    ] = None
    joined: Annotated[
        bool,
        typer.Option("--joined", help="The captures are consecutive parts of one, in this order (tcpdump -C or -G)."),
    ] = False
    series: Annotated[
        str, typer.Option(metavar="TIME", help="Sampling interval of the time series of captured flows.")
    ] = "1 s"
    startup: Annotated[
        str,
        typer.Option(
            metavar="SIZE|TIME|off", help='End of the start-up phase of captured flows: "50 MB", "30 s" or off.'
        ),
    ] = "off"
    steady: Annotated[
        str, typer.Option(metavar="SHARE|off", help="Steady phase: the last share of a flow's bytes, or off.")
    ] = "50 %"
    most: Annotated[
        int, typer.Option(metavar="N", min=1, help="Measure this many connections of each capture, the largest.")
    ] = 100
    sequences: Annotated[
        int,
        typer.Option(
            "--time-sequences",
            metavar="N",
            min=0,
            help="Draw time-sequence graphs of this many connections of each capture, the largest.",
        ),
    ] = 1
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace results in the folder.")] = False


def command(given: AnalyzeOptions) -> None:
    """Compute a study's metrics from captures and logs of real transfers.

    Captures may come from either end or from between, and be of any length: they are streamed. Captures of both ends
    of a connection, given together, also show exactly which packets were lost on the way.

    [bold]Examples[/bold]

      perigee analyze download.pcapng
      perigee analyze server.pcap client.pcap --out results/download
      perigee report results/download
      perigee analyze iperf3.json baseline.csv
      perigee analyze server.sqlog
    """
    from perigee.analysis.recordings import Options, analyze, keep
    from perigee.commands import progress
    from perigee.commands.analyze_table import show

    options = Options(
        series=given.series,
        startup=given.startup,
        steady=given.steady,
        most=given.most,
        sequences=given.sequences,
        joined=given.joined,
    )
    with progress.share(error_console, "analyze") as watch:

        def go_on(done: float) -> bool:
            watch(done)
            return True

        found = analyze(given.files, options, go_on, given.name)
    if found is None:
        return
    show(found)
    for run in found.runs:
        for note in run.notes:
            say(f"note: {run.name}: {note}")
    if given.out is None:
        say("--out DIR writes a results folder, for a report with time series")
        return
    keep(found, given.files, given.out, fresh=given.fresh)
    say(f"next: perigee report {shlex.quote(str(given.out))}")
    result(str(given.out))

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee analyze`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.console import error_console, result, say

if TYPE_CHECKING:
    from perigee.analysis.recordings import Options


@dataclass(frozen=True)
class AnalyzeOptions:
    """Options and arguments of `perigee analyze`."""

    files: Annotated[
        list[Path],
        typer.Argument(
            help="Captures (pcap, pcapng, also .gz, .xz, .zst), qlogs, and logs of ping, fping, irtt, iperf3, flent, "
            "ss, cake-autorate, a Starlink dish, Ookla's Speedtest and perigee, mixed; - is standard input.",
            metavar="FILE...",
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
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures and notes as JSON.")] = False
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Put stand-ins for addresses and names of hosts and files.")
    ] = False


def command(given: AnalyzeOptions) -> None:
    """Compute a study's metrics from captures and logs of real transfers.

    Captures may come from either end or from between, and be of any length: they are streamed. Captures of both ends
    of a connection, given together, also show exactly which packets were lost on the way.

    [bold]Examples[/bold]

      perigee analyze download.pcapng
      perigee analyze server.pcap client.pcap --out results/download
      perigee report results/download
      perigee analyze iperf3.json ping.txt rrul.flent.gz
      perigee analyze server.sqlog
      perigee analyze ping.txt --json --anonymise
      ssh server tcpdump -i eth0 -s 128 -c 100000 -w - tcp | perigee analyze -
    """
    from perigee.analysis.recordings import Options
    from perigee.analysis.standard_input import on_disk

    options = Options(
        series=given.series,
        startup=given.startup,
        steady=given.steady,
        most=given.most,
        sequences=given.sequences,
        joined=given.joined,
    )
    with on_disk(given.files) as files:
        _analyze(files, options, given)


def _analyze(files: list[Path], options: Options, given: AnalyzeOptions) -> None:
    from perigee.analysis.recordings import analyze, keep
    from perigee.commands import progress
    from perigee.commands.analyze_table import as_json, show

    with progress.share(error_console, "analyze") as watch:

        def go_on(done: float) -> bool:
            watch(done)
            return True

        found = analyze(files, options, go_on, given.name)
    if found is None:
        return
    if given.anonymise:
        from perigee.analysis.anonymous import anonymous

        found = anonymous(found, is_named=given.name is not None)
    if given.as_json:
        if given.out is not None:
            keep(found, files, given.out, fresh=given.fresh)
        result(as_json(found))
        return
    show(found)
    for run in found.runs:
        for note in run.notes:
            say(f"note: {run.name}{f' ({run.system})' if run.system else ''}: {note}")
    if given.out is None:
        say("--out DIR writes a results folder, for a report with time series")
        return
    keep(found, files, given.out, fresh=given.fresh)
    say(f"next: perigee report {shlex.quote(str(given.out))}")
    result(str(given.out))

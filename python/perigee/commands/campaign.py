# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee campaign`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.options import Fresh
from perigee.console import error_console, result, say
from perigee.numbers import counted


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the recordings.")],
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest", "-m", metavar="FILE", help="Manifest of the files. \\[default: campaign.toml in the folder]"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Results folder. \\[default: results/NAME of the manifest]"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Runs read at a time. \\[default: one per core]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and what the manifest says of each; read no packet.")
    ] = False,
    fresh: Fresh = False,
) -> None:
    """Make a measurement campaign into results like a study's, by a manifest of its files.

    The files are captures, iperf3's JSON, and logs of pings and probes. The manifest says what their names mean:

      name = "rooftop-may"

      recordings = [{ files = "{round}/{cc}-{place}.pcap" }]

    A word in braces is the congestion control, round, direction, place or time, or a word of your own, such as proxy,
    which is then what varies. What a file says itself (direction, place, time of its first packet, iperf3's congestion
    control) is taken from it, and held against the manifest: all contradictions are reported with file and fix. What
    neither says is empty.

    The results are a folder like a study's: `perigee report`, `compare`, and `perigee.load` take it. The same command
    resumes after a kill. What was read is kept until the results are finished: where the files contradict the manifest,
    its correction takes seconds. Finished results are not changed by another manifest: give --fresh, or another --out.

    [bold]Examples[/bold]

      perigee campaign recordings --dry-run
      perigee campaign recordings -j 8
      perigee report results/rooftop-may
      perigee campaign /archive/2020 --manifest claypool.toml --out results/claypool-measured
    """
    from perigee.campaigns.campaign import make
    from perigee.campaigns.manifest import NAME, read_manifest
    from perigee.campaigns.plan import plan
    from perigee.commands import progress

    known = read_manifest(manifest or folder / NAME)
    target = out or Path("results") / known.name
    planned = plan(folder, known, apart=target)
    if dry_run:
        for run in planned.runs:
            said = "  ".join(f"{word} {value}" for word, value in run[0].said.items() if word not in ("place", "part"))
            result(f"{said or '(nothing)'}: {', '.join(one.name for one in run)}")
        say(f"{counted(len(planned.runs), 'run')} of {counted(len(planned.recordings), 'file')}")
        return
    with progress.share(error_console, "campaign") as watch:
        done = make(planned, target, jobs or os.cpu_count() or 1, watch, fresh=fresh)
    for note in done.notes:
        say(f"note: {note}")
    say(f"{counted(done.runs, 'run')} of {counted(len(planned.recordings), 'file')}")
    say(f"next: perigee report {shlex.quote(str(target))}")
    result(str(target))

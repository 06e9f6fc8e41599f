# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Options and arguments of `perigee advise`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.options import KnownDown, KnownUp
from perigee.errors import InputError
from perigee.measuring.server import PORT


@dataclass(frozen=True)
class AdviseOptions:
    """Options and arguments of `perigee advise`."""

    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...|HOST]",
            help="Logs and captures of any program that `perigee analyze` reads, mixed; a folder of --keep; or a host "
            "to measure the path to.",
        ),
    ] = None
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="A profile, by its name or file, in place of files.")
    ] = None
    down: KnownDown = None
    up: KnownUp = None
    yes: Annotated[bool, typer.Option("--yes", help="Measure to HOST without asking.")] = False
    iperf3: Annotated[
        int | None,
        typer.Option(
            "--iperf3", metavar="PORT", min=1, max=65535, help="HOST runs `iperf3 --server --json` on this port."
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="HOST runs `perigee probe --serve`, with the token in this file."),
    ] = None
    probe_port: Annotated[
        int,
        typer.Option(metavar="PORT", min=1, max=65535, help="With --token-file: UDP port of that server."),
    ] = PORT
    most: Annotated[str, typer.Option(metavar="SIZE", help="With HOST: most that transfers carry, in all.")] = "500 MB"
    cc: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Congestion control of the sender today. \\[default: what a log says, or cubic]"
        ),
    ] = None
    receive_buffer: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Largest receive buffer of the client today (tcp_rmem). \\[default: what a capture shows, or 32 MiB]",
        ),
    ] = None
    send_buffer: Annotated[
        str, typer.Option(metavar="SIZE", help="Largest send buffer of the server today (tcp_wmem).")
    ] = "4 MiB"
    queue_is_mine: Annotated[
        bool,
        typer.Option(
            "--queue-is-mine", help="Try sizes and kinds of the bottleneck's queue, too, with four downloads."
        ),
    ] = False
    budget: Annotated[
        int, typer.Option(metavar="SECONDS", min=5, help="Time for simulations, about; more rounds where it is close.")
    ] = 50
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep study and results in this folder, which is new or empty.")
    ] = None
    explain: Annotated[
        Path | None, typer.Option(metavar="REPORT.html", help="Write a report, which begins with the answer.")
    ] = None
    apply: Annotated[
        int | None,
        typer.Option(
            "--apply",
            metavar="N",
            min=1,
            help="Carry out the commands of line N that are for this host, all or none; as root.",
        ),
    ] = None
    role: Annotated[
        str | None, typer.Option(metavar="server|client|gateway", help="With --apply: what this host is.")
    ] = None
    device: Annotated[
        str | None, typer.Option("--dev", metavar="NAME", help="With --apply: the interface that is DEV in commands.")
    ] = None
    undo_file: Annotated[Path, typer.Option(metavar="FILE", help="With --apply: new file that --undo takes.")] = Path(
        "perigee-advise-undo.json"
    )
    undo: Annotated[
        Path | None,
        typer.Option("--undo", metavar="FILE", help="Take back what --apply did, by its file; nothing else."),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice, and all that was tried, as JSON.")] = False


def size(option: str, text: str) -> int:
    """Read a size with its unit, bytes."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(B|kB|KiB|MB|MiB|GB|GiB)\s*", text)
    if found is None:
        raise InputError(f'{option} {text}: not a size with a unit; write "4 MiB"')
    return round(float(found[1]) * _UNITS[found[2]])


_UNITS = {"B": 1, "kB": 10**3, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9, "GiB": 1 << 30}

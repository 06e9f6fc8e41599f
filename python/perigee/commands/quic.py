# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee quic`: QUIC stacks of others, which it installs, lists and measures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.commands.application import Application
from perigee.commands.quic_matrix import matrix
from perigee.console import out_console, result, say
from perigee.errors import RunError
from perigee.numbers import counted
from perigee.stacks.install import default_folder
from perigee.stacks.install import install as install_stacks
from perigee.stacks.table import installed, stacks

app = Application("QUIC stacks of others: install and list them, and measure them over satellite links.")
app.command()(matrix)

Into = Annotated[
    Path | None,
    typer.Option(
        "--into",
        "--stacks",
        metavar="FOLDER",
        help="Folder of the stacks. \\[default: perigee/quic of the user's data]",
    ),
]


@app.command()
def install(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="STACK...", help="Stacks, see `perigee quic list`. \\[default: all]")
    ] = None,
    into: Into = None,
) -> None:
    """Install QUIC stacks into a folder of its own, and say which could not be and why.

    Versions are pinned and all that is downloaded is checked against sums: packages of Debian are unpacked and not
    installed, programs in Go and Rust are compiled with the go and cargo found in PATH, which takes minutes each. What
    compiles a stack in Rust executes code of its crates with your rights. Downloads and intermediate files go below the
    same folder, and are removed when nothing is missing any more. After an interrupt or a failure the same command goes
    on where it was. CARGO_BUILD_JOBS and GOFLAGS=-p=N bound how much is compiled at once.

    [bold]Examples[/bold]

      perigee quic install
      perigee quic install ngtcp2 quic-go
      perigee quic install --into /srv/quic
    """
    folder = into or default_folder()
    outcomes = install_stacks(names or [], folder, lambda name, step: say(f"{name}: {step}"))
    for outcome in outcomes:
        result(f"{outcome.name}: {outcome.state}{f': {outcome.reason}' if outcome.reason else ''}")
    missing = [outcome for outcome in outcomes if outcome.state == "could not"]
    if missing:
        raise RunError(f"{counted(len(missing), 'stack')} could not be installed", "the lines above say why")
    result(str(folder))


@app.command("list")
def list_all(into: Into = None) -> None:
    """List the QUIC stacks that can be installed: version, licence, congestion controls, and whether each is there.

    The first congestion control is the one that a stack has by default; a star marks the one of its best. A stack
    without HTTP/3 has its own server and client only.

    [bold]Example[/bold]

      perigee quic list
    """
    there = installed(into or default_folder())
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("Name", "Version", "Source", "Licence", "Congestion controls", "HTTP/3", "MiB", "Installed"):
        table.add_column(heading)
    for stack in stacks():
        controls = [stack.default, *(one for one in stack.controls if one != stack.default)]
        shown = ", ".join(f"{one}*" if one == stack.best else one for one in controls)
        words = (stack.name, stack.version, stack.source, stack.licence, shown)
        marks = ("yes" if stack.http3 else "no", str(stack.mebibytes), "yes" if stack.name in there else "")
        table.add_row(*map(escape, words), *marks)
    out_console.print(table)
    for stack in stacks():
        result(f"{stack.name}: {stack.notes}")

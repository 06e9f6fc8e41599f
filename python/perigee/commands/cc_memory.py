# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The commands `perigee cc memory`: what connections remember of paths, for Careful Resume."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.cc import kernel
from perigee.commands.application import Application
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.numbers import number

app = Application("Paths that connections remember for Careful Resume, after `perigee cc load --remember`.")


@app.command("list")
def list_all(as_json: Annotated[bool, typer.Option("--json", help="Print the memory as JSON.")] = False) -> None:
    """List the remembered paths: packets that arrived per round trip, least round trip, and age.

    A path counts for ten minutes (`perigee cc load --set lifetime=1h` for longer), and for connections whose round trip
    is above half of the remembered one and at most ten times that.

    [bold]Examples[/bold]

      perigee cc memory list
      perigee cc memory list --json
    """
    found = kernel.memory()
    if as_json:
        result(json.dumps(found, indent=2))
    elif found:
        out_console.print(_as_table(found))
    else:
        result("no path is remembered")


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of `perigee cc status`.")],
    to: Annotated[str, typer.Argument(metavar="PREFIX", help="Peers, by a prefix of the length that NAME remembers.")],
    window: Annotated[int, typer.Option(metavar="PACKETS", min=1, max=1_000_000, help="Packets that the path holds.")],
    rtt: Annotated[float, typer.Option(metavar="MS", min=0.001, max=60_000, help="Its least round trip, ms.")],
) -> None:
    """Add a path, as if a connection had just measured it.

    [bold]Example[/bold]

      perigee cc memory add cubic_cr 198.51.100.0/24 --window 2500 --rtt 600
    """
    kernel.remember(name, to, window_packets=window, rtt_us=round(rtt * 1e3))
    say(f"{name} remembers {to}")


@app.command()
def clear(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only of this name.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="PREFIX", help="Only networks within this prefix.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Clear the memory of all loaded algorithms.")] = False,
) -> None:
    """Clear the memory. Connections that began with it go on.

    [bold]Examples[/bold]

      perigee cc memory clear --all
      perigee cc memory clear cubic_cr --to 198.51.100.0/24
    """
    if everything == (name is not None):
        raise InputError("give either the NAME whose memory to clear, or --all")
    gone = kernel.forget(name, to)
    say(f"{len(gone)} path{'' if len(gone) == 1 else 's'} forgotten")


def _as_table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("Congestion control", "Peers"):
        table.add_column(heading)
    for heading in ("Packets per round trip", "Least RTT ms", "Age s"):
        table.add_column(heading, justify="right")
    table.add_column("Now")
    for path in found:
        table.add_row(
            escape(path["cc"]),
            path["to"],
            str(path["window_packets"]),
            number(path["rtt_us"] / 1e3, 2),
            number(path["age_s"], 0),
            "in use" if path["is_claimed"] else "",
        )
    return table

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee hosts`: lists and shows the systems whose TCP the hosts of a study can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.commands.application import Application
from perigee.console import out_console, result
from perigee.core import native
from perigee.errors import InputError
from perigee.names import suggestion

if TYPE_CHECKING:
    from perigee._core import HostSystem

app = Application("List the systems whose TCP hosts can have, and show their settings.", lists=True, implied="show")


@app.command("list")
def list_all() -> None:
    """List the systems that the key `hosts.like` of a study can name.

    [bold]Examples[/bold]

      perigee hosts list
      perigee hosts             the same
      perigee run gallery --set hosts.like=linux-6.18
    """
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Name", no_wrap=True)
    table.add_column("What it is")
    for system in native.host_systems():
        table.add_row(system.name, escape(system.about))
    out_console.print(table)


@app.command()
def show(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Name of a system, see `perigee hosts list`.")],
    every: Annotated[bool, typer.Option("--all", help="Show settings at their defaults too.")] = False,
) -> None:
    """Show the TCP settings of a system where they are not the defaults, with the source of each.

    [bold]Examples[/bold]

      perigee hosts show linux-4.15
      perigee hosts linux-4.15             the same
      perigee hosts show ns-2 --all
    """
    found = _system(system)
    out_console.print(f"[bold]{escape(found.name)}[/bold]: {escape(found.title)}")
    result(found.about)
    result(f"How it was checked: {found.held}")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Setting", no_wrap=True)
    table.add_column("Value", no_wrap=True)
    table.add_column("Source")
    for name, value, source in found.settings:
        if source or every:
            table.add_row(name, escape(value), escape(source or "the setting's default"))
    if table.row_count:
        out_console.print(table)
    else:
        result("Each setting has its default; `--all` shows them.")


def _system(name: str) -> HostSystem:
    systems = {system.name: system for system in native.host_systems()}
    if name not in systems:
        raise InputError(f"{name}: there is no such system", suggestion(name, systems))
    return systems[name]

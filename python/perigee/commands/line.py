# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command line as typer reads it, with all commands or some."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from perigee.commands.application import Application
from perigee.commands.overview import ABOUT, COMMANDS, EXAMPLES, GROUPS, HIDDEN, VERSION
from perigee.commands.tree import Command, tree
from perigee.console import out_console


def command_line(*names: str) -> Any:
    """Return the command line with some of its commands: others need not be imported to carry one out.

    Its class is private to typer.
    """
    app = Application(name="perigee", help=f"{ABOUT}\n{EXAMPLES}")
    app.callback(invoke_without_command=True)(_root)
    panels = {name: title for title, group in GROUPS.items() for name in group}
    for name in names:
        module = importlib.import_module(f"perigee.commands.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, rich_help_panel=panels[name])
        else:
            app.command(name, hidden=name in HIDDEN, rich_help_panel=panels.get(name))(module.command)
    group = typer.main.get_command(app)
    # Typer puts commands with others below them last.
    group.commands = {name: group.commands[name] for name in names}  # type: ignore[attr-defined]
    return group


def whole_tree() -> Command:
    """Return all commands as data."""
    return tree(command_line(*COMMANDS))


def _root(
    version: Annotated[bool, typer.Option("--version", help=VERSION, is_eager=True)] = False,
) -> None:
    """Options of the command `perigee` itself."""
    if version:
        from perigee.version import __version__

        out_console.print(f"perigee {__version__}", highlight=False)
        raise typer.Exit

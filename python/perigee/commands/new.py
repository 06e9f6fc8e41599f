# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee new`: creates files to start from."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.application import Application
from perigee.console import result, say
from perigee.errors import InputError
from perigee.files import write_new_folder

TEMPLATE = Path(__file__).resolve().parent.parent / "data" / "study"

app = Application(
    "Create a working study to start from (`perigee cc new` creates a congestion control).", implied="study"
)


@app.callback()
def _more_may_come() -> None:
    """Keep `study` a word of its own."""


@app.command()
def study(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the study: letters, digits, - and _.")
    ] = "queues",
    folder: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="Parent of the new folder.")] = Path(),
) -> None:
    """Create a study that runs as it is: that of the guide, with every part explained.

    Writes a folder NAME with study.toml and README.md. Existing files are never overwritten.

    [bold]Examples[/bold]

      perigee new study queues
      perigee new queues              the same
      perigee run queues --reduced
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise InputError(f"{name}: not a name of a study; use 1 to 64 letters, digits, - and _")
    target = folder / name
    sources = sorted(TEMPLATE.iterdir())
    write_new_folder(target, {path.name: path.read_text(encoding="utf-8").replace("NAME", name) for path in sources})
    say(f"next: perigee run {shlex.quote(str(target / 'study.toml'))}")
    result(str(target))

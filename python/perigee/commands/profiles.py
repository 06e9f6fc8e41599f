# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee profiles`: lists, shows and draws link profiles."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from perigee.commands.application import Application
from perigee.commands.name_list import show_names
from perigee.commands.options import profile_setting, seconds
from perigee.commands.setup_table import show_setup
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.places import ProfileFile, StudyFile, find_profile, profiles

if TYPE_CHECKING:
    from perigee.engines.plan.contract import Plan

app = Application("List link profiles, show what each link does, and draw it.", lists=True)


@app.callback(invoke_without_command=True)
def _list_by_default(context: typer.Context) -> None:
    """List the profiles if no command is given."""
    if context.invoked_subcommand is None:
        list_all()


@app.command("list")
def list_all() -> None:
    """List the profiles that can be used by name: those in profiles/ of this folder, and those shipped with perigee.

    [bold]Examples[/bold]

      perigee profiles list
      perigee profiles             the same
    """
    show_names(profiles(), lambda name: _text(find_profile(name), "title"))


@app.command()
def show(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of a profile in profiles/, or its file.")],
) -> None:
    """Show the processes of a link in each direction, and the source of its numbers.

    [bold]Examples[/bold]

      perigee profiles show viasat2
      perigee profiles show ./mylink.toml
    """
    found = find_profile(profile)
    out_console.print(f"[bold]{escape(_text(found, 'name') or profile)}[/bold]: {escape(_text(found, 'title'))}")
    result(f"source: {_text(found, 'source')}")
    result(f"file: {found.path}")
    try:
        plan = _plan(found)
    except InputError as error:
        say(f"the directions are not shown: {error}")
        return
    show_setup(plan.setup, ("links",))


FORMATS = ("png", "pdf", "svg")


@app.command()
def draw(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of a profile in profiles/, or its file.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Figure to write: a `.png`, `.pdf` or `.svg`.")
    ],
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Time span to draw.")] = "60 s",
    every: Annotated[str, typer.Option(metavar="TIME", help="Sampling interval.")] = "100 ms",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the profile; may be given several times."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the link's random processes.")] = 1,
) -> None:
    """Draw rate, delay and losses of a link over time, without traffic, and the distribution of its delays.

    [bold]Examples[/bold]

      perigee profiles draw starlink -o starlink.png
      perigee profiles draw viasat2 --for "10 min" --every "1 s" -o viasat2.pdf
    """
    kind = out.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise InputError(
            f"--out {out}: unknown format of figures; use a name that ends in {', '.join(f'.{one}' for one in FORMATS)}"
        )
    found = find_profile(profile)
    span, step = seconds("--for", duration, 0.001), seconds("--every", every, 0.000001)
    pairs = [profile_setting(setting) for setting in settings or ()]
    from perigee.engines.links.sampling import sample_profile
    from perigee.files import atomic_file
    from perigee.report.link_figure import draw_link
    from perigee.report.style import styled

    with styled():
        drawing = draw_link(sample_profile(found, span, step, seed, pairs), _text(found, "title"))
        with atomic_file(out) as file:
            drawing.savefig(file, format=kind)
    result(str(out))


STUDY = """
name = "profile"
nodes = ["far", "user"]
[[links]]
name = "link"
between = ["far", "user"]
profile = {file}
[[flows]]
name = "f"
from = "far"
to = "user"
size = "1 kB"
"""
"""A study whose only link is the profile."""


def _plan(profile: ProfileFile) -> Plan:
    from perigee.engines import choice

    file = profile.path.resolve()
    study = StudyFile(file, STUDY.format(file=json.dumps(str(file))), (file.parent, *profile.search))
    return choice.engine("sim")(study, (), False)


def _text(profile: ProfileFile, key: str) -> str:
    """Return a text of the profile; its reader reports errors."""
    try:
        value = tomllib.loads(profile.text).get(key, "")
    except tomllib.TOMLDecodeError:
        return ""
    return value if isinstance(value, str) else ""

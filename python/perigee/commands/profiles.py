# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee profiles`: lists, shows and draws link profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from perigee.commands.application import Application
from perigee.commands.name_list import show_names
from perigee.commands.options import FigureFile, Profile, ProfileSettings, profile_setting, seconds, write_figure
from perigee.commands.setup_table import show_setup
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.places import ProfileFile, StudyFile, find_profile, profiles

if TYPE_CHECKING:
    from perigee.engines.plan.contract import Plan

app = Application("List link profiles, show what each link does, and draw it.", lists=True, implied="show")


@app.command("list")
def list_all() -> None:
    """List the profiles that can be used by name: those in profiles/ of this folder, and those shipped with perigee.

    [bold]Examples[/bold]

      perigee profiles list
      perigee profiles             the same
    """
    show_names(profiles(), lambda name: find_profile(name).head("title"))


@app.command()
def show(
    profile: Profile,
) -> None:
    """Show the processes of a link in each direction, and the source of its numbers.

    [bold]Examples[/bold]

      perigee profiles show viasat2
      perigee profiles viasat2             the same
      perigee profiles show ./mylink.toml
    """
    found = find_profile(profile)
    out_console.print(f"[bold]{escape(found.head('name') or profile)}[/bold]: {escape(found.head('title'))}")
    result(f"source: {found.head('source')}")
    result(f"file: {found.path}")
    try:
        plan = _plan(found)
    except InputError as error:
        say(f"the directions are not shown: {error}")
        return
    show_setup(plan.setup, ("links",))


@app.command()
def draw(
    profile: Profile,
    out: FigureFile = None,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Time span to draw.")] = "60 s",
    every: Annotated[str, typer.Option(metavar="TIME", help="Sampling interval.")] = "100 ms",
    settings: ProfileSettings = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the link's random processes.")] = 1,
) -> None:
    """Draw rate, delay and losses of a link over time, without traffic, and the distribution of its delays.

    [bold]Examples[/bold]

      perigee profiles draw starlink                         into starlink.png
      perigee profiles draw viasat2 --for "10 min" --every "1 s" -o viasat2.pdf
    """
    found = find_profile(profile)
    span, step = seconds("--for", duration, 0.001), seconds("--every", every, 0.000001)
    pairs = [profile_setting(setting) for setting in settings or ()]
    from perigee.engines.links.sampling import sample_profile
    from perigee.report.link_figure import draw_link

    samples = sample_profile(found, span, step, seed, pairs)
    write_figure(out or Path(f"{found.path.stem}.png"), lambda: draw_link(samples, found.head("title")))


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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee profiles`: lists, shows and draws link profiles."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from perigee.commands.application import Application
from perigee.commands.name_list import show_names
from perigee.commands.old_names import profile_called
from perigee.commands.options import (
    FigureFile,
    Profile,
    ProfileSettings,
    bits_per_second,
    profile_setting,
    say_profile,
    seconds,
    write_figure,
)
from perigee.commands.setup_table import show_setup
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.files import MIB, read_bounded, write_atomically
from perigee.places import ProfileFile, StudyFile, current_profiles, find_profile, profiles

if TYPE_CHECKING:
    from perigee.engines.plan.contract import Plan

app = Application(
    "List, show and draw link profiles, and import the links of tc, ns-3 and other tools.",
    lists=True,
    implied="show",
)


@app.command("list")
def list_all() -> None:
    """List the profiles that can be used by name: those in profiles/ of this folder, and those shipped with perigee.

    Each says the rates of its directions, and what it was held against: by whom measured, and when. `starlink` is the
    best one of Starlink, `geo-household` of a household behind a geostationary satellite, `moving-terminal` of a ship
    or an aeroplane; the others are a thesis, moving dishes, computed orbits, a recording, and textbook links.

    [bold]Examples[/bold]

      perigee profiles list
      perigee profiles             the same
    """
    found = current_profiles()
    show_names(found, lambda name: _told(find_profile(name)))
    old = {name: find_profile(name).current for name in profiles() if name not in found}
    result("old names: " + ", ".join(f"{name} ({current})" for name, current in sorted(old.items())))


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
    found = profile_called(profile)
    out_console.print(f"[bold]{escape(found.head('name') or profile)}[/bold]: {escape(found.head('title'))}")
    result(f"source: {found.head('source')}")
    for key, words in (("held", "held against"), ("limits", "cannot tell")):
        if found.head(key):
            result(f"{words}: {found.head(key)}")
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
    found = profile_called(profile)
    span, step = seconds("--for", duration, 0.001), seconds("--every", every, 0.000001)
    pairs = [profile_setting(setting) for setting in settings or ()]
    from perigee.engines.links.sampling import sample_profile
    from perigee.report.link_figure import draw_link

    samples = sample_profile(found, span, step, seed, pairs)
    write_figure(out or Path(f"{found.path.stem}.png"), lambda: draw_link(samples, found.head("title")))


@app.command("import")
def import_link(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Its configuration; `-` reads the standard input."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Profile to write. \\[default: printed]")
    ] = None,
    down: Annotated[str | None, typer.Option(metavar="DEVICE", help="Device that sends towards the user.")] = None,
    up: Annotated[str | None, typer.Option(metavar="DEVICE", help="Device that sends away from the user.")] = None,
    both: Annotated[bool, typer.Option("--both", help="One device stands for both directions.")] = False,
    device_rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="Rate where nothing says one. \\[default: 1 Gbit/s]"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the profile. \\[default: that of its file]")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each parameter with unit and source, and the notes, as JSON.")
    ] = False,
) -> None:
    """Make a profile of a link that another tool emulates or simulates.

    Reads lines of `tc qdisc` and `tc class` with netem, tbf, htb, cake and fq_codel, as commands or as `tc qdisc show`
    prints them; attributes of a point-to-point link of ns-3; traces and command lines of Mahimahi; the JSON of
    toxiproxy; command lines of comcast. Several lines make one link. Units and defaults are those of each tool.
    Each value has its source above it, and what a link here does not do is said.

    [bold]Examples[/bold]

      tc qdisc show | perigee profiles import -
      perigee profiles import shape.sh --down eth0 --up eth1 -o lab.toml
      perigee profiles import scratch.cc -o ns3.toml
      perigee profiles import up.trace down.trace -o lte.toml
      curl -s localhost:8474/proxies/db | perigee profiles import - -o db.toml
    """
    from perigee.engines.links.sampling import sample_profile
    from perigee.importing.read import read_link
    from perigee.importing.tc import Ways

    if out is not None and out.exists() and not overwrite:
        raise InputError(f"{out}: exists already; give another file, or --overwrite")
    texts = {str(file): _text_of(file) for file in files}
    link = read_link(texts, Ways(down, up, both), Path.cwd() if out is None else out.parent)
    bps = None if device_rate is None else bits_per_second("--rate", device_rate)
    title = name or (
        Path(files[0].name if out is None else out.name).stem if str(files[0]) != "-" or out else "imported"
    )
    text = link.profile(title, f"{link.tool}, {', '.join(texts)}", bps)
    folder = Path.cwd() if out is None else out.parent
    # The reader of profiles refuses what no link here can have.
    sample_profile(ProfileFile(folder / f"{title}.toml", text, (folder,)), 1.0, 1.0)
    if out is not None:
        write_atomically(out, text.encode())
    if as_json:
        from perigee.fitting.parameters import parameters

        named = {"profile": None if out is None else str(out), "name": title, "tool": link.tool, "text": text}
        found = parameters(text, "configured", link.assumed)
        result(json.dumps({**named, "parameters": found, "notes": link.notes}, indent=1))
        return
    for note in link.notes:
        say(f"note: {note}")
    if out is None:
        result(text.rstrip("\n"))
    else:
        say_profile(out)


def _told(profile: ProfileFile) -> str:
    """Return the title of a profile, its rates, and what it was held against."""
    rates = " / ".join(_rate(profile.content, way) for way in ("down", "up"))
    held = profile.head("held")
    return "\n".join([profile.head("title"), f"down / up: {rates}", *([f"held against: {held}"] if held else [])])


def _rate(content: Mapping[str, Any], way: str) -> str:
    """Return the rate of a direction in words: its mean, or how it comes about.

    Examples:
        >>> _rate({"link": {"rate": "1 Gbit/s"}}, "up"), _rate({"up": {"rate": {"kind": "tdma"}}}, "up")
        ('1 Gbit/s', 'on demand')
        >>> _rate({"down": {"timeline": "a.csv"}}, "down")
        'recorded'
    """
    direction = content.get(way, content.get("link", {}))
    rate = direction.get("rate", {}) if isinstance(direction, dict) else {}
    if isinstance(rate, str):
        return rate
    return str(rate.get("mean") or {"tdma": "on demand", "acm": "by the weather"}.get(rate.get("kind", ""), "recorded"))


def _text_of(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    return read_bounded(file, MOST_BYTES, "a configuration").decode("utf-8", "replace")


MOST_BYTES = 64 * MIB
"""Largest configuration: ten minutes of a trace of Mahimahi at 100 Mbit/s have 35 MB."""
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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee orbit`: the path of a link over satellites, as table and picture."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.commands.application import Application
from perigee.commands.old_names import profile_called
from perigee.commands.options import FigureFile, Profile, ProfileSettings, profile_setting, seconds, write_figure
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.numbers import counted

if TYPE_CHECKING:
    from perigee._core import Orbit, OrbitSlot

app = Application(
    'Orbits: satellites in view, the serving satellite and the delay over time, for a profile with `kind = "orbit"`.'
)

COLUMNS = (
    "begin", "t_s", "visible", "path", "gateway", "elevation_deg", "azimuth_deg", "distance_km", "light_ms",
    "delay_ms", "delay_end_ms",
)  # fmt: skip

At = Annotated[str, typer.Option("--at", metavar="TIME", help='Time of day (UTC) at which to start, such as "20.5 h".')]
Direction = Annotated[
    str,
    typer.Option(
        metavar="down|up",
        help="Direction towards the user (down) or away (up); they differ in the delay added to propagation.",
    ),
]


@app.command()
def show(
    profile: Profile,
    at: At = "0 h",
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Time span to compute.")] = "5 min",
    direction: Direction = "down",
    settings: ProfileSettings = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with all satellites in view in each slot.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values, one line per slot.")] = False,
) -> None:
    """Show the path of each slot: satellites in view at its start, the serving satellite and gateway, its position in the sky of the user, and the one-way delay.

    The delay is propagation at the speed of light plus the profile's `extra`, without jitter and spikes. A slot in
    which no satellite stays in view of user and gateway has no path: packets sent in it are lost.

    [bold]Examples[/bold]

      perigee orbit show starlink-orbit
      perigee orbit show starlink-orbit --at "18 h" --for "1 h" --csv > evening.csv
      perigee orbit show starlink-orbit --set link.delay.user.lat_deg=60
      perigee orbit show oneweb-orbit --json
    """  # noqa: E501 - the first paragraph is one line of the reference
    if as_json and as_csv:
        raise InputError("--json and --csv: give only one")
    orbit = _orbit(profile, at, duration, direction, settings)
    if as_json:
        result(json.dumps(_as_json(orbit), indent=1))
    elif as_csv:
        result(",".join(COLUMNS))
        for slot in orbit.slots:
            result(",".join("" if cell is None else str(cell) for cell in _cells(slot).values()))
    else:
        _print_table(orbit)


@app.command()
def draw(
    profile: Profile,
    out: FigureFile = None,
    at: At = "0 h",
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Time span to draw.")] = "30 min",
    direction: Direction = "down",
    settings: ProfileSettings = None,
) -> None:
    """Draw the sky of the user with the satellites in view and the serving ones, and the delay over time.

    [bold]Examples[/bold]

      perigee orbit draw starlink-orbit                         into starlink-orbit.png
      perigee orbit draw oneweb-orbit --for "24 h" -o day.pdf
    """
    orbit = _orbit(profile, at, duration, direction, settings)
    from perigee.report.orbit_figure import draw_orbit

    latitude, longitude = orbit.user
    user = f"user at {latitude:g}° N {longitude:g}° E"
    title = f"{profile}: {orbit.satellites} satellites, {user}, from {orbit.slots[0].begin} UTC"
    write_figure(out or Path(f"{Path(profile).stem}.png"), lambda: draw_orbit(orbit, title))


def _orbit(profile: str, at: str, duration: str, direction: str, settings: list[str] | None) -> Orbit:
    """Compute the slots, and print warnings about the elements."""
    from perigee.engines.links.orbits import orbit_slots

    pairs = [profile_setting(setting) for setting in settings or ()]
    span, begin = seconds("--for", duration, 0.001), seconds("--at", at, 0.0)
    orbit = orbit_slots(profile_called(profile), span, begin, direction, pairs)
    say(f"{counted(orbit.satellites, 'satellite')}")
    for warning in orbit.warnings:
        say(f"warning: {warning}")
    return orbit


def _cells(slot: OrbitSlot) -> dict[str, str | int | float | None]:
    """Return the columns of a slot, numbers to a sensible precision."""
    _, elevation, azimuth, distance = slot.first or (None, None, None, None)
    begin, _, end = slot.delay_ms or (None, None, None)

    def rounded(value: float | None, digits: int) -> float | None:
        return None if value is None else round(value, digits)

    values = (
        slot.begin, round(slot.t_s, 3), len(slot.visible), " ".join(slot.path), slot.gateway, rounded(elevation, 2),
        rounded(azimuth, 2), rounded(distance, 3), rounded(slot.light_ms, 6), rounded(begin, 6), rounded(end, 6),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _as_json(orbit: Orbit) -> dict[str, object]:
    """Return everything as data."""

    def sight(name: str, elevation: float, azimuth: float, distance: float) -> dict[str, object]:
        angles = {"elevation_deg": round(elevation, 3), "azimuth_deg": round(azimuth, 3)}
        return {"satellite": name, **angles, "distance_km": round(distance, 3)}

    slots = [
        {**_cells(slot), "path": slot.path, "visible": [sight(*one) for one in slot.visible]} for slot in orbit.slots
    ]
    gateways = [{"name": name, "lat_deg": lat, "lon_deg": lon} for name, lat, lon in orbit.gateways]
    user = {"lat_deg": orbit.user[0], "lon_deg": orbit.user[1]}
    about = {"satellites": orbit.satellites, "user": user, "gateways": gateways, "elevation_deg": orbit.elevation_deg}
    return {**about, "warnings": orbit.warnings, "slots": slots}


def _print_table(orbit: Orbit) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Begin (UTC)", no_wrap=True)
    for name in ("In view", "Satellite", "Gateway", "Elevation (°)", "Azimuth (°)", "Distance (km)", "Delay (ms)"):
        table.add_column(name, justify="left" if name in ("Satellite", "Gateway") else "right")
    for slot in orbit.slots:
        begin = slot.begin.replace("T", " ").removesuffix(".000")
        if slot.first is None or slot.delay_ms is None:
            table.add_row(begin, str(len(slot.visible)), "no path", "", "", "", "", "lost")
            continue
        name, elevation, azimuth, distance = slot.first
        hops = f" +{len(slot.path) - 1}" if len(slot.path) > 1 else ""
        angles = (f"{elevation:.1f}", f"{azimuth:.1f}", f"{distance:.1f}")
        delays = f"{slot.delay_ms[0]:.3f} to {slot.delay_ms[2]:.3f}"
        table.add_row(begin, str(len(slot.visible)), escape(name) + hops, escape(slot.gateway or ""), *angles, delays)
    out_console.print(table, soft_wrap=not sys.stdout.isatty())
    delays_ms = [slot.delay_ms[1] for slot in orbit.slots if slot.delay_ms is not None]
    paths = [slot.path for slot in orbit.slots]
    changes = sum(one != other for one, other in itertools.pairwise(paths))
    without = len(paths) - len(delays_ms)
    said = f"{orbit.satellites} satellites, {len(paths)} slots, {changes} handovers, {without} without a path"
    if delays_ms:
        mean = sum(delays_ms) / len(delays_ms)
        said += f"; delay {min(delays_ms):.2f} to {max(delays_ms):.2f} ms, mean {mean:.2f} ms"
    result(said)

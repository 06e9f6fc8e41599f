# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee fit`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from perigee.commands.options import KnownDown, KnownUp, bits_per_second, say_profile, seconds
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.files import write_atomically
from perigee.fitting.profile import said_of
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee.fitting.check import Row
    from perigee.fitting.fit import Measured
    from perigee.fitting.intervals import Interval
    from perigee.fitting.profile import Fitted
    from perigee.fitting.slotted import SlottedProfile


@dataclass(frozen=True)
class FitOptions:
    """Options and arguments of `perigee fit`."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Profile to write.", metavar="FILE")]
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...|CAMPAIGN",
            help="Logs and captures of any program that `perigee analyze` reads; or results of `perigee campaign`.",
        ),
    ] = None
    use: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Files of the campaign to fit to: pings, udp (probes), transfers. \\[default: pings,udp]",
        ),
    ] = None
    rounds: Annotated[
        str | None,
        typer.Option(metavar="ROUNDS", help="Rounds of the campaign to fit to, such as 1..40. \\[default: all]"),
    ] = None
    level: Annotated[
        float, typer.Option(metavar="LEVEL", help="Level of the parameters' intervals, from 0.5 to 0.99.")
    ] = 0.9
    ping: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Log of pings over the idle path, of any program.")
    ] = None
    probe: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Log of `perigee probe`; may be given several times.")
    ] = None
    capture: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Capture or log of transfers; may be given several times."),
    ] = None
    recording: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="BW DELAY",
            help="Recorded link with slots of 15 s, in place of the others: a packet-delivery trace (mahimahi) and "
            "one-way delays in ms, a line per 10 ms.",
        ),
    ] = None
    load: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of `perigee rrul`, whose transfers are compared with its pings; may be given several times.",
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the profile. \\[default: that of its file]")
    ] = None
    down: KnownDown = None
    up: KnownUp = None
    down_delay: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Minimum one-way delay down. \\[default: half the minimum round trip]"),
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print each parameter with unit, interval and source, and what is not known, as JSON."
        ),
    ] = False


def command(given: FitOptions) -> None:
    """Fit a link profile to measurements of a real path.

    The ping log gives the delay, its tail, rare losses and their period; the probe gives rates, queues and loss bursts;
    transfers in captures and logs (iperf3, flent, ss and others) give lower bounds of the rates. A probe with --in-band
    gives the kind of the queue, too, and the profile says if pings do not see that queue. Each number of the profile
    has its source above it, each parameter an interval, and what could not be known is listed. The table compares
    simulated pings and probes over the profile with the measured ones.

    Of a campaign, a declared part is fitted, so that the rest can be predicted and scored.

    A recording of a link with slots, such as Starlink's, gives a profile with slots, bursts, outages and spikes. The
    table then compares round trips and rates of the recording, replayed, with those of ten runs of the profile.

    [bold]Examples[/bold]

      perigee fit ping.txt iperf3.json --out mylink.toml
      perigee fit --ping baseline.csv --probe probe.jsonl --out mylink.toml
      perigee fit --ping baseline.csv --probe in-band.jsonl --load evening --out mylink.toml
      perigee fit --ping baseline.csv --capture download.pcapng --out mylink.toml
      perigee fit --ping baseline.csv --down "150 Mbit/s" --up "10 Mbit/s" --out mylink.toml
      perigee fit results/rooftop-may --use pings,udp --rounds 1..40 --out rooftop.toml
      perigee fit --recording bw.txt delay.txt --up "20 Mbit/s" --out mylink.toml
      sudo "$(command -v perigee)" exec --link ./mylink.toml -- iperf3 -c example.org
    """
    # Slow to import.
    from perigee.fitting.check import check
    from perigee.fitting.fit import fit as fit_to
    from perigee.fitting.intervals import intervals
    from perigee.fitting.sources import measured_by
    from perigee.statistics.estimates import percent

    title = given.name or given.out.stem
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", title):
        raise InputError(f"--name {title}: not a name; use lower-case letters, digits, `-`, `_` and `.`")
    if given.out.exists() and not given.overwrite:
        raise InputError(f"{given.out}: exists already; give another file, or --overwrite")
    _refuse_beside(given)
    if given.recording is not None:
        _fit_recording(title, given, *given.recording)
        return
    campaign = _campaign(given)
    known = (
        measured_by(given.files or (), given.ping, given.probe or (), given.capture or (), given.load or ())
        if campaign is None
        else _of_campaign(given, campaign)
    )
    measured = replace(
        known,
        down_bps=None if given.down is None else bits_per_second("--down", given.down),
        up_bps=None if given.up is None else bits_per_second("--up", given.up),
        down_delay_ms=None if given.down_delay is None else 1000 * seconds("--down-delay", given.down_delay, 0.0),
    )
    if given.probe and not measured.steps:
        raise InputError(f"{given.probe[0]}: no complete step; let `perigee probe` finish at least one rate")
    fitted = fit_to(title, measured)
    found = intervals(measured, given.level)
    own = fitted.notes
    said = tuple(f"{percent(given.level)} interval of {one.sentence}" for one in found)
    fitted = replace(fitted, notes=(*own, *said))
    rows = check(fitted, measured)
    write_atomically(given.out, fitted.text.encode())
    if given.as_json:
        _print_json(given, fitted, rows, found, own)
        return
    _say(given, fitted, rows)


def _say(given: FitOptions, fitted: Fitted | SlottedProfile, rows: list[Row]) -> None:
    if rows:
        _show(rows)
    for note in fitted.notes:
        say(f"note: {note}")
    for default in said_of(fitted.assumed):
        say(f"not measured: {default}")
    for said in fitted.unknown:
        say(f"not known: {said}")
    say_profile(given.out)


def _print_json(
    given: FitOptions,
    fitted: Fitted | SlottedProfile,
    rows: list[Row],
    found: Sequence[Interval] = (),
    notes: Sequence[str] = (),
) -> None:
    from perigee.fitting.parameters import estimates, parameters

    printed = {
        "profile": str(given.out),
        "name": fitted.name,
        "level": given.level if found else None,
        "parameters": parameters(fitted.text, "measured", fitted.assumed, found),
        "estimates": estimates(found),
        "comparison": [
            {"what": row.what, "unit": row.unit, "measured": _known(row.measured), "fitted": _known(row.fitted)}
            for row in rows
        ],
        "notes": list(notes),
        "not_known": [*(f"not measured: {said}" for said in said_of(fitted.assumed)), *fitted.unknown],
    }
    result(json.dumps(printed, indent=1))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _campaign(given: FitOptions) -> Path | None:
    """Return the campaign; none where files are given."""
    folders = [path for path in given.files or () if path.is_dir()]
    if folders and len(given.files or ()) > 1:
        raise InputError(f"{folders[0]}: a campaign is fitted alone, and {len(given.files or ()) - 1} more are given")
    return folders[0] if folders else None


def _refuse_beside(given: FitOptions) -> None:
    """Refuse options that a campaign, or its absence, leaves without effect."""
    if _campaign(given) is None:
        if own := [option for option in ("use", "rounds") if getattr(given, option) is not None]:
            raise InputError(
                f"--{own[0]}: is of a campaign, and none is given; give its results folder, or leave it out"
            )
        return
    if beside := [option for option in ("ping", "probe", "capture", "recording", "load") if getattr(given, option)]:
        raise InputError(f"--{beside[0]}: stands beside a campaign, which has its own; choose of it with --use")


def _of_campaign(given: FitOptions, campaign: Path) -> Measured:
    """Read the declared part of a campaign."""
    from perigee.campaigns.part import part_of
    from perigee.store.results import Results

    part = part_of(Results(campaign), given.use or _USE, given.rounds)
    say(f"fitting to {part.said}")
    return part.measured


def _fit_recording(name: str, given: FitOptions, bw: Path, delay: Path) -> None:
    """Write a profile with slots, and say how it compares."""
    from perigee.fitting.recording import read_recording
    from perigee.fitting.resemblance import resemblance
    from perigee.fitting.slots import fit_slots
    from perigee.fitting.slotted import SlottedProfile
    from perigee.places import find_profile

    options = ("files", "ping", "probe", "capture", "load", "down_delay")
    beside = [option for option in options if getattr(given, option) not in (None, [])]
    if beside:
        option = "FILE" if beside[0] == "files" else "--" + beside[0].replace("_", "-")
        raise InputError(f"{option}: --recording stands beside it; fit them one at a time, into two profiles")
    recording = read_recording(bw, delay)
    rates = [
        None if rate is None else bits_per_second(option, rate)
        for option, rate in (("--down", given.down), ("--up", given.up))
    ]
    slotted = fit_slots(recording)
    fitted = SlottedProfile(name, recording, slotted, rates[0], rates[1])
    write_atomically(given.out, fitted.text.encode())
    rows = resemblance(recording, slotted, find_profile(str(given.out.resolve())))
    (_print_json if given.as_json else _say)(given, fitted, rows)


def _show(rows: list[Row]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for head in ("", "measured", "fitted"):
        table.add_column(head, justify="right" if head else "left")
    for row in rows:
        digits = 3 if row.unit == "%" else 2
        table.add_row(row.what, row.unit, number(row.measured, digits), number(row.fitted, digits))
    out_console.print(table)


_USE = "pings,udp"

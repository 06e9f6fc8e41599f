# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee traces`: recorded links in the formats of replay tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.application import Application
from perigee.commands.old_names import profile_called
from perigee.commands.options import Profile, ProfileSettings, profile_setting, seconds
from perigee.console import result, say
from perigee.core import native
from perigee.errors import InputError
from perigee.files import write_new_folder

app = Application("Recorded links: convert between the formats of replay tools, and write profiles in them.")

FORMATS = "mahimahi|leoreplayer|cellreplay|timeline"
To = Annotated[str, typer.Option("--to", metavar=FORMATS, help="Format to write.")]
Folder = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write, which must be new.")]


@app.command()
def convert(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="IN...",
            help="Files of one direction: `rate` (mahimahi); `rate delay` (leoreplayer); `delay-light-pdo pdo` "
            "(cellreplay); `table` (timeline).",
        ),
    ],
    source: Annotated[str, typer.Option("--from", metavar=FORMATS, help="Format of the files.")],
    to: To,
    out: Folder,
) -> None:
    """Convert one direction of a recorded link.

    What the other format cannot say is left out, and reported: mahimahi has no delay over time, and CellReplay has a
    second rate for short trains of packets.

    [bold]Examples[/bold]

      perigee traces convert bw.txt delay.txt --from leoreplayer --to cellreplay -o down
      perigee traces convert down-delay-light-pdo down-pdo --from cellreplay --to leoreplayer -o down
    """
    takes = dict(native.trace_formats()).get(source)
    if takes is not None and len(files) != len(takes):
        raise InputError(f"{len(files)} files: {source} has {len(takes)}", f"name {', then '.join(takes)}")
    _write(native.convert_traces(source, [(str(path), _bytes(path)) for path in files], to), out)


@app.command()
def export(
    profile: Profile,
    to: To,
    out: Folder,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Time span to write.")] = "120 s",
    settings: ProfileSettings = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the link's random processes.")] = 1,
) -> None:
    """Write rate and delay of a profile over time, without traffic, for tools that replay them.

    Losses, queues and the delay under load are not part of a trace: give them to the tool.

    [bold]Examples[/bold]

      perigee traces export starlink --to leoreplayer -o starlink
      perigee traces export starlink-orbit --to cellreplay --for "5 min" --set down.rate="100 Mbit/s" -o orbit
    """
    found = profile_called(profile)
    span_ns = round(seconds("--for", duration, 0.01) * 1e9)
    pairs = [profile_setting(setting) for setting in settings or ()]
    search = [str(folder) for folder in found.search]
    _write(native.export_traces((found.text, str(found.path)), pairs, search, seed, span_ns, to), out)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "name a file that can be read") from None


def _write(written: tuple[list[tuple[str, str]], list[str]], out: Path) -> None:
    """Write files into a new folder, and print what they leave out."""
    files, notes = written
    if not files:
        raise InputError("nothing to write: " + "; ".join(notes), "choose another format")
    write_new_folder(out, dict(files), "--out")
    for note in notes:
        say(note)
    for name, _ in files:
        result(str(out / name))

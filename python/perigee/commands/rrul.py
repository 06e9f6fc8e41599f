# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee rrul`."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from perigee.commands.options import FIGURES, Stopped, host_and_port, seconds, write_figure
from perigee.console import error_console, out_console, result, say
from perigee.errors import InputError, InterruptedRunError
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee.engines.live.under_load import LoadPlan, UnderLoad

PAGE = "report.html"
"""The page in the folder of a measurement."""


@dataclass(frozen=True)
class LoadOptions:
    """Options of `perigee rrul`."""

    direction: Annotated[
        str, typer.Option(metavar="both|down|up", help="Direction of the load, seen from this host.")
    ] = "both"
    streams: Annotated[int, typer.Option(metavar="N", min=1, max=32, help="TCP transfers in each direction.")] = 4
    time: Annotated[str, typer.Option(metavar="TIME", help="Length of the load, whole seconds.")] = "30 s"
    idle: Annotated[str, typer.Option(metavar="TIME", help="Time without load before and after it.")] = "5 s"
    interval: Annotated[str, typer.Option(metavar="TIME", help="Time between two pings.")] = "200 ms"
    cc: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Congestion control at both ends. \\[default: that of the hosts]"),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="New folder for the measurement. \\[default: rrul-HOST-TIME]"
        ),
    ] = None
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Page to write. \\[default: {PAGE} in the folder; of several: rrul.html]"),
    ] = None
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figure: a `.png`, `.pdf` or `.svg`.")
    ] = None
    summary: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Only show this measurement again; of several, how they differ from the first."
        ),
    ] = None


def command(
    *,
    host: Annotated[
        str | None, typer.Argument(metavar="HOST[:PORT]", help="Host that runs `iperf3 --server --json`.")
    ] = None,
    given: LoadOptions,
) -> None:
    """Measure latency under load of a real path, as a page; compare one evening with another.

    Pings the host without load, then beside several TCP transfers in both directions at once, then without load again.
    The transfers are iperf3's, the pings those of the system's `ping`. The folder has the page, each ping, and what
    iperf3 wrote.

    [bold]Examples[/bold]

      perigee rrul example.org
      perigee rrul example.org --direction down --streams 1 --cc bbr --time "60 s"
      perigee rrul example.org:5202 -o evening
      perigee rrul --summary monday --summary tuesday --page evenings.html
    """
    if given.figure is not None and given.figure.suffix.lower() not in FIGURES:
        raise InputError(f"--figure {given.figure}: unknown format; use a name that ends in {', '.join(FIGURES)}")
    folders = given.summary or []
    if not folders:
        if host is None:
            raise InputError(
                "no host is given; start `iperf3 --server --json` on one beyond the link, and name it here"
            )
        folders = [_measured(host, given)]
    elif host is not None:
        raise InputError(f"{host}: --summary takes no host; it shows what a folder has")
    from perigee.engines.live.under_load import read
    from perigee.files import write_atomically
    from perigee.report.pages.load import compared, directions, draw, page, sentence

    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    several = {name: read(folder) for name, folder in zip(names, folders, strict=True)}
    for name, measured in several.items():
        for note in measured.notes:
            say(f"note: {note}")
        result(sentence(measured) if len(several) == 1 else f"{name}: {sentence(measured)}")
        out_console.print(_table(measured))
        for line in directions(measured):
            result(line)
    if len(several) > 1:
        result(compared(several))
    target = given.page or (folders[0] / PAGE if len(several) == 1 else Path("rrul.html"))
    write_atomically(target, page(several).encode())
    if given.figure is not None:
        write_figure(given.figure, lambda: draw(several))
    result(str(target))


def _measured(host: str, given: LoadOptions) -> Path:
    """Carry out a measurement; return its folder."""
    from perigee.engines.live.under_load import measure

    plan = _plan(host, given)
    folder = given.out or Path(f"rrul-{re.sub('[^0-9A-Za-z.-]', '-', plan.host)}-{time.strftime('%Y%m%d-%H%M%S')}")
    stopped = Stopped()
    with error_console.status("") as line:

        def watch(what: str, share: float) -> bool:
            line.update(f"{what}, {100 * share:.0f} % of {number(plan.whole_s, 0)} s")
            return not stopped

        if not measure(plan, folder, watch):
            raise InterruptedRunError("interrupted; nothing was written")
    return folder


def _plan(host: str, given: LoadOptions) -> LoadPlan:
    from perigee.engines.live.under_load import DIRECTIONS, LoadPlan

    if given.direction not in DIRECTIONS:
        raise InputError(f"--direction {given.direction}: one of {', '.join(DIRECTIONS)}")
    time_s = seconds("--time", given.time, 1.0)
    if time_s % 1 or time_s > 86_400:
        raise InputError(f"--time {given.time}: iperf3 takes whole seconds, up to a day")
    name, port = host_and_port(host, 5201)
    return LoadPlan(
        name, port, given.direction, given.streams, round(time_s), seconds("--idle", given.idle, 1.0),
        seconds("--interval", given.interval, 0.01), given.cc,
    )  # fmt: skip


def _table(measured: UnderLoad) -> Table:
    from perigee.report.pages.load import HEAD, rows

    table = Table(box=box.SIMPLE_HEAD)
    for head in HEAD:
        table.add_column(head, justify="left" if head == HEAD[0] else "right")
    for row in rows(measured):
        table.add_row(*row)
    return table

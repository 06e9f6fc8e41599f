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
from perigee.measuring.server import PORT
from perigee.measuring.tokens import secret
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee.engines.live.under_load import LoadPlan, UnderLoad


@dataclass(frozen=True)
class LoadOptions:
    """Options of `perigee rrul`."""

    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", envvar="PERIGEE_TOKEN",
            help="Secret of `perigee ping --serve` on HOST. \\[default: none; the system's `ping` is used]",
        ),
    ] = None  # fmt: skip
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="File whose first line is that token.")] = None
    ping_port: Annotated[
        int, typer.Option(metavar="PORT", min=1, max=65535, help="UDP port of `perigee ping --serve`.")
    ] = PORT
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
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Figure to write: a `.png`, `.pdf` or `.svg`. \\[default: figure.svg in the folder]"
        ),
    ] = None
    summary: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Only show and draw this measurement again.")
    ] = None


def command(
    *,
    host: Annotated[
        str | None, typer.Argument(metavar="HOST[:PORT]", help="Host that runs `iperf3 --server --json`.")
    ] = None,
    given: LoadOptions,
) -> None:
    """Measure latency under load of a real path, with one picture.

    Pings the host without load, then beside several TCP transfers in both directions at once, then without load again.
    The transfers are iperf3's; the pings are the system's, or with a token those of `perigee ping`. The folder has the
    figure, each ping, and what iperf3 wrote.

    [bold]Examples[/bold]

      perigee rrul example.org
      perigee rrul example.org --direction down --streams 1 --cc bbr --time "60 s"
      perigee rrul example.org:5202 --token-file token -o evening
      perigee rrul --summary evening --figure evening.pdf
    """
    if given.figure is not None and given.figure.suffix.lower() not in FIGURES:
        raise InputError(f"--figure {given.figure}: unknown format; use a name that ends in {', '.join(FIGURES)}")
    folder = given.summary
    if folder is None:
        if host is None:
            raise InputError(
                "no host is given; start `iperf3 --server --json` on one beyond the link, and name it here"
            )
        folder = _measured(host, given)
    elif host is not None:
        raise InputError(f"{host}: --summary takes no host; it shows what a folder has")
    from perigee.engines.live.under_load import read
    from perigee.report.load_figure import draw_load

    measured = read(folder)
    for note in measured.notes:
        say(f"note: {note}")
    _show(measured)
    figure = given.figure or folder / "figure.svg"
    write_figure(figure, lambda: draw_load(measured))


def _measured(host: str, given: LoadOptions) -> Path:
    """Carry out a measurement; return its folder."""
    from perigee.engines.live.under_load import measure

    plan, token = _plan(host, given)
    folder = given.out or Path(f"rrul-{re.sub('[^0-9A-Za-z.-]', '-', plan.host)}-{time.strftime('%Y%m%d-%H%M%S')}")
    stopped = Stopped()
    with error_console.status("") as line:

        def watch(what: str, share: float) -> bool:
            line.update(f"{what}, {100 * share:.0f} % of {number(plan.whole_s, 0)} s")
            return not stopped

        if not measure(plan, token, folder, watch):
            raise InterruptedRunError("interrupted; nothing was written")
    return folder


def _plan(host: str, given: LoadOptions) -> tuple[LoadPlan, bytes | None]:
    from perigee.engines.live.under_load import DIRECTIONS, LoadPlan

    if given.direction not in DIRECTIONS:
        raise InputError(f"--direction {given.direction}: one of {', '.join(DIRECTIONS)}")
    time_s = seconds("--time", given.time, 1.0)
    if time_s % 1 or time_s > 86_400:
        raise InputError(f"--time {given.time}: iperf3 takes whole seconds, up to a day")
    name, port = host_and_port(host, 5201)
    has_token = given.token is not None or given.token_file is not None
    token = secret(given.token, given.token_file, make=False) if has_token else None
    plan = LoadPlan(
        name, port, given.direction, given.streams, round(time_s), seconds("--idle", given.idle, 1.0),
        seconds("--interval", given.interval, 0.01), given.cc, given.ping_port if token else None,
    )  # fmt: skip
    return plan, token


def _show(measured: UnderLoad) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("Round trip (ms)", "median", "95 %", "99 %", "largest", "lost"):
        table.add_column(head, justify="left" if head.startswith("Round") else "right")
    for name, loaded in (("without load", False), ("under load", True)):
        counted = measured.round_trips(loaded)
        if not counted.sent:
            continue
        cells = (
            [number(counted.quantile_ms(share), 1) for share in (0.5, 0.95, 0.99)] if counted.answered else ["-"] * 3
        )
        largest = number(counted.max_ms, 1) if counted.answered else "-"
        table.add_row(name, *cells, largest, f"{number(100 * counted.loss, 1)} %")
    for direction in measured.rates:
        quantiles_ms = measured.flow_quantiles_ms(direction, (0.5, 0.95, 0.99, 1.0))
        if quantiles_ms:
            table.add_row(f"of the transfers {direction}", *(number(value, 1) for value in quantiles_ms), "-")
    out_console.print(table)
    for direction in measured.rates:
        again = measured.retransmitted[direction]
        told = "" if again is None else f", {again} packets retransmitted"
        result(f"{direction}: {number(measured.mean_mbps(direction), 1)} Mbit/s{told}")
        between = measured.difference(direction)
        if between is not None:
            result(f"{direction}: {between.finding}")

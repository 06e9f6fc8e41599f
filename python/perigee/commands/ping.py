# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee ping`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from perigee.commands.options import Stopped, seconds
from perigee.commands.serving import ServerOptions
from perigee.console import error_console, out_console, say
from perigee.errors import EXIT_RUN_FAILED
from perigee.files import write_atomically
from perigee.measuring.server import LARGEST_PING_BYTES, PING_BYTES
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee.measuring.round_trips import RoundTrips


@dataclass(frozen=True)
class PingOptions:
    """Options and arguments of `perigee ping`."""

    interval: Annotated[str, typer.Option(metavar="TIME", help="Time between two datagrams.")] = "200 ms"
    size: Annotated[
        int, typer.Option(metavar="BYTES", min=PING_BYTES, max=LARGEST_PING_BYTES, help="Size of a datagram, bytes.")
    ] = PING_BYTES
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Count an answer as lost after this time.")] = "10 s"
    count: Annotated[
        int | None,
        typer.Option(
            "--count", "-c", metavar="N", min=1, help="Number of datagrams to send. \\[default: until Ctrl-C]"
        ),
    ] = None
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log with a line per datagram; an existing log is continued."),
    ] = None
    summary: Annotated[Path | None, typer.Option(help="Only summarize this log.", metavar="FILE")] = None
    ccdf: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the complementary distribution of round trips to this CSV file."),
    ] = None


def command(
    *,
    host: Annotated[
        str | None, typer.Argument(metavar="HOST[:PORT]", help="Host that runs `perigee ping --serve`.")
    ] = None,
    served: ServerOptions,
    given: PingOptions,
) -> None:
    """Measure round trip and loss of a real path, for days if needed.

    Sends small UDP datagrams at a fixed pace to a server of the same program, which returns them. Memory is constant.
    Ctrl-C ends the measurement with a summary; with --log the same command continues it later. The server answers only
    clients with the token, one datagram per datagram; pings over its limit are counted apart from losses.

    [bold]Examples[/bold]

      perigee ping --serve --token-file token                    on a host beyond the link
      perigee ping example.org --token correct-horse --log baseline.csv
      perigee ping --summary baseline.csv --ccdf baseline-ccdf.csv
    """
    from perigee.measuring.ping import PingPlan, read_log
    from perigee.measuring.ping import ping as send

    if given.summary is not None:
        _show(read_log(given.summary), given.ccdf)
        return
    peer = served.peer("ping", host)
    if peer is None:
        return
    name, port, token = peer
    plan = PingPlan(
        name, token, port=port, interval_s=seconds("--interval", given.interval, 0.001), size=given.size,
        timeout_s=seconds("--timeout", given.timeout, 0.01), count=given.count,
    )  # fmt: skip
    stopped = Stopped()
    with error_console.status("") as line:

        def watch(counted: RoundTrips) -> bool:
            limited = f", {counted.limited} over the server's limit" if counted.limited else ""
            line.update(f"{counted.sent} sent, {counted.lost} lost{limited}, mean {number(counted.mean_ms, 1)} ms")
            return not stopped

        counted = send(plan, given.log, watch)
    _show(counted, given.ccdf)
    if counted.sent and not counted.answered and not counted.limited:
        say("no answer arrived: check that the token is the same, UDP passes, and the server has this version")
        raise typer.Exit(EXIT_RUN_FAILED)


def _show(counted: RoundTrips, ccdf: Path | None) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Round trip")
    table.add_column("ms", justify="right")
    if counted.answered:
        rows = [("least", counted.min_ms), ("mean", counted.mean_ms), ("standard deviation", counted.sd_ms)]
        rows += [(name, counted.quantile_ms(share)) for name, share in _QUANTILES]
        for name, value in [*rows, ("largest", counted.max_ms)]:
            table.add_row(name, number(value, 2))
    out_console.print(table)
    several = counted.events - counted.single_events
    out_console.print(
        f"{counted.sent} sent, {counted.lost} lost ({number(100 * counted.loss, 3)} %) in {counted.events} events, "
        f"{several} of them bursts, the longest of {counted.longest_event}",
        highlight=False,
    )
    if counted.limited:
        out_console.print(
            f"{counted.limited} reached the server over its limit; they have no round trip and are not lost: take a "
            "longer --interval, or raise its --limit",
            highlight=False,
        )
    if ccdf is not None:
        rows_ = (f"{rtt:.1f},{above:.9g}\n" for rtt, above in counted.above())
        write_atomically(ccdf, ("rtt_ms,share_above\n" + "".join(rows_)).encode())


_QUANTILES = (("median", 0.5), ("95th percentile", 0.95), ("99th percentile", 0.99), ("99.9th percentile", 0.999))

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee exec`: a real program behind an emulated link."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands.exec_live import LiveLine
from perigee.commands.old_names import profile_called
from perigee.commands.options import profile_setting, seconds
from perigee.console import say
from perigee.engines.host.buffers import hint, host_buffers
from perigee.engines.links import emulation
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee._core import LinkReport, ProgramReport, Undelivered


@dataclass(frozen=True)
class ExecOptions:
    """Options and arguments of `perigee exec`."""

    command: Annotated[list[str], typer.Argument(help="Program and its arguments, after `--`.", metavar="COMMAND...")]
    link: Annotated[
        str, typer.Option("--link", "-l", metavar="PROFILE", help="Profile: its name in profiles/, or its TOML file.")
    ]
    up: Annotated[
        str | None,
        typer.Option(
            "--up",
            metavar="PROFILE",
            help="Another profile for the direction away from the program. \\[default: that of --link]",
        ),
    ] = None
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Recording of the rate towards the program; short for --set down.rate.trace=FILE."
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a value of the profile, in `down`, `up` or both (`link`); may be given several times.",
        ),
    ] = None
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the link's random processes.")] = 1
    mtu: Annotated[int, typer.Option(metavar="BYTES", min=1280, max=65535, help="Largest packet, bytes.")] = 1500
    drain: Annotated[
        str,
        typer.Option(metavar="TIME", help="Maximum time to deliver data still in flight when the program has ended."),
    ] = f"{emulation.DRAIN_S:g} s"
    live: Annotated[
        bool, typer.Option("--live", help="Show rate, queue and drops of each direction once a second.")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print notes only if data was lost or a process ended, and no summary."),
    ] = False


def command(given: ExecOptions) -> None:
    """Run any program behind an emulated satellite link.

    The program runs in this terminal; this command returns its exit code and forwards signals to it. When the program
    has ended, processes that it left running are ended, and data that it has sent is still delivered.

    All its packets cross the link and are handled by this machine's own TCP/IP. The program reaches the outside world
    if this host forwards packets; otherwise it reaches only this host, at the address that is printed. The
    configuration of this host is not changed. Links nest. Needs root.

    [bold]Examples[/bold]

      perigee exec --link geo -- curl -o /dev/null https://example.org/large
      perigee exec --link geo --set down.rate="20 Mbit/s" --set link.loss=0.1% -- firefox
      perigee exec --link viasat2 -- bash
      perigee exec --link geo --live -- iperf3 -c 100.64.0.1 -R
    """
    pairs = [profile_setting(setting) for setting in given.settings or ()]
    if given.trace is not None:
        pairs.append(("down.rate.trace", given.trace))
    down = profile_called(given.link)
    back = down if given.up is None else profile_called(given.up)
    if not given.quiet and (small := hint(emulation.link_size(down, back, pairs), host_buffers())):
        say(f"note: {small}")
    line = LiveLine() if given.live else None
    done = emulation.run_behind(
        given.command, down, back, settings=pairs, seed=given.seed, mtu=given.mtu,
        drain_s=seconds("--drain", given.drain, 0.0), begun=_be_silent if given.quiet else _tell, live=line,
        draining=_be_silent if given.quiet else partial(_tell_draining, drain=given.drain),
    )  # fmt: skip
    if line:
        line.end()
    for note in notes(done):
        say(note)
    if not given.quiet:
        say(summary(done))
    raise typer.Exit(done.exit_code)


def summary(done: ProgramReport) -> str:
    """Return the summary of a link in one line.

    Examples:
        >>> from types import SimpleNamespace as Report
        >>> way = {"packets": 1000, "bytes": 1500000, "dropped": {"queue_full": 10, "loss": 0}, "delay_mean_ms": 300.0,
        ...        "largest_queue_bytes": 2500000, "lateness_p99_us": 80.0}
        >>> down, up = Report(**way), Report(**way | {"dropped": {"loss": 0}})
        >>> print(summary(Report(duration_s=2.0, down=down, up=up)))
        perigee: 2.0 s; down 1.5 MB, 1.0 % dropped (10 queue_full), queue up to 2.5 MB; up 1.5 MB, none dropped, \
queue up to 2.5 MB; round trip of the link 600 ms on average; releases up to 80 us late (p99)
    """
    down, up = done.down, done.up
    trip = down.delay_mean_ms + up.delay_mean_ms
    late = max(down.lateness_p99_us, up.lateness_p99_us)
    return (
        f"perigee: {number(done.duration_s, 1)} s; down {_way(down)}; up {_way(up)}; "
        f"round trip of the link {number(trip, 0)} ms on average; releases up to {number(late, 0)} us late (p99)"
    )


def notes(done: ProgramReport) -> list[str]:
    """Return notes on processes that were ended and data that was not delivered, a line each.

    Examples:
        >>> from types import SimpleNamespace as Report
        >>> left, ended = Report(connections=2, bytes=51_300, packets=40), [Report(pid=7, command="sleep")]
        >>> for note in notes(Report(ended=ended, undelivered=left)):
        ...     print(note)
        note: ended processes that the program left running: sleep (process 7)
        note: not delivered: 51.3 kB of 2 connections not acknowledged, 40 packets on the link
        >>> notes(Report(ended=[], undelivered=Report(connections=0, bytes=0, packets=0)))
        []
    """
    said = []
    if done.ended:
        names = ", ".join(f"{process.command} (process {process.pid})" for process in done.ended)
        said.append(f"note: ended processes that the program left running: {names}")
    if any((done.undelivered.connections, done.undelivered.bytes, done.undelivered.packets)):
        said.append(f"note: not delivered: {_left(done.undelivered)}")
    return said


def _left(left: Undelivered) -> str:
    connections = "1 connection" if left.connections == 1 else f"{left.connections} connections"
    packets = "1 packet" if left.packets == 1 else f"{left.packets} packets"
    return f"{_size(left.bytes)} of {connections} not acknowledged, {packets} on the link"


def _way(way: LinkReport) -> str:
    drops = {reason: count for reason, count in way.dropped.items() if count}
    share = 100 * sum(drops.values()) / max(way.packets, 1)
    reasons = ", ".join(f"{count} {reason}" for reason, count in drops.items())
    dropped = f"{number(share, 1)} % dropped ({reasons})" if drops else "none dropped"
    return f"{_size(way.bytes)}, {dropped}, queue up to {_size(way.largest_queue_bytes)}"


def _size(count: int) -> str:
    """Return bytes with a prefix.

    Examples:
        >>> _size(980), _size(51_300), _size(2_500_000), _size(3_000_000_000)
        ('980 B', '51.3 kB', '2.5 MB', '3.0 GB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{number(count / scale, 1)} {unit}"
    return f"{count} B"


def _be_silent(*_anything: object) -> None:
    """Print nothing."""


def _tell(near: str, closed: str | None) -> None:
    if closed is not None:
        say(f"note: the program reaches only this host, at {near}: {closed}")


def _tell_draining(left: Undelivered, *, drain: str) -> None:
    say(f"note: the program has ended; {_left(left)}; waiting up to {drain} (--drain), or until Ctrl-C")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee probe`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from perigee.commands.options import Stopped, bits_per_second, host_and_port, seconds
from perigee.console import error_console, out_console, result, say
from perigee.errors import InputError
from perigee.measuring.server import PORT, Limits, serve
from perigee.measuring.tokens import secret
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee.measuring.probe import Direction
    from perigee.measuring.probe_steps import Step

_ALONE, _IN_BAND = ("60 s", "100 ms"), ("10 s", "1 ms")
"""Duration of each rate and sampling interval, by default."""
_DIRECTIONS: dict[str, tuple[Direction, ...]] = {"up": ("up",), "down": ("down",), "both": ("up", "down")}


@dataclass(frozen=True)
class ServerOptions:
    """Options of the server, and of its clients the token and the port."""

    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", envvar="PERIGEE_TOKEN", help="Secret shared by both ends; --serve creates one."),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File whose first line is the token; --serve creates a missing one."),
    ] = None
    server: Annotated[bool, typer.Option("--serve", help="Run the server of probes.")] = False
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="With --serve: address to listen on. \\[default: all]")
    ] = ""
    max_rate: Annotated[str, typer.Option(metavar="RATE", help="With --serve: maximum rate of a probe.")] = "200 Mbit/s"
    max_total: Annotated[
        str, typer.Option(metavar="RATE", help="With --serve: maximum rate of the probes of all clients together.")
    ] = "400 Mbit/s"
    max_time: Annotated[str, typer.Option(metavar="TIME", help="With --serve: maximum length of a probe.")] = "15 min"
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="UDP port of the server.")] = PORT

    def peer(self, host: str | None) -> tuple[str, int, bytes] | None:
        """Return address, port and token of the server to measure to; with --serve, None when this server has ended."""
        if host is None and not self.server:
            raise InputError(
                "no host is given; `perigee probe --serve` runs the server, `perigee probe HOST` the client"
            )
        known = secret(self.token, self.token_file, make=self.server)
        if self.server:
            if host is not None:
                raise InputError(f"{host}: --serve takes no host; use --bind for the address to listen on")
            _serve_until_stopped(self.bind, self.port, known, self._allowed())
            return None
        return *host_and_port(str(host), self.port), known

    def _allowed(self) -> Limits:
        return Limits(
            rate_bps=bits_per_second("--max-rate", self.max_rate),
            total_bps=bits_per_second("--max-total", self.max_total),
            time_s=seconds("--max-time", self.max_time, 1.0),
        )


@dataclass(frozen=True)
class ProbeOptions:
    """Options and arguments of `perigee probe`."""

    rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RATE",
            help="Rate including IP and UDP headers; may be given several times. \\[default: 1 Mbit/s]",
        ),
    ] = None
    find: Annotated[
        bool,
        typer.Option(
            "--find", help="Search for the capacity: double the rate until the path is full, then refine below it."
        ),
    ] = False
    direction: Annotated[
        str,
        typer.Option(metavar="up|down|both", help="up: to the server, down: from it, both: one after the other."),
    ] = "both"
    in_band: Annotated[
        bool,
        typer.Option(
            "--in-band",
            help="Compare the delay of the probe's own packets with that of the system's `ping` beside, and find which "
            "packets a full queue drops. Implies --find unless several rates are given.",
        ),
    ] = False
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Duration of the probe at each rate. \\[default: 60 s; 10 s with --in-band]"),
    ] = None
    packet: Annotated[
        int, typer.Option(metavar="BYTES", help="Size of a packet including IP and UDP headers, bytes.")
    ] = 1500
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Sampling interval of the time series in the log. \\[default: 100 ms; 1 ms with --in-band]",
        ),
    ] = None
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log with a line per rate; an existing log is continued."),
    ] = None
    summary: Annotated[Path | None, typer.Option(help="Only summarize this log.", metavar="FILE")] = None


def command(
    *,
    host: Annotated[
        str | None, typer.Argument(metavar="HOST[:PORT]", help="Host that runs `perigee probe --serve`.")
    ] = None,
    served: ServerOptions,
    given: ProbeOptions,
) -> None:
    """Measure capacity, loss, loss bursts and delay under load of a real path.

    Sends UDP datagrams at a constant rate, at each of several rates in turn, to or from a server of the same program.
    Where loss begins, the received rate is the path's capacity. The server serves only clients that have the token and
    have proven that they receive at their address, and stops when the client is gone.

    Some networks, such as Starlink, queue pings apart from transfers: a ping beside load sees an empty queue. With
    --in-band, the packets that fill the path measure its queue themselves. `perigee fit --probe` takes that log.

    [bold]Examples[/bold]

      perigee probe --serve --token-file token                    on a host beyond the link
      perigee probe example.org --rate "0.5 Mbit/s" --rate "1 Mbit/s" --rate "2 Mbit/s" --time "600 s" --log probe.jsonl
      perigee probe example.org --find --rate "5 Mbit/s" --time "10 s" --direction down
      perigee probe example.org --in-band --rate "20 Mbit/s" --log in-band.jsonl
      perigee probe --summary probe.jsonl
    """
    from perigee.measuring.probe import ProbePlan, read_log, with_packet
    from perigee.measuring.probe import probe as measure

    if given.summary is not None:
        _show(read_log(given.summary))
        return
    peer = served.peer(host)
    if peer is None:
        return
    name, port, token = peer
    if given.direction not in _DIRECTIONS:
        raise InputError(f"--direction {given.direction}: one of {', '.join(_DIRECTIONS)}")
    rates = tuple(bits_per_second("--rate", text) for text in given.rate or ["1 Mbit/s"])
    if given.find and len(rates) > 1:
        raise InputError("--find starts from one --rate and chooses the others; give only one")
    time, interval = _IN_BAND if given.in_band else _ALONE
    plan = ProbePlan(
        name, token, rates, port=port, directions=_DIRECTIONS[given.direction],
        time_s=seconds("--time", given.time or time, 0.1),
        interval_s=seconds("--interval", given.interval or interval, 0.001),
        find=given.find or (given.in_band and len(rates) == 1), in_band=given.in_band,
    )  # fmt: skip
    plan = with_packet(plan, given.packet)
    stopped = Stopped()
    with error_console.status("") as line:

        def watch(what: str, share: float) -> bool:
            line.update(f"{what}, {100 * share:.0f} %")
            return not stopped

        steps = measure(plan, given.log, watch, _say_limit)
    _show(steps)


def _say_limit(direction: Direction, limit_bps: int) -> None:
    say(
        f"note: {direction}: the server allows a client {number(limit_bps / 1e6, 2)} Mbit/s (its --max-rate); the "
        "search ends there"
    )


def _show(steps: list[Step]) -> None:
    if not steps:
        say("nothing was measured yet")
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    heads = ("offered", "sent", "received", "lost", "bursts", "longest", "mean delay", "max delay", "reordered")
    units = ("Mbit/s", "Mbit/s", "Mbit/s", "%", "", "packets", "ms over minimum", "ms over minimum", "packets")
    for head, unit in zip(heads, units, strict=True):
        table.add_column(f"{head}\n{unit}", justify="right")
    for step in steps:
        mean, most = step.delay_variation_ms
        table.add_row(
            step.direction, number(step.offered_bps / 1e6, 3), number(step.sent_bps / 1e6, 3),
            number(step.received_bps / 1e6, 3), number(100 * step.loss, 2), str(step.bursts),
            str(step.longest_burst), number(mean, 1), number(most, 1), str(step.reordered),
        )  # fmt: skip
    out_console.print(table)
    for direction in dict.fromkeys(step.direction for step in steps):
        result(_capacity(steps, direction))
    _show_in_band(steps)
    for step in steps:
        _say_what_is_odd(step)


def _show_in_band(steps: list[Step]) -> None:
    """Show the delays of the flow beside those of pings, if the steps have both."""
    if not any(step.pings is not None for step in steps):
        return
    from perigee.measuring.in_band import fit_kind, waits

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    heads = ("sent", "received", "lost", "idle ping", "ping beside", "delay in the flow")
    units = ("Mbit/s", "Mbit/s", "%", "ms", "ms over idle", "ms over idle")
    for head, unit in zip(heads, units, strict=True):
        table.add_column(f"{head}\n{unit}", justify="right")
    said = []
    for direction in dict.fromkeys(step.direction for step in steps):
        found = waits(steps, direction)
        for one in found:
            table.add_row(
                direction, number(one.step.sent_bps / 1e6, 3), number(one.step.received_bps / 1e6, 3),
                number(100 * one.step.loss, 2), _known(one.idle_ms), _known(one.ping_ms), number(one.flow_ms, 1),
            )  # fmt: skip
        if found:
            said += [f"{direction}: {found[0].finding}", f"{direction}: {fit_kind(steps, direction).why}"]
    if said:
        out_console.print(table)
    else:
        say("note: no rate filled the path; give higher rates (--rate) to see its queue")
    for sentence in said:
        result(sentence)


def _known(value_ms: float) -> str:
    return number(value_ms, 1) if math.isfinite(value_ms) else "-"


def _capacity(steps: list[Step], direction: str) -> str:
    from perigee.measuring.probe_steps import capacity_bps

    found = capacity_bps(steps, direction)
    own = [step for step in steps if step.direction == direction]
    if found is None:
        most = max(own, key=lambda step: step.received_bps)
        return f"{direction}: never full; capacity is at least {number(most.received_bps / 1e6, 3)} Mbit/s"
    carried, step = found
    return (
        f"{direction}: capacity {number(carried / 1e6, 3)} Mbit/s, received when "
        f"{number(step.sent_bps / 1e6, 3)} were sent"
    )


def _say_what_is_odd(step: Step) -> None:
    title = f"{step.direction} {number(step.offered_bps / 1e6, 3)} Mbit/s"
    if not step.received:
        say(f"note: {title}: nothing arrived; try smaller packets (--packet)")
    if step.sent_bps < 0.995 * step.offered_bps:
        why = "this machine was late" if step.late_s else "the sender's own network took no more"
        say(f"note: {title}: only {number(step.sent_bps / 1e6, 3)} Mbit/s were sent: {why}")


def _serve_until_stopped(bind: str, port: int, token: bytes, limits: Limits) -> None:
    """Run `serve` until SIGINT or SIGTERM, and print its limits."""
    stopped = Stopped()

    def begun() -> None:
        say(
            f"listening on {bind or 'all addresses'}, UDP port {port}: probes "
            f"of up to {number(limits.rate_bps / 1e6, 1)} Mbit/s and {number(limits.time_s, 0)} s; "
            "Ctrl-C ends it"
        )

    serve(bind, port, token, limits, lambda: not stopped, begun)

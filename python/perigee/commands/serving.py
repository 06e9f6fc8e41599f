# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`--serve` of `perigee ping` and `perigee probe`: one server answers both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.options import Stopped, bits_per_second, host_and_port, seconds
from perigee.console import say
from perigee.errors import InputError
from perigee.measuring.server import PORT, Limits, serve
from perigee.measuring.tokens import secret
from perigee.numbers import number


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
    server: Annotated[bool, typer.Option("--serve", help="Run the server that answers pings and probes.")] = False
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="With --serve: address to listen on. \\[default: all]")
    ] = ""
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --serve: maximum pings answered per second and address.")
    ] = 1000
    max_rate: Annotated[str, typer.Option(metavar="RATE", help="With --serve: maximum rate of a probe.")] = "200 Mbit/s"
    max_total: Annotated[
        str, typer.Option(metavar="RATE", help="With --serve: maximum rate of the probes of all clients together.")
    ] = "400 Mbit/s"
    max_time: Annotated[str, typer.Option(metavar="TIME", help="With --serve: maximum length of a probe.")] = "15 min"
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="UDP port of the server.")] = PORT

    def peer(self, command: str, host: str | None) -> tuple[str, int, bytes] | None:
        """Return address, port and token of the server to measure to; with --serve, None when this server has ended."""
        if host is None and not self.server:
            raise InputError(
                f"no host is given; `perigee {command} --serve` runs the server, `perigee {command} HOST` the client"
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
            pings=self.limit,
            rate_bps=bits_per_second("--max-rate", self.max_rate),
            total_bps=bits_per_second("--max-total", self.max_total),
            time_s=seconds("--max-time", self.max_time, 1.0),
        )


def _serve_until_stopped(bind: str, port: int, token: bytes, limits: Limits) -> None:
    """Run `serve` until SIGINT or SIGTERM, and print its limits."""
    stopped = Stopped()
    told: set[bool] = set()

    def begun() -> None:
        say(
            f"listening on {bind or 'all addresses'}, UDP port {port}: up to {limits.pings} pings per second and "
            f"address, probes of up to {number(limits.rate_bps / 1e6, 1)} Mbit/s and {number(limits.time_s, 0)} s; "
            "Ctrl-C ends it"
        )

    def go_on(_answered: int, _clients: int, older: str | None) -> bool:
        # Anybody can send such a datagram: one note is enough.
        if older is not None and not told:
            told.add(True)
            say(f"note: {older} uses an older protocol, which is not answered; install this version of perigee there")
        return not stopped

    serve(bind, port, token, limits, go_on, begun)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`--serve` of `perigee ping` and `perigee probe`: one server answers both."""

from __future__ import annotations

from perigee.commands.options import Stopped, bits_per_second, seconds
from perigee.console import say
from perigee.measuring.server import Limits, serve
from perigee.numbers import number


def serve_until_stopped(bind: str, port: int, token: bytes, limits: Limits) -> None:
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


def allowed(limit: int, max_rate: str, max_total: str, max_time: str) -> Limits:
    """Return what a server allows, as its options say."""
    return Limits(
        pings=limit,
        rate_bps=bits_per_second("--max-rate", max_rate),
        total_bps=bits_per_second("--max-total", max_total),
        time_s=seconds("--max-time", max_time, 1.0),
    )

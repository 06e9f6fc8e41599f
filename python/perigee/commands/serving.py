# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`--serve` of `perigee ping` and `perigee probe`: one server answers both."""

from __future__ import annotations

from perigee.commands.options import Stopped, bits_per_second, seconds
from perigee.console import say
from perigee.measuring.server import Limits, serve
from perigee.numbers import number


def serve_until_stopped(bind: str, port: int, token: bytes, limits: Limits) -> None:
    """As `serve`, until Ctrl-C or a termination, with a word on what is allowed."""
    stopped = Stopped()
    told: set[bool] = set()

    def begun() -> None:
        say(
            f"answering at {bind or 'all addresses'}, UDP port {port}: {limits.pings} pings a second of one address, "
            f"probes of up to {number(limits.rate_bps / 1e6, 1)} Mbit/s and {number(limits.time_s, 0)} s; Ctrl-C ends"
        )

    def go_on(_answered: int, _clients: int, older: str | None) -> bool:
        # Anybody can send such a datagram: one word is enough.
        if older is not None and not told:
            told.add(True)
            say(
                f"note: {older} speaks an older version, which has no answer; install this version of perigee there too"
            )
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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The server of `perigee probe` beyond a real path."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from perigee.core import native
from perigee.errors import RunError
from perigee.measuring.tokens import key_of

PORT = 7301
BUFFER_BYTES = 4 << 20
"""Buffer of a socket, large enough for arrivals while the program sleeps."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        rate_bps: rate of one client's probe.
        total_bps: rate of all clients' probes together.
        time_s: length of one probe.
        clients: clients at a probe at a time; each has at the most one megabyte of memory.
    """

    rate_bps: int = 200_000_000
    total_bps: int = 400_000_000
    time_s: float = 900.0
    clients: int = 16


def serve(
    bind: str,
    port: int,
    token: bytes,
    limits: Limits = Limits(),
    go_on: Callable[[], bool] = lambda: True,
    begun: Callable[[], None] = lambda: None,
) -> None:
    """Answer until `go_on` returns false.

    Args:
        bind: the address to listen at; empty: all.
        port: the port.
        token: the secret that both ends know.
        limits: what is allowed.
        go_on: called ten times a second; returns whether to go on.
        begun: called when the port is open.

    Raises:
        RunError: the port cannot be had.
    """
    key = key_of(token)
    try:
        listening = _listening(bind, port)
    except OSError as error:
        raise RunError(f"{bind or 'all addresses'}, port {port}: {error.strerror or error}") from error
    with listening:
        begun()
        native.probe_serve(
            listening.fileno(), key, os.urandom(32), limits.rate_bps, limits.total_bps, limits.time_s,
            limits.clients, go_on,
        )  # fmt: skip


def _listening(bind: str, port: int) -> socket.socket:
    every = not bind and _has_ipv6()
    family = socket.AF_INET6 if ":" in bind or every else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        prepare(listening)
        listening.bind((bind, port))
    except OSError:
        listening.close()
        raise
    return listening


def prepare(opened: socket.socket) -> None:
    """Make a socket one for probes: it does not wait, has room, and does not let packets be cut into fragments."""
    opened.setblocking(False)
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        opened.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
    opened.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _DO)
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _DO)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as tried:
            tried.bind(("::", 0))
    except OSError:
        return False
    return True


# From linux/in.h and linux/in6.h; Python's module has no names for them.
_IP_MTU_DISCOVER = 10
_IPV6_MTU_DISCOVER = 23
_DO = 2

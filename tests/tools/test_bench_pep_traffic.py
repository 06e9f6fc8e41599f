# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Proxies that lie, as the traffic of the hostile operator's bench sees them: each lie has its name."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benches"))

from pep_ends import data, exchange
from pep_traffic import Ledger

UP, DOWN = data(1000, 1), data(50_000, 2)
Lie = Callable[[socket.socket, socket.socket], None]


def cut(client: socket.socket, server: socket.socket) -> None:
    """End the stream early."""
    answer(client, server, DOWN[:25_000])
    client.shutdown(socket.SHUT_WR)


def alter(client: socket.socket, server: socket.socket) -> None:
    """Change a byte."""
    answer(client, server, DOWN[:100] + bytes([DOWN[100] ^ 1]) + DOWN[101:])
    client.shutdown(socket.SHUT_WR)


def reset(client: socket.socket, server: socket.socket) -> None:
    """Reset both after a part."""
    answer(client, server, DOWN[:100])
    for end in (client, server):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def alter_and_reset(client: socket.socket, server: socket.socket) -> None:
    """Change a byte, and reset."""
    client.sendall(bytes(100))
    reset(client, server)


def reset_one_and_end_the_other(client: socket.socket, server: socket.socket) -> None:
    """Reset the client, and end the server's stream before the client has."""
    server.sendall(client.recv(len(UP), socket.MSG_WAITALL)[:500])
    server.shutdown(socket.SHUT_WR)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def pass_on(client: socket.socket, server: socket.socket) -> None:
    """Tell the truth."""
    answer(client, server, DOWN)
    client.shutdown(socket.SHUT_WR)


def answer(client: socket.socket, server: socket.socket, what: bytes) -> None:
    """Pass the client's stream on, and answer something."""
    server.sendall(client.recv(len(UP), socket.MSG_WAITALL))
    server.shutdown(socket.SHUT_WR)
    client.sendall(what)


def through(lie: Lie, waits_s: float | None) -> int:
    """Have two ends exchange their bytes through a proxy that lies."""

    def proxy() -> None:
        with own_of_server:
            with own_of_client:
                lie(own_of_client, own_of_server)
            with suppress(OSError):
                own_of_server.recv(len(DOWN), socket.MSG_WAITALL)

    (client, own_of_client), (own_of_server, server) = connection(), connection()
    with client, server:
        threading.Thread(target=proxy, daemon=True).start()
        exchange(client, server, UP, DOWN, waits_s=waits_s)
    return len(UP) + len(DOWN)


def connection() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname(), timeout=20)
        other, _ = listener.accept()
    other.settimeout(20)
    return one, other


@pytest.mark.parametrize(
    ("lie", "fate"),
    [
        (cut, "lost"),
        (alter, "lost"),
        (alter_and_reset, "lost"),
        (reset_one_and_end_the_other, "lost"),
        (reset, "reset"),
        (pass_on, "whole"),
    ],
)
@pytest.mark.parametrize("waits_s", [None, 0.0])
def test_each_lie_is_told_and_the_truth_is_not(lie: Lie, fate: str, waits_s: float | None) -> None:
    ledger = Ledger(now="lie", may=frozenset({"reset"}))
    ledger.carry("transfer", lambda: through(lie, waits_s))
    assert ledger.fates == [("lie", fate, len(UP) + len(DOWN) if fate == "whole" else 0)]
    assert len(ledger.losses) == (fate == "lost")
    assert not ledger.open

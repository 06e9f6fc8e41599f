# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Proxies that lie, as the traffic of the hostile operator's bench sees them: each lie has its name."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Callable

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benches"))

from pep_traffic import HEAD, Ledger, Plan, exchange

ASKED = HEAD.size + 1000
ANSWER = 50_000


def cut(client: socket.socket, answer: bytes) -> None:
    """End the stream early."""
    client.sendall(answer[: ANSWER // 2])
    client.shutdown(socket.SHUT_RDWR)


def alter(client: socket.socket, answer: bytes) -> None:
    """Change a byte."""
    client.sendall(answer[:100] + bytes([answer[100] ^ 1]) + answer[101:])
    client.shutdown(socket.SHUT_WR)


def reset(client: socket.socket, answer: bytes) -> None:
    """Reset after a part."""
    client.sendall(answer[:100])
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def alter_and_reset(client: socket.socket, answer: bytes) -> None:
    """Change a byte, and reset."""
    client.sendall(bytes(100))
    reset(client, answer)


def pass_on(client: socket.socket, answer: bytes) -> None:
    """Tell the truth."""
    client.sendall(answer)
    client.shutdown(socket.SHUT_WR)


def serve(listener: socket.socket, lie: Callable[[socket.socket, bytes], None]) -> None:
    """Answer a client, as a proxy does that lies."""
    client, _ = listener.accept()
    with client:
        asked = client.recv(ASKED, socket.MSG_WAITALL)
        lie(client, Plan(*HEAD.unpack(asked[: HEAD.size])).bytes(1))


@pytest.mark.parametrize(
    ("lie", "said"),
    [(cut, "lost"), (alter, "lost"), (alter_and_reset, "lost"), (reset, "reset"), (pass_on, "")],
)
def test_each_lie_is_told_and_the_truth_is_not(lie: Callable[[socket.socket, bytes], None], said: str) -> None:
    ledger, plan = Ledger(now="lie", may=frozenset({"reset"}), known={1}), Plan(1, 1000, ANSWER)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, lie), daemon=True).start()
        with ledger.transfer(plan):
            exchange(socket.create_connection(listener.getsockname(), timeout=20), plan, threading.Event())
    assert dict(ledger.hurt) == ({("lie", said): 1} if said else {})
    assert len(ledger.losses) == (said == "lost")
    assert (ledger.whole, ledger.carried, ledger.open) == ((0, 0, 0) if said else (1, 1000 + ANSWER, 0))

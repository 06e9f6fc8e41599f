# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A server of probes answers clients that know its token and ignores everything else, whatever arrives."""

from __future__ import annotations

import random
import socket

from adversary.conftest import Attempts, damaged
from conftest import answering
from perigee.measuring.server import Limits

TOKEN = b"a token of more than sixteen bytes"


def test_noise_is_not_answered_and_disturbs_nobody(attempts: Attempts) -> None:
    with answering(TOKEN, Limits()) as port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        noise.connect(("127.0.0.1", port))
        noise.settimeout(0.05)
        for chance in attempts:
            for _ in range(200):
                noise.send(datagram(chance))
            try:
                answer = noise.recv(2048)
            except (TimeoutError, ConnectionRefusedError):
                answer = b""
            assert answer == b""


def datagram(chance: random.Random) -> bytes:
    """A datagram that resembles one of the protocol, or random bytes."""
    head = chance.choice((b"", b"PGp3", b"perigee", b"\0\0\0\1"))
    return damaged(head + chance.randbytes(chance.randint(0, 1200)), chance)[:1400]

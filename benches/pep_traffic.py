# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Transfers that pass a proxy all the time, and what becomes of them: slow, short, in turns, with late readers."""

from __future__ import annotations

import hashlib
import itertools
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pep_ends import MB, LostError, Work, data, expect, expect_whole, read, reset
from pep_world import PATIENCE_S, SERVER, SERVER6, World

POOL = data(8 * MB, 64)
"""Each direction of each transfer has its own part of these bytes."""
HEAD = struct.Struct("!5I")
PROBED, PORTS = 82, (80, 81)
"""Ports of servers: of 81 the proxy may make clients wait."""
CHUNK, MESSAGE = 1 << 14, 64
TALK = 2
CLOSED = 7
"""State of a connection that has been reset, or that both ends have closed."""
SLOW, TALKING, SHORT = 8, 6, 3
"""Clients of each kind, one transfer at a time each."""


class Plan(NamedTuple):
    """A transfer: bytes of both directions, and how they are sent."""

    number: int
    up: int
    down: int
    rate: int = 0
    """Bytes a second of each sender; 0: as fast as they go."""
    together: int = 0
    """1: the server sends at once, 0: after the client's end, `TALK`: each message after one of the client."""
    late_s: float = 0.0
    """Time until the client reads."""
    address: str = SERVER
    port: int = PORTS[0]

    def bytes(self, way: int) -> bytes:
        """Return those that go up (0) or down (1)."""
        count = (self.up, self.down)[way]
        offset = (2 * self.number + way) * 65_521 % (len(POOL) - count)
        return POOL[offset : offset + count]


@dataclass
class Ledger:
    """The fate of transfers, by what was done meanwhile."""

    now: str = "nothing"
    may: frozenset[str] = frozenset()
    """How transfers may fail by it."""
    open: int = 0
    whole: int = 0
    carried: int = 0
    hurt: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Counts by harm and by fate: `refused` before the server had heard of it, `reset`, `lost`."""
    losses: list[str] = field(default_factory=list)
    """Those that may not be, a line each."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    known: set[int] = field(default_factory=set)
    """Transfers that their servers have heard of."""
    failed: set[int] = field(default_factory=set)

    def fails(self, number: int, how: str, why: object) -> None:
        """Count a transfer that failed at either end, once."""
        with self.lock:
            if number in self.failed:
                return
            self.failed.add(number)
            self.hurt[self.now, how] += 1
            if how not in self.may:
                self.losses.append(f"{how} amid `{self.now}`: transfer {number}: {why}")

    @contextmanager
    def transfer(self, plan: Plan) -> Iterator[None]:
        """Count a transfer, open and afterwards."""
        with self.lock:
            self.open += 1
        try:
            yield
        except LostError as error:
            self.fails(plan.number, "lost", error)
        except OSError as error:
            how = "lost" if isinstance(error, TimeoutError) else "reset"
            self.fails(plan.number, how if plan.number in self.known else "refused", error)
        with self.lock:
            self.open -= 1
            if plan.number not in self.failed:
                self.whole += 1
                self.carried += plan.up + plan.down


class Traffic:
    """Clients and servers of a world; it begins at once."""

    def __init__(self, world: World, ledger: Ledger, seed: int) -> None:
        self.world, self.ledger = world, ledger
        self._numbers = itertools.count(1)
        self._ends = threading.Event()
        for port in (*PORTS, PROBED):
            threading.Thread(target=self._accept, args=(world.server.listen("::", port),), daemon=True).start()
        kinds = [self._slow] * SLOW + [self._talk] * TALKING + [self._short] * SHORT
        choices = (random.Random(f"{seed} {at}") for at in range(len(kinds)))  # noqa: S311 - it is no secret
        pairs = zip(kinds, choices, strict=True)
        self._clients = [Work(partial(self._repeat, kind, choice)) for kind, choice in pairs]
        self._clients.append(Work(lambda: self._carry(Plan(next(self._numbers), 0, 0, together=TALK), float("inf"))))

    def end(self) -> None:
        """Begin no more transfers, and wait for those that are open."""
        self._ends.set()
        for client in self._clients:
            client.join(2 * PATIENCE_S)
            client.result()

    def probe(self, address: str) -> None:
        """Carry out a transfer now.

        Raises:
            OSError, LostError: it failed.
        """
        plan = Plan(next(self._numbers), 1000, 1000, port=PROBED)
        exchange(self.world.client.connect(address, PROBED), plan, self._ends)

    def _repeat(self, kind: Callable[[random.Random], None], choice: random.Random) -> None:
        while not self._ends.is_set():
            kind(choice)

    def _plan(self, choice: random.Random, up: int, down: int, together: int = 0) -> Plan:
        address, port = choice.choice((SERVER, SERVER6)), choice.choice(PORTS)
        return Plan(next(self._numbers), up, down, together=together, address=address, port=port)

    def _slow(self, choice: random.Random) -> None:
        rate, seconds = choice.randint(30_000, 150_000), choice.uniform(2, 15)
        up, down = choice.choice(((1, 0), (0, 1), (1, 1)))
        size = int(rate * seconds)
        plan = self._plan(choice, up * size + 16, down * size + 16, choice.randint(0, 1))
        self._carry(plan._replace(rate=rate))

    def _talk(self, choice: random.Random) -> None:
        self._carry(self._plan(choice, 0, 0, TALK), choice.uniform(1, 60))

    def _short(self, choice: random.Random) -> None:
        up, down = (choice.choice((1, 1000, 20_000, 100_000)) for _ in range(2))
        late_s = choice.choice((0, 0, 0, 1.2))
        self._carry(self._plan(choice, up, MB if late_s else down)._replace(late_s=late_s))
        self._ends.wait(choice.uniform(0.1, 0.8))

    def _carry(self, plan: Plan, seconds: float = 0.0) -> None:
        with self.ledger.transfer(plan):
            exchange(self.world.client.connect(plan.address, plan.port), plan, self._ends, seconds)
        if plan.number in self.ledger.failed:
            # A host that refuses connections would be asked without a pause.
            self._ends.wait(0.3)

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(None)
        while True:
            server, _ = listener.accept()
            server.settimeout(PATIENCE_S)
            threading.Thread(target=self._serve, args=(server,), daemon=True).start()

    def _serve(self, server: socket.socket) -> None:
        number = 0
        try:
            head = _read(server, HEAD.size)
            if len(head) < HEAD.size:
                # A client that was refused: it has its own account.
                return
            plan = Plan(*HEAD.unpack(head))
            number = plan.number
            self.ledger.known.add(number)
            if plan.together == TALK:
                while message := _message(server, may_end=True):
                    server.sendall(message[::-1])
                server.shutdown(socket.SHUT_WR)
                return
            sending = Work(lambda: _send(server, plan.bytes(1), plan.rate)) if plan.together else None
            _receive(server, plan.bytes(0), sending)
            if sending:
                _finish(sending)
            else:
                _send(server, plan.bytes(1), plan.rate)
        except LostError as error:
            self.ledger.fails(number, "lost", f"at its server: {error}")
        except OSError as error:
            if number:
                self.ledger.fails(number, "reset", f"at its server: {error}")
        finally:
            server.close()


def exchange(client: socket.socket, plan: Plan, ends: threading.Event, seconds: float = 0.0) -> None:
    """Carry out a transfer at a client; a conversation ends after some seconds, or when all transfers are to end.

    Raises:
        OSError: the connection was reset.
        LostError: it ended early, or with other bytes.
    """
    try:
        client.sendall(HEAD.pack(*plan[:5]))
        if plan.together == TALK:
            _converse(client, ends, time.monotonic() + seconds)
        else:
            sending = Work(lambda: _send(client, plan.bytes(0), plan.rate))
            ends.wait(plan.late_s)
            _receive(client, plan.bytes(1), sending)
            _finish(sending)
    except BaseException:
        # Its server has to see no orderly end.
        reset(client)
        raise
    client.close()


def _converse(client: socket.socket, ends: threading.Event, until: float) -> None:
    for count in itertools.count():
        message = POOL[count : count + MESSAGE]
        client.sendall(message)
        expect(_message(client) == message[::-1], "other bytes than were sent")
        if ends.wait(0.5) or time.monotonic() > until:
            client.shutdown(socket.SHUT_WR)
            expect_whole(read(client), b"")
            return


def _send(end: socket.socket, what: bytes, rate: int) -> None:
    """Send at a rate, and then end the stream."""
    began = time.monotonic()
    for at in range(0, len(what), CHUNK):
        end.sendall(what[at : at + CHUNK])
        if rate:
            time.sleep(max(0.0, began + (at + CHUNK) / rate - time.monotonic()))
    end.shutdown(socket.SHUT_WR)


def _receive(end: socket.socket, what: bytes, sender: Work | None) -> None:
    """Expect these bytes, by their hash, and the end of the stream; before an error the beginning of them."""
    digest, count = hashlib.sha256(), 0
    try:
        while part := end.recv(1 << 16):
            digest.update(part)
            count += len(part)
        if count < len(what) and sender and end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == CLOSED:
            # The kernel tells an error once. If it has told the sender, this was no orderly end.
            _finish(sender)
    except TimeoutError:
        raise LostError(f"told nothing after {count} of {len(what)} bytes") from None
    except OSError:
        expect(_hash(what[:count]) == digest.digest(), "other bytes than were sent, and an error")
        raise
    expect(count == len(what), f"{count} of {len(what)} bytes, then an orderly end")
    expect(_hash(what) == digest.digest(), "other bytes than were sent")


def _message(end: socket.socket, may_end: bool = False) -> bytes:
    """Read a message; nothing, where the stream ends and may."""
    try:
        message = _read(end, MESSAGE)
    except TimeoutError:
        raise LostError("told nothing for a message") from None
    expect(len(message) == MESSAGE or (may_end and not message), f"an orderly end after {len(message)} bytes")
    return message


def _read(end: socket.socket, count: int) -> bytes:
    """Read as many bytes, or to the end of the stream."""
    parts = bytearray()
    while len(parts) < count and (part := end.recv(count - len(parts))):
        parts += part
    return bytes(parts)


def _finish(sending: Work) -> None:
    """Wait for a sender, whatever its rate."""
    sending.join()
    sending.result()


def _hash(what: bytes) -> bytes:
    return hashlib.sha256(what).digest()

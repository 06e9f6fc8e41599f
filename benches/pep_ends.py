# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The two ends of connections through a proxy: what they send, and what they find of it."""

from __future__ import annotations

import hashlib
import os
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pep_world import PATIENCE_S, PORT, SERVER, Host, Proxy, tie_to

BLOCK = 1 << 16
CHUNK = 1 << 14
"""Bytes of a write at a rate."""
MB = 1_000_000
END, RESET = "end of stream", "error"

DARK = """table inet dark {
  chain input { type filter hook input priority -300; policy drop; }
  chain output { type filter hook output priority -300; policy drop; }
}
"""


Ends = tuple[socket.socket, socket.socket]
"""A connection's client and server."""


class LostError(Exception):
    """A proxy has lost bytes, or told one end something else than what the other did."""


class CutError(LostError, OSError):
    """An end saw an error in the place of a byte or of the end of a stream."""


class RefusedError(OSError):
    """A client saw an error before its server had heard of the connection."""


class Work(threading.Thread):
    """Something that an end does meanwhile; its failure is that of `result`."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._result: object = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Do it."""
        try:
            self._result = self._work()
        except TimeoutError:
            self._error = LostError("an end waits for ever")
        except BaseException as error:
            # `result` raises it again.
            self._error = error

    def result(self, patience_s: float | None = PATIENCE_S) -> object:
        """Wait for it to be done, and return what it returned.

        Raises:
            LostError: it has not ended.
        """
        self.join(patience_s)
        expect(not self.is_alive(), "an end waits for ever")
        if self._error:
            raise self._error
        return self._result


def expect(is_so: bool, otherwise: str) -> None:
    """Raise that something was lost unless it is so."""
    if not is_so:
        raise LostError(otherwise)


def data(count: int, seed: int = 1) -> bytes:
    """Return bytes that no other seed has."""
    return random.Random(seed).randbytes(count)  # noqa: S311 - they are no secret


def damaged(text: str, choice: random.Random) -> bytes:
    """Return a text in which some bytes are missing, or others."""
    found = bytearray(text.encode())
    for _ in range(choice.randint(1, 4)):
        at = choice.randrange(len(found))
        found[at : at + choice.choice((0, 1, 20))] = choice.randbytes(choice.choice((0, 1, 3)))
    return bytes(found)


def pair(proxy: Proxy, address: str = SERVER, port: int = PORT, receive_buffer: int | None = None) -> Ends:
    """Return a connection's client and server; the receive buffer is the client's.

    Raises:
        RefusedError: the client sees an error instead.
        LostError: it sees nothing, or an orderly end.
    """
    any_address = "::" if ":" in address else "0.0.0.0"  # noqa: S104 - a host of its own
    with proxy.world.server.listen(any_address, port) as listener:
        try:
            client = proxy.world.client.connect(address, port, receive_buffer)
            _await_arrival(listener, client)
        except TimeoutError:
            raise LostError("a client is told nothing") from None
        except OSError as error:
            raise RefusedError(str(error)) from error
        server, _ = listener.accept()
    server.settimeout(PATIENCE_S)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client, server


def _await_arrival(listener: socket.socket, client: socket.socket) -> None:
    """Wait for a connection to arrive, or for its client to see an error."""
    waiting = select.poll()
    for one in (listener, client):
        waiting.register(one, select.POLLIN)
    heard = {descriptor for descriptor, _ in waiting.poll(1000 * PATIENCE_S)}
    if listener.fileno() not in heard:
        with client:
            raise LostError(f"{client.recv(1)!r} instead of an error before the server has heard of the connection")


@contextmanager
def connected(
    proxy: Proxy, address: str = SERVER, port: int = PORT, receive_buffer: int | None = None
) -> Iterator[Ends]:
    """A connection's client and server for the time of a block, at whose end who waits for one of them wakes up."""
    ends = pair(proxy, address, port, receive_buffer)
    try:
        yield ends
    finally:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def send(end: socket.socket, what: bytes, rate: int = 0) -> Work:
    """Send, at a rate in bytes a second unless it is 0, and then end the stream, meanwhile."""

    def work() -> None:
        began, chunk = time.monotonic(), CHUNK if rate else max(len(what), 1)
        for at in range(0, len(what), chunk):
            end.sendall(what[at : at + chunk])
            if rate:
                time.sleep(max(0.0, began + (at + chunk) / rate - time.monotonic()))
        end.shutdown(socket.SHUT_WR)

    return Work(work)


def exchange(
    one: socket.socket,
    other: socket.socket,
    sent: bytes,
    answer: bytes,
    *,
    rate: int = 0,
    waits_s: float | None = None,
    late_s: float = 0.0,
) -> None:
    """Have two ends send and end their streams, and expect all at both.

    Args:
        one: an end.
        other: the other one.
        sent: by the first.
        answer: by the other.
        rate: bytes a second of each; 0: as fast as they go.
        waits_s: the other sends this time after the first one's end; without it, at once.
        late_s: time until the first reads.

    Raises:
        LostError: an end lost something.
        CutError, OSError: both saw errors, and nothing worse.
    """
    first = Work(lambda: _at_once(one, sent, answer, rate, late_s))
    second = Work(
        lambda: _at_once(other, answer, sent, rate) if waits_s is None else _answer(other, answer, sent, rate, waits_s)
    )
    errors = []
    for work in (first, second):
        try:
            work.result(None)
        except (LostError, OSError) as error:
            errors.append(error)
    if errors:
        raise min(errors, key=lambda error: isinstance(error, OSError))


def _at_once(end: socket.socket, what: bytes, expected: bytes, rate: int, late_s: float = 0.0) -> None:
    sending = send(end, what, rate)
    time.sleep(late_s)
    received, how = read(end)
    if how == END and len(received) < len(expected):
        # The kernel tells an error once, and then an end: if it has told the sender, this is no orderly one.
        try:
            sending.result()
        except OSError:
            how = RESET
    expect_whole((received, how), expected)
    sending.result(None)


def _answer(end: socket.socket, what: bytes, expected: bytes, rate: int, waits_s: float) -> None:
    expect_whole(read(end), expected)
    time.sleep(waits_s)
    send(end, what, rate).result(None)


def flood(end: socket.socket, block: bytes = bytes(BLOCK)) -> str:
    """Send until that fails; say how."""
    with suppress(OSError):
        while True:
            end.sendall(block)
    return RESET


def read(end: socket.socket, block: int = BLOCK, each: Callable[[], object] | None = None) -> tuple[bytes, str]:
    """Read until the stream ends, or fails; return the bytes and which of the two.

    Raises:
        LostError: neither came within a minute.
    """
    parts = []
    try:
        while part := end.recv(block):
            parts.append(part)
            if each:
                each()
    except TimeoutError:
        raise LostError("an end is told nothing") from None
    except OSError:
        return b"".join(parts), RESET
    return b"".join(parts), END


def expect_whole(got: tuple[bytes, str], sent: bytes) -> None:
    """Expect what was sent, by its hash, and then the end of the stream."""
    received, how = got
    if how == RESET:
        expect(sent.startswith(received), "other bytes than were sent, and an error")
        raise CutError(f"{how} after {len(received)} of {len(sent)} bytes")
    expect(len(received) == len(sent), f"{len(received)} of {len(sent)} bytes, then an orderly end")
    expect(hashlib.sha256(received).digest() == hashlib.sha256(sent).digest(), "other bytes than were sent")


def expect_reset(got: tuple[bytes, str], sent: bytes = b"") -> None:
    """Expect an error after a beginning of what was sent."""
    received, how = got
    expect(how == RESET, f"an orderly end after {len(received)} bytes instead of a reset")
    expect(sent.startswith(received), "other bytes than were sent")


def read_exactly(end: socket.socket, count: int) -> bytes:
    """Read `count` bytes.

    Raises:
        LostError: the stream ends before.
    """
    parts = bytearray()
    while len(parts) < count:
        part = end.recv(count - len(parts))
        expect(bool(part), f"an orderly end after {len(parts)} of {count} bytes")
        parts += part
    return bytes(parts)


def reset(end: socket.socket) -> None:
    """Close it so that the other end sees a reset."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def echo(client: socket.socket, server: socket.socket, what: bytes = b"64 bytes" * 8) -> None:
    """Expect that a message of the client reaches the server, and its answer the client."""
    asked = carried(client, server, what)
    expect(carried(server, client, asked) == what, "other bytes than were sent")


def carried(sender: socket.socket, reader: socket.socket, what: bytes) -> bytes:
    """Send something, and return what is read meanwhile of the same length."""
    if len(what) <= BLOCK:
        # It finds room without a reader.
        sender.sendall(what)
        return read_exactly(reader, len(what))
    sending = Work(lambda: sender.sendall(what))
    got = read_exactly(reader, len(what))
    sending.result()
    return got


def await_closed(proxy: Proxy, sockets: int) -> None:
    """Wait until connections whose ends have closed are closed in the proxy too: it has that many sockets again.

    Raises:
        LostError: it keeps more.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (kept := proxy.descriptors("socket") - sockets) > 0:
        expect(time.monotonic() < deadline, f"{kept} sockets are left")
        time.sleep(0.05)


def darken(host: Host) -> None:
    """Have a host receive and send nothing any more."""
    host.execute("nft -f -", DARK)


def lighten(host: Host) -> None:
    """Undo that."""
    host.execute("nft delete table inet dark")


@contextmanager
def child(work: Callable[[], object]) -> Iterator[int]:
    """A process that does something and ends, for the time of a block; the block has its number."""
    parent = os.getpid()
    process = os.fork()
    if process == 0:
        tie_to(parent)
        try:
            work()
        finally:
            os._exit(0)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, 9)
        os.waitpid(process, 0)

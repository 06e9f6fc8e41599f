# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The two ends of connections through a proxy: what they send, and what they find of it."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pep_world import PATIENCE_S, SERVER, Host, Proxy, tie_to

BLOCK = 1 << 16
MB = 1_000_000
END, RESET = "end of stream", "error"

DARK = """table inet dark {
  chain input { type filter hook input priority -300; policy drop; }
  chain output { type filter hook output priority -300; policy drop; }
}
"""


class LostError(Exception):
    """A proxy has lost bytes, or told one end something else than what the other did."""


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
        except BaseException as error:
            # `result` raises it again.
            self._error = error

    def result(self) -> object:
        """Wait for it to be done, and return what it returned.

        Raises:
            LostError: it has not ended.
        """
        self.join(PATIENCE_S)
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


def pair(proxy: Proxy, address: str = SERVER, receive_buffer: int | None = None) -> tuple[socket.socket, socket.socket]:
    """Return a connection's client and server; the receive buffer is the client's."""
    listener = proxy.world.server.listen("::" if ":" in address else "0.0.0.0")  # noqa: S104 - a host of its own
    with listener:
        client = proxy.world.client.connect(address, receive_buffer=receive_buffer)
        server, _ = listener.accept()
    server.settimeout(PATIENCE_S)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client, server


def send(end: socket.socket, what: bytes) -> Work:
    """Send, and then end the stream, meanwhile."""

    def work() -> None:
        end.sendall(what)
        end.shutdown(socket.SHUT_WR)

    return Work(work)


def flood(end: socket.socket) -> str:
    """Send until that fails; say how."""
    block = bytes(BLOCK)
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
    expect(how == END, f"{how} after {len(received)} of {len(sent)} bytes")
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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The round trip of a real path, for days: small datagrams at a fixed pace, answered by a server of the same program.

A datagram has four bytes that say what it is, its session, its number, and a message authentication code (HMAC-SHA256,
cut to eight bytes); an answer has the same size and another code. The server (`perigee.serving`) answers what carries a
right code, one datagram for one, and not more in a second than it was told to. So who does not know the token gets
nothing, and nobody gets more than was sent.
"""

from __future__ import annotations

import hmac
import os
import re
import select
import socket
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from perigee.errors import InputError, RunError
from perigee.files import storage_errors
from perigee.roundtrips import RoundTrips
from perigee.serving import PORT

SIZE = 20
"""Bytes of a datagram, as in the campaign of Claypool et al. 2021."""
LARGEST = 1400

_HEAD = struct.Struct("!4sII")
_ASK, _ANSWER = b"PGa1", b"PGb1"
_CODE_BYTES = 8
_LOG_HEAD = (
    "# perigee ping: to {host}, every {interval_us} us, {size} bytes, lost after {timeout_us} us\nunix_s,rtt_ms\n"
)
_LOG_LINE = re.compile(rb"[0-9]+\.[0-9]{3},([0-9]+\.[0-9]{3})?\n")
_LOOK_S = 0.1
_FLUSH_S = 5.0

GoOn = Callable[[RoundTrips], bool]
"""Asked ten times a second, with what has been counted so far."""


@dataclass(frozen=True)
class Plan:
    """What to send.

    Attributes:
        host: the server's name or address.
        token: the secret that both know.
        port: the server's port.
        interval_s: between two datagrams.
        size: of a datagram, bytes, 20 to 1400.
        timeout_s: an answer that has not come by then is lost.
        count: datagrams to send; none: until told to stop.
    """

    host: str
    token: bytes
    port: int = PORT
    interval_s: float = 0.2
    size: int = SIZE
    timeout_s: float = 10.0
    count: int | None = None

    @property
    def log_head(self) -> bytes:
        """The head of its log, by which a log is known to be continued."""
        return _LOG_HEAD.format(
            host=self.host,
            interval_us=round(self.interval_s * 1e6),
            size=self.size,
            timeout_us=round(self.timeout_s * 1e6),
        ).encode()


def ping(plan: Plan, log: Path | None = None, go_on: GoOn = lambda _counted: True) -> RoundTrips:
    """Send and count until the plan is done or `go_on` says no.

    Args:
        plan: what to send.
        log: a file that gets a line for each datagram. One of the same plan is continued, and its lines count too.
        go_on: asked whether to.

    Returns:
        What was counted, in constant memory however long it takes.

    Raises:
        InputError: the host is unknown, or the log is of something else.
        RunError: the network refuses.
        StorageError: the log cannot be written.
    """
    counted = RoundTrips()
    try:
        family, kind, _, _, address = socket.getaddrinfo(plan.host, plan.port, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise InputError(f"{plan.host}: {error.strerror or error}; give a name or an address") from error
    with socket.socket(family, kind) as link:
        link.connect(address)
        link.setblocking(False)
        if log is None:
            _Exchange(plan, link, counted, None).run(go_on)
        else:
            _read(log, plan, counted)
            with storage_errors(log), log.open("ab") as file:
                _Exchange(plan, link, counted, file).run(go_on)
    return counted


class _Exchange:
    """Datagrams under way, in the order in which they were sent."""

    def __init__(self, plan: Plan, link: socket.socket, counted: RoundTrips, file: BinaryIO | None) -> None:
        self._plan = plan
        self._link = link
        self._counted = counted
        self._file = file
        self._session = int.from_bytes(os.urandom(4))
        self._sent = 0
        # By number: when it was sent, on the machine's clock and on the wall's, and its round trip once that is known.
        self._open: OrderedDict[int, tuple[float, float, float | None]] = OrderedDict()

    def run(self, go_on: GoOn) -> None:
        plan, start = self._plan, time.monotonic()
        flushed = looked = start
        while plan.count is None or self._sent < plan.count or self._open:
            now = time.monotonic()
            due = start + self._sent * plan.interval_s
            if (plan.count is None or self._sent < plan.count) and now >= due:
                if now - due > max(1.0, 10 * plan.interval_s):
                    # This machine slept: what was not sent is not lost.
                    start += now - due
                self._send()
                due += plan.interval_s
            self._settle(now)
            if now - looked >= _LOOK_S:
                looked = now
                if not go_on(self._counted):
                    break
            if self._file and now - flushed >= _FLUSH_S:
                flushed = now
                self._file.flush()
            if select.select([self._link], [], [], max(0.0, min(due - now, _LOOK_S)))[0]:
                self._receive()
        self._settle(time.monotonic())

    def _send(self) -> None:
        number = self._sent & 0xFFFFFFFF
        self._open[number] = (time.monotonic(), time.time(), None)
        self._sent += 1
        try:
            self._link.send(_datagram(_ASK, self._session, number, self._plan.token, self._plan.size))
        except ConnectionRefusedError as error:
            self._refused(error)
        except OSError:
            # No way there at this moment: a loss like others, on a path that is watched for days.
            pass

    def _receive(self) -> None:
        try:
            datagram = self._link.recv(LARGEST + 1)
        except ConnectionRefusedError as error:
            self._refused(error)
            return
        except OSError:
            # Nothing there after all, or news of a way that is not there at this moment.
            return
        now = time.monotonic()
        read = _read_datagram(datagram, _ANSWER, self._plan.token)
        if read is None or read[0] != self._session or read[1] not in self._open:
            return
        sent, wall, known = self._open[read[1]]
        if known is None:
            self._open[read[1]] = (sent, wall, (now - sent) * 1000)

    def _settle(self, now: float) -> None:
        """Count the oldest, once their round trips are known or their time is over."""
        while self._open:
            number, (sent, wall, rtt_ms) = next(iter(self._open.items()))
            if rtt_ms is None and now - sent < self._plan.timeout_s:
                return
            del self._open[number]
            self._counted.add(rtt_ms)
            if self._file:
                self._file.write(f"{wall:.3f},{'' if rtt_ms is None else f'{rtt_ms:.3f}'}\n".encode())

    def _refused(self, error: OSError) -> None:
        if not self._counted.answered:
            where = f"{self._plan.host}, port {self._plan.port}"
            raise RunError(f"{where}: nobody answers; start `perigee ping --serve` there") from error


def _datagram(kind: bytes, session: int, number: int, token: bytes, size: int) -> bytes:
    head = _HEAD.pack(kind, session, number)
    return (head + _code(head, token)).ljust(size, b"\0")


def _read_datagram(datagram: bytes, kind: bytes, token: bytes) -> tuple[int, int] | None:
    """Return session and number of a datagram of this kind with a right code."""
    if not SIZE <= len(datagram) <= LARGEST or not datagram.startswith(kind):
        return None
    head, code = datagram[: _HEAD.size], datagram[_HEAD.size : SIZE]
    if not hmac.compare_digest(code, _code(head, token)):
        return None
    _, session, number = _HEAD.unpack(head)
    return session, number


def _code(head: bytes, token: bytes) -> bytes:
    return hmac.digest(token, head, "sha256")[:_CODE_BYTES]


def read_log(log: Path) -> RoundTrips:
    """Count what a log says.

    Raises:
        InputError: it cannot be read, is no log of this program, or has a line that is wrong.
    """
    counted = RoundTrips()
    for _, rtt_ms in entries(log):
        counted.add(rtt_ms)
    return counted


def entries(log: Path) -> Iterator[tuple[float, float | None]]:
    """Yield of each datagram in a log when it was sent (s since 1970) and its round trip (ms), none where it was lost.

    Raises:
        InputError: it cannot be read, is no log of this program, or has a line that is wrong.
    """
    try:
        opened = log.open("rb")
    except OSError as error:
        raise InputError(f"{log}: cannot be read: {error.strerror}") from error
    with opened as file:
        head = file.readline() + file.readline()
        if not head.startswith(b"# perigee ping: ") or not head.endswith(b"\nunix_s,rtt_ms\n"):
            raise InputError(f"{log}:1: this is no log of `perigee ping`")
        for place, line in enumerate(file, 3):
            found = _LOG_LINE.fullmatch(line)
            if not line.endswith(b"\n"):
                # A crash cut it off, or it is being written.
                return
            if found is None:
                raise InputError(f"{log}:{place}: not a time and a round trip: {line[:40]!r}; remove the line")
            yield float(line.partition(b",")[0]), None if found[1] is None else float(found[1])


def _read(log: Path, plan: Plan, counted: RoundTrips) -> None:
    """Begin a log, or count what one of the same plan says; a last line that a crash cut off is removed."""
    with storage_errors(log):
        if not log.exists() or log.stat().st_size == 0:
            log.write_bytes(plan.log_head)
            return
        with log.open("r+b") as file:
            head = file.readline() + file.readline()
            if head != plan.log_head:
                said = head.partition(b"\n")[0].decode(errors="replace")[:120]
                raise InputError(f"{log}: holds something else ({said}); give another file, or the same options")
            whole = file.tell()
            for line in file:
                found = _LOG_LINE.fullmatch(line)
                if found is None:
                    break
                counted.add(None if found[1] is None else float(found[1]))
                whole += len(line)
            file.seek(0, os.SEEK_END)
            if file.tell() - whole > len("1700000000.000,60000.000\n"):
                raise InputError(f"{log}: a line in its middle is damaged, at byte {whole}; give another file")
            file.truncate(whole)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The round trip of a real path, for days: small datagrams at a fixed pace, answered by a server of the same program.

The datagrams are those of `crates/perigee-probe` (`ping.rs`): here are their timetable, the log, and what is counted. A
session is opened first, so that the server knows that its answers arrive where the questions seem to come from; then it
answers each number once, a datagram for a datagram. Where its limit is reached it says so, and the ping is not lost.
"""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from perigee.console import say
from perigee.core import native
from perigee.errors import InputError, RunError
from perigee.files import LINE_BYTES, lines_of, storage_errors
from perigee.measuring.round_trips import LIMITED, Outcome, RoundTrips
from perigee.measuring.server import LARGEST_PING_BYTES, PING_BYTES, PORT
from perigee.measuring.tokens import key_of

MOST_PINGS = 1 << 32
"""Numbers of a session do not come twice: pings of one run at the most, 49 days of the shortest interval."""
_LOG_HEAD = (
    "# perigee ping: to {host}, every {interval_us} us, {size} bytes, lost after {timeout_us} us\nunix_s,rtt_ms\n"
)
_SETTINGS = re.compile(rb"# perigee ping: to \S+, every ([0-9]{1,12}) us, ([0-9]{1,6}) bytes, lost after [0-9]+ us\n")
_LOG_LINE = re.compile(rb"[0-9]{1,12}\.[0-9]{3},([0-9]{1,9}\.[0-9]{3}|limited)?\n")
_CUT_OFF = re.compile(rb"[0-9.,a-z]{0,40}")
_LOOK_S = 0.1
_FLUSH_S = 5.0
_AGAIN_S = 1.0
"""Time after which a request for a session is repeated."""
_RENEW_S = 3.0
"""Time without any answer after which a new session is requested: the server may have restarted."""
_STALE_S = 300.0
"""Idle time after which a new session is requested before the next ping; less than the server keeps one."""

GoOn = Callable[[RoundTrips], bool]
"""Asked ten times a second, with what has been counted so far."""
Each = Callable[[float, Outcome], None]
"""Called for each ping, in their order, with its departure (s on the monotonic clock) and its outcome."""


@dataclass(frozen=True)
class PingPlan:
    """Settings of a measurement.

    Attributes:
        host: the server's name or address.
        token: the secret that both know.
        port: the server's port.
        interval_s: between two datagrams.
        size: of a datagram, bytes, 20 to 1400.
        timeout_s: an answer that has not come by then is lost.
        count: datagrams to send; none: until stopped.
    """

    host: str
    token: bytes
    port: int = PORT
    interval_s: float = 0.2
    size: int = PING_BYTES
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


def ping(
    plan: PingPlan,
    log: Path | None = None,
    go_on: GoOn = lambda _counted: True,
    each: Each = lambda _sent_s, _outcome: None,
) -> RoundTrips:
    """Send and count until the plan is done or `go_on` says no.

    Args:
        plan: what to send.
        log: a file that gets a line for each datagram. One of the same plan is continued, and its lines count too.
        go_on: asked whether to.
        each: called for each ping of this call; those of a continued log are only counted.

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
            _Exchange(plan, link, counted, None, each).run(go_on)
        else:
            _read(log, plan, counted)
            with storage_errors(log), log.open("ab") as file:
                _Exchange(plan, link, counted, file, each).run(go_on)
    return counted


class _Exchange:
    """Datagrams under way, in the order in which they were sent."""

    def __init__(
        self, plan: PingPlan, link: socket.socket, counted: RoundTrips, file: BinaryIO | None, each: Each
    ) -> None:
        self._plan = plan
        self._each = each
        self._link = link
        self._counted = counted
        self._file = file
        self._pinger = native.Pinger(int.from_bytes(os.urandom(4)), key_of(plan.token))
        self._count = min(plan.count or MOST_PINGS, MOST_PINGS)
        self._sent = 0
        self._open = False
        self._asked = -_AGAIN_S
        self._heard = time.monotonic()
        # For each number: when it was sent, on the machine's clock and on the wall's, and its fate once known.
        self._under_way: OrderedDict[int, tuple[float, float, Outcome]] = OrderedDict()

    def run(self, go_on: GoOn) -> None:
        if not self._begin(go_on):
            return
        plan, start = self._plan, time.monotonic()
        flushed = looked = start
        while self._sent < self._count or self._under_way:
            now = time.monotonic()
            due = start + self._sent * plan.interval_s
            if self._sent < self._count and now >= due:
                if now - due > max(1.0, 10 * plan.interval_s):
                    # This machine slept: what was not sent is not lost.
                    start += now - due
                self._ping()
                due += plan.interval_s
            self._settle(now)
            self._keep_open(now, due)
            if now - looked >= _LOOK_S:
                looked = now
                if not go_on(self._counted):
                    break
            if self._file and now - flushed >= _FLUSH_S:
                flushed = now
                self._file.flush()
            self._wait(min(due - now, _LOOK_S))
        self._settle(time.monotonic())

    def _begin(self, go_on: GoOn) -> bool:
        """Ask for a session until there is one, or the path had its time: what is sent then is lost. False: stopped."""
        began = time.monotonic()
        while not self._open and (now := time.monotonic()) - began < self._plan.timeout_s:
            self._hello(now)
            self._wait(min(began + self._plan.timeout_s - now, _LOOK_S))
            if not go_on(self._counted):
                return False
        return True

    def _keep_open(self, now: float, due: float) -> None:
        """Ask for the session again where the server may have forgotten it."""
        silent = now - self._heard
        first = next(iter(self._under_way.values()), None)
        unanswered = first is not None and first[2] is None and now - first[0] > _RENEW_S
        stale = silent > _STALE_S and self._sent < self._count and due - now < self._plan.timeout_s
        if stale or (unanswered and silent > _RENEW_S):
            self._hello(now)

    def _hello(self, now: float) -> None:
        if now - self._asked >= _AGAIN_S:
            self._asked = now
            self._send(self._pinger.hello())

    def _ping(self) -> None:
        self._under_way[self._sent] = (time.monotonic(), time.time(), None)
        self._send(self._pinger.ask(self._sent, self._plan.size))
        self._sent += 1

    def _send(self, datagram: bytes) -> None:
        try:
            self._link.send(datagram)
        except ConnectionRefusedError as error:
            self._refused(error)
        except OSError:
            # No way there at this moment: a loss like others, on a path that is watched for days.
            pass

    def _wait(self, longest_s: float) -> None:
        if select.select([self._link], [], [], max(0.0, longest_s))[0]:
            self._receive()

    def _receive(self) -> None:
        try:
            datagram = self._link.recv(LARGEST_PING_BYTES + 1)
        except ConnectionRefusedError as error:
            self._refused(error)
            return
        except OSError:
            # Nothing there after all, or news of a way that is not there at this moment.
            return
        now = time.monotonic()
        said = self._pinger.read(datagram)
        if said is None:
            return
        self._heard = now
        if said.kind == "challenge":
            self._send(self._pinger.open(said.challenge, min(self._sent, MOST_PINGS - 1)))
        elif said.kind == "welcome":
            self._welcome(said.number)
        elif said.kind in ("answer", "too_many"):
            sent, wall, known = self._under_way.get(said.number, (now, 0.0, LIMITED))
            if known is None:
                rtt_ms = (now - sent) * 1000
                self._under_way[said.number] = (sent, wall, rtt_ms if said.kind == "answer" else LIMITED)
        elif not self._open:
            raise RunError(f"{self._where}: {_NO_SESSION[said.kind].format(limit=said.number)}")

    def _welcome(self, limit: int) -> None:
        if not self._open and self._plan.interval_s * limit < 1:
            say(
                f"note: the server answers {limit} pings a second of one address, and here are more; those over its "
                "limit are counted apart from those lost"
            )
        self._open = True

    def _settle(self, now: float) -> None:
        """Count the oldest, once their round trips are known or their time is over."""
        while self._under_way:
            number, (sent, wall, known) = next(iter(self._under_way.items()))
            if known is None and now - sent < self._plan.timeout_s:
                return
            del self._under_way[number]
            self._counted.add(known)
            self._each(sent, known)
            if self._file:
                rtt_ms = f"{known:.3f}" if isinstance(known, float) else known or ""
                self._file.write(f"{wall:.3f},{rtt_ms}\n".encode())

    def _refused(self, error: OSError) -> None:
        if not self._counted.answered:
            raise RunError(f"{self._where}: no server answers; start `perigee ping --serve` there") from error

    @property
    def _where(self) -> str:
        return f"{self._plan.host}, port {self._plan.port}"


_NO_SESSION = {
    "too_many_sessions": "this address has as many sessions as the server gives one ({limit}); end some, and try again "
    "in 15 minutes",
    "busy": "the server has as many sessions as it takes; try again in 15 minutes",
}


def read_log(log: Path) -> RoundTrips:
    """Count what a log says.

    Raises:
        InputError: it cannot be read, is no log of this program, or has a line that is wrong.
    """
    counted = RoundTrips()
    for _, rtt_ms in entries(log):
        counted.add(rtt_ms)
    return counted


def settings_of(log: Path) -> tuple[float, int]:
    """Return the interval (s) between two datagrams of a log, and the bytes of each without headers.

    Raises:
        InputError: they are not there.
    """
    try:
        with log.open("rb") as file:
            head = _SETTINGS.fullmatch(file.readline(LINE_BYTES))
    except OSError as error:
        raise InputError(f"{log}: cannot be read: {error.strerror}") from error
    if head is None:
        raise InputError(f"{log}:1: the interval and the size of the pings are not there; restore the line")
    return int(head[1]) / 1e6, int(head[2])


def entries(log: Path) -> Iterator[tuple[float, Outcome]]:
    """Yield of each datagram in a log when it was sent (s since 1970) and what became of it.

    Raises:
        InputError: it cannot be read, is no log of this program, or has a line that is wrong.
    """
    try:
        opened = log.open("rb")
    except OSError as error:
        raise InputError(f"{log}: cannot be read: {error.strerror}") from error
    with opened as file:
        head = file.readline(LINE_BYTES) + file.readline(LINE_BYTES)
        if not head.startswith(b"# perigee ping: ") or not head.endswith(b"\nunix_s,rtt_ms\n"):
            raise InputError(f"{log}:1: this is no log of `perigee ping`")
        for place, line in enumerate(lines_of(file, log, 3), 3):
            found = _LOG_LINE.fullmatch(line)
            if _CUT_OFF.fullmatch(line):
                # A crash cut it off, or it is being written.
                return
            if found is None:
                raise InputError(f"{log}:{place}: not a time and a round trip: {line[:40]!r}; remove the line")
            yield float(line.partition(b",")[0]), _outcome(found[1])


def _outcome(text: bytes | None) -> Outcome:
    if text is None:
        return None
    return LIMITED if text == LIMITED.encode() else float(text)


def _read(log: Path, plan: PingPlan, counted: RoundTrips) -> None:
    """Begin a log, or count what one of the same plan says; a last line that a crash cut off is removed."""
    with storage_errors(log):
        if not log.exists() or log.stat().st_size == 0:
            log.write_bytes(plan.log_head)
            return
        with log.open("r+b") as file:
            head = file.readline(LINE_BYTES) + file.readline(LINE_BYTES)
            if head != plan.log_head:
                said = head.partition(b"\n")[0].decode(errors="replace")[:120]
                raise InputError(f"{log}: holds something else ({said}); give another file, or the same options")
            whole = file.tell()
            for line in lines_of(file, log, 3):
                found = _LOG_LINE.fullmatch(line)
                if found is None:
                    break
                counted.add(_outcome(found[1]))
                whole += len(line)
            file.seek(0, os.SEEK_END)
            if file.tell() - whole > len("1700000000.000,60000.000\n"):
                raise InputError(f"{log}: a line in its middle is damaged, at byte {whole}; give another file")
            file.truncate(whole)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Capacity of a real path: datagrams at a constant rate, one rate after the other, and the packets that arrive.

The method is that of the Skyplex campaign (Caini et al. 2009): each rate for a time, at constant intervals; the rate
received, the loss, and how the one-way delay grows say what the path's capacity is. The data path is Rust's
(`perigee-probe`); here are the plan, the log, and what is made of the figures.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from perigee.core import native
from perigee.errors import InputError, InterruptedRunError, RunError
from perigee.files import PROBE_LOG_BYTES, read_bounded, storage_errors
from perigee.headers import IPV4, IPV6, UDP
from perigee.measuring.beside import IDLE_S, Pings
from perigee.measuring.probe_steps import Step
from perigee.measuring.server import PORT, prepare
from perigee.measuring.tokens import key_of
from perigee.numbers import number

LEAST_PACKET, LARGEST_PACKET = 100, 9000
HEADERS = {socket.AF_INET: IPV4 + UDP, socket.AF_INET6: IPV6 + UDP}
"""Bytes of the headers of IP and UDP."""
VERSION = 1
AROUND = (0.7, 1.0, 1.25, 2.0)
"""Rates of a search with `in_band`, as shares of what the path carried: below, at and above it; chosen."""

Direction = Literal["up", "down"]
Limited = Callable[[Direction, int], None]
"""Told where a search ends at the rate that the server allows a client, bit/s."""
Watch = Callable[[str, float], bool]
"""Asked ten times a second, with what is going on and the share of it that is done, whether to go on."""


@dataclass(frozen=True)
class ProbePlan:
    """Settings of a measurement.

    Attributes:
        host: the server's name or address.
        token: the secret that both know.
        rates_bps: one after the other; headers of IP and UDP count. With `find`, where to begin.
        port: the server's port.
        directions: seen from here: `up` to the server, `down` from it.
        time_s: length of each.
        packet: bytes of a packet, headers of IP and UDP counted.
        interval_s: of the figures over time.
        find: go on with twice the rate until the path is full, then measure just below what it carried; with `in_band`,
            at `AROUND` of what it carried.
        in_band: send sparse pings before and beside each rate.
        most_bps: of a search, the largest rate; none: what the server allows.
    """

    host: str
    token: bytes
    rates_bps: tuple[int, ...]
    port: int = PORT
    directions: tuple[Direction, ...] = ("up", "down")
    time_s: float = 60.0
    packet: int = 1500
    interval_s: float = 0.1
    find: bool = False
    in_band: bool = False
    most_bps: int | None = None

    @property
    def log_head(self) -> dict[str, Any]:
        """The first line of its log, by which a log is known to be continued."""
        return {
            "perigee_probe": VERSION,
            "host": self.host,
            "port": self.port,
            "directions": list(self.directions),
            "rates_bps": list(self.rates_bps),
            "time_s": self.time_s,
            "packet": self.packet,
            "interval_s": self.interval_s,
            "find": self.find,
            **({"in_band": True} if self.in_band else {}),
            **({} if self.most_bps is None else {"most_bps": self.most_bps}),
        }

    def next_step(
        self, done: list[Step], limits_bps: Mapping[Direction, int] | None = None
    ) -> tuple[Direction, int] | None:
        """Return direction and rate of what comes next; none: that was all.

        Args:
            done: what was measured so far.
            limits_bps: of a search, the largest rate of a direction that the server allows, where that is known.
        """
        for direction in self.directions:
            own = [step for step in done if step.direction == direction]
            if not self.find:
                if len(own) < len(self.rates_bps):
                    return direction, self.rates_bps[len(own)]
            elif (rate := self._next_to_find(own, (limits_bps or {}).get(direction))) is not None:
                return direction, rate
        return None

    def _next_to_find(self, own: list[Step], limit_bps: int | None) -> int | None:
        if not own:
            return self.rates_bps[0]
        full = [step.is_full(own) for step in own]
        if not any(full):
            last = own[-1].offered_bps
            if limit_bps is None or 2 * last <= limit_bps:
                return 2 * last
            return limit_bps if limit_bps > last else None
        # The rate that it carried when full is its capacity; a little less should pass whole.
        shares = AROUND if self.in_band else (_BELOW,)
        first = full.index(True)
        done = len(own) - 1 - first
        if done >= len(shares):
            return None
        rate_bps = round(shares[done] * own[first].received_bps)
        return rate_bps if limit_bps is None or rate_bps <= limit_bps else None


class RateLimitError(InputError):
    """The server allows a client less.

    Attributes:
        limit_bps: so much.
    """

    def __init__(self, message: str, limit_bps: int) -> None:
        super().__init__(message)
        self.limit_bps = limit_bps


def probe(
    plan: ProbePlan,
    log: Path | None = None,
    watch: Watch = lambda _what, _share: True,
    limited: Limited = lambda _direction, _limit_bps: None,
) -> list[Step]:
    """Measure one rate after the other.

    A search that comes to the rate which the server allows a client measures at that rate, and ends there.

    Args:
        plan: what to measure.
        log: a file that gets a line for each rate. One of the same plan is continued.
        watch: called with the progress; returns whether to go on.
        limited: called where a search ends because the server allows no more.

    Returns:
        What was measured, the log's part too.

    Raises:
        InputError: the host is unknown, the log is of something else, or the server allows less.
        RunError: the server does not answer, or stops.
        StorageError: the log cannot be written.
        InterruptedRunError: `watch` said no.
    """
    done = [] if log is None else _continued(log, plan)
    limits_bps = {} if plan.most_bps is None else dict.fromkeys(plan.directions, plan.most_bps)
    with _connected(plan) as link:
        while (following := plan.next_step(done, limits_bps)) is not None:
            direction, rate_bps = following
            try:
                with Pings(plan.host, IDLE_S + plan.time_s) if plan.in_band else nullcontext() as pings:
                    step = _measure(plan, link, direction, rate_bps, watch, pings)
            except RateLimitError as error:
                is_under_way = any(step.direction == direction for step in done)
                if not plan.find or not is_under_way or rate_bps <= error.limit_bps:
                    raise
                limits_bps[direction] = error.limit_bps
                limited(direction, error.limit_bps)
                continue
            done.append(step)
            if log is not None:
                with storage_errors(log), log.open("ab") as file:
                    file.write(_line(step.record))
                    file.flush()
                    os.fsync(file.fileno())
    return done


def read_log(log: Path) -> list[Step]:
    """Read what a log says.

    Raises:
        InputError: it cannot be read, is no log of this program, or is damaged.
    """
    lines = read_bounded(log, PROBE_LOG_BYTES, "a log of a probe").splitlines()
    head = _record(lines[0]) if lines else None
    if head is None or "perigee_probe" not in head:
        raise InputError(f"{log}:1: this is no log of `perigee probe`")
    if head["perigee_probe"] != VERSION:
        said = str(head["perigee_probe"])[:40]
        raise InputError(f"{log}:1: a log of version {said}; this program reads version {VERSION}")
    packet = head.get("packet")
    if type(packet) is not int or not LEAST_PACKET <= packet <= LARGEST_PACKET:
        limits = f"between {LEAST_PACKET} and {LARGEST_PACKET} bytes"
        raise InputError(f"{log}:1: `packet` is no size of a packet {limits}; restore the line")
    return list(_steps(log, head, lines[1:]))


def _steps(log: Path, head: dict[str, Any], lines: list[bytes]) -> Iterator[Step]:
    for place, line in enumerate(lines, 2):
        record = _record(line)
        if record is None and place == len(lines) + 1:
            # A crash cut it off.
            return
        try:
            yield Step(record or {}, head["packet"], log.name)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{log}:{place}: not a rate that was measured ({error}); remove the line") from error


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _continued(log: Path, plan: ProbePlan) -> list[Step]:
    """Begin a log, or return what one of the same plan says; a last line that a crash cut off is removed."""
    with storage_errors(log):
        if not log.exists() or log.stat().st_size == 0:
            log.write_bytes(_line(plan.log_head))
            return []
        lines = read_bounded(log, PROBE_LOG_BYTES, "a log of a probe").splitlines(keepends=True)
        if _record(lines[0]) != plan.log_head:
            said = lines[0].decode(errors="replace").strip()[:120]
            raise InputError(f"{log}: holds something else ({said}); give another file, or the same options")
        if not lines[-1].endswith(b"\n"):
            with log.open("r+b") as file:
                file.truncate(sum(map(len, lines[:-1])))
            lines.pop()
    return list(_steps(log, plan.log_head, [*lines[1:], b""]))


def _connected(plan: ProbePlan) -> socket.socket:
    where = f"{plan.host}, port {plan.port}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(plan.host, plan.port, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise InputError(f"{plan.host}: {error.strerror or error}; give a name or an address") from error
    link = socket.socket(family, kind)
    try:
        prepare(link)
        link.connect(address)
    except OSError as error:
        link.close()
        raise RunError(f"{where}: {error.strerror or error}") from error
    return link


def _measure(
    plan: ProbePlan, link: socket.socket, direction: Direction, rate_bps: int, watch: Watch, pings: Pings | None
) -> Step:
    title = f"{direction} {number(rate_bps / 1e6, 2)} Mbit/s"
    key = key_of(plan.token)
    idle_from = time.monotonic()
    if pings is not None:
        _wait_idle(idle_from + IDLE_S, title, watch, pings)
    began = time.time()
    told = native.probe_once(
        link.fileno(), key, int.from_bytes(os.urandom(8)), direction == "down", rate_bps,
        plan.packet, HEADERS[link.family], plan.time_s, plan.interval_s, lambda share: watch(title, share),
    )  # fmt: skip
    if "failure" in told:
        raise _why(plan, title, told, link)
    record = {
        "direction": direction,
        "offered_bps": rate_bps,
        "headers": HEADERS[link.family],
        "began_unix_s": round(began, 3),
        **told,
    }
    if pings is not None:
        # The side of this host has the machine's monotonic clock, as the pings have.
        load = told["sent" if direction == "up" else "report"]
        load_s, load_end_s = load["first_ns"] / 1e9, load["last_ns"] / 1e9
        if not pings.wait_until(load_end_s, lambda: watch(title, 1.0)):
            raise InterruptedRunError(_STOPPED)
        record["pings"] = pings.between(idle_from, load_end_s, load_s)
    return Step(record, plan.packet)


def _wait_idle(until_s: float, title: str, watch: Watch, pings: Pings) -> None:
    """Leave the path to the pings until an instant of the monotonic clock."""
    while time.monotonic() < until_s:
        pings.check()
        if not watch(f"idle before {title}", 0.0):
            raise InterruptedRunError(_STOPPED)
        time.sleep(_LOOK_S)
    pings.check(answered=True)


def _why(plan: ProbePlan, title: str, told: dict[str, Any], link: socket.socket) -> Exception:
    where, failure = f"{plan.host}, port {plan.port}", told["failure"]
    ((kind, limit),) = failure.items() if isinstance(failure, dict) else ((failure, 0),)
    mbps = number(limit / 1e6, 2)
    if kind == "rate_of_one":
        said = f"{title}: the server allows a client {mbps} Mbit/s; give a lower --rate, or raise its --max-rate"
        return RateLimitError(said, limit)
    wrong = {
        "time": f"{title}: the server allows {limit} s; give a shorter --time, or raise its --max-time",
        "malformed": f"{title}: the server rejects this probe; give another --packet or a longer --time",
        "too_large": f"--packet {plan.packet}: {_largest(link)}; give a smaller one",
        "too_large_there": f"--packet {plan.packet}: does not fit the server's network; give a smaller one",
    }
    failed = {
        "nobody_listens": f"{where}: no server answers; start `perigee probe --serve` there",
        "no_answer": f"{where}: no answer arrived: check that the token is the same, UDP passes, and `perigee "
        "probe --serve` of this version runs there",
        "rate_of_all": f"{title}: other clients are active, which leaves {mbps} Mbit/s; try again later",
        "another_session": f"{title}: another probe from this address is active; try again later",
        "too_many": f"{title}: this address started {limit} probes within 20 s; try again later",
        "busy": f"{where}: the server has its maximum number of clients; try again later",
        "fell_silent": f"{title}: no packet from the server for 15 s; the path or the server is down",
        "silence": f"{title}: the server received nothing from here for 5 s, and stopped",
        "unknown": f"{title}: the server does not know this probe; it was probably restarted",
        "damaged": f"{title}: the server's report cannot be read; it probably has another version",
    }
    if kind == "cancelled":
        return InterruptedRunError(_STOPPED)
    if kind in wrong:
        return InputError(wrong[kind])
    return RunError(failed.get(kind, f"{where}: {told['said']}"))


def _largest(link: socket.socket) -> str:
    level, option = (socket.IPPROTO_IPV6, 24) if link.family == socket.AF_INET6 else (socket.IPPROTO_IP, 14)
    try:
        return f"the maximum packet size of the path is {link.getsockopt(level, option)} bytes"
    except OSError:
        return "too large for the path"


def with_packet(plan: ProbePlan, packet: int) -> ProbePlan:
    """Return the plan with packets of another size, if there can be such ones.

    Raises:
        InputError: there cannot.
    """
    if not LEAST_PACKET <= packet <= LARGEST_PACKET:
        raise InputError(f"--packet {packet}: between {LEAST_PACKET} and {LARGEST_PACKET} bytes")
    return replace(plan, packet=packet)


_BELOW = 0.95
_STOPPED = "stopped; the log, if any, has the completed rates"
_LOOK_S = 0.1

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Samples of `ss -tin`, one after the other in a file: window, round trip and what was acknowledged of each socket."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from perigee.analysis.documents import LARGEST
from perigee.analysis.log import Flow, Log
from perigee.analysis.observations import Observation, Sample
from perigee.analysis.source import Source
from perigee.errors import InputError

_NS = 10**9
_SOCKET = re.compile(
    rb"^(?:tcp +)?(?:ESTAB|FIN-WAIT-[12]|CLOSE-WAIT|LAST-ACK|CLOSING|SYN-SENT|SYN-RECV) +[0-9]+ +[0-9]+ +"
    rb"(?P<own>\S+:[0-9]+) +(?P<peer>\S+:[0-9]+)"
)
_DETAILS = re.compile(rb"^\s+(?P<all>.*\bcwnd:[0-9]+.*)$")
_VALUE = re.compile(rb"(?<!\S)(?P<name>[a-z_]+):(?P<value>[0-9.]+)(?:/(?P<second>[0-9.]+))?(?=\s|$)")
_COUNTED = re.compile(rb"(?<!\S)(?P<name>busy|rwnd_limited|sndbuf_limited):(?P<ms>[0-9]+)ms(?=[\s(]|$)")
_CC = re.compile(rb"(?:^|\s)(?P<cc>[a-z][a-z0-9_]*)(?= (?:wscale|rto):| wscale)")
_UNIX = re.compile(rb"^\D{0,12}(?P<at>[0-9]{9,10}(?:\.[0-9]{1,9})?)\s*$")
_OTHERS = re.compile(rb"^\s*$|^State |^Netid |Recv-Q|^(?:LISTEN|TIME-WAIT|UNCONN) |^[-=#]+")
_MOST_SAMPLES = 5_000_000
_NEXT_S = 1.0


@dataclass
class _Socket:
    """A connection over its samples: instant, acknowledged, sent again, window, round trip; `backwards`: left out.

    `states` has at each instant what is in flight and the slow start threshold, `counted` the milliseconds that the
    sender counts, at the first sample and the last.
    """

    cc: str = ""
    segment: int | None = None
    least_ms: float | None = None
    backwards: int = 0
    samples: list[tuple[float, int | None, int | None, int | None, float | None]] = field(default_factory=list)
    states: list[tuple[float, int | None, int | None]] = field(default_factory=list)
    counted: list[dict[bytes, int]] = field(default_factory=list)


def is_of_ss(head: bytes) -> bool:
    r"""Whether a file begins as `ss -tin` prints.

    Examples:
        >>> is_of_ss(b"ESTAB 0 0 192.0.2.1:5201 192.0.2.2:40000\n\t cubic wscale:7,7 rto:204 rtt:3.1/1.5 cwnd:10")
        True
    """
    lines = head.splitlines()
    return any(_SOCKET.match(line) for line in lines) and any(_DETAILS.match(line) for line in lines)


def read(path: Path) -> list[Log]:
    """Read samples; each connection that acknowledged something between two of them is a transfer.

    Raises:
        InputError: there are no two samples of one connection.
    """
    source = Source(path)
    sockets: dict[tuple[bytes, bytes], _Socket] = {}
    wrong, times, rounds = [], 0, 0
    at, is_timed, backwards = 0.0, False, 0
    key: tuple[bytes, bytes] | None = None
    seen: set[tuple[bytes, bytes]] = set()
    for place, line in enumerate(source.lines(), 1):
        if key is not None and not _DETAILS.match(line):
            # The details of a socket are the line behind it.
            wrong.append(place)
            key = None
        if (now := _time(line)) is not None:
            # Samples before the first time have none.
            backwards += now < at if is_timed else bool(sockets)
            at, is_timed, times = now, True, times + 1
            seen.clear()
        elif found := _SOCKET.match(line):
            key = (found["own"], found["peer"])
            if key in seen:
                seen.clear()
                at += 0.0 if is_timed else _NEXT_S
            rounds += not seen
            seen.add(key)
        elif key is not None and (found := _DETAILS.match(line)) and line.endswith(b"\n"):
            _take(sockets.setdefault(key, _Socket()), at, found["all"])
            key = None
        elif not _OTHERS.search(line):
            wrong.append(place)
    damage = list(source.damage)
    if wrong:
        damage.append(f"line {wrong[0]} is not understood" + (f", and {len(wrong) - 1} more" * (len(wrong) > 1)))
    if backwards:
        damage.append(f"{backwards} of its times stand behind a later one, so that the file is out of order")
    notes = [*damage]
    if not times:
        notes.append("its samples have no times (print `date +%s.%N` before each): they are taken as 1 s apart")
    elif times < rounds:
        notes.append(f"{rounds} samples have {times} times: those without are taken at the time before")
    flows, undone = [], 0
    for number, socket in enumerate(sockets.values(), 1):
        flow = _flow(f"socket.{number}", socket)
        undone += flow is None
        flows += [] if flow is None else [flow]
    if not flows:
        raise InputError(
            f"{path}: no connection has two samples with `bytes_acked`; sample `ss -tin` while it sends, each second"
        )
    if lower := sum(socket.backwards for socket in sockets.values()):
        damage.append(f"{lower} samples have times or counts below those before, and are left out")
        notes.append(damage[-1])
    if undone:
        notes.append(f"{undone} connections sent nothing that was acknowledged between two samples, and are left out")
    notes.append("of each connection, what was acknowledged to this host between its first and last sample; "
                 "taken for uploads")  # fmt: skip
    return [Log("ss of Linux (iproute2)", tuple(flows), notes=tuple(notes), damage=tuple(damage))]


def _take(socket: _Socket, at: float, said: bytes) -> None:
    values = {found["name"]: (found["value"], found["second"]) for found in _VALUE.finditer(said)}

    def value(name: bytes, *, second: bool = False) -> float | None:
        found = values.get(name, (None, None))[second]
        try:
            return None if found is None or float(found) >= LARGEST else float(found)
        except ValueError:
            return None

    if found := _CC.search(said):
        socket.cc = found["cc"].decode()
    socket.segment = _int(value(b"mss")) or socket.segment
    socket.least_ms = value(b"minrtt") or socket.least_ms
    if len(socket.samples) < _MOST_SAMPLES:
        socket.samples.append(
            (at, _int(value(b"bytes_acked")), _int(value(b"retrans", second=True)) or 0, _int(value(b"cwnd")),
             value(b"rtt"))
        )  # fmt: skip
        unacked = _int(value(b"unacked"))
        gone = (_int(value(name)) or 0 for name in (b"sacked", b"lost"))
        in_flight = None if unacked is None else max(unacked + (_int(value(b"retrans")) or 0) - sum(gone), 0)
        socket.states.append((at, in_flight, _int(value(b"ssthresh"))))
        counted = {found["name"]: int(found["ms"]) for found in _COUNTED.finditer(said) if float(found["ms"]) < LARGEST}
        socket.counted = [*socket.counted[:1], counted]


def _flow(name: str, socket: _Socket) -> Flow | None:
    known = [one for one in socket.samples if one[1] is not None]
    if len(known) < _A_PAIR:
        return None
    began, first, again, _, _ = known[0]
    arrivals: list[tuple[int, int]] = []
    samples: list[Sample] = []
    last = (0, 0, 0)
    for at, acked, resent, cwnd, rtt_ms in known[1:]:
        counts = (round((at - began) * _NS), (acked or 0) - (first or 0), (resent or 0) - (again or 0))
        if counts[0] == last[0] or any(now < before for now, before in zip(counts, last, strict=True)):
            socket.backwards += 1
            continue
        last = counts
        arrivals.append(counts[:2])
        samples.append((counts[0], counts[2], cwnd, round(rtt_ms * 1e6) if rtt_ms else None))
    if not arrivals or not arrivals[-1][1]:
        return None
    rtts = [one[4] for one in known if one[4]]
    figures = (socket.least_ms, sum(rtts) / len(rtts), None) if rtts else None
    seen = Observation(arrivals[-1][0], arrivals, samples, segment=socket.segment, retransmitted_packets=samples[-1][1])
    states = tuple((at - began, flight, threshold) for at, flight, threshold in socket.states if at > began)
    return Flow(
        name, "bulk", True, socket.cc, seen, "stopped", rtt_ms=figures, states=states, counted_s=_counted_s(socket)
    )


def _counted_s(socket: _Socket) -> dict[str, float]:
    """Return the seconds between the samples that the sender counted; nothing of a kernel that does not print them."""
    first, last = socket.counted[0], socket.counted[-1]
    if b"busy" not in last:
        return {}
    # Linux prints no zeros.
    names = {b"busy": "busy_s", b"rwnd_limited": "rwnd_limited_s", b"sndbuf_limited": "sndbuf_limited_s"}
    return {column: max(last.get(name, 0) - first.get(name, 0), 0) / 1e3 for name, column in names.items()}


def _time(line: bytes) -> float | None:
    """Return the time that a line is; none: it is another."""
    if found := _UNIX.match(line):
        return float(found["at"])
    try:
        return datetime.fromisoformat(line.decode(errors="replace").strip()).timestamp()
    except ValueError:
        return None


def _int(value: float | None) -> int | None:
    return None if value is None else int(value)


_A_PAIR = 2

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of `fping -l` and `fping -c`: a line for each ping, of one host or of several in turn.

The last lines of `fping -C` have the round trips of a host side by side; with `-q` they are all there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perigee.analysis.log import Entry, Log, Pings
from perigee.analysis.source import Source

_LINE = re.compile(
    rb"^(?:\[(?P<at>[0-9]{1,12}(?:\.[0-9]{1,9})?)\] )?(?P<host>\S{1,255}) +: \[(?P<seq>[0-9]{1,9})\], "
    rb"(?:(?P<size>[0-9]{1,6}) bytes, (?P<ms>[0-9]{1,9}(?:\.[0-9]{1,6})?) ms|timed out)",
    re.MULTILINE,
)
_SUMMARY = re.compile(rb"^(?P<host>\S{1,255}) +: xmt/rcv/%loss = (?P<sent>[0-9]{1,9})/(?P<received>[0-9]{1,9})/")
_TOOK = rb"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?|-)"
_SIDE_BY_SIDE = re.compile(
    rb"^(?P<host>\S{1,255}) +: (?P<all>" + _TOOK + rb"(?: " + _TOOK + rb")*)[ \r]*$", re.MULTILINE
)
_OTHERS = re.compile(rb"^\s*$|^ICMP |^\S+ +: duplicate ")
_ICMP_HEADER = 8
_DEFAULT_S = 1.0
_MOST_AHEAD = 1_000_000


def is_of_fping(head: bytes) -> bool:
    """Whether a file begins as fping prints.

    Examples:
        >>> is_of_fping(b"sat.example : [0], 64 bytes, 600.1 ms (600 avg, 0% loss)")
        True
    """
    return _LINE.search(head) is not None or _SIDE_BY_SIDE.match(head) is not None


@dataclass
class _Host:
    """Pings to a host: the number and time of its first and last line, and what the summary says."""

    name: bytes
    first: int
    last: int
    began_s: float | None = None
    ended_s: float | None = None
    size: int | None = None
    told: tuple[int, int] | None = None
    lines: int = 0
    behind: int = 0

    @property
    def interval_s(self) -> float | None:
        """Time between two pings, by the times of lines (`-D`)."""
        if self.began_s is None or self.ended_s is None or self.last <= self.first:
            return None
        return max(self.ended_s - self.began_s, 0.0) / (self.last - self.first)


def read(path: Path) -> list[Log]:
    """Read a log; the pings to each host are a measurement.

    Raises:
        InputError: a line is longer than any of a log.
    """
    source = Source(path)
    hosts: dict[bytes, _Host] = {}
    beside: dict[bytes, list[Entry]] = {}
    unread: list[int] = []
    for place, line in enumerate(source.lines(), 1):
        if found := _LINE.search(line):
            _take(hosts, found)
        elif (found := _SUMMARY.search(line)) and found["host"] in hosts:
            hosts[found["host"]].told = int(found["sent"]), int(found["sent"]) - int(found["received"])
        elif found := _SIDE_BY_SIDE.match(line):
            took = [None if one == b"-" else float(one) for one in found["all"].split()]
            beside[found["host"]] = [(at * _DEFAULT_S, rtt_ms) for at, rtt_ms in enumerate(took)]
        elif not _OTHERS.search(line):
            unread.append(place)
    damage = list(source.damage)
    if unread:
        damage.append(f"line {unread[0]} is not understood" + (f", and {len(unread) - 1} more" * (len(unread) > 1)))
    if not hosts:
        return [_of_one_line(entries, len(beside), damage) for entries in beside.values()]
    return [_log(source, host, len(hosts), damage) for host in hosts.values()]


def _of_one_line(entries: list[Entry], among: int, damage: list[str]) -> Log:
    notes = [*damage, f"round trips of `fping -C` have no times: pings are taken as {_DEFAULT_S:g} s apart"]
    if among > 1:
        notes.append(f"the log holds pings to {among} hosts, each a measurement")
    pings = Pings(entries.__iter__, None, _DEFAULT_S, is_measured=False)
    return Log("fping", pings=pings, notes=tuple(notes), damage=tuple(damage))


def _take(hosts: dict[bytes, _Host], found: re.Match[bytes]) -> None:
    number = int(found["seq"])
    host = hosts.setdefault(found["host"], _Host(found["host"], number, number - 1))
    at = None if found["at"] is None else float(found["at"])
    host.behind += number <= host.last
    host.began_s = at if host.began_s is None else host.began_s
    host.first = min(host.first, number)
    if number > host.last:
        host.last, host.ended_s = number, at
    host.size = host.size if found["size"] is None else int(found["size"]) - _ICMP_HEADER
    host.lines += 1


def _log(source: Source, host: _Host, among: int, damage: list[str]) -> Log:
    notes = list(damage)
    if host.first:
        notes.append(f"the lines of {host.first} pings before the first line are missing: they are not counted")
    if host.told is None:
        notes.append("it has no summary: what was lost behind its last line is not counted")
    if host.behind:
        notes.append(f"{host.behind} lines stand behind that of a later ping, so that the log is out of order")
    if absent := host.last - host.first + 1 - (host.lines - host.behind):
        notes.append(f"{absent} pings have no line; they are taken as lost")
    if among > 1:
        notes.append(f"the log holds pings to {among} hosts, each a measurement")
    known = host.interval_s
    if known is None:
        notes.append(f"the lines have no times (`fping -D` gives them): pings are taken as {_DEFAULT_S:g} s apart")
    interval_s = known or _DEFAULT_S
    pings = Pings(lambda: _entries(source, host, interval_s), host.told, interval_s, host.size, known is not None)
    return Log("fping", pings=pings, began_s=host.began_s, notes=tuple(notes), damage=tuple(damage))


def _entries(source: Source, host: _Host, interval_s: float) -> Iterator[Entry]:
    began_s = host.began_s or 0.0
    last = host.first - 1
    for line in source.lines():
        found = _LINE.search(line)
        if found is None or found["host"] != host.name or not last < int(found["seq"]) <= last + _MOST_AHEAD:
            continue
        number = int(found["seq"])
        for absent in range(last + 1, number):
            yield began_s + (absent - host.first) * interval_s, None
        at = began_s + (number - host.first) * interval_s if found["at"] is None else float(found["at"])
        yield at, None if found["ms"] is None else float(found["ms"])
        last = number

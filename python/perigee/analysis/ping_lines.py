# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The lines that the `ping` of each system prints, and what each of them says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from perigee.analysis.source import Source
from perigee.errors import InputError


@dataclass(frozen=True)
class System:
    """A program `ping`.

    Attributes:
        name: its name, for people.
        first: the number of its first ping; none: its lines have no numbers.
    """

    name: str
    first: int | None


LINUX = System("ping of Linux (iputils)", 1)
BSD = System("ping of macOS or a BSD", 0)
BUSYBOX = System("ping of BusyBox", 0)
WINDOWS = {
    "pinging": System("ping of Windows", None),
    "ping wird": System("ping of Windows (German)", None),
    "envoi d": System("ping of Windows (French)", None),
    "haciendo": System("ping of Windows (Spanish)", None),
}


@dataclass(frozen=True)
class Summary:
    """The summary that `ping` prints at its end.

    Attributes:
        sent: packets transmitted.
        received: answers, duplicates not counted.
        length_s: from the first to the last; none: not said.
    """

    sent: int
    received: int
    length_s: float | None


@dataclass(frozen=True)
class Line:
    """A line about one ping; without a round trip: there is no answer yet; without a number: it is the next one.

    Only answers say which host they are of. `dated` is the date that `ts` wrote before
    the line (s since 1970), and whether it has a zone; one with a fraction of a second is `at_s`, too.
    """

    seq: int | None
    rtt_ms: float | None
    at_s: float | None
    is_busybox: bool = False
    host: bytes | None = None
    dated: tuple[float, bool] | None = None


@dataclass(frozen=True)
class Head:
    """The line with which a call begins."""

    system: System
    size: int | None
    name: bytes
    address: bytes


@dataclass(frozen=True)
class Title:
    """The line above a summary, which names the host in one of its words."""

    words: tuple[bytes, ...]


def is_of_system(head: bytes) -> bool:
    """Whether a file begins as the system's `ping` prints.

    Examples:
        >>> is_of_system(b"PING example.org (192.0.2.1) 56(84) bytes of data.")
        True
    """
    head = _PREFIX.sub(b"", head)
    return any(known.search(head) for known in (_HEAD, _WITHOUT_HEAD)) or _WINDOWS_HEAD.search(head) is not None


def read_lines(source: Source) -> Iterator[tuple[int, Head | Line | Title | Summary | bool]]:
    """Yield number and meaning of each line: of others, whether it is one that `ping` prints."""
    is_windows = False
    for place, whole in enumerate(source.lines(), 1):
        prefix = _PREFIX.match(whole)
        date, line = (None, whole) if prefix is None else (prefix[0].rstrip(), whole[prefix.end() :])
        if not is_windows and (found := _ANSWER.match(line)):
            yield place, _line(found, source.path, place, date)
        elif found := _WINDOWS_HEAD.match(line):
            is_windows = True
            name = _WINDOWS_NAME.search(line)
            host = b"" if name is None else name[1] or name[2]
            yield place, Head(_windows(found[1]), _size(found[2]), host, host)
        elif found := _HEAD.match(line):
            is_windows = False
            system = BSD if b"): " in line or b"-->" in line else LINUX
            name = _NAME.search(line)
            hosts = (b"", b"") if name is None else (name[1] or name[3], name[2] or name[3])
            yield place, Head(system, _size(found[1] or found[2]), *hosts)
        elif is_windows:
            yield place, _of_windows(line, source.path, place)
        elif found := _unanswered(line):
            yield place, _line(found, source.path, place, date)
        elif found := _SUMMARY.search(line):
            yield place, _summary(found[1], found[2], found[3])
        elif line.startswith(b"--- "):
            yield place, Title(tuple(line.split()))
        else:
            yield place, _OTHERS.search(line) is not None


def _unanswered(line: bytes) -> re.Match[bytes] | None:
    """Return what a line says of a ping without an answer; none of half the line of an answer."""
    return None if b"ttl=" in line or not line.endswith(b"\n") else _NO_ANSWER.match(line)


def _of_windows(line: bytes, path: Path, place: int) -> Line | Summary | bool:
    if found := _WINDOWS_SUMMARY.search(line):
        return _summary(found[1], found[2], None)
    if found := _WINDOWS_ANSWER.search(line):
        # Windows counts whole ms, and those below the first as one.
        return Line(None, float(found["ms"]) if found["exact"] == b"=" else _BELOW_MS, None)
    if _WINDOWS_NO_ANSWER.search(line):
        return Line(None, None, None)
    return _WINDOWS_OTHERS.search(line) is not None


def _windows(said: bytes) -> System:
    word = said.decode(errors="replace").lower()
    return next(system for begin, system in WINDOWS.items() if word.startswith(begin))


def _size(said: bytes | None) -> int | None:
    return int(said) if said and len(said) <= _MOST_DIGITS else None


def _summary(sent: bytes, received: bytes, ms: bytes | None) -> Summary | bool:
    counts = int(sent), int(received)
    return Summary(*counts, None if ms is None else int(ms) / 1000) if counts[1] <= counts[0] else False


def _line(found: re.Match[bytes], path: Path, place: int, date: bytes | None) -> Line | bool:
    said = {name: text.replace(b",", b".") for name, text in found.groupdict().items() if text and name in _VALUES}
    if wrong := [text for text in said.values() if not _NUMBER.fullmatch(text)]:
        raise InputError(f"{path}:{place}: not a number of a ping: {wrong[0][:40].decode()}; remove the line")
    seq, rtt, at = said.get("seq"), said.get("ms"), said.get("at")
    if seq is not None and int(seq) >= NUMBERS:
        return False
    host = None if rtt is None else _FROM.search(found[0])
    dated = None if date is None else time_of(date, path)
    if at is None and date is not None and dated is not None and _FRACTION.search(date):
        at = b"%.6f" % dated[0]
    return Line(
        None if seq is None else int(seq),
        None if rtt is None else float(rtt),
        None if at is None else float(at),
        is_busybox=b"icmp_seq" not in found[0] and seq is not None,
        host=None if host is None else host[1],
        dated=dated,
    )


@lru_cache(maxsize=8)
def time_of(date: bytes, path: Path) -> tuple[float, bool] | None:
    """Return what a date of `ts` means, s since 1970, and whether it has a zone; none: it is no date.

    Without a zone it is taken as this host's; without a year, as the last such date before the file was changed.

    Examples:
        >>> time_of(b"2023-11-14T22:13:20+00:00", Path())
        (1700000000.0, True)
    """
    text = date.decode("ascii", errors="replace").replace(",", ".")
    try:
        if text[:1].isdigit():
            found = datetime.fromisoformat(text)
            return found.timestamp(), found.tzinfo is not None
        changed_s = path.stat().st_mtime
        year = datetime.fromtimestamp(changed_s).year
        for tried in (year, year - 1):
            at_s = datetime.strptime(f"{tried} {text}", "%Y %b %d %H:%M:%S").timestamp()
            if at_s < changed_s + _DAY_S:
                return at_s, False
    except (ValueError, OverflowError, OSError):
        pass
    return None


_VALUES = ("seq", "ms", "at")
_DAY_S = 86_400
_FRACTION = re.compile(rb"[.,][0-9]")
_PREFIX = re.compile(
    rb"^(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{8,15}(?:Z|[+-][0-9:]{4,6})?) ",
    re.MULTILINE,
)
"""A date that `ts` writes before a line; seconds of Unix time (`ts %.s`) are as those of `ping -D`."""
_WITHOUT_HEAD = re.compile(rb"\A(?:\[?[0-9.]+\]? )?[0-9]+ bytes from \S.{0,300}\b(?:icmp_)?seq=[0-9]+ (?:ttl|hlim)=")
_HEAD = re.compile(rb"^PING6?\s?\S+ .*?(?:\b([0-9]+)\([0-9]+\) |\b([0-9]+) data bytes)|^PING6\(.*-->", re.MULTILINE)
_WINDOWS_HEAD = re.compile(
    rb"^\s*(Pinging|Ping wird|Envoi d|Haciendo ping)\b.*?([0-9]+) (?:bytes|octets)\b.*:", re.MULTILINE | re.IGNORECASE
)
_NAME = re.compile(rb"^PING6?\s?([^\s()]+) ?\((?:\S+ \()?([^\s()%]+)|^PING6\(.*--> (\S+)")
_WINDOWS_NAME = re.compile(rb"\[([^\s\]]+)\]|(\S+) (?:with|mit|avec|con) [0-9]")
_FROM = re.compile(rb" bytes from (?:\S+ \()?([^\s()%,]+?)(?:%[^\s():,]+)?\)?[:,] ")
_TIME = rb"(?:\[?(?P<at>(?<=\[)[0-9.]+|[0-9]{9,11}\.[0-9]+)\]? )?.*?"
_ANSWER = re.compile(_TIME + rb"\b(?:icmp_)?seq=(?P<seq>[0-9]+)\b.*=(?P<ms>[0-9.,]+) ms")
_NO_ANSWER = re.compile(_TIME + rb"\bicmp_seq[= ](?P<seq>[0-9]+)\b")
_SUMMARY = re.compile(rb"^([0-9]{1,12}) [^0-9,]+, ([0-9]{1,12}) [^0-9,]+,.*[0-9]%[^%,]*(?:, \D+ ([0-9]{1,15})ms)?")
_OTHERS = re.compile(rb"^\s*$|^-+ |^(?:rtt|round-trip) |^\^C|pipe [0-9]+$|^ping6?: ")
_WINDOWS_ANSWER = re.compile(rb"(?:time|zeit|temps|tiempo) ?(?P<exact>[=<]) ?(?P<ms>[0-9]{1,9}) ?ms?\b", re.IGNORECASE)
_WINDOWS_NO_ANSWER = re.compile(
    rb"timed out|berschreitung|lai d.attente|agotado|unreachable|erreichbar|inaccess|injoignable|inaccesible"
    rb"|failure|fehler|chec |rror |expired|abgelaufen|expir",
    re.IGNORECASE,
)
_WINDOWS_SUMMARY = re.compile(rb"= ([0-9]{1,12}), [^=]{1,40}= ([0-9]{1,12}), [^=]{1,40}= [0-9]{1,12} *(?:\(|\r?\n)")
_WINDOWS_OTHERS = re.compile(
    rb"^\s*$|statisti|stad.{1,2}sticas|minim|m.{1,2}nim|control-c|strg|\([0-9]+ ?%|\bmill?i", re.IGNORECASE
)
_NUMBER = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,9})?")
NUMBERS = 65536
_BELOW_MS = 0.5
"""Taken for a round trip of less than 1 ms."""
_MOST_DIGITS = 6

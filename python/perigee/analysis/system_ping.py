# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of the system's `ping`: of Linux (iputils), macOS and the BSDs, BusyBox and Windows, in the languages of each.

A log is read twice: first what it holds (`survey`), then ping by ping (`entries`), in constant memory. Numbers begin
at 1 with iputils and at 0 elsewhere, so that what was lost before the first answer is known; lines of Windows have no
numbers, and each is the next ping. What was lost behind the last answer is known from the summary, and where there is
a line for each ping. Without `-D` lines have no times: pings are as far apart as the summary's time says, or else a
second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perigee.analysis.log import Entry, Log, Pings
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


@dataclass
class Session:
    """One call of `ping` in a log.

    Attributes:
        system: the program; none: its first line is missing.
        size: bytes of a ping without headers; none: not said.
        summary: what it says of itself; none: it was killed, or is still running.
        sent: number of the last ping that a line is about.
        answered: pings with an answer.
        is_timed: whether lines have times (`-D`).
        late: round trips (ms) of answers that came behind that of a later ping, by number.
        times: numbers and times of the first and the last line with a time.
        behind: lines about pings that stand behind the summary.
    """

    system: System | None = None
    size: int | None = None
    summary: Summary | None = None
    sent: int = 0
    answered: int = 0
    is_timed: bool = False
    late: dict[int, float] = field(default_factory=dict)
    times: list[tuple[int, float]] = field(default_factory=list)
    behind: int = 0
    first: int | None = None
    _missing: set[int] = field(default_factory=set)

    @property
    def is_of_one_mind(self) -> bool:
        """Whether its lines and its summary agree."""
        told = self.summary
        return told is None or (told.sent >= self.sent and told.received == self.answered)

    @property
    def unseen(self) -> int:
        """Pings behind the last that a line is about; too many for any call are not believed."""
        behind = self.summary.sent - self.sent if self.summary else 0
        return behind if 0 < behind <= _MOST_UNSEEN else 0

    @property
    def measured_interval_s(self) -> float | None:
        """Time between two pings, as times of lines or the summary have it; none: unknown."""
        if len(self.times) > 1 and self.times[1][0] > self.times[0][0]:
            (first, began), (last, ended) = self.times
            return max(ended - began, 0.0) / (last - first)
        told = self.summary
        if self.is_timed or told is None or told.length_s is None or told.sent < _A_PAIR:
            return None
        return told.length_s / (told.sent - 1)

    @property
    def interval_s(self) -> float:
        """Time between two pings; the program's default where nothing tells."""
        known = self.measured_interval_s
        return _DEFAULT_S if known is None else known

    def take(self, line: _Line) -> None:
        """Take what a line says."""
        if self.first is None and line.seq is not None:
            # Without the head nobody knows what came before the first line.
            known = None if self.system is None else self.system.first
            self.first = line.seq if known is None else known
        number = line.number_behind(self.sent, self.first or 0)
        self.behind += self.summary is not None
        if line.at_s is not None:
            self.is_timed = True
            self.times = [*self.times[:1], (number, line.at_s)]
        if number > self.sent:
            if len(self._missing) < _MOST_MISSING:
                self._missing.update(range(self.sent + 1, number + (line.rtt_ms is None)))
            self.sent = number
            self.answered += line.rtt_ms is not None
        elif line.rtt_ms is not None and number in self._missing:
            self._missing.discard(number)
            self.late[number] = line.rtt_ms
            self.answered += 1


@dataclass(frozen=True)
class _Line:
    """A line about one ping; without a round trip: there is no answer yet; without a number: it is the next one."""

    seq: int | None
    rtt_ms: float | None
    at_s: float | None
    is_busybox: bool = False

    def number_behind(self, last: int, first: int) -> int:
        """Return the number of the ping from 1, of which a line has 16 bits: the one nearest to the last."""
        if self.seq is None:
            return last + 1
        if not last:
            return (self.seq - first) % 65536 + 1
        ahead = (self.seq - first + 1 - last) % 65536
        return last + ahead - (65536 if ahead > _LARGEST_GAP else 0)


def is_of_system(head: bytes) -> bool:
    """Whether a file begins as the system's `ping` prints.

    Examples:
        >>> is_of_system(b"PING example.org (192.0.2.1) 56(84) bytes of data.")
        True
    """
    return _HEAD.search(head) is not None or _WINDOWS_HEAD.search(head) is not None


def read(path: Path) -> list[Log]:
    """Read a log; all calls of `ping` in it are one measurement.

    Raises:
        InputError: the log is damaged.
    """
    source = Source(path)
    sessions, unread = survey(source)
    known = [one.system for one in sessions if one.system is not None]
    pings = Pings(
        lambda: entries(source, sessions), told(sessions), sessions[0].interval_s, sessions[0].size,
        sessions[0].measured_interval_s is not None,
    )  # fmt: skip
    damage = list(source.damage)
    if unread:
        more = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
        damage.append(f"line {unread[0]} is not understood{more}")
    system = known[0].name if known else "ping"
    return [Log(system, pings=pings, notes=(*damage, *notes(sessions)), damage=tuple(damage))]


def survey(source: Source) -> tuple[list[Session], list[int]]:
    """Return the calls of `ping` that a log holds, in order, and the numbers of lines that say nothing known.

    Raises:
        InputError: the log is damaged.
    """
    sessions = [Session()]
    unread: list[int] = []
    for place, found in _read(source):
        if isinstance(found, Summary):
            if sessions[-1].summary is not None:
                sessions.append(Session())
            sessions[-1].summary = found
        elif isinstance(found, _Head):
            if sessions[-1].system or sessions[-1].sent or sessions[-1].summary:
                sessions.append(Session())
            sessions[-1].system, sessions[-1].size = found.system, found.size
        elif isinstance(found, _Line):
            if found.is_busybox and sessions[-1].system is BSD:
                sessions[-1].system = BUSYBOX
            sessions[-1].take(found)
        elif not found and len(unread) < _MOST_UNREAD:
            unread.append(place)
    return sessions, unread


def entries(source: Source, sessions: Sequence[Session]) -> Iterator[Entry]:
    """Yield the pings of a log, each once, in their order; instants are those of the answers.

    Args:
        source: the log.
        sessions: as `survey` gives them.

    Raises:
        InputError: the log is damaged.
    """
    last_s = 0.0
    place, state = 0, _State(sessions[0], last_s)
    ended = begun = False
    for _, found in _read(source):
        begins = isinstance(found, _Head) and (begun or state.sent or ended)
        if begins or (isinstance(found, Summary) and ended):
            yield from state.end()
            place, last_s = place + 1, state.at_s
            state, ended, begun = _State(sessions[place], last_s), False, False
        ended |= isinstance(found, Summary)
        begun |= isinstance(found, _Head)
        if isinstance(found, _Line):
            yield from state.take(found)
    yield from state.end()


def told(sessions: Sequence[Session]) -> tuple[int, int] | None:
    """Return how many pings were sent and lost as the summaries have it; none where a call has none.

    Examples:
        >>> told([Session(summary=Summary(25, 16, None)), Session(summary=Summary(5, 5, None))]), told([Session()])
        ((30, 9), None)
    """
    summaries = [session.summary for session in sessions]
    known = [one for one in summaries if one is not None]
    if not known or len(known) < len(summaries):
        return None
    return sum(one.sent for one in known), sum(one.sent - one.received for one in known)


def notes(sessions: Sequence[Session]) -> list[str]:
    """Return notes on a log, a sentence each without its full stop."""
    found = []
    if len(sessions) > 1:
        found.append(f"the log holds {len(sessions)} calls of `ping`, which stand one behind the other")
    if any(session.summary is None for session in sessions):
        found.append(
            "the log ends without a summary (`ping` was killed, or is still running): what was lost behind its last "
            "line is not counted"
        )
    found += [note for session in sessions for note in _notes_on(session)]
    return list(dict.fromkeys(found))


def _notes_on(session: Session) -> Iterator[str]:
    told, known = session.summary, session.measured_interval_s
    if session.system is None and session.sent:
        yield "the first line of `ping` is missing: what was lost before the first line is not counted"
    if session.behind:
        yield f"{session.behind} lines stand behind the summary of `ping`, so that the log is out of order"
    if session.late and session.system is not None:
        yield f"{len(session.late)} answers stand behind that of a later ping"
    if told and not session.is_of_one_mind:
        yield (
            f"the summary of `ping` says {told.sent} sent and {told.received} received, its lines {session.sent} and "
            f"{session.answered}; packets sent and lost are the summary's"
        )
    if not session.is_timed and session.sent > 1:
        why = f"{_DEFAULT_S:g} s apart, the default of `ping`"
        if known is not None:
            why = f"{known:.4g} s apart, as the summary's time says"
        if session.system and session.system.first is None:
            why += ", though Windows waits longer for an answer that does not come"
        yield f"the lines have no times (`ping -D` of Linux gives them): pings are taken as {why}"


class _State:
    """The pings of a call that have been told."""

    def __init__(self, session: Session, before_s: float) -> None:
        self._session = session
        first = session.times[0] if session.times else (0, before_s)
        self.at_s = first[1] - first[0] * session.interval_s
        self.sent = 0

    def take(self, line: _Line) -> Iterator[Entry]:
        number = line.number_behind(self.sent, self._session.first or 0)
        if number <= self.sent:
            return
        ahead = number - self.sent
        then = self.at_s + ahead * self._session.interval_s if line.at_s is None else line.at_s
        for step in range(1, ahead):
            yield self.at_s + (then - self.at_s) * step / ahead, self._session.late.get(self.sent + step)
        yield then, self._session.late.get(number) if line.rtt_ms is None else line.rtt_ms
        self.at_s, self.sent = then, number

    def end(self) -> Iterator[Entry]:
        for _ in range(self._session.unseen):
            self.at_s += self._session.interval_s
            yield self.at_s, None
        self.sent += self._session.unseen


@dataclass(frozen=True)
class _Head:
    """The line with which a call begins."""

    system: System
    size: int | None


def _read(source: Source) -> Iterator[tuple[int, _Head | _Line | Summary | bool]]:
    """Yield number and meaning of each line: of others, whether it is one that `ping` prints."""
    is_windows = False
    for place, line in enumerate(source.lines(), 1):
        if not is_windows and (found := _ANSWER.match(line)):
            yield place, _line(found, source.path, place)
        elif found := _WINDOWS_HEAD.match(line):
            is_windows = True
            yield place, _Head(_windows(found[1]), _size(found[2]))
        elif found := _HEAD.match(line):
            is_windows = False
            yield place, _Head(BSD if b"): " in line or b"-->" in line else LINUX, _size(found[1] or found[2]))
        elif is_windows:
            yield place, _of_windows(line, source.path, place)
        elif found := _unanswered(line):
            yield place, _line(found, source.path, place)
        elif found := _SUMMARY.search(line):
            yield place, _summary(found[1], found[2], found[3])
        else:
            yield place, _OTHERS.search(line) is not None


def _unanswered(line: bytes) -> re.Match[bytes] | None:
    """Return what a line says of a ping without an answer; none of half the line of an answer."""
    return None if b"ttl=" in line or not line.endswith(b"\n") else _NO_ANSWER.match(line)


def _of_windows(line: bytes, path: Path, place: int) -> _Line | Summary | bool:
    if found := _WINDOWS_SUMMARY.search(line):
        return _summary(found[1], found[2], None)
    if found := _WINDOWS_ANSWER.search(line):
        # Windows counts whole ms, and those below the first as one.
        answer = _line(found, path, place)
        return _Line(None, answer.rtt_ms if found["exact"] == b"=" else _BELOW_MS, None)
    if _WINDOWS_NO_ANSWER.search(line):
        return _Line(None, None, None)
    return _WINDOWS_OTHERS.search(line) is not None


def _windows(said: bytes) -> System:
    word = said.decode(errors="replace").lower()
    return next(system for begin, system in WINDOWS.items() if word.startswith(begin))


def _size(said: bytes | None) -> int | None:
    return int(said) if said and len(said) <= _MOST_DIGITS else None


def _summary(sent: bytes, received: bytes, ms: bytes | None) -> Summary | bool:
    counts = int(sent), int(received)
    return Summary(*counts, None if ms is None else int(ms) / 1000) if counts[1] <= counts[0] else False


def _line(found: re.Match[bytes], path: Path, place: int) -> _Line:
    said = {name: text for name, text in found.groupdict().items() if name in ("seq", "ms", "at")}
    if wrong := [text for text in said.values() if text is not None and not _NUMBER.fullmatch(text)]:
        raise InputError(f"{path}:{place}: not a number of a ping: {wrong[0][:40].decode()}; remove the line")
    seq, rtt, at = said.get("seq"), said.get("ms"), said.get("at")
    return _Line(
        None if seq is None else int(seq) % 65536,
        None if rtt is None else float(rtt),
        None if at is None else float(at),
        is_busybox=b"icmp_seq" not in found[0] and seq is not None,
    )


_HEAD = re.compile(rb"^PING6?\s?\S+ .*?(?:\b([0-9]+)\([0-9]+\) |\b([0-9]+) data bytes)|^PING6\(.*-->", re.MULTILINE)
_WINDOWS_HEAD = re.compile(
    rb"^\s*(Pinging|Ping wird|Envoi d|Haciendo ping)\b.*?([0-9]+) (?:bytes|octets)\b.*:", re.MULTILINE | re.IGNORECASE
)
_TIME = rb"(?:\[(?P<at>[0-9.]+)\] )?.*?"
_ANSWER = re.compile(_TIME + rb"\b(?:icmp_)?seq=(?P<seq>[0-9]+)\b.*=(?P<ms>[0-9.]+) ms")
_NO_ANSWER = re.compile(_TIME + rb"\bicmp_seq[= ](?P<seq>[0-9]+)\b")
_SUMMARY = re.compile(rb"^([0-9]{1,12}) [^0-9,]+, ([0-9]{1,12}) [^0-9,]+,.*[0-9]%[^%,]*(?:, \D+ ([0-9]{1,15})ms)?")
_OTHERS = re.compile(rb"^\s*$|^-+ |^(?:rtt|round-trip) |^\^C|pipe [0-9]+$|^ping6?: ")
_WINDOWS_ANSWER = re.compile(rb"(?:time|zeit|temps|tiempo) ?(?P<exact>[=<]) ?(?P<ms>[0-9]+) ?ms", re.IGNORECASE)
_WINDOWS_NO_ANSWER = re.compile(
    rb"timed out|berschreitung|lai d.attente|agotado|unreachable|erreichbar|inaccess|injoignable|inaccesible"
    rb"|failure|fehler|chec |rror |expired|abgelaufen|expir",
    re.IGNORECASE,
)
_WINDOWS_SUMMARY = re.compile(rb"= ([0-9]{1,12}), [^=]{1,40}= ([0-9]{1,12}), [^=]{1,40}= [0-9]{1,12} *\(")
_WINDOWS_OTHERS = re.compile(
    rb"^\s*$|statisti|stad.{1,2}sticas|minim|m.{1,2}nim|control-c|strg|\([0-9]+%", re.IGNORECASE
)
_NUMBER = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,9})?")
_LARGEST_GAP = 32768
_A_PAIR = 2
_DEFAULT_S = 1.0
_BELOW_MS = 0.5
"""Taken for a round trip of less than 1 ms."""
_MOST_DIGITS = 6
_MOST_UNREAD = 1000
_MOST_MISSING = 1_000_000
"""Lost pings whose answers may still come; those of a longer darkness are taken as lost at once."""
_MOST_UNSEEN = 10_000_000
"""Three weeks at five pings a second without one answer."""

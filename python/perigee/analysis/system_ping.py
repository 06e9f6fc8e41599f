# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of the system's `ping` (iputils): each ping with its fate, and the summary of `ping` at its end.

A log is read twice: first what it holds (`survey`), then ping by ping (`entries`), in constant memory. Numbers begin
at 1, as those of iputils do, so that what was lost before the first answer is known. What was lost behind the last one
is known from the summary and, with `-O`, from lines of their own. Without `-D` lines have no times: pings are as far
apart as the summary's time says, or else a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perigee.errors import InputError
from perigee.files import lines_of
from perigee.measuring.round_trips import Outcome

Entry = tuple[float, Outcome]
"""When a ping was sent or answered (s), and what became of it."""


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
        summary: what it says of itself; none: it was killed, or is still running.
        sent: number of the last ping that a line is about.
        answered: pings with an answer.
        is_timed: whether lines have times (`-D`).
        late: round trips (ms) of answers that came behind that of a later ping, by number.
        times: numbers and times of the first and the last line with a time.
    """

    summary: Summary | None = None
    sent: int = 0
    answered: int = 0
    is_timed: bool = False
    late: dict[int, float] = field(default_factory=dict)
    times: list[tuple[int, float]] = field(default_factory=list)
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
        number = line.number_behind(self.sent)
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
    """A line about one ping; without a round trip: there is no answer yet."""

    seq: int
    rtt_ms: float | None
    at_s: float | None

    def number_behind(self, last: int) -> int:
        """Return the number of the ping, of which a line has 16 bits: the one nearest to the last."""
        if not last:
            return self.seq
        ahead = (self.seq - last) % 65536
        return last + ahead - (65536 if ahead > _LARGEST_GAP else 0)


def is_of_system(head: bytes) -> bool:
    """Whether a file begins as the system's `ping` prints.

    Examples:
        >>> is_of_system(b"PING example.org (192.0.2.1) 56(84) bytes of data.")
        True
    """
    return _HEAD.search(head) is not None


def survey(path: Path) -> list[Session]:
    """Return the calls of `ping` that a log holds, in order.

    Raises:
        InputError: the log is damaged.
    """
    sessions = [Session()]
    for found in _read(path):
        if isinstance(found, Summary):
            sessions[-1].summary = found
        elif found is None:
            if sessions[-1].sent or sessions[-1].summary:
                sessions.append(Session())
        else:
            sessions[-1].take(found)
    return sessions


def entries(path: Path, sessions: Sequence[Session]) -> Iterator[Entry]:
    """Yield the pings of a log, each once, in their order; instants are those of the answers.

    Args:
        path: the log.
        sessions: as `survey` gives them.

    Raises:
        InputError: the log is damaged.
    """
    last_s = 0.0
    place, state = 0, _State(sessions[0], last_s)
    for found in _read(path):
        if isinstance(found, _Line):
            yield from state.take(found)
        elif found is None and state.sent:
            yield from state.end()
            place, last_s = place + 1, state.at_s
            state = _State(sessions[place], last_s)
    yield from state.end()


def told(sessions: Sequence[Session]) -> tuple[int, int] | None:
    """Return how many pings were sent and lost as the summaries have it; none where a call has none.

    Examples:
        >>> told([Session(Summary(25, 16, None)), Session(Summary(5, 5, None))]), told([Session()])
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
    if told and not session.is_of_one_mind:
        yield (
            f"the summary of `ping` says {told.sent} sent and {told.received} received, its lines {session.sent} and "
            f"{session.answered}; packets sent and lost are the summary's"
        )
    if not session.is_timed and session.sent > 1:
        why = f"{_DEFAULT_S:g} s apart, the default of `ping`"
        if known is not None:
            why = f"{known:.4g} s apart, as the summary's time says"
        yield f"the lines have no times (`ping -D` gives them): pings are taken as {why}"


class _State:
    """The pings of a call that have been told."""

    def __init__(self, session: Session, before_s: float) -> None:
        self._session = session
        first = session.times[0] if session.times else (0, before_s)
        self.at_s = first[1] - first[0] * session.interval_s
        self.sent = 0

    def take(self, line: _Line) -> Iterator[Entry]:
        number = line.number_behind(self.sent)
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


def _read(path: Path) -> Iterator[_Line | Summary | None]:
    """Yield what the lines of a log say; none: another call begins."""
    with path.open("rb") as file:
        for place, line in enumerate(lines_of(file, path), 1):
            if found := _ANSWER.search(line) or _NO_ANSWER.search(line):
                yield _line(found, path, place)
            elif found := _SUMMARY.search(line):
                sent, received, ms = (None if text is None else int(text) for text in found.groups())
                if sent is not None and received is not None and received <= sent:
                    yield Summary(sent, received, None if ms is None else ms / 1000)
            elif _HEAD.search(line):
                yield None


def _line(found: re.Match[bytes], path: Path, place: int) -> _Line:
    said = found.groupdict()
    if wrong := [text for text in said.values() if text is not None and not _NUMBER.fullmatch(text)]:
        raise InputError(f"{path}:{place}: not a number of a ping: {wrong[0][:40].decode()}; remove the line")
    rtt, at = said.get("ms"), said["at"]
    return _Line(int(said["seq"]) % 65536, None if rtt is None else float(rtt), None if at is None else float(at))


_HEAD = re.compile(rb"^PING \S+ .*bytes of data", re.MULTILINE)
_TIME = rb"(?:^\[(?P<at>[0-9.]+)\] )?.*"
_ANSWER = re.compile(_TIME + rb"\bicmp_seq=(?P<seq>[0-9]+)\b.*\btime=(?P<ms>[0-9.]+) ms")
_NO_ANSWER = re.compile(_TIME + rb"\bno answer yet for icmp_seq=(?P<seq>[0-9]+)\b")
_SUMMARY = re.compile(
    rb"^([0-9]{1,12}) packets transmitted, ([0-9]{1,12}) received,.* packet loss(?:, time ([0-9]{1,15})ms)?"
)
_NUMBER = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,9})?")
_LARGEST_GAP = 32768
_A_PAIR = 2
_DEFAULT_S = 1.0
_MOST_MISSING = 1_000_000
"""Lost pings whose answers may still come; those of a longer darkness are taken as lost at once."""
_MOST_UNSEEN = 10_000_000
"""Three weeks at five pings a second without one answer."""

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of the system's `ping`: of Linux (iputils), macOS and the BSDs, BusyBox and Windows, in the languages of each.

A log is read twice: first what it holds (`survey`), then ping by ping (`entries`), in constant memory. Answers name
the host that they come from, and the pings to each host are a measurement, however their lines are mixed. Numbers begin
at 1 with iputils and at 0 elsewhere, so that what was lost before the first answer is known; lines of Windows have no
numbers, and each is the next ping. What was lost behind the last answer is known from the summary, and where there is
a line for each ping. Without `-D` lines have no times: pings are as far apart as the summary's time says, or else a
second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perigee.analysis.log import Entry, Log, Pings
from perigee.analysis.ping_lines import BSD, BUSYBOX, NUMBERS, Head, Line, Summary, System, Title, read_lines
from perigee.analysis.source import Source
from perigee.errors import InputError


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
        dates: numbers and dates (`ts`, s since 1970) of the first and the last line with one.
        has_zone: whether these have a time zone.
        behind: lines about pings that stand behind the summary.
        repeated: answers of a number that was answered before.
    """

    system: System | None = None
    size: int | None = None
    summary: Summary | None = None
    sent: int = 0
    answered: int = 0
    is_timed: bool = False
    late: dict[int, float] = field(default_factory=dict)
    times: list[tuple[int, float]] = field(default_factory=list)
    dates: list[tuple[int, float]] = field(default_factory=list)
    has_zone: bool = True
    behind: int = 0
    repeated: int = 0
    numbers: _Numbers = field(default_factory=lambda: _Numbers())
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
        if not self.is_timed and told is not None and told.length_s is not None and told.sent >= _A_PAIR:
            return told.length_s / (told.sent - 1)
        if not self.is_timed and len(self.dates) > 1 and self.dates[1][1] - self.dates[0][1] >= _DATES_TELL_S:
            (first, began), (last, ended) = self.dates
            return (ended - began) / (last - first)
        return None

    @property
    def interval_s(self) -> float:
        """Time between two pings; the program's default where nothing tells."""
        known = self.measured_interval_s
        return _DEFAULT_S if known is None else known

    def take(self, line: Line) -> None:
        """Take what a line says."""
        if self.numbers.first is None and self.system is not None:
            self.numbers.first = self.system.first
        number = self.numbers.of(line)
        self.behind += self.summary is not None
        if line.at_s is not None:
            self.is_timed = True
            self.times = [*self.times[:1], (number, line.at_s)]
        if line.dated is not None:
            self.dates = [*self.dates[:1], (number, line.dated[0])]
            self.has_zone = line.dated[1]
        if number > self.sent:
            if len(self._missing) < _MOST_MISSING:
                self._missing.update(range(self.sent + 1, number + (line.rtt_ms is None)))
            self.sent = number
            self.answered += line.rtt_ms is not None
        elif line.rtt_ms is not None and number in self._missing:
            self._missing.discard(number)
            self.late[number] = line.rtt_ms
            self.answered += 1
        else:
            self.repeated += line.rtt_ms is not None


@dataclass
class _Numbers:
    """The numbers of the pings of a call from 1 on; lines have 16 bits of them.

    Attributes:
        first: as the program counts; none: nobody knows what came before the first line.
        last: the largest so far.
        leaps: times that more were missing than the half of 16 bits.
    """

    first: int | None = None
    last: int = 0
    leaps: int = 0
    _is_from_first: bool = False
    _began_s: float | None = None

    def of(self, line: Line) -> int:
        """Return the number of the ping of a line: the nearest to the last, unless it cannot be so late."""
        if line.seq is None:
            self.last += 1
            return self.last
        self._is_from_first |= self.first is not None and not self.last
        self.first = line.seq if self.first is None else self.first
        self._began_s = line.at_s if self._began_s is None else self._began_s
        if not self.last:
            self.last = (line.seq - self.first) % NUMBERS + 1
            return self.last
        ahead = (line.seq - self.first + 1 - self.last) % NUMBERS
        if ahead > _LARGEST_GAP and not self._is_too_late(line, NUMBERS - ahead):
            return self.last + ahead - NUMBERS
        self.leaps += ahead > _LARGEST_GAP
        self.last += ahead
        return self.last

    def _is_too_late(self, line: Line, behind: int) -> bool:
        """Whether a line cannot be about a ping that far back: its round trip is too short, or there was none."""
        if behind <= _ALWAYS_LATE:
            return False
        interval_s = _SHORTEST_S
        if line.at_s is not None and self._began_s is not None:
            interval_s = max((line.at_s - self._began_s) / (self.last + NUMBERS - behind), _SHORTEST_S)
        return (behind >= self.last and self._is_from_first) or (line.rtt_ms or 0.0) < 500 * behind * interval_s


def read(path: Path) -> list[Log]:
    """Read a log; all calls of `ping` to a host in it are one measurement.

    Raises:
        InputError: the log is damaged.
    """
    source = Source(path)
    found = survey(source)
    damage = list(source.damage)
    if found.unread:
        more = f", and {len(found.unread) - 1} more" if len(found.unread) > 1 else ""
        damage.append(f"line {found.unread[0]} is not understood{more}")
    common = list(damage)
    if len(found.sessions) > 1:
        common.append(f"the log holds pings to {len(found.sessions)} hosts, each a measurement")
    if found.unnamed:
        common.append(
            f"{found.unnamed} lines of pings without an answer name no host among mixed ones, and are left out"
        )
    return [_log(source, host, found, common, damage) for host in found.sessions]


def _log(source: Source, host: bytes, found: Survey, common: list[str], damage: list[str]) -> Log:
    sessions = found.sessions[host]
    known = [one.system for one in sessions if one.system is not None]
    pings = Pings(
        partial(entries, source, host, found), told(sessions), sessions[0].interval_s, sessions[0].size,
        sessions[0].measured_interval_s is not None,
    )  # fmt: skip
    zone = [] if all(session.has_zone for session in sessions) else [_NO_ZONE]
    which = [f"these are the pings to {host.decode(errors='replace')}"] if len(found.sessions) > 1 else []
    system = known[0].name if known else "ping"
    return Log(system, pings=pings, notes=(*common, *which, *notes(sessions), *zone), damage=tuple(damage))


@dataclass
class Survey:
    """A log at a glance.

    Attributes:
        sessions: calls of `ping` to each host, in order.
        unread: numbers of lines that say nothing known.
        unnamed: lines of pings without an answer that may be of several hosts.
        is_mixed: whether lines about different hosts alternate.
    """

    sessions: dict[bytes, list[Session]] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    unnamed: int = 0
    is_mixed: bool = False


def survey(source: Source) -> Survey:
    """Return what a log holds.

    Raises:
        InputError: the log is damaged.
    """
    hosts = _Hosts()
    found = _surveyed(source, hosts)
    return _surveyed(source, _Hosts(is_mixed=True)) if hosts.is_mixed else found


def _surveyed(source: Source, hosts: _Hosts) -> Survey:
    """Return what a log holds; whether the hosts are mixed is known behind its end."""
    survey = Survey(is_mixed=hosts.is_mixed)
    for place, found in read_lines(source):
        if isinstance(found, bool):
            if not found and len(survey.unread) < _MOST_UNREAD:
                survey.unread.append(place)
        elif (host := hosts.of(found)) is None:
            survey.unnamed += 1
        elif len(survey.sessions) >= _MOST_HOSTS and host not in survey.sessions:
            raise InputError(
                f"{source.path}:{place}: answers of more than {_MOST_HOSTS} hosts; give a log of fewer, or use fping"
            )
        elif not isinstance(found, Title):
            _take(survey.sessions.setdefault(host, [Session()]), found)
    # A head alone, with its answers under another name, is no measurement.
    whole = {host: own for host, own in survey.sessions.items() if any(one.sent or one.summary for one in own)}
    survey.sessions = whole or survey.sessions or {b"": [Session()]}
    return survey


def _take(sessions: list[Session], found: Head | Line | Summary) -> None:
    """Take a line about the host of these calls."""
    if isinstance(found, Summary):
        if sessions[-1].summary is not None:
            sessions.append(Session())
        sessions[-1].summary = found
    elif isinstance(found, Head):
        if sessions[-1].system or sessions[-1].sent or sessions[-1].summary:
            sessions.append(Session())
        sessions[-1].system, sessions[-1].size = found.system, found.size
    else:
        if found.is_busybox and sessions[-1].system is BSD:
            sessions[-1].system = BUSYBOX
        sessions[-1].take(found)


def entries(source: Source, host: bytes, survey: Survey) -> Iterator[Entry]:
    """Yield the pings to a host, each once, in their order; instants are those of the answers.

    Args:
        source: the log.
        host: one of its hosts.
        survey: as `survey` gives it.

    Raises:
        InputError: the log is damaged.
    """
    sessions, hosts = survey.sessions[host], _Hosts(is_mixed=survey.is_mixed)
    last_s = 0.0
    place, state = 0, _State(sessions[0], last_s)
    ended = begun = False
    for _, found in read_lines(source):
        if isinstance(found, bool) or hosts.of(found) != host:
            continue
        begins = isinstance(found, Head) and (begun or state.sent or ended)
        if begins or (isinstance(found, Summary) and ended):
            yield from state.end()
            place, last_s = place + 1, state.at_s
            state, ended, begun = _State(sessions[place], last_s), False, False
        ended |= isinstance(found, Summary)
        begun |= isinstance(found, Head)
        if isinstance(found, Line):
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
    if session.repeated:
        yield f"{session.repeated} answers have a number that was answered before, or none of this call: left out"
    if session.numbers.leaps:
        yield (
            f"gaps of more than {_LARGEST_GAP} pings: {session.numbers.leaps}; numbers have 16 bits, so that "
            f"{NUMBERS} more may be missing in each, or the number behind it is damaged"
        )
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
        first = (*session.times, *session.dates, (0, before_s))[0]
        self.at_s = first[1] - first[0] * session.interval_s
        self.sent = 0
        self._numbers = _Numbers(None if session.system is None else session.system.first)

    def take(self, line: Line) -> Iterator[Entry]:
        number = self._numbers.of(line)
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


@dataclass
class _Hosts:
    """Hosts of a log, by the name that a call gave each, and which of them a line is about.

    Attributes:
        is_mixed: whether a line is about another host than that before it, without a head between them.
    """

    is_mixed: bool = False
    _now: bytes = b""
    _names: dict[bytes, bytes] = field(default_factory=dict)
    _answered: set[bytes] = field(default_factory=set)
    _known_mixed: bool = field(init=False)

    def __post_init__(self) -> None:
        self._known_mixed = self.is_mixed

    def of(self, found: Head | Line | Title | Summary) -> bytes | None:
        """Return the host of a line; none: it names none, and may be of several."""
        if isinstance(found, Head):
            self._now = found.name
            self._names |= {found.name: found.name, found.address: found.name}
        elif isinstance(found, Title):
            self._go_to(next((self._names[word] for word in found.words if word in self._names), self._now))
        elif isinstance(found, Line) and found.host is not None:
            if found.host not in self._names:
                # A host may answer from another address than it was asked at.
                adopted = self._now if self._now and self._now not in self._answered else found.host
                self._names[found.host] = adopted
                self._now = adopted
            self._go_to(self._names[found.host])
            self._answered.add(self._now)
        elif isinstance(found, Line) and self._known_mixed and found.seq is not None:
            return None
        return self._now

    def _go_to(self, host: bytes) -> None:
        self.is_mixed |= host != self._now
        self._now = host


_MOST_HOSTS = 64
_NO_ZONE = (
    "its dates have no time zone, and are taken as of this host's; `ts %.s` and `ping -D` write times without one"
)
_LARGEST_GAP = 32768
_ALWAYS_LATE = 1024
"""A line about a ping up to this many before the last is taken as late, whatever its round trip says."""
_SHORTEST_S = 0.002
"""The shortest interval that iputils lets a user have."""
_A_PAIR = 2
_DEFAULT_S = 1.0
_DATES_TELL_S = 100.0
"""Dates to the second tell the interval of a log this long, to a hundredth."""
_MOST_UNREAD = 1000
_MOST_MISSING = 1_000_000
"""Lost pings whose answers may still come; those of a longer darkness are taken as lost at once."""
_MOST_UNSEEN = 10_000_000
"""Three weeks at five pings a second without one answer."""

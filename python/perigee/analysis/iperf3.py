# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reader of iperf3's JSON: one test or several, either side or both, TCP and UDP, as flows with our columns.

What iperf3 says of a flow is what its two programs count in intervals: the receiver what it reads, the sender what it
writes, and of TCP on Linux the window, the smoothed round trip and the retransmissions. What it does not say is empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perigee.analysis import observations
from perigee.analysis.observations import FlowDescription, Measure, Observation
from perigee.errors import InputError

WRITTEN = (
    "what arrived over time is not in it: taken as what the sender wrote, which runs ahead by its buffer and what "
    "is on the way"
)
BLIND = (
    "no window and no round trip: its sender was on the other host; let that server run with --json, and the client "
    "with --get-server-output"
)
UNHEARD = (
    "iperf3 did not hear how much arrived (it says 0, though its sender wrote): what arrived is taken as what the "
    "sender wrote, which runs ahead by its buffer and what is on the way"
)
MORE_LOST = (
    "more datagrams are lost than were sent, by iperf3's own count: what arrived is the bytes of its summary, and its "
    "losses are not to be believed"
)
MUTE = "no window and no round trip: iperf3 has them from Linux only"


@dataclass(frozen=True)
class Flow:
    """One stream of a test, one way.

    Attributes:
        name: `stream.1` and so on.
        kind: `bulk` (TCP) or `udp`.
        upload: whether the client sends.
        cc: the sender's congestion control; empty where iperf3 does not say.
        seen: what is measured.
        outcome: how it ended, as the column `outcome` of the table `flows` has it.
        lost_packets: of UDP.
        jitter_ms: of UDP: mean over the intervals of the receiver's smoothed value.
    """

    name: str
    kind: str
    upload: bool
    cc: str
    seen: Observation
    outcome: str
    lost_packets: int | None = None
    jitter_ms: float | None = None


@dataclass(frozen=True)
class Measured:
    """One test of iperf3.

    Attributes:
        version: of the program that wrote the file, such as `iperf 3.12`.
        began_s: when, seconds of Unix time; none: not said.
        flows: its streams; of `--bidir` those of both ways.
        error: what iperf3 says went wrong, after it had carried something; none: nothing.
        notes: what cannot be had from the file, for people.
    """

    version: str
    began_s: float | None
    flows: tuple[Flow, ...]
    error: str | None = None
    notes: tuple[str, ...] = ()


def read(text: str | bytes, name: str) -> list[Measured]:
    """Read what `iperf3 --json` (or `--json-stream`) wrote; a server's log has several tests.

    Args:
        text: the file.
        name: its name in errors.

    Raises:
        InputError: it is no such file, is cut off, or is of tests that failed before they carried anything.

    Examples:
        >>> read('{"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}', "a.json")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: a.json: iperf3 could not: unable to connect
    """
    tests, failed = [], []
    for document in _documents(text, name):
        found = _test(document, name)
        if isinstance(found, Measured):
            tests.append(found)
        else:
            failed.append(found)
    if not tests:
        said = failed[-1] if failed else ""
        raise InputError(f"{name}: iperf3 could not: {said}" if said else f"{name}: iperf3 carried nothing")
    return tests


_OUTCOMES = {
    "refused": ("connection refused",),
    "reset": ("connection reset", "broken pipe"),
    "timed_out": ("timed out", "timeout"),
    "unreachable": ("unreachable", "no route to host"),
}
"""Messages of iperf3 (with the system's words) by the outcome that they mean."""


def outcome_of(error: str | None) -> str | None:
    """Return how a flow ended of which iperf3 says this; none where it says nothing.

    Examples:
        >>> outcome_of("unable to connect to server: Connection refused")
        'refused'
        >>> outcome_of("control socket has closed unexpectedly"), outcome_of(None)
        ('stopped', None)
    """
    if not error:
        return None
    said = error.lower()
    return next((outcome for outcome, words in _OUTCOMES.items() if any(word in said for word in words)), "stopped")


def tables(tests: Iterable[Measured], study: str, measure: Measure | None = None) -> dict[str, bytes]:
    """Return the tables of results of tests, each a run, with the definitions that all engines share.

    Args:
        tests: as `read` gives them.
        study: what the tables call it.
        measure: what to measure; none: as a study that does not say.
    """
    rows = []
    for run, test in enumerate(tests):
        for flow in test.flows:
            ends = ("client", "server") if flow.upload else ("server", "client")
            description = FlowDescription(
                study, flow.name, flow.kind, *ends, cc=flow.cc, run=run, outcome=flow.outcome,
                lost_packets=flow.lost_packets, jitter_ms=flow.jitter_ms,
            )  # fmt: skip
            rows.append((description, measure or Measure(), flow.seen))
    return observations.tables(rows)


@dataclass
class _Side:
    """One program's report on a stream."""

    sends: bool
    points: list[Mapping[str, Any]] = field(default_factory=list)
    end: Mapping[str, Any] = field(default_factory=dict)


def _documents(text: str | bytes, name: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a file, the events of `--json-stream` put together."""
    try:
        rest = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not text, so not the JSON of iperf3") from error
    documents: list[dict[str, Any]] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(rest):
        if rest[at].isspace():
            at += 1
            continue
        try:
            document, at = decoder.raw_decode(rest, at)
        except (ValueError, RecursionError) as error:
            line = rest.count("\n", 0, getattr(error, "pos", at)) + 1
            what = "cut off or damaged" if documents or rest.lstrip().startswith("{") else "not the JSON of iperf3"
            raise InputError(f"{name}:{line}: {what}; take the file that `iperf3 --json` wrote, whole") from error
        if not isinstance(document, dict):
            raise InputError(f"{name}: not the JSON of iperf3: it holds no test")
        documents.append(document)
    if documents and all("event" in document for document in documents):
        documents = _of_stream(documents)
    if not documents or not any("start" in document or "error" in document for document in documents):
        raise InputError(f"{name}: not the JSON of iperf3: there is no `start`")
    return documents


def _of_stream(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = []
    for event in events:
        kind, data = event.get("event"), event.get("data")
        if kind == "start" or not tests:
            tests.append({"start": {}, "intervals": [], "end": {}})
        if kind == "interval":
            tests[-1]["intervals"].append(data)
        elif isinstance(kind, str):
            tests[-1][kind] = data
    return tests


def _test(document: Mapping[str, Any], name: str) -> Measured | str:
    """Return the test of a document, or why it carried nothing."""
    start = _table(document.get("start"))
    begun = _table(start.get("test_start"))
    error = document.get("error")
    said = str(error) if error else None
    mine, theirs = _sides(document), _sides(_table(document.get("server_output_json")))
    is_server = "accepted_connection" in start
    flows: list[Flow] = []
    notes: dict[str, bool] = {}
    for number, (port, side) in enumerate(mine.items(), 1):
        other = theirs.get(port) or (list(theirs.values())[number - 1] if len(theirs) == len(mine) else None)
        sender, receiver = (side, other) if side.sends else (other, side)
        upload = side.sends != is_server
        flow = _flow(f"stream.{number}", document, begun, side, sender, receiver)
        if flow is None:
            continue
        flows.append(
            replace(
                flow, upload=upload, cc=_algorithm(document, upload, begun), outcome=outcome_of(said) or flow.outcome
            )
        )
        notes |= dict.fromkeys(_doubts(document, flow, side, receiver), True)
        if flow.kind == "bulk" and sender is None:
            notes[BLIND] = True
        elif flow.kind == "bulk" and sender is not None and not any("rtt" in point for point in sender.points):
            notes[MUTE] = True
    if not flows:
        return said or ""
    for flow in flows:
        _check(flow.seen, name)
    if said:
        notes = {f"ended early: {said}": True, **notes}
    began = _number(_table(start.get("timestamp")).get("timesecs"))
    return Measured(str(start.get("version", "iperf3")), began, tuple(flows), said, tuple(notes))


def _doubts(document: Mapping[str, Any], flow: Flow, side: _Side, receiver: _Side | None) -> Iterator[str]:
    """Yield what a flow's numbers assume where the file does not have them, or contradicts itself."""
    summary = _table(side.end.get("udp"))
    if flow.kind == "udp" and (_whole(summary.get("lost_packets")) or 0) > (_whole(summary.get("packets")) or 0):
        yield MORE_LOST
    elif receiver is None:
        is_unheard = flow.kind == "bulk" and _delivered(document, side, receiver)[0] is None and side.sends and side.end
        yield UNHEARD if is_unheard and "accepted_connection" not in _table(document.get("start")) else WRITTEN
    else:
        told, counted = _delivered(document, side, receiver)[0], _carried(receiver.points)
        if told is not None and counted > told * (1 + _ROUNDING):
            yield f"its intervals hold {counted} B, its summary {told} B: the summary's count"


def _check(seen: Observation, name: str) -> None:
    """Refuse sums that no transfer has: each number was below `LARGEST`, and a file may hold any number of them."""
    counts = [seen.duration_ns, seen.size, seen.length_ns, seen.sent_packets, seen.retransmitted_packets]
    counts += [count for pair in seen.arrivals[-1:] for count in pair]
    counts += [again for _, again, _, _ in seen.samples[-1:]]
    if any(count is not None and count >= LARGEST for count in counts):
        raise InputError(f"{name}: holds sums that no transfer has; take the file that iperf3 wrote, whole")


def _sides(document: Mapping[str, Any]) -> dict[int, _Side]:
    """Return what a program says of each stream, by the client's port (or the number, where it does not say)."""
    start = _table(document.get("start"))
    own = "remote_port" if "accepted_connection" in start else "local_port"
    ports = {
        _whole(about.get("socket")): _whole(about.get(own)) for about in map(_table, _list(start.get("connected")))
    }
    reverse = bool(_whole(_table(start.get("test_start")).get("reverse")))
    sends = reverse == ("accepted_connection" in start)
    sides: dict[int, _Side] = {}
    for interval in map(_table, _list(document.get("intervals"))):
        for number, point in enumerate(map(_table, _list(interval.get("streams")))):
            key = ports.get(_whole(point.get("socket"))) or -1 - number
            side = sides.setdefault(key, _Side(bool(point.get("sender", sends))))
            if not point.get("omitted"):
                side.points.append(point)
    for number, end in enumerate(map(_table, _list(_table(document.get("end")).get("streams")))):
        one = _table(end.get("udp")) or _table(end.get("sender")) or _table(end.get("receiver"))
        key = ports.get(_whole(one.get("socket"))) or -1 - number
        sides.setdefault(key, _Side(bool(one.get("sender", sends)))).end = end
    return sides


def _flow(
    name: str, document: Mapping[str, Any], begun: Mapping[str, Any], side: _Side, sender: _Side | None,
    receiver: _Side | None,
) -> Flow | None:  # fmt: skip
    """Put together what both sides say of a stream; the rest is filled in by the caller."""
    is_udp = begun.get("protocol") == "UDP" or "udp" in side.end
    block = _whole(begun.get("blksize")) or 0
    lost = jitter = sent_packets = None
    if is_udp:
        received, duration, sent_packets, lost, jitter = _datagrams(side, receiver, block)
    else:
        received, duration = _delivered(document, side, receiver)
    arrivals = _arrivals((receiver or side).points, received, duration)
    if not arrivals:
        return None
    duration = max(duration or 0, arrivals[-1][0])
    segment = None if is_udp or sender is None else _segment(document, sender)
    if not is_udp and sender is None:
        segment = _whole(_table(document.get("start")).get("tcp_mss_default"))
    again = _whole(_table((sender or side).end.get("sender")).get("retransmits"))
    if again is None:
        again = _whole(_table(side.end.get("sender")).get("retransmits"))
    samples = [] if is_udp or sender is None else _samples(sender.points, segment)
    if again is None and samples and not side.end:
        again = samples[-1][1]
    size = _whole(begun.get("bytes")) or (_whole(begun.get("blocks")) or 0) * block
    length = _number(begun.get("duration")) or 0.0
    seen = Observation(
        duration, arrivals, samples, size=size or None, length_ns=None if size or not length else round(length * 1e9),
        segment=segment, sent_packets=sent_packets, retransmitted_packets=None if is_udp else again,
    )  # fmt: skip
    outcome = "completed" if arrivals[-1][1] >= size else "stopped"
    return Flow(name, "udp" if is_udp else "bulk", True, "", seen, outcome, lost, jitter)


def _delivered(document: Mapping[str, Any], side: _Side, receiver: _Side | None) -> tuple[int | None, int | None]:
    """Return the payload that arrived and how long it took (ns), of TCP; none where only a sender speaks."""
    is_server = "accepted_connection" in _table(document.get("start"))
    for known in (receiver, None if is_server and side.sends else side):
        if known is None:
            continue
        end = _table(known.end.get("receiver"))
        received, until = _whole(end.get("bytes")), _number(end.get("end"))
        if received is not None and until is not None and (received or not _wrote(known)):
            return received, round(until * 1e9)
    return None, None


def _wrote(side: _Side) -> bool:
    """Whether data were sent, as the summary or the intervals have it: a receiver's 0 is then what was not heard."""
    return bool(_whole(_table(side.end.get("sender")).get("bytes")) or _carried(side.points))


def _carried(points: Sequence[Mapping[str, Any]]) -> int:
    return sum(_whole(point.get("bytes")) or 0 for point in points)


def _datagrams(
    side: _Side, receiver: _Side | None, block: int
) -> tuple[int | None, int | None, int | None, int | None, float | None]:
    """Return of UDP: payload received, time (ns), packets sent, packets lost, mean jitter (ms)."""
    end = _table(side.end.get("udp"))
    sent, lost, until = _whole(end.get("packets")), _whole(end.get("lost_packets")), _number(end.get("end"))
    received = None
    if sent is not None and lost is not None and lost <= sent:
        received = (sent - lost) * block or None
    elif lost:
        received = _whole(end.get("bytes"))
    jitter = None
    if receiver is not None:
        values = [value for point in receiver.points if (value := _number(point.get("jitter_ms"))) is not None]
        jitter = sum(values) / len(values) if values else None
        received = _carried(receiver.points) or received
    return received, None if until is None else round(until * 1e9), sent, lost, jitter


def _arrivals(
    points: Sequence[Mapping[str, Any]], received: int | None, duration: int | None
) -> list[observations.Arrival]:
    """Return payload over time: the intervals' counts, and at the end the whole."""
    arrivals: list[observations.Arrival] = []
    total = 0
    for at, point in _timed(points):
        total += _whole(point.get("bytes")) or 0
        arrivals.append((at, total if received is None else min(total, received)))
    if received is not None and duration and (not arrivals or received > arrivals[-1][1]):
        last = arrivals[-1][0] if arrivals else 0
        if arrivals and last >= duration:
            arrivals[-1] = (last, received)
        else:
            arrivals.append((duration, received))
    return arrivals


def _samples(points: Sequence[Mapping[str, Any]], segment: int | None) -> list[observations.Sample]:
    samples: list[observations.Sample] = []
    again: int | None = 0 if any("retransmits" in point for point in points) else None
    for at, point in _timed(points):
        if again is not None:
            again += _whole(point.get("retransmits")) or 0
        window, rtt_us = _whole(point.get("snd_cwnd")), _number(point.get("rtt"))
        packets = round(window / segment) if window and segment else None
        samples.append((at, again, packets, round(rtt_us * 1000) if rtt_us else None))
    return samples


def _timed(points: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return intervals with their ends in ns, growing; those that iperf3 begins to count anew go on."""
    timed: list[tuple[int, Mapping[str, Any]]] = []
    last = 0
    for point in points:
        end, seconds = _number(point.get("end")), _number(point.get("seconds"))
        at = round((end or 0) * 1e9)
        if at <= last:
            at = last + round((seconds or 0) * 1e9)
        if last < at <= LONGEST_NS:
            timed.append((at, point))
            last = at
    return timed


def _segment(document: Mapping[str, Any], sender: _Side) -> int | None:
    """Return the payload of a full packet: the windows, which iperf3 gives in bytes, are whole numbers of it."""
    start = _table(document.get("start"))
    options = (_whole(start.get("tcp_mss")), _whole(start.get("tcp_mss_default")))
    sizes = [size for option in options if option for size in (option, option - TIMESTAMPS)]
    paths = {mtu for point in sender.points if (mtu := _whole(point.get("pmtu")))}
    sizes += [mtu - headers for mtu in paths for headers in (40, 60) for headers in (headers, headers + TIMESTAMPS)]
    windows = [window for point in sender.points if (window := _whole(point.get("snd_cwnd")))]
    whole = [size for size in sizes if size > 0 and all(window % size == 0 for window in windows)]
    return max(whole, default=None) if windows else min((size for size in options if size), default=None)


def _algorithm(document: Mapping[str, Any], upload: bool, begun: Mapping[str, Any]) -> str:
    end = _table(document.get("end"))
    both = bool(begun.get("bidir")) or "sum_sent_bidir_reverse" in end
    theirs = _table(_table(document.get("server_output_json")).get("end"))
    key = "receiver_tcp_congestion" if both and not upload else "sender_tcp_congestion"
    return str(end.get(key) or theirs.get(key) or "")


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < LARGEST else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


TIMESTAMPS = 12
"""Bytes of each packet that the option takes (RFC 7323), padded."""
LARGEST = 1e18
"""No number of iperf3 is larger; JSON has integers of any size, and infinity."""
_ROUNDING = 0.01
"""Intervals may hold a little of what came after the summary was made."""
LONGEST_NS = 400 * 86_400 * 10**9

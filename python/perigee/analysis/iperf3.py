# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reader of iperf3's JSON in any state, and its text: one test or several, either side or both, TCP and UDP.

What iperf3 says of a flow is what its two programs count in intervals: the receiver what it reads, the sender what it
writes, and of TCP on Linux the window, the smoothed round trip and the retransmissions. What it does not say is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perigee.analysis import iperf3_text, observations
from perigee.analysis.documents import LARGEST, Documents, amount, documents, items, table, whole
from perigee.analysis.log import Flow, Log
from perigee.analysis.observations import Observation
from perigee.analysis.source import decoded
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


def read(text: str | bytes, name: str, *, is_whole: bool = False) -> list[Log]:
    """Read what `iperf3 --json` (or `--json-stream`) wrote, or what it printed; a server's log has several tests.

    Args:
        text: the file.
        name: its name in errors.
        is_whole: whether a file that is cut off or damaged is refused, not read as far as it goes.

    Raises:
        InputError: it is no such file, or is of tests that failed before they carried anything.

    Examples:
        >>> read('{"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}', "a.json")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: a.json: iperf3 could not: unable to connect
    """
    tests, failed = [], []
    made = _documents(decoded(text) if isinstance(text, bytes) else text, name)
    if made.damage and is_whole:
        raise InputError(f"{name}: {made.damage[0]}; take the file that `iperf3 --json` wrote, whole")
    for document in made.found:
        found = _test(document, name)
        if isinstance(found, Log):
            tests.append(replace(found, notes=(*made.notes, *found.notes), damage=(*made.damage, *found.damage)))
        else:
            failed.append(found)
    if not tests:
        said = failed[-1] if failed else ""
        why = f": {made.damage[0]}" if made.damage and not said else ""
        raise InputError(f"{name}: iperf3 could not: {said}" if said else f"{name}: iperf3 carried nothing{why}")
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


@dataclass
class _Side:
    """One program's report on a stream."""

    sends: bool
    points: list[Mapping[str, Any]] = field(default_factory=list)
    end: Mapping[str, Any] = field(default_factory=dict)


def _documents(text: str, name: str) -> Documents:
    """Return the tests of a file, the events of `--json-stream` put together; of text, as JSON would have it."""
    made = documents(text)
    if made.found and all("event" in document for document in made.found):
        if made.found[0]["event"] != "start":
            made.damage.append("its first event is missing or out of order")
        made.found = _of_stream(made.found)
    if any("start" in document or "error" in document for document in made.found):
        return made
    if text.lstrip().startswith("{") and '"start"' in text:
        raise InputError(f"{name}: cut off or damaged before the first interval; take the file that it wrote, whole")
    if not iperf3_text.is_of_iperf3(text):
        raise InputError(f"{name}: not the JSON of iperf3: there is no `start`; run it with --json")
    document, notes = iperf3_text.document(text)
    # Notes on the text stand beside, those on what is missing are damage.
    return Documents([document | {_SAID: notes[:1]}], [], list(notes[1:]))


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


def _test(document: Mapping[str, Any], name: str) -> Log | str:
    """Return the test of a document, or why it carried nothing."""
    start = table(document.get("start"))
    begun = table(start.get("test_start"))
    error = document.get("error")
    said = str(error) if error else None
    mine, theirs = _sides(document), _sides(table(document.get("server_output_json")))
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
        elif (
            flow.kind == "bulk"
            and sender
            and _SAID not in document
            and not any("rtt" in point for point in sender.points)
        ):
            notes[MUTE] = True
    if not flows:
        return said or ""
    for flow in flows:
        _check(flow.seen, mine.values(), name)
    damage = tuple(dict.fromkeys(found for side in mine.values() for found in _contradictions(side)))
    if said:
        notes = {f"ended early: {said}": True, **notes}
    began = amount(table(start.get("timestamp")).get("timesecs"))
    return Log(
        str(start.get("version", "iperf3")), tuple(flows), began_s=began, error=said,
        notes=(*document.get(_SAID, ()), *damage, *notes), damage=damage,
    )  # fmt: skip


def _contradictions(side: _Side) -> Iterator[str]:
    """Yield where the intervals of a stream do not follow each other, or contradict themselves."""
    before: float | None = None
    for point in side.points:
        began, ended, took = (amount(point.get(key)) for key in ("start", "end", "seconds"))
        carried, bps = amount(point.get("bytes")), amount(point.get("bits_per_second"))
        if began is not None and before is not None and abs(began - before) > _A_GAP_S:
            yield "its intervals do not follow each other: lines are missing or out of order"
        if took and carried is not None and bps is not None and abs(carried * 8 / took - bps) > _LOOSE * bps + 8:
            yield "bytes and rate of an interval contradict each other: lines are missing or out of order"
        if took and carried is None:
            yield "an interval has no bytes: lines are missing or out of order"
        before = before if ended is None else ended
    summary = table(side.end.get("sender"))
    if side.sends and summary and "retransmits" not in summary and any("retransmits" in one for one in side.points):
        yield "its summary has no retransmissions, which its intervals have: lines are missing or out of order"


def _doubts(document: Mapping[str, Any], flow: Flow, side: _Side, receiver: _Side | None) -> Iterator[str]:
    """Yield what a flow's numbers assume where the file does not have them, or contradicts itself."""
    summary = table(side.end.get("udp"))
    if flow.kind == "udp" and (whole(summary.get("lost_packets")) or 0) > (whole(summary.get("packets")) or 0):
        yield MORE_LOST
    elif receiver is None:
        is_unheard = flow.kind == "bulk" and _delivered(document, side, receiver)[0] is None and side.sends and side.end
        yield UNHEARD if is_unheard and "accepted_connection" not in table(document.get("start")) else WRITTEN
    else:
        told, counted = _delivered(document, side, receiver)[0], _carried(receiver.points)
        if told is not None and counted > told * (1 + _ROUNDING):
            yield f"its intervals hold {counted} B, its summary {told} B: the summary's count"


def _check(seen: Observation, sides: Iterable[_Side], name: str) -> None:
    """Refuse bytes that no transfer has, and sums of them: a file may hold any number of numbers below `LARGEST`."""
    bytes_told = [point.get("bytes") for side in sides for point in (*side.points, *map(table, side.end.values()))]
    if any(isinstance(told, int | float) and told >= LARGEST for told in bytes_told):
        raise InputError(f"{name}: holds bytes that no transfer has; take the file that iperf3 wrote, whole")
    counts = [seen.duration_ns, seen.size, seen.length_ns, seen.sent_packets, seen.retransmitted_packets]
    counts += [count for pair in seen.arrivals[-1:] for count in pair]
    counts += [again for _, again, _, _ in seen.samples[-1:]]
    if any(count is not None and count >= LARGEST for count in counts):
        raise InputError(f"{name}: holds sums that no transfer has; take the file that iperf3 wrote, whole")


def _sides(document: Mapping[str, Any]) -> dict[int, _Side]:
    """Return what a program says of each stream, by the client's port (or the number, where it does not say)."""
    start = table(document.get("start"))
    own = "remote_port" if "accepted_connection" in start else "local_port"
    ports = {whole(about.get("socket")): whole(about.get(own)) for about in map(table, items(start.get("connected")))}
    reverse = bool(whole(table(start.get("test_start")).get("reverse")))
    sends = reverse == ("accepted_connection" in start)
    sides: dict[int, _Side] = {}
    for interval in map(table, items(document.get("intervals"))):
        for number, point in enumerate(map(table, items(interval.get("streams")))):
            key = ports.get(whole(point.get("socket"))) or -1 - number
            side = sides.setdefault(key, _Side(bool(point.get("sender", sends))))
            if not point.get("omitted"):
                side.points.append(point)
    for number, end in enumerate(map(table, items(table(document.get("end")).get("streams")))):
        one = table(end.get("udp")) or table(end.get("sender")) or table(end.get("receiver"))
        key = ports.get(whole(one.get("socket"))) or -1 - number
        sides.setdefault(key, _Side(bool(one.get("sender", sends)))).end = end
    return sides


def _flow(
    name: str, document: Mapping[str, Any], begun: Mapping[str, Any], side: _Side, sender: _Side | None,
    receiver: _Side | None,
) -> Flow | None:  # fmt: skip
    """Put together what both sides say of a stream; the rest is filled in by the caller."""
    is_udp = begun.get("protocol") == "UDP" or "udp" in side.end
    block = whole(begun.get("blksize")) or 0
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
        segment = whole(table(document.get("start")).get("tcp_mss_default"))
    again = whole(table((sender or side).end.get("sender")).get("retransmits"))
    if again is None:
        again = whole(table(side.end.get("sender")).get("retransmits"))
    samples = [] if is_udp or sender is None else _samples(sender.points, segment)
    if again is None and samples and not side.end:
        again = samples[-1][1]
    size = whole(begun.get("bytes")) or (whole(begun.get("blocks")) or 0) * block
    length = amount(begun.get("duration")) or 0.0
    seen = Observation(
        duration, arrivals, samples, size=size or None, length_ns=None if size or not length else round(length * 1e9),
        segment=segment, sent_packets=sent_packets, retransmitted_packets=None if is_udp else again,
    )  # fmt: skip
    outcome = "completed" if side.end and arrivals[-1][1] >= size else "stopped"
    return Flow(name, "udp" if is_udp else "bulk", True, "", seen, outcome, lost, jitter)


def _delivered(document: Mapping[str, Any], side: _Side, receiver: _Side | None) -> tuple[int | None, int | None]:
    """Return the payload that arrived and how long it took (ns), of TCP; none where only a sender speaks."""
    is_server = "accepted_connection" in table(document.get("start"))
    for known in (receiver, None if is_server and side.sends else side):
        if known is None:
            continue
        end = table(known.end.get("receiver"))
        received, until = whole(end.get("bytes")), amount(end.get("end"))
        if received is not None and until is not None and (received or not _wrote(known)):
            return received, round(until * 1e9)
    return None, None


def _wrote(side: _Side) -> bool:
    """Whether data were sent, as the summary or the intervals have it: a receiver's 0 is then what was not heard."""
    return bool(whole(table(side.end.get("sender")).get("bytes")) or _carried(side.points))


def _carried(points: Sequence[Mapping[str, Any]]) -> int:
    return sum(whole(point.get("bytes")) or 0 for point in points)


def _datagrams(
    side: _Side, receiver: _Side | None, block: int
) -> tuple[int | None, int | None, int | None, int | None, float | None]:
    """Return of UDP: payload received, time (ns), packets sent, packets lost, mean jitter (ms)."""
    end = table(side.end.get("udp"))
    sent, lost, until = whole(end.get("packets")), whole(end.get("lost_packets")), amount(end.get("end"))
    received = None
    if sent is not None and lost is not None and lost <= sent:
        received = (sent - lost) * block or None
    elif lost:
        received = whole(end.get("bytes"))
    jitter = None
    if receiver is not None:
        values = [value for point in receiver.points if (value := amount(point.get("jitter_ms"))) is not None]
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
        total += whole(point.get("bytes")) or 0
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
            again += whole(point.get("retransmits")) or 0
        window, rtt_us = whole(point.get("snd_cwnd")), amount(point.get("rtt"))
        packets = round(window / segment) if window and segment else None
        samples.append((at, again, packets, round(rtt_us * 1000) if rtt_us else None))
    return samples


def _timed(points: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return intervals with their ends in ns, growing; those that iperf3 begins to count anew go on."""
    timed: list[tuple[int, Mapping[str, Any]]] = []
    last = 0
    for point in points:
        end, seconds = amount(point.get("end")), amount(point.get("seconds"))
        at = round((end or 0) * 1e9)
        if at <= last:
            at = last + round((seconds or 0) * 1e9)
        if last < at <= LONGEST_NS:
            timed.append((at, point))
            last = at
    return timed


def _segment(document: Mapping[str, Any], sender: _Side) -> int | None:
    """Return the payload of a full packet: the windows, which iperf3 gives in bytes, are whole numbers of it."""
    start = table(document.get("start"))
    options = (whole(start.get("tcp_mss")), whole(start.get("tcp_mss_default")))
    sizes = [size for option in options if option for size in (option, option - TIMESTAMPS)]
    paths = {mtu for point in sender.points if (mtu := whole(point.get("pmtu")))}
    sizes += [mtu - headers for mtu in paths for headers in (40, 60) for headers in (headers, headers + TIMESTAMPS)]
    windows = [window for point in sender.points if (window := whole(point.get("snd_cwnd")))]
    fitting = [size for size in sizes if size > 0 and all(window % size == 0 for window in windows)]
    return max(fitting, default=None) if windows else min((size for size in options if size), default=None)


def _algorithm(document: Mapping[str, Any], upload: bool, begun: Mapping[str, Any]) -> str:
    end = table(document.get("end"))
    both = bool(begun.get("bidir")) or "sum_sent_bidir_reverse" in end
    theirs = table(table(document.get("server_output_json")).get("end"))
    key = "receiver_tcp_congestion" if both and not upload else "sender_tcp_congestion"
    return str(end.get(key) or theirs.get(key) or "")


TIMESTAMPS = 12
"""Bytes of each packet that the option takes (RFC 7323), padded."""
_SAID = "perigee_notes"
"""Notes on a document that was made of text."""
_A_GAP_S = 0.5
_LOOSE = 0.1
"""Text has three digits of bytes and of rates, of which the smallest differ by so much."""
_ROUNDING = 0.01
"""Intervals may hold a little of what came after the summary was made."""
LONGEST_NS = 400 * 86_400 * 10**9

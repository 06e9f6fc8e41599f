# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The two directions of a connection as one end's qlog shows them: what this end sends, and what it receives."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perigee.analysis.intervals import Intervals
from perigee.analysis.observations import Arrival, Sample
from perigee.analysis.qlog import Event, Trace, number

WAIT_NS = 10_000_000
"""A sender with space in its window that is silent for this long and a quarter of a round trip has no more to send."""
IDLE = frozenset(("ack", "padding", "connection_close"))
"""Frames that no acknowledgement answers (RFC 9002, section 2)."""
METRICS = frozenset(("metrics_updated", "recovery_metrics_updated", "metric_update", "congestion_metric_update"))
PIECES = 1 << 16
"""No acknowledgement has more ranges than this."""


@dataclass
class Loss:
    """Data packets in a row that the stack called lost: when the first was sent, and how many since the loss before."""

    at_ns: int
    packets: int
    since: int
    offset: int

    def row(self) -> dict[str, Any]:
        """Return its columns of the table `losses`."""
        return {"t_s": self.at_ns / 1e9, "packets": self.packets, "since_packets": self.since,
                "offset_bytes": self.offset}  # fmt: skip


@dataclass
class _Packet:
    at_ns: int
    size: int
    data: list[tuple[int, int, int]]
    """Stream, first byte, and one more than the last."""
    place: int
    """Its number among data packets, from 1."""
    is_in_flight: bool


@dataclass(frozen=True)
class _State:
    at_ns: int
    srtt_ms: float | None
    inflight_packets: int
    sent: int
    again: int
    pacing_mbps: float | None
    ssthresh_packets: int | None


class _Credit:
    """Flow control of one direction: how far streams and the connection may go."""

    def __init__(self) -> None:
        self.connection: float | None = None
        self.streams: dict[int, float] = {}
        self.first: dict[str, float] = {}
        self.window = self.stream_window = 0.0

    def parameters(self, data: Mapping[str, Any]) -> None:
        """Take the transport parameters of the end that grants it."""
        self.first = {key: value for key in data if (value := number(data[key])) is not None}
        if (most := self.first.get("initial_max_data")) is not None:
            self.connection = max(self.connection or 0, most)
            self.window = max(self.window, most)

    def limit(self, stream: int, *, opened_by_sender: bool) -> float | None:
        """Return how far a stream may go; none: it is not known."""
        kind = "uni" if stream & 2 else "bidi_remote" if opened_by_sender else "bidi_local"
        first = self.first.get(f"initial_max_stream_data_{kind}")
        if stream not in self.streams and first is not None:
            self.streams[stream] = first
            self.stream_window = max(self.stream_window, first)
        return self.streams.get(stream)

    def grant(self, frame: Mapping[str, Any], arrived: int, of_stream: Mapping[int, int]) -> None:
        """Take a MAX_DATA or MAX_STREAM_DATA frame; the window is what it adds to the bytes that have arrived."""
        most = number(frame.get("maximum"))
        if most is None:
            return
        if frame["frame_type"] == "max_data":
            self.connection = max(self.connection or 0, most)
            self.window = max(self.window, most - arrived)
        else:
            stream = _stream(frame)
            self.streams[stream] = max(self.streams.get(stream, 0), most)
            self.stream_window = max(self.stream_window, most - of_stream.get(stream, 0))

    def smallest(self, streams: int) -> int | None:
        """Return the window: the connection's, or that of a single stream if it is smaller; none: not known."""
        known = [self.window] if self.window else []
        if streams == 1 and self.stream_window:
            known.append(self.stream_window)
        return round(min(known)) if known else None


class _End:
    """A direction.

    Attributes:
        payload: bytes of streams that arrived, each once.
        arrivals: when.
        packets: that were logged, both ways.
        segment: the most payload in a packet.
        is_guessed: no frames are in the trace, so that payload is the packets' bytes.
        handshake_ms: from the first packet to the first that has the keys of data; none: not in the trace.
        shortest_trip_ns: from a packet to its acknowledgement; none: unknown.
    """

    def __init__(self, trace: Trace, *, is_guessed: bool) -> None:
        self.payload = self.packets = self.segment = 0
        self.arrivals: list[Arrival] = []
        self.is_guessed = is_guessed
        self.handshake_ms: float | None = None
        self.shortest_trip_ns: int | None = None
        self.credit = _Credit()
        self.finished: dict[int, int] = {}
        self.ended: str | None = None
        self._is_server = trace.vantage == "server"
        self._carried = 0
        self._bytes: defaultdict[int, Intervals] = defaultdict(Intervals)

    @property
    def is_finished(self) -> bool:
        """Whether a stream ended whole, and nothing that began is missing."""
        whole = [self._bytes[stream].size >= end for stream, end in self.finished.items()]
        return bool(whole) and all(whole)

    def outcome(self) -> str:
        """Return how it ended, as the column `outcome` of the table `flows` has it."""
        return "completed" if self.is_finished else self.ended or "stopped"

    def window(self) -> int | None:
        """Return the largest window of flow control, bytes; none: not known."""
        return self.credit.smallest(sum(seen.size > 0 for seen in self._bytes.values()))

    def _ends(self) -> dict[int, int]:
        return {stream: seen.end for stream, seen in self._bytes.items()}

    def _arrive(self, at_ns: int, data: Iterable[tuple[int, int, int]]) -> None:
        new = sum(stop - begin for stream, start, end in data for begin, stop in self._bytes[stream].add(start, end))
        if new:
            self.payload += new
            if self.arrivals and self.arrivals[-1][0] == at_ns:
                self.arrivals.pop()
            self.arrivals.append((at_ns, self.payload))

    def _data(self, frames: Sequence[Mapping[str, Any]], size: int, *, is_data: bool) -> list[tuple[int, int, int]]:
        if self.is_guessed:
            start, self._carried = self._carried, self._carried + (size if is_data else 0)
            return [(0, start, self._carried)] if self._carried > start else []
        found = []
        for frame in frames:
            if frame["frame_type"] == "stream":
                start = round(number(frame.get("offset")) or 0)
                found.append((_stream(frame), start, start + _length(frame)))
        return found

    def _fins(self, frames: Sequence[Mapping[str, Any]]) -> None:
        for frame in frames:
            if frame["frame_type"] == "stream" and frame.get("fin") in (True, "true"):
                self.finished[_stream(frame)] = round(number(frame.get("offset")) or 0) + _length(frame)


class Receiving(_End):
    """The direction in which the end of the log receives."""

    def received(self, at_ns: int, frames: Sequence[Mapping[str, Any]], size: int, *, is_data: bool) -> None:
        """Take a packet that arrived."""
        data = self._data(frames, size, is_data=is_data)
        self.segment = max(self.segment, sum(end - start for _, start, end in data))
        for stream, _, _ in data:
            self.credit.limit(stream, opened_by_sender=bool(stream & 1) != self._is_server)
        self._arrive(at_ns, data)
        self._fins(frames)

    def granted(self, frames: Sequence[Mapping[str, Any]]) -> None:
        """Take the credit that this end gives."""
        for frame in frames:
            if frame["frame_type"] in ("max_data", "max_stream_data"):
                self.credit.grant(frame, self.payload, self._ends())

    def samples(self) -> list[Sample]:
        """Return nothing: a receiver has no window."""
        return []

    def peak_bps(self) -> float:
        """Return the most payload in a second of the trace's clock, bit/s."""
        bins: defaultdict[int, int] = defaultdict(int)
        before = 0
        for at_ns, total in self.arrivals:
            bins[at_ns // 10**9] += total - before
            before = total
        return 8.0 * max(bins.values(), default=0)


class Sending(_End):
    """The direction in which the end of the log sends.

    Attributes:
        data_packets: with bytes of streams.
        repeated: those with bytes that were sent before.
        losses: that the stack declared.
        spurious: packets that were acknowledged after they had been called lost; none: acknowledgements are not logged.
        timeouts: probe timeouts; none: not logged.
        trips: round trips by acknowledgements.
        in_flight_max: bytes.
    """

    def __init__(self, trace: Trace, *, is_guessed: bool) -> None:
        super().__init__(trace, is_guessed=is_guessed)
        self.data_packets = self.repeated = self.spurious = self.in_flight_max = self.trips = 0
        self.losses: list[Loss] = []
        self.timeouts: int | None = None
        self._unit_ns = trace.rtt_ns
        self._out: defaultdict[str, dict[int, _Packet]] = defaultdict(dict)
        self._gone: defaultdict[str, dict[int, _Packet]] = defaultdict(dict)
        self._acked: defaultdict[str, Intervals] = defaultdict(Intervals)
        self._sent: defaultdict[int, Intervals] = defaultdict(Intervals)
        self._in_flight = self._flying = self._size = self._last_lost = 0
        self._lost_number = -2
        self._pto = 0
        self._window: float | None = None
        self._srtt_ns: float | None = None
        self._pacing: float | None = None
        self._ssthresh: float | None = None
        self._blocked: set[object] = set()
        self._held: defaultdict[str, int] = defaultdict(int)
        self._since = self._space = 0
        self._samples: list[tuple[int, int | None, float | None, int | None]] = []
        self._states: list[_State] = []

    @property
    def knows_credit(self) -> bool:
        """Whether the trace has limits of flow control."""
        return self.credit.connection is not None or bool(self.credit.streams) or bool(self._blocked)

    @property
    def knows_window(self) -> bool:
        """Whether the trace has the congestion window."""
        return self._window is not None

    def held_ns(self, by: str) -> int:
        """Return how long `flow` control, or the `application`, held back a sender."""
        return self._held[by]

    def samples(self) -> list[Sample]:
        """Return window and round trip over time."""
        return [(at_ns, again, self._in_packets(window), trip_ns) for at_ns, again, window, trip_ns in self._samples]

    def passed(self, now_ns: int) -> None:
        """Count the time since the event before for what held the sender in it."""
        length, self._since = now_ns - self._since, now_ns
        if not self.data_packets or length <= 0:
            return
        if self._is_blocked():
            self._held["flow"] += length
        elif self._window is not None and self._in_flight + self._size <= self._window:
            self._space += length

    def sent(self, at_ns: int, space: str, key: int | None, frames: Sequence[Mapping[str, Any]], size: int) -> None:
        """Take a packet that this end sent."""
        data = self._data(frames, size, is_data=space == "data")
        is_in_flight = self.is_guessed or any(frame["frame_type"] not in IDLE for frame in frames)
        if data:
            self._spoke()
            self.data_packets += 1
            self.segment = max(self.segment, sum(end - start for _, start, end in data))
            fresh = sum(
                stop - begin for stream, start, end in data for begin, stop in self._sent[stream].add(start, end)
            )
            self.repeated += fresh < sum(end - start for _, start, end in data)
            self._fins(frames)
        self._size = max(self._size, size)
        if key is not None:
            self._out[space][key] = _Packet(at_ns, size, data, self.data_packets, is_in_flight)
            if is_in_flight:
                self._in_flight += size
                self._flying += 1
                self.in_flight_max = max(self.in_flight_max, self._in_flight)
        self._note(at_ns)

    def acknowledged(self, at_ns: int, space: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Take the packets that the other end says to have, as intervals without their ends."""
        newest: _Packet | None = None
        for first, end in ranges:
            for start, stop in self._acked[space].add(first, end):
                for key in _within(self._out[space], start, stop):
                    packet = self._out[space].pop(key)
                    self._leave(packet)
                    self._arrive(at_ns, packet.data)
                    newest = packet if newest is None or packet.at_ns >= newest.at_ns else newest
                for key in _within(self._gone[space], start, stop):
                    self.spurious += 1
                    self._arrive(at_ns, self._gone[space].pop(key).data)
        if newest is not None and newest.is_in_flight:
            trip_ns = at_ns - newest.at_ns
            self.trips += 1
            self.shortest_trip_ns = min(self.shortest_trip_ns or trip_ns, trip_ns)
            self._sample(at_ns, trip_ns)

    def granted(self, frames: Sequence[Mapping[str, Any]]) -> None:
        """Take the credit that the other end gives."""
        for frame in frames:
            if frame["frame_type"] in ("max_data", "max_stream_data"):
                self.credit.grant(frame, self.payload, self._ends())

    def said_blocked(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take the stack's own word on what keeps data back."""
        key = number(data.get("stream_id")) if kind.startswith("stream") else None
        is_flow = data.get("reason") in ("connection_flow_control", "stream_flow_control")
        if data.get("new") == "blocked" and is_flow:
            self._blocked.add(key)
        else:
            self._blocked.discard(key)

    def lost(self, at_ns: int, data: Mapping[str, Any]) -> None:
        """Take a loss that the stack declares."""
        header = _table(data.get("header")) or data
        key = number(header.get("packet_number"))
        if key is None:
            count = round(number(data.get("lost_packets")) or 1)
            self.losses.append(Loss(at_ns, count, self.data_packets - self._last_lost, 0))
            self._last_lost = self.data_packets
            return
        space = _space(header, data)
        packet = self._out[space].pop(round(key), None)
        if packet is None:
            return
        self._leave(packet)
        self._gone[space][round(key)] = packet
        if packet.data:
            if round(key) == self._lost_number + 1:
                self.losses[-1].packets += 1
            else:
                offset = packet.data[0][1]
                self.losses.append(Loss(packet.at_ns, 1, packet.place - self._last_lost, offset))
                self._last_lost = packet.place
            self._lost_number = round(key)
        self._note(at_ns)

    def metrics(self, at_ns: int, data: Mapping[str, Any]) -> None:
        """Take the window and what else the stack's recovery says."""
        named = ("congestion_window", "cwnd", "current_cwnd")
        window = next((value for key in named if (value := number(data.get(key))) is not None), None)
        if (trip := number(data.get("smoothed_rtt"))) is not None:
            self._srtt_ns = trip * self._unit_ns
        self._pacing = number(data["pacing_rate"]) if "pacing_rate" in data else self._pacing
        self._ssthresh = number(data["ssthresh"]) if "ssthresh" in data else self._ssthresh
        if (count := number(data.get("pto_count"))) is not None:
            self.timeouts = (self.timeouts or 0) + max(round(count) - self._pto, 0)
            self._pto = round(count)
        if window is not None and window != self._window:
            self._window = window
            self._sample(at_ns, None)
        self._note(at_ns)

    def over_time(self, ends_ns: Sequence[int]) -> list[dict[str, Any]]:
        """Return the sender's state at each instant, and what it sent since the one before."""
        instants = [state.at_ns for state in self._states]
        rows: list[dict[str, Any]] = []
        sent = again = 0
        for end_ns in ends_ns:
            place = bisect_right(instants, end_ns)
            if not place:
                rows.append({"sent_packets": 0, "retransmitted_packets": None if self.is_guessed else 0})
                continue
            state = self._states[place - 1]
            rows.append(
                {
                    "srtt_ms": state.srtt_ms,
                    "inflight_packets": state.inflight_packets,
                    "sent_packets": state.sent - sent,
                    "retransmitted_packets": None if self.is_guessed else state.again - again,
                    "pacing_mbps": state.pacing_mbps,
                    "ssthresh_packets": state.ssthresh_packets,
                }
            )
            sent, again = state.sent, state.again
        return rows

    def _is_blocked(self) -> bool:
        if self._blocked:
            return True
        whole = sum(seen.end for seen in self._sent.values())
        if self.credit.connection is not None and whole >= self.credit.connection:
            return True
        for stream, seen in self._sent.items():
            limit = self.credit.limit(stream, opened_by_sender=bool(stream & 1) == self._is_server)
            if limit is not None and seen.end >= limit and stream not in self.finished:
                return True
        return False

    def _spoke(self) -> None:
        """Count the time with space in the window for the application, if it was long."""
        if self._space >= WAIT_NS + (self._srtt_ns or 0) / 4:
            self._held["application"] += self._space
        self._space = 0

    def _leave(self, packet: _Packet) -> None:
        if packet.is_in_flight:
            self._in_flight -= packet.size
            self._flying -= 1

    def _in_packets(self, count: float | None) -> int | None:
        return round(count / self._size) if count is not None and self._size and count < 2**31 * self._size else None

    def _sample(self, at_ns: int, trip_ns: int | None) -> None:
        again = None if self.is_guessed else self.repeated
        self._samples.append((at_ns, again, self._window, trip_ns))
        self._note(at_ns)

    def _note(self, at_ns: int) -> None:
        if self._states and self._states[-1].at_ns == at_ns:
            self._states.pop()
        self._states.append(
            _State(
                at_ns,
                None if self._srtt_ns is None else self._srtt_ns / 1e6,
                self._flying,
                self.data_packets,
                self.repeated,
                None if self._pacing is None else self._pacing / 1e6,
                self._in_packets(self._ssthresh),
            )
        )


def follow(trace: Trace) -> tuple[Sending, Receiving]:
    """Follow a trace; return what this end sends, and what it receives."""
    packets = [event for event in trace.events if event.name in ("packet_sent", "packet_received")]
    has_frames = any(
        frame["frame_type"] == "stream" and _length(frame) for one in packets for frame in _frames(one.data)
    )
    sending = Sending(trace, is_guessed=not has_frames)
    receiving = Receiving(trace, is_guessed=not has_frames)
    for event in trace.events:
        sending.passed(event.at_ns)
        _take(event, sending, receiving)
    sending.packets = receiving.packets = len(packets)
    receiving.shortest_trip_ns = sending.shortest_trip_ns
    sending.handshake_ms = receiving.handshake_ms = _handshake_ms(trace, packets)
    return sending, receiving


def _take(event: Event, sending: Sending, receiving: Receiving) -> None:
    data = event.data
    if event.name in ("packet_sent", "packet_received"):
        frames, header = _frames(data), _table(data.get("header"))
        space, size, key = _space(header, data), _size(header, data), number(header.get("packet_number"))
        if event.name == "packet_sent":
            sending.sent(event.at_ns, space, None if key is None else round(key), frames, size)
            receiving.granted(frames)
            return
        receiving.received(event.at_ns, frames, size, is_data=space == "data")
        for frame in frames:
            if frame["frame_type"] == "ack":
                sending.acknowledged(event.at_ns, space, _ranges(frame))
        # A window is what credit adds to the bytes that have arrived, so those come first.
        sending.granted(frames)
    elif event.name in ("packet_lost", "packets_lost"):
        sending.lost(event.at_ns, data)
    elif event.name in METRICS:
        sending.metrics(event.at_ns, data)
    elif event.name in ("packets_acked", "packet_acked"):
        keys = data.get("packet_numbers")
        numbers = [round(key) for one in keys if (key := number(one)) is not None] if isinstance(keys, list) else []
        sending.acknowledged(event.at_ns, _space({}, data), [(key, key + 1) for key in numbers])
    elif event.name == "parameters_set":
        own = data.get("initiator", data.get("owner")) == "local"
        (receiving if own else sending).credit.parameters(data)
    elif event.name.endswith("data_blocked_updated"):
        sending.said_blocked(event.name, data)
    elif event.name in ("connection_closed", "connection_close"):
        sending.ended = receiving.ended = _ended(data)


def _handshake_ms(trace: Trace, packets: Sequence[Event]) -> float | None:
    """Return the time to the first packet with keys of data: that the server gets, that the client sends or gets."""
    names = ("packet_received",) if trace.vantage == "server" else ("packet_sent", "packet_received")
    kinds = [(event, _kind(_table(event.data.get("header")), event.data)) for event in packets]
    if not kinds or kinds[0][1] not in ("initial", "0rtt"):
        return None
    done = next((event.at_ns for event, kind in kinds if kind == "1rtt" and event.name in names), None)
    return None if done is None else (done - packets[0].at_ns) / 1e6


def _ended(data: Mapping[str, Any]) -> str | None:
    if data.get("trigger") in ("idle_timeout", "timeout"):
        return "timed_out"
    if data.get("trigger") in ("error", "stateless_reset", "version_mismatch", "aborted"):
        return "reset"
    return None


def _frames(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the frames of a packet, with their types in lower case."""
    frames = data.get("frames")
    found = [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    return [{**frame, "frame_type": str(frame.get("frame_type", "")).lower()} for frame in found]


def _ranges(frame: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of an ACK frame as intervals without their ends."""
    ranges = frame.get("acked_ranges")
    for one in ranges[:PIECES] if isinstance(ranges, list) else ():
        ends = [round(end) for value in (one if isinstance(one, list) else [one]) if (end := number(value)) is not None]
        if ends:
            yield min(ends), max(ends) + 1


def _within(packets: Mapping[int, _Packet], start: int, stop: int) -> list[int]:
    """Return the numbers of packets in an interval, which damage may have made long."""
    if stop - start <= len(packets):
        return [key for key in range(start, stop) if key in packets]
    return sorted(key for key in packets if start <= key < stop)


def _stream(frame: Mapping[str, Any]) -> int:
    return round(number(frame.get("stream_id", frame.get("id"))) or 0)


def _length(frame: Mapping[str, Any]) -> int:
    raw = _table(frame.get("raw"))
    said = (frame.get("length"), raw.get("payload_length"), raw.get("length"))
    return round(next((value for one in said if (value := number(one)) is not None), 0))


def _kind(header: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    return str(header.get("packet_type", data.get("packet_type", data.get("type", "1RTT")))).lower()


def _space(header: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Return the packet number space: `initial`, `handshake` or `data`."""
    kind = _kind(header, data)
    kind = str(data.get("packet_number_space", kind)).lower()
    return kind if kind in ("initial", "handshake") else "data"


def _size(header: Mapping[str, Any], data: Mapping[str, Any]) -> int:
    """Return the bytes of a packet, however the stack calls them."""
    said = (_table(data.get("raw")).get("length"), header.get("packet_size"), header.get("length"),
            data.get("packet_size"))  # fmt: skip
    return round(next((value for one in said if (value := number(one)) is not None), 0))


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

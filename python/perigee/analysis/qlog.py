# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reader of qlog: the traces of a file as events with one form, whichever stack and version of the format wrote it.

The current schema (draft-ietf-quic-qlog-main-schema, draft-ietf-quic-qlog-quic-events) is read as one JSON document or
as a sequence of JSON texts (RFC 7464), and so are versions 0.3 and 0.4 before it, also as lines, and the tables of
events of draft-00 to draft-02 that picoquic and older mvfst write.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.files import DOCUMENT_BYTES, printable, shown_bytes

SUFFIXES = (".qlog", ".sqlog", ".qlog.gz", ".sqlog.gz")
RECORD = b"\x1e"
"""Before each text of a sequence (RFC 7464, 2.2)."""


@dataclass(frozen=True)
class Event:
    """An event of a trace.

    Attributes:
        at_ns: when, since the trace's first event.
        name: in lower case, without the protocol or category before it: `packet_sent`.
        data: what it says.
    """

    at_ns: int
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Trace:
    """The events of one connection, as one place saw them.

    Attributes:
        group: the connection's identifier, hexadecimal where the stack says so; empty: not said.
        by: the program, as it names itself; empty where it does not.
        vantage: `client`, `server`, `network` or `unknown`.
        began_s: time of the first event in seconds of Unix time; none: not said.
        rtt_ns: length of the unit in which round trips are given, ns.
        events: in order of time.
        notes: what was left out or assumed, for people.
    """

    group: str
    by: str
    vantage: str
    began_s: float | None
    rtt_ns: int
    events: tuple[Event, ...]
    notes: tuple[str, ...] = ()


def is_qlog(path: Path, head: bytes) -> bool:
    """Whether a file is a qlog, by its name or its first bytes.

    Examples:
        >>> is_qlog(Path("a.json"), b'{"qlog_version": "0.3"'), is_qlog(Path("a.json"), b'{"start": {')
        (True, False)
    """
    return path.name.endswith(SUFFIXES) or head[:1] == RECORD or b'"qlog_version"' in head or b"params:qlog" in head


def read(path: Path) -> list[Trace]:
    """Read a file's traces, those without an event left out; what is damaged or cut off is noted.

    Raises:
        InputError: it cannot be read, is too large, is no qlog, or has no event.
    """
    name = printable(path.name)
    text = _text(path, name)
    found = list(_traces(text, name))
    if not any(trace.events for trace in found):
        raise InputError(f"{name}: a qlog without an event; take the file when its connection has ended")
    return [trace for trace in found if trace.events]


@dataclass
class _Raw:
    """A trace as the file has it."""

    about: Mapping[str, Any]
    events: Sequence[Any]
    notes: list[str] = field(default_factory=list)


def _text(path: Path, name: str) -> str:
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            content, is_cut = bytearray(), False
            try:
                while len(content) <= DOCUMENT_BYTES and (block := file.read(1 << 20)):
                    content += block
            except (EOFError, zlib.error):
                is_cut = True
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; give the file's name") from error
    if len(content) > DOCUMENT_BYTES:
        limit = f"larger than {shown_bytes(DOCUMENT_BYTES)}, the most that is read of a qlog"
        raise InputError(f"{name}: {limit}; log one connection a file")
    if is_cut and not content:
        raise InputError(f"{name}: damaged from its beginning; take the file that the stack wrote")
    return content.decode(errors="replace")


def _traces(text: str, name: str) -> Iterator[Trace]:
    for raw in _sequence(text, name) if _is_sequence(text) else _document(text, name):
        yield _trace(raw)


def _is_sequence(text: str) -> bool:
    """Whether a file has a text for each event: after separators, or a line each whose first has no events."""
    if text.startswith(RECORD.decode()):
        return True
    first, _, rest = text.lstrip().partition("\n")
    if not rest.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def _sequence(text: str, name: str) -> Iterator[_Raw]:
    parts = text.split(RECORD.decode()) if text.startswith(RECORD.decode()) else text.splitlines()
    records, damaged = [], 0
    for part in filter(str.strip, parts):
        record = _parsed(part)
        if isinstance(record, dict):
            records.append(record)
        else:
            damaged += 1
    if not records:
        raise InputError(f"{name}: no qlog: none of its records is JSON; take the file that the stack wrote")
    head = records[0] if "data" not in records[0] else {}
    about = {**head, **_table(head.get("trace"))}
    raw = _Raw(about, records[1:] if head else records)
    if not head:
        raw.notes.append("its first record, which says what it is, is missing")
    if damaged:
        raw.notes.append(f"{damaged} of its records {'is' if damaged == 1 else 'are'} damaged or cut off: left out")
    yield raw


def _document(text: str, name: str) -> Iterator[_Raw]:
    document = _parsed(text)
    if isinstance(document, dict):
        traces = [trace for trace in map(_table, _list(document.get("traces"))) if trace]
        if not traces and "qlog_version" not in document and "file_schema" not in document:
            raise InputError(f"{name}: no qlog: it has neither `file_schema` nor `qlog_version`")
        for trace in traces:
            yield _Raw({**document, **trace}, _list(trace.get("events")))
        return
    yield from _cut_document(text, name)


def _cut_document(text: str, name: str) -> Iterator[_Raw]:
    """Yield the traces of a document that is damaged, each as far as it can be read."""
    starts = list(_EVENTS.finditer(text))
    if not starts:
        raise InputError(f"{name}: damaged before its first event, or no qlog; take the file that the stack wrote")
    for start in starts:
        events, at = [], start.end()
        while True:
            at = _after_space(text, at)
            try:
                event, at = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            events.append(event)
        raw = _Raw(_before(text[: start.start()]), events)
        if at >= len(text) or text[at] != "]":
            raw.notes.append(f"damaged or cut off at character {at}; what stands before was read")
        yield raw


def _before(head: str) -> dict[str, Any]:
    """Return what a document says before the events of its last trace so far."""
    at = head.rfind('"events"') + 1
    found: dict[str, Any] = {}
    for key in ("qlog_version", "event_fields", "configuration", "common_fields", "vantage_point"):
        place = head.find(f'"{key}"', at if key != "qlog_version" else 0)
        colon = head.find(":", place)
        if place >= 0 and colon >= 0:
            try:
                found[key] = _DECODER.raw_decode(head, _after_space(head, colon + 1))[0]
            except (ValueError, RecursionError):
                continue
    return found


def _after_space(text: str, at: int) -> int:
    """Return where the next value begins, behind spaces and commas."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _trace(raw: _Raw) -> Trace:
    about = raw.about
    common, vantage = _table(about.get("common_fields")), _table(about.get("vantage_point"))
    columns = [str(column).lower() for column in _list(about.get("event_fields"))]
    is_table = bool(columns) or any(isinstance(event, list) for event in raw.events[:1])
    unit_ns = 1_000_000
    if is_table and _table(about.get("configuration")).get("time_units") == "us":
        unit_ns = 1000
    is_delta = common.get("time_format") in ("delta", "relative_to_previous_event") or "delta_time" in columns
    # Older stacks end a list of events with an empty one.
    told = [event for event in raw.events if event]
    found = [_row(columns or _COLUMNS, event) if is_table else _table(event) for event in told]
    timed = [(at, event) for event in found if (at := number(event.get("time"))) is not None]
    lost = len(told) - len(timed)
    events: list[Event] = []
    late, last, first = 0, 0, timed[0][0] if timed else 0.0
    for at, event in timed:
        ns = round(at * unit_ns) + last if is_delta else round((at - first) * unit_ns)
        late += ns < last
        last = max(ns, last)
        if last > LONGEST_NS:
            lost += 1
            last = events[-1].at_ns if events else 0
            continue
        name = str(event.get("name", "")).lower().rpartition(":")[2]
        events.append(Event(last, name, _table(event.get("data"))))
    notes = list(raw.notes)
    if lost:
        notes.append(f"{lost} of its events {'has' if lost == 1 else 'have'} no time that can be read: left out")
    if late:
        notes.append(f"{late} of its events stand behind later ones; each was taken at the later one's time")
    kind = str(vantage.get("type", "unknown")).lower()
    if kind not in ("client", "server", "network"):
        kind = _opened_by(events)
    group = common.get("group_id") or common.get("ODCID") or common.get("odcid") or common.get("dcid") or ""
    by = str(vantage.get("name") or about.get("title") or "")
    began = _began(common.get("reference_time"), first, unit_ns)
    return Trace(printable(str(group)), printable(by), kind, began, unit_ns, tuple(events), tuple(notes))


def _row(columns: Sequence[str], event: object) -> dict[str, Any]:
    """Return an event of a table of events as an object."""
    cells = dict(zip(columns, _list(event), strict=False))
    kind = cells.get("event") or cells.get("event_type")
    at = next((cells[key] for key in ("relative_time", "delta_time", "time") if key in cells), None)
    return {"time": at, "name": kind, "data": cells.get("data")}


def _opened_by(events: Sequence[Event]) -> str:
    """Return the end at which a trace was made: that which sends first opens the connection."""
    first = next((event for event in events if event.name in ("packet_sent", "packet_received")), None)
    return "unknown" if first is None else "client" if first.name == "packet_sent" else "server"


def _began(reference: object, first: float, unit_ns: int) -> float | None:
    """Return when the first event was, where the file says it in Unix time."""
    base = number(reference)
    began = ((base or 0.0) + first * unit_ns / 1e6) / 1000
    return began if _YEAR_2000_S < began < _YEAR_2100_S else None


def number(value: object) -> float | None:
    """Return a number that is not negative, also of text, as older stacks write it; none: it is none.

    Examples:
        >>> number("12"), number(1.5), number(-1), number(None)
        (12.0, 1.5, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < LARGEST else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


LARGEST = 2.0**63
"""No number of a qlog is larger: QUIC's own are below 2^62."""
LONGEST_NS = 400 * 86_400 * 10**9
_YEAR_2000_S, _YEAR_2100_S = 946_684_800, 4_102_444_800
_COLUMNS = ("relative_time", "category", "event", "data")
"""Columns of a table of events that has no `event_fields`."""
_DECODER = json.JSONDecoder()
_EVENTS = re.compile(r'"events"\s*:\s*\[')
_SPACE = re.compile(r"[\s,]*")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""History of a Starlink dish, a second a row: CSV of starlink-grpc-tools (`bulk_history`), and JSON of grpcurl."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from perigee.analysis.documents import LARGEST, amount, documents, items, table, whole
from perigee.analysis.log import Entry, Flow, Log, Pings
from perigee.analysis.observations import Observation
from perigee.analysis.source import Source
from perigee.errors import InputError
from perigee.files import DOCUMENT_BYTES

COLUMNS = ("pop_ping_drop_rate", "pop_ping_latency_ms", "downlink_throughput_bps", "uplink_throughput_bps")
"""Columns of the CSV behind the time, in their order where it has no header (`dish_grpc_text.py -H` writes it)."""
_KEYS = ("popPingDropRate", "popPingLatencyMs", "downlinkThroughputBps", "uplinkThroughputBps")
_TIME = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(?:Z|\+00:00)?"
_ROW = re.compile(
    rb"^" + _TIME + rb",(?:0|1|[01]?\.[0-9]+(?:e-[0-9]+)?),[0-9.]*,[0-9.]+,[0-9.]+(?:,|\s*$)", re.MULTILINE
)
_HEADER = re.compile(rb"^(?:datetimestamp_utc|timestamp),.*\bpop_ping_drop_rate\b", re.MULTILINE)
_NS = 10**9
_MOST_GAP_S = 400 * 86_400


@dataclass(frozen=True)
class _Second:
    """A second of the dish; what it does not say is none."""

    at_s: float
    dropped: float | None
    rtt_ms: float | None
    down_bps: float | None
    up_bps: float | None


def is_of_dish(head: bytes) -> bool:
    """Whether a file begins as the history of a dish.

    Examples:
        >>> is_of_dish(b"2026-05-01T10:00:00,0.0,31.5,120000.0,8000.0,,True,False")
        True
    """
    return _HEADER.search(head) is not None or _ROW.match(head) is not None or b'"dishGetHistory"' in head


def read(path: Path) -> list[Log]:
    """Read a history.

    Raises:
        InputError: it cannot be read, or holds no second.
    """
    source = Source(path)
    if source.head().lstrip()[:1] in (b"{", b"["):
        made = documents(source.text(DOCUMENT_BYTES, "a dish's history"))
        seconds = [one for document in made.found for one in _of_json(table(document.get("dishGetHistory")))]
        damage, notes = [*source.damage, *made.notes], ["its seconds have no times: they are counted from the oldest"]
    else:
        seconds, damage = _of_csv(source)
        notes = []
    if not seconds:
        raise InputError(f"{path}: holds no second of a dish's history")
    return [_log(seconds, damage, notes)]


def _log(seconds: Sequence[_Second], damage: list[str], notes: list[str]) -> Log:
    entries: list[Entry] = [(one.at_s, one.rtt_ms) for one in seconds]
    dropped = [one.dropped for one in seconds if one.dropped is not None]
    counts: tuple[int | None, int | None] = (len(dropped), round(sum(dropped))) if dropped else (None, None)
    notes = [
        *damage,
        *notes,
        "the dish says which share of its pings is lost in a second, not how many: each second counts as one",
        "its round trips go to the operator's point of presence; its throughput is what passed, of all users, not "
        "what the link could carry",
    ]
    flows = [
        flow
        for name, upload in (("dish down", False), ("dish up", True))
        if (flow := _flow(name, upload, seconds)) is not None
    ]
    began = seconds[0].at_s if seconds[0].at_s > _MOST_GAP_S else None
    return Log(
        "Starlink dish", tuple(flows), Pings(entries.__iter__, counts, 1.0), began_s=began, notes=tuple(notes),
        damage=tuple(damage),
    )  # fmt: skip


def _flow(name: str, upload: bool, seconds: Sequence[_Second]) -> Flow | None:
    began, total = seconds[0].at_s - 1, 0.0
    arrivals: list[tuple[int, int]] = []
    gaps: list[tuple[float, float]] = []
    for one in seconds:
        bps = one.up_bps if upload else one.down_bps
        at = round((one.at_s - began) * _NS)
        if bps is not None and at > (arrivals[-1][0] if arrivals else 0) and total < LARGEST / _NS:
            last = arrivals[-1][0] if arrivals else 0
            if at > last + _A_GAP_S * _NS:
                gaps.append((last / _NS, at / _NS - 1))
                arrivals.append((at - _NS, round(total)))
            total += bps / 8
            arrivals.append((at, round(total)))
    if not arrivals or not total:
        return None
    return Flow(name, "bulk", upload, "", Observation(arrivals[-1][0], arrivals), "completed", gaps=tuple(gaps))


def _of_json(history: Mapping[str, Any]) -> list[_Second]:
    """Return the seconds of the dish's rings, the oldest first: `current` is how many there have ever been."""
    rings = [items(history.get(key)) for key in _KEYS]
    size = max(map(len, rings), default=0)
    ever = whole(history.get("current")) or _ever(history, size)
    count = min(size, ever)
    found = []
    for number in range(ever - count, ever):
        values = [amount(ring[number % size]) if number % size < len(ring) else None for ring in rings]
        found.append(_second(float(number - (ever - count)), values))
    return found


def _ever(history: Mapping[str, Any], size: int) -> int:
    """Return the count of seconds; protobuf writes 64-bit numbers as text."""
    said = history.get("current")
    return int(said) if isinstance(said, str) and said.isdigit() and len(said) <= len(str(_MOST_GAP_S)) + 2 else size


def _of_csv(source: Source) -> tuple[list[_Second], list[str]]:
    names: list[str] = ["datetimestamp_utc", *COLUMNS]
    found: list[_Second] = []
    wrong: list[int] = []
    backwards = 0
    for place, line in enumerate(source.lines(), 1):
        cells = [cell.strip() for cell in line.decode(errors="replace").split(",")]
        if _HEADER.match(line):
            names = cells
        elif line.strip():
            at = _time(cells[0])
            if at is None or len(cells) < len(COLUMNS) + 1 or not line.endswith(b"\n"):
                wrong.append(place)
                continue
            row = dict(zip(names, cells, strict=False))
            backwards += bool(found) and at <= found[-1].at_s
            found.append(_second(at, [_amount(row.get(name, "")) for name in COLUMNS]))
    damage = list(source.damage)
    if wrong:
        damage.append(f"line {wrong[0]} is no second of a dish" + (f", and {len(wrong) - 1} more" * (len(wrong) > 1)))
    if backwards:
        damage.append(f"{backwards} lines stand behind a later one, so that the file is out of order")
        found.sort(key=lambda one: one.at_s)
    once = [one for before, one in zip([None, *found], found, strict=False) if before is None or one.at_s > before.at_s]
    if twice := len(found) - len(once):
        damage.append(f"{twice} lines are of a second that another line is of, and are left out")
    if gaps := sum(one.at_s > before.at_s + _A_GAP_S for before, one in pairwise(once)):
        damage.append(f"{gaps} gaps: seconds that are not in the file are in no mean")
    return once, damage


def _second(at_s: float, values: Sequence[float | None]) -> _Second:
    dropped, rtt_ms, down, up = values
    dropped = None if dropped is None else min(dropped, 1.0)
    # Where every ping was lost the dish says 0, or nothing.
    return _Second(at_s, dropped, None if dropped == 1.0 or not rtt_ms else rtt_ms, down, up)


def _time(said: str) -> float | None:
    try:
        at = datetime.fromisoformat(said.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _amount(said: str) -> float | None:
    try:
        return amount(float(said))
    except ValueError:
        return None


_A_GAP_S = 1.5

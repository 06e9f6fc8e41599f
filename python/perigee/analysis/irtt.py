# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The JSON of `irtt client -o`: round trips, and delays of each direction where both clocks are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perigee.analysis.documents import Documents, amount, documents, items, table, whole
from perigee.analysis.log import Log, OneWay, Pings
from perigee.analysis.source import Source
from perigee.errors import InputError
from perigee.files import DOCUMENT_BYTES

_NS = 1e9
_NS_PER_MS = 1e6


def read(path: Path) -> list[Log]:
    """Read a file; of one that is cut off, the round trips that are whole.

    Raises:
        InputError: it cannot be read, or holds no round trip.
    """
    made = documents(Source(path).text(DOCUMENT_BYTES, "irtt's JSON"))
    found = [one for one in made.found if "round_trips" in one or "version" in one]
    logs = [_log(document, made, path) for document in found]
    if not logs:
        raise InputError(f"{path}: not the JSON of irtt: there are no `round_trips`")
    return logs


def _log(document: Mapping[str, Any], made: Documents, path: Path) -> Log:
    trips = [table(one) for one in items(document.get("round_trips"))]
    numbers = [whole(one.get("seqno")) for one in trips]
    if not trips or None in numbers:
        raise InputError(f"{path}: holds no round trip; run `irtt client` without `-Q`, and let it end")
    damage = list(made.notes)
    if numbers != sorted(numbers, key=lambda number: number or 0):
        damage.append("its round trips are out of order")
        trips.sort(key=lambda one: whole(one.get("seqno")) or 0)
    config, stats = table(document.get("config")), table(document.get("stats"))
    interval_s = (amount(config.get("interval")) or 0.0) / _NS or None
    notes = list(damage)
    if not interval_s:
        notes.append("the interval is missing: instants are those of the first clock's times")
    sent, received = whole(stats.get("packets_sent")), whole(stats.get("packets_received"))
    lost = sum(_is_lost(one) for one in trips)
    if sent is not None and received is not None and (sent, sent - received) != (len(trips), lost):
        notes.append(f"its statistics say {sent} sent and {sent - received} lost, its round trips {len(trips)} and "
                     f"{lost}; the round trips are counted")  # fmt: skip
    size = whole(config.get("length"))
    entries = [(_sent_s(one, place, interval_s), _rtt_ms(one)) for place, one in enumerate(trips)]
    ways = _ways(trips, size or 0, entries[-1][0] - entries[0][0])
    if not any(way.delay_ms is not None for way in ways):
        notes.append("delays of each direction are missing: the server's times are not in it (`--tstamp both`)")
    elif ways:
        notes.append("delays of each direction rest on both hosts' clocks, as they were set")
    said, system = table(document.get("version")).get("irtt"), table(document.get("system_info")).get("os")
    name = f"irtt {said}" if isinstance(said, str) else "irtt"
    return Log(
        f"{name} of {system}" if isinstance(system, str) else name,
        pings=Pings(lambda: iter(entries), None, interval_s, size), one_way=ways, began_s=_began_s(trips[0]),
        notes=tuple(notes), damage=tuple(damage),
    )  # fmt: skip


def _is_lost(trip: Mapping[str, Any]) -> bool:
    return str(trip.get("lost", "false")) != "false" or _rtt_ms(trip) is None


def _rtt_ms(trip: Mapping[str, Any]) -> float | None:
    if str(trip.get("lost", "false")) != "false":
        return None
    known = amount(table(trip.get("delay")).get("rtt"))
    return None if known is None else known / _NS_PER_MS


def _sent_s(trip: Mapping[str, Any], place: int, interval_s: float | None) -> float:
    send = table(table(table(trip.get("timestamps")).get("client")).get("send"))
    known = amount(send.get("monotonic"))
    return place * (interval_s or 0.0) if known is None else known / _NS


def _began_s(trip: Mapping[str, Any]) -> float | None:
    send = table(table(table(trip.get("timestamps")).get("client")).get("send"))
    known = amount(send.get("wall"))
    return None if known is None else known / _NS


def _ways(trips: Sequence[Mapping[str, Any]], size: int, length_s: float) -> tuple[OneWay, ...]:
    """Return both directions: a packet is known as lost on one of them where the server counted what it received."""
    said = [str(trip.get("lost", "false")) for trip in trips]
    arrived = said.count("false")
    is_known = "true" not in said
    lost_up, lost_down = said.count("true_up"), said.count("true_down")
    found = []
    for upload, key in ((True, "send"), (False, "receive")):
        delays = [float(value) for trip in trips if isinstance(value := table(trip.get("delay")).get(key), int | float)]
        mean = sum(delays) / len(delays) / _NS_PER_MS if delays else None
        sent = len(trips) if upload else arrived + lost_down
        found.append(
            OneWay(
                upload,
                sent if upload or is_known else None,
                (lost_up if upload else lost_down) if is_known else None,
                arrived + (lost_down if upload and is_known else 0),
                size,
                mean,
                length_s,
            )
        )
    return tuple(found)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Data files of flent: its series of round trips and of throughput, packed or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from perigee.analysis.documents import amount, documents, items, table
from perigee.analysis.log import Entry, Flow, Log, Pings
from perigee.analysis.observations import Observation
from perigee.analysis.source import Source
from perigee.errors import InputError
from perigee.files import DOCUMENT_BYTES

_NS = 1e9
_RATES = {"bits/s": 1.0, "kbits/s": 1e3, "mbits/s": 1e6, "gbits/s": 1e9}
"""Units of series of throughput, as flent names them."""
_OF_SEVERAL = ("sum", "avg", "totals")
"""Words of series that flent makes of others."""


def read(path: Path) -> list[Log]:
    """Read a file; each series of round trips is a measurement, with all transfers beside the first.

    Raises:
        InputError: it cannot be read, or holds no series.
    """
    source = Source(path)
    made = documents(source.text(DOCUMENT_BYTES, "flent's data"))
    document = next((one for one in made.found if "results" in one and "x_values" in one), None)
    if document is None:
        raise InputError(f"{path}: not a data file of flent: there are no `results`")
    about = table(document.get("metadata"))
    times = [amount(value) for value in items(document.get("x_values"))]
    meta, raw = table(about.get("SERIES_META")), table(document.get("raw_values"))
    damage = (*source.damage, *made.notes)
    notes = [*damage]
    flows, pings = [], []
    for name, values in table(document.get("results")).items():
        unit = str(table(meta.get(name)).get("UNITS") or _unit(name)).lower()
        pairs = [(at, amount(value)) for at, value in zip(times, items(values), strict=False) if at is not None]
        if unit == "ms" and not _is_of_several(name):
            pings.append(_pings(pairs, items(raw.get(name))))
        elif unit in _RATES and not _is_of_several(name):
            if (flow := _flow(name, pairs, _RATES[unit])) is not None:
                flows.append(flow)
        elif not _is_of_several(name):
            notes.append(f"its series {name!r} is neither round trips nor throughput, and is left out")
    if flows:
        notes.append("throughput is flent's series: no packets, no round trips of the transfers")
    if pings and not raw:
        notes.append("round trips are flent's series, one a step: a step without one may be a lost ping or none sent")
    system = f"flent, test {about['NAME']}" if isinstance(about.get("NAME"), str) else "flent"
    step = amount(about.get("STEP_SIZE"))
    logs = [
        Log(
            system, tuple(flows) if not place else (), Pings(entries.__iter__, counts, None if raw else step),
            began_s=_began(about), notes=tuple(notes), damage=damage,
        )
        for place, (entries, counts) in enumerate(pair for pair in pings if pair[0])
    ]  # fmt: skip
    if not logs and flows:
        logs = [Log(system, tuple(flows), began_s=_began(about), notes=tuple(notes), damage=damage)]
    if not logs:
        raise InputError(f"{path}: holds no series of round trips or throughput; was the test ended at once?")
    return logs


def _pings(
    pairs: Sequence[tuple[float, float | None]], raw: Sequence[Any]
) -> tuple[list[Entry], tuple[int | None, int | None] | None]:
    """Return a series' pings, and how many were sent and lost: not known of values that flent has put into steps."""
    own = [(amount(table(one).get("t")), amount(table(one).get("val"))) for one in raw]
    whole: list[Entry] = [(at, value) for at, value in own if at is not None and value is not None]
    numbers = [number for one in raw if (number := amount(table(one).get("seq"))) is not None]
    if whole and len(numbers) == len(whole):
        sent = int(max(numbers) - min(numbers)) + 1
        return whole, (sent, max(sent - len(whole), 0))
    entries: list[Entry] = whole or [(at, value) for at, value in pairs if value is not None]
    return entries, (None, None)


def _flow(name: str, pairs: Sequence[tuple[float, float | None]], bps: float) -> Flow | None:
    arrivals, total, before = [], 0.0, 0.0
    for at, value in pairs:
        if at > before and value is not None:
            total += value * bps / 8 * (at - before)
            arrivals.append((round(at * _NS), round(total)))
        before = max(at, before)
    if not arrivals:
        return None
    kind = "udp" if "udp" in name.lower() else "bulk"
    return Flow(name, kind, "up" in name.lower(), "", Observation(arrivals[-1][0], arrivals), "completed")


def _unit(name: str) -> str:
    return "ms" if "ms" in name.lower() or "ping" in name.lower() else "mbits/s"


def _is_of_several(name: str) -> bool:
    return any(word in name.lower().split() for word in _OF_SEVERAL)


def _began(about: Mapping[str, Any]) -> float | None:
    try:
        return datetime.fromisoformat(str(about.get("T0") or about.get("TIME")).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None

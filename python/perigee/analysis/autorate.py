# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of cake-autorate: its `DATA` lines have a ping each, with the rates that passed; columns are its header's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from perigee.analysis.documents import LARGEST, amount
from perigee.analysis.log import Entry, Flow, Log, Pings
from perigee.analysis.observations import Observation
from perigee.analysis.source import Source
from perigee.errors import InputError

_NS = 10**9
_US_PER_MS = 1000.0
_HEAD, _DATA = "DATA_HEADER", "DATA"
_RATES = (("achieved down", False, "DL_ACHIEVED_RATE_KBPS"), ("achieved up", True, "UL_ACHIEVED_RATE_KBPS"))
_KNOWN = (
    "DATA", "DATA_HEADER", "LOAD", "LOAD_HEADER", "REFLECTOR", "REFLECTOR_HEADER", "SUMMARY", "SUMMARY_HEADER", "CPU",
    "CPU_HEADER", "CPU_RAW", "CPU_RAW_HEADER", "DEBUG", "INFO", "SHAPER", "ERROR", "WARN", "SYSLOG", "LOG",
)  # fmt: skip
_MOST_ROWS = 20_000_000


def is_of_autorate(head: bytes) -> bool:
    """Whether a file begins as cake-autorate's log.

    Examples:
        >>> is_of_autorate(b"DATA_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US")
        True
    """
    return b"DATA_HEADER; LOG_DATETIME; LOG_TIMESTAMP;" in head


def read(path: Path) -> list[Log]:
    """Read a log.

    Raises:
        InputError: it has no `DATA` line, or a line longer than any of a log.
    """
    source = Source(path)
    names: list[str] = []
    entries: list[Entry] = []
    arrivals: dict[str, list[tuple[int, int]]] = {name: [] for name, _, _ in _RATES}
    totals = dict.fromkeys(arrivals, 0.0)
    reflectors: set[str] = set()
    wrong: list[int] = []
    backwards, last_s, began_s = 0, 0.0, None
    for place, line in enumerate(source.lines(), 1):
        cells = [cell.strip() for cell in line.decode(errors="replace").split(";")]
        if cells[0] == _HEAD:
            names = cells[1:]
        elif cells[0] == _DATA and names:
            row = dict(zip(names, cells[1:], strict=False))
            at, rtt_ms = _number(row.get("LOG_TIMESTAMP")), _rtt_ms(row)
            if at is None or rtt_ms is None or len(cells) != len(names) + 1 or not line.endswith(b"\n"):
                wrong.append(place)
                continue
            if at < last_s:
                backwards += 1
                continue
            began_s = at if began_s is None else began_s
            if len(entries) < _MOST_ROWS:
                entries.append((at, rtt_ms))
            reflectors.add(row.get("REFLECTOR", ""))
            for name, _, key in _RATES:
                kbps = _number(row.get(key))
                if kbps is not None and at > began_s and totals[name] < LARGEST / _NS:
                    totals[name] += kbps * 125 * (at - last_s)
                    arrivals[name].append((round((at - began_s) * _NS), round(totals[name])))
            last_s = at
        elif line.strip() and cells[0] not in _KNOWN:
            wrong.append(place)
    if not entries or began_s is None:
        raise InputError(f"{path}: has no `DATA` line; let cake-autorate log with output_processing_stats=1")
    damage = _damage(source, wrong, backwards)
    notes = (
        *damage,
        "pings without an answer are not in its log: how many were sent and lost is not known",
        f"pings go to {len(reflectors)} reflectors; a round trip is the sum of both of its one-way delays",
        "achieved rates are what passed, of all users, not what the link could carry",
    )
    flows = [
        Flow(name, "bulk", upload, "", Observation(arrivals[name][-1][0], arrivals[name]), "completed")
        for name, upload, _ in _RATES
        if _grows(arrivals[name])
    ]
    pings = Pings(entries.__iter__, (None, None), None)
    return [Log("cake-autorate", tuple(flows), pings, began_s=began_s, notes=notes, damage=tuple(damage))]


def _damage(source: Source, wrong: Sequence[int], backwards: int) -> list[str]:
    damage = list(source.damage)
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        damage.append(f"line {wrong[0]} is damaged{more}")
    if backwards:
        damage.append(f"{backwards} lines stand behind a later one, and are left out")
    return damage


def _rtt_ms(row: Mapping[str, str]) -> float | None:
    down, up = _number(row.get("DL_OWD_US")), _number(row.get("UL_OWD_US"))
    return None if down is None or up is None else (down + up) / _US_PER_MS


def _grows(arrivals: Sequence[tuple[int, int]]) -> bool:
    return bool(arrivals) and arrivals[-1][1] > 0


def _number(said: str | None) -> float | None:
    try:
        return None if said is None else amount(float(said))
    except ValueError:
        return None

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of pings as tables of results: those of `perigee ping`, and what the system's `ping` printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from perigee.analysis import system_ping
from perigee.analysis.system_ping import Entry
from perigee.errors import InputError
from perigee.measuring.ping import entries
from perigee.measuring.round_trips import LIMITED, RoundTrips
from perigee.store.schema import blank_row, empty_table
from perigee.store.streams import stream_of

MOST_ROWS = 2_000_000
"""Pings that are written one by one: more than four days at five per second. Figures count all of them."""


def _is_file_of_system(path: Path) -> bool:
    with path.open("rb") as file:
        return system_ping.is_of_system(file.read(4096))


def entries_of(path: Path) -> Iterator[Entry]:
    """Yield the pings of a log of either program.

    The instants of the system's `ping` are those of the answers.

    Raises:
        InputError: the log is damaged.
    """
    return system_ping.entries(path, system_ping.survey(path)) if _is_file_of_system(path) else entries(path)


def tables(path: Path, study: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the tables of a log, one flow of kind `ping`, and notes on it.

    Raises:
        InputError: the log is damaged, or holds no ping.
    """
    sessions = system_ping.survey(path) if _is_file_of_system(path) else []
    counted = RoundTrips()
    first: float | None = None
    last = 0.0
    starts: list[float] = []
    took: list[float] = []
    backwards = 0
    for at, rtt_ms in system_ping.entries(path, sessions) if sessions else entries(path):
        first = at if first is None else first
        backwards += at < last
        last = at
        counted.add(rtt_ms)
        if rtt_ms != LIMITED and len(starts) < MOST_ROWS:
            starts.append(max(0.0, at - first))
            took.append(np.nan if rtt_ms is None else rtt_ms)
    if not counted.sent:
        raise InputError(f"{path}: holds no ping; was it ended before the first answer?")
    notes = []
    if counted.sent > MOST_ROWS:
        notes.append(f"the first {MOST_ROWS} of {counted.sent} pings are written one by one; the figures count all")
    if counted.limited:
        notes.append(f"{counted.limited} pings reached the server over its limit; they are in no figure, nor lost")
    if backwards:
        notes.append(f"the clock was set back {backwards} times; instants behind that are wrong, round trips are not")
    notes += system_ping.notes(sessions)
    length = max(last - (first or 0.0), 0.0)
    made = {
        "flows": _row(study, counted, length, system_ping.told(sessions)),
        "exchanges": _exchanges(starts, took),
        "rtt": _distribution(counted),
    }
    return {name: stream_of(table) for name, table in made.items() if table.height}, tuple(notes)


def _row(study: str, counted: RoundTrips, length: float, told: tuple[int, int] | None) -> pl.DataFrame:
    """Return the row of a flow; `told` is how many were sent and lost where the log says it itself."""
    known = counted.answered > 0
    sent, lost = told or (counted.sent - counted.limited, counted.lost)
    row = blank_row("flows") | {
        "study": study, "point": "{}", "cc_params": "{}", "flow": "ping", "kind": "ping", "from_node": "here",
        "to_node": "there", "start_s": 0.0, "duration_s": length, "completed": True,
        "outcome": "completed", "goodput_mbps": 0.0,
        "sent_packets": sent, "lost_packets": lost,
    }  # fmt: skip
    if known:
        row |= {
            "rtt_min_ms": counted.min_ms, "rtt_mean_ms": counted.mean_ms, "rtt_p50_ms": counted.quantile_ms(0.5),
            "rtt_p95_ms": counted.quantile_ms(0.95), "rtt_p99_ms": counted.quantile_ms(0.99),
        }  # fmt: skip
    return pl.DataFrame([row], empty_table("flows").schema)


def _exchanges(starts: list[float], took: list[float]) -> pl.DataFrame:
    count = len(starts)
    columns = {
        "run": np.zeros(count, np.uint32), "flow": ["ping"] * count,
        "number": np.arange(count, dtype=np.uint32), "start_s": starts,
        "request_bytes": np.zeros(count, np.uint64), "response_bytes": np.zeros(count, np.uint64),
        "duration_ms": pl.Series(took, dtype=pl.Float64).fill_nan(None),
    }  # fmt: skip
    return pl.DataFrame(columns, empty_table("exchanges").schema)


def _distribution(counted: RoundTrips) -> pl.DataFrame:
    rows = [
        {"run": 0, "flow": "ping", "phase": "all", "rtt_ms": edge_ms, "count": count}
        for edge_ms, count in counted.bins()
    ]
    return pl.DataFrame(rows, empty_table("rtt").schema)

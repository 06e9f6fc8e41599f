# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of pings as tables of results: those of `perigee ping`, and what the system's `ping` printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from perigee.analysis import observations
from perigee.errors import InputError
from perigee.files import lines_of
from perigee.measuring.ping import entries
from perigee.measuring.round_trips import LIMITED, Outcome, RoundTrips

Entry = tuple[float, Outcome]
"""When a ping was sent (s), and what became of it."""

MOST_ROWS = 2_000_000
"""Pings that are written one by one: more than four days at five per second. Figures count all of them."""

_SYSTEM_HEAD = re.compile(rb"^PING \S+ .*bytes of data", re.MULTILINE)
_SYSTEM_LINE = re.compile(rb"(?:^\[(?P<at>[0-9.]+)\] )?.*\bicmp_seq=(?P<seq>[0-9]+)\b.*\btime=(?P<ms>[0-9.]+) ms")
_NUMBER = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,9})?")


def is_of_system(head: bytes) -> bool:
    """Whether a file begins as the system's `ping` prints.

    Examples:
        >>> is_of_system(b"PING example.org (192.0.2.1) 56(84) bytes of data.")
        True
    """
    return _SYSTEM_HEAD.search(head) is not None


def _is_file_of_system(path: Path) -> bool:
    with path.open("rb") as file:
        return is_of_system(file.read(4096))


def entries_of(path: Path) -> Iterator[Entry]:
    """Yield the pings of a log of either program.

    The instants of the system's `ping` are those of the answers.

    Raises:
        InputError: the log is damaged.
    """
    return _of_system(path) if _is_file_of_system(path) else entries(path)


def tables(path: Path, study: str) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    """Return the tables of a log, one flow of kind `ping`, and notes on it.

    Raises:
        InputError: the log is damaged, or holds no ping.
    """
    of_system = _is_file_of_system(path)
    counted = RoundTrips()
    first: float | None = None
    last = 0.0
    starts: list[float] = []
    took: list[float] = []
    backwards = 0
    for at, rtt_ms in entries_of(path):
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
    if of_system and not counted.lost:
        notes.append("`ping` prints nothing for what is lost at the end; only gaps between answers are counted as lost")
    made = observations.tables([])
    length = max(last - (first or 0.0), 0.0)
    made["flows"] = _row(made["flows"].schema, study, counted, length)
    made["exchanges"] = _exchanges(made["exchanges"].schema, starts, took)
    made["rtt"] = _distribution(made["rtt"].schema, counted)
    return made, tuple(notes)


def _row(schema: pa.Schema, study: str, counted: RoundTrips, length: float) -> pa.Table:
    known = counted.answered > 0
    row = observations.blank(schema) | {
        "study": study, "point": "{}", "cc_params": "{}", "flow": "ping", "kind": "ping", "from_node": "here",
        "to_node": "there", "start_s": 0.0, "duration_s": length, "completed": True,
        "outcome": "completed", "goodput_mbps": 0.0,
        "sent_packets": counted.sent - counted.limited, "lost_packets": counted.lost,
    }  # fmt: skip
    if known:
        row |= {
            "rtt_min_ms": counted.min_ms, "rtt_mean_ms": counted.mean_ms, "rtt_p50_ms": counted.quantile_ms(0.5),
            "rtt_p95_ms": counted.quantile_ms(0.95), "rtt_p99_ms": counted.quantile_ms(0.99),
        }  # fmt: skip
    return pa.Table.from_pylist([row], schema=schema)


def _exchanges(schema: pa.Schema, starts: list[float], took: list[float]) -> pa.Table:
    count = len(starts)
    times = np.array(took)
    columns = {
        "run": np.zeros(count, np.uint32), "flow": pa.array(["ping"] * count, pa.large_string()),
        "number": np.arange(count, dtype=np.uint32), "start_s": np.array(starts),
        "request_bytes": np.zeros(count, np.uint64), "response_bytes": np.zeros(count, np.uint64),
        "duration_ms": pa.array(times, mask=np.isnan(times)),
    }  # fmt: skip
    return pa.table(columns, schema=schema)


def _distribution(schema: pa.Schema, counted: RoundTrips) -> pa.Table:
    rows = [
        {"run": 0, "flow": "ping", "phase": "all", "rtt_ms": edge_ms, "count": count}
        for edge_ms, count in counted.bins()
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _of_system(path: Path) -> Iterator[Entry]:
    """Yield the pings of a log of the system's `ping`, one a second where it has no times (`-D`); gaps are losses."""
    next_number: int | None = None
    at = 0.0
    with path.open("rb") as file:
        for place, line in enumerate(lines_of(file, path), 1):
            found = _SYSTEM_LINE.search(line)
            if found is None:
                continue
            if wrong := [text for text in found.groups() if text is not None and not _NUMBER.fullmatch(text)]:
                raise InputError(f"{path}:{place}: not a number of a ping: {wrong[0][:40].decode()}; remove the line")
            seq = int(found["seq"])
            # A number of 16 bits; one from before is an answer that came twice or late.
            ahead = 0 if next_number is None else (seq - next_number) % 65536
            if ahead > _LARGEST_GAP:
                continue
            then = float(found["at"]) if found["at"] else at + 1 + ahead
            for lost in range(ahead):
                yield at + (then - at) * (lost + 1) / (ahead + 1), None
            yield then, float(found["ms"])
            at, next_number = then, (seq + 1) % 65536


_LARGEST_GAP = 32768

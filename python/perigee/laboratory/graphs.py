# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Quantities over time out of results tables, reduced to the pixel columns of a graph.

The samples of the graphs that were asked for last stay in memory, so that zooming into 10 million of them reads no
file.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from perigee.core import native
from perigee.errors import InputError
from perigee.store.room import MOST_OF_A_PAGE, check_room
from perigee.store.slices import ROWS, readable

NAMES = ("flow", "link", "proxy")
"""The column that says what a row is of: the first of these that a table has."""
SPLIT = ("leg", "event")
"""Columns whose values are traces of their own."""
TIME = "t_s"
MOST_SAMPLES = 20_000_000
"""In memory, of all graphs together: 320 MB."""
MOST_TRACES = 24
MOST_FLOWS = 8
"""Flows of a run that are drawn where none is named."""
MOST_COLUMNS = 4096


class Part(NamedTuple):
    """Whose samples a trace has.

    Attributes:
        name: the flow, link or proxy.
        leg: of a flow that proxies split, its leg; 0: from end to end.
        event: kind of event; empty where samples are no events.
    """

    name: str
    leg: int = 0
    event: str = ""


class Asked(NamedTuple):
    """A graph that is asked for.

    Attributes:
        path: a table of results.
        run: number of the run.
        column: the quantity.
        names: the flows, links or proxies that are wanted; empty: all, up to `MOST_TRACES` traces.
    """

    path: Path
    run: int
    column: str
    names: tuple[str, ...] = ()


class Graph:
    """A quantity of a run over time. Threads may share it.

    Args:
        asked: which.

    Raises:
        InputError: the file cannot be read, or has no such quantity.
    """

    def __init__(self, asked: Asked) -> None:
        path, run, column, self._names = asked
        if column not in quantities(path):
            raise InputError(f"{column}: no quantity over time of {path.stem}")
        self._path, self._run, self._column = path, run, column
        self._by = labels_of(path)
        self._lock = threading.Lock()
        self._traces: dict[Part, native.Trace] = {}
        self._found: set[Part] = set()
        # Limits of the whole run before all of it is read, so that the axis does not move.
        first, last, *self._limits = self._extent()
        self._begins = deque(range(first, last + 1, ROWS))
        self._count = len(self._begins)

    def read_on(self, for_s: float = math.inf) -> None:
        """Read parts of the table until all are read or a time has passed, at least one.

        Raises:
            InputError: the file cannot be read, or has too many samples.
        """
        begun = time.monotonic()
        with self._lock, _scan(self._path) as scan:
            while self._begins:
                self._add(scan.slice(self._begins.popleft(), ROWS))
                if time.monotonic() - begun >= for_s:
                    break
            self._traces = dict(sorted(self._traces.items()))

    @property
    def share_read(self) -> float:
        """The share of the parts of the table with rows of the run that is read, 0 to 1."""
        return 1 - len(self._begins) / self._count if self._count else 1.0

    @property
    def parts(self) -> list[Part]:
        """Whose samples the traces have, in order: of each flow, link or proxy."""
        return list(self._traces)

    def has_samples(self, part: Part) -> bool:
        """Whether a trace has samples so far: the quantity may be empty in each of its rows."""
        return len(self._traces[part]) > 0

    @property
    def left_out(self) -> int:
        """How many traces there are beyond `MOST_TRACES`."""
        return len(self._found) - len(self._traces)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(len(trace) for trace in self._traces.values())

    @property
    def span_s(self) -> tuple[float, float]:
        """The times of the first and the last sample; 0 and 1 without any."""
        spans = [trace.span_s for trace in self._traces.values() if trace.span_s]
        if self._begins:
            spans.append((self._limits[0], self._limits[1]))
        if not spans:
            return 0.0, 1.0
        first, last = min(first for first, _ in spans), max(last for _, last in spans)
        return (first, last) if last > first else (first, first + 1.0)

    def envelopes(self, from_s: float, to_s: float, columns: int) -> dict[Part, bytes]:
        """Return the smallest and then the largest values of each trace in equal columns of a time span, as doubles."""
        with self._lock:
            return {part: trace.envelope(from_s, to_s, columns) for part, trace in self._traces.items()}

    def _extent(self) -> tuple[int, int, float, float]:
        """Return the first and the last row of the run and the limits of its times; without any row 0 and -1."""
        place, at = pl.col("row"), pl.col(TIME)
        with _scan(self._path) as scan:
            rows = scan.select("run", TIME).with_row_index("row").filter(pl.col("run") == self._run)
            limits = rows.select(place.min(), place.max().alias("last"), at.min(), at.max().alias("end")).collect()
        first, last, begin, end = limits.row(0)
        return (0, -1, 0.0, 1.0) if first is None else (first, last, begin or 0.0, end or 0.0)

    def _add(self, part: pl.LazyFrame) -> None:
        """Add the rows of the run in a part of the table to the traces."""
        samples = (pl.col(TIME, self._column).cast(pl.Float64),)
        rows = part.select("run", *self._by, *samples).filter(pl.col("run") == self._run).collect()
        for labels, own in rows.partition_by(self._by, as_dict=True, include_key=False, maintain_order=True).items():
            label = part_of(self._by, labels)
            if self._names and label.name not in self._names:
                continue
            self._found.add(label)
            if label in self._traces or len(self._traces) < MOST_TRACES:
                # A value that is missing becomes NaN, which is no sample.
                times, values = (own[name].to_numpy(writable=True) for name in (TIME, self._column))
                self._traces.setdefault(label, native.Trace()).extend(times.data, values.data)
        if self.samples > MOST_SAMPLES:
            raise _too_many(self._column)


class Graphs:
    """The graphs that were asked for last. Threads may share it; files are read one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Asked, int, int], Graph] = OrderedDict()

    def get(self, asked: Iterable[Asked], for_s: float = math.inf) -> list[Graph]:
        """Return the graphs of one page, in their order.

        Args:
            asked: which.
            for_s: how long to read; what is not read to its end by then is read on by the next call.

        Raises:
            InputError: a file cannot be read, has no such quantity, or all have too many samples together.
        """
        begun = time.monotonic()
        with self._lock:
            found: dict[tuple[Asked, int, int], Graph] = {}
            for each in asked:
                key = (each, *_stamp(each.path))
                found[key] = self._known.pop(key) if key in self._known else Graph(each)
            is_first = True
            for graph in found.values():
                left_s = for_s - (time.monotonic() - begun)
                if graph.share_read < 1 and (is_first or left_s > 0):
                    graph.read_on(left_s)
                    is_first = False
            self._known.update(found)
            while sum(each.samples for each in self._known.values()) > MOST_SAMPLES and len(self._known) > len(found):
                self._known.popitem(last=False)
            if sum(graph.samples for graph in found.values()) > MOST_SAMPLES:
                for key in found:
                    del self._known[key]
                raise _too_many("this page")
        return list(found.values())


def packed(head: Mapping[str, Any], envelopes: Iterable[bytes]) -> bytes:
    """Return envelopes for a browser.

    Little-endian: length of the head (32 bits); the head as JSON, padded with spaces so that both have a multiple of 8
    bytes; of each trace the smallest and then the largest values of all columns, as doubles, NaN where there is no
    sample.
    """
    text = json.dumps(head).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join([struct.pack("<I", len(text)), text, *envelopes])


def quantities(path: Path) -> list[str]:
    """Return the columns of a table that can be drawn over time; none where it has no times.

    Raises:
        InputError: the file cannot be read.
    """
    schema = _schema(path)
    if "run" not in schema or TIME not in schema or kind_of(path) is None:
        return []
    return [name for name, kind in schema.items() if name not in ("run", TIME, *SPLIT) and kind.is_numeric()]


def kind_of(path: Path) -> str | None:
    """Return of what a table has rows: `flow`, `link` or `proxy`; none where of neither.

    Raises:
        InputError: the file cannot be read.
    """
    schema = _schema(path)
    return next((name for name in NAMES if name in schema), None)


def labels_of(path: Path) -> list[str]:
    """Return the columns that tell the traces of a table apart.

    Raises:
        InputError: the file cannot be read.
    """
    names = _schema(path).names()
    return [next(name for name in NAMES if name in names), *(name for name in SPLIT if name in names)]


def rows_of(path: Path, run: int, columns: Iterable[str]) -> pl.DataFrame:
    """Return the rows of a run, some of their columns.

    Raises:
        InputError: the file cannot be read.
    """
    with _scan(path) as scan:
        return scan.filter(pl.col("run") == run).select(columns).collect()


def names_in(path: Path) -> list[str]:
    """Return the flows, links or proxies that a table has rows of.

    Raises:
        InputError: the file cannot be read.
    """
    kind = kind_of(path)
    if kind is None:
        return []
    with _scan(path) as scan:
        check_room(path, 1, MOST_OF_A_PAGE)
        return sorted(map(str, scan.select(pl.col(kind).unique()).collect().to_series()))


def empty_columns(path: Path) -> frozenset[str]:
    """Return the columns of a table without any value.

    Raises:
        InputError: the file cannot be read.
    """
    with _scan(path) as scan:
        # Most columns have a value in the first rows, so that few are read to their end.
        first = scan.head(ROWS).select(pl.all().is_null().all()).collect()
        maybe = [name for name, is_empty in zip(first.columns, first.row(0), strict=True) if is_empty]
        if not maybe:
            return frozenset()
        whole = scan.select(pl.col(maybe).is_null().all()).collect()
        return frozenset(name for name, is_empty in zip(maybe, whole.row(0), strict=True) if is_empty)


def part_of(by: list[str], values: tuple[Any, ...]) -> Part:
    """Return whose samples a trace has.

    Examples:
        >>> part_of(["flow", "event"], ("main", "sent")), part_of(["flow", "leg"], ("main", 2))
        (Part(name='main', leg=0, event='sent'), Part(name='main', leg=2, event=''))
    """
    known = dict(zip(by, values, strict=True))
    name, leg, event = values[0], known.get("leg"), known.get("event")
    return Part("" if name is None else str(name), 0 if leg is None else int(leg), "" if event is None else str(event))


def _too_many(what: str) -> InputError:
    return InputError(f"{what}: more than {MOST_SAMPLES:,} samples", "take fewer runs, or download the table")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except OSError as error:
        raise InputError(f"{path.name}: {error.strerror}", "run the study again") from error
    return about.st_mtime_ns, about.st_size


def _schema(path: Path) -> pl.Schema:
    with _scan(path) as scan:
        return scan.collect_schema()


@contextlib.contextmanager
def _scan(path: Path) -> Iterator[pl.LazyFrame]:
    # Opened here: polars takes names of files in UTF-8 only.
    with readable(path), path.open("rb") as file:
        yield pl.scan_parquet(file)

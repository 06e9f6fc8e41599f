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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perigee.core import native
from perigee.errors import InputError
from perigee.store.room import MOST_OF_A_PAGE, check_group, check_room

NAMES = ("flow", "link", "proxy")
"""The column that says what a row is of: the first of these that a table has."""
SPLIT = ("leg", "event")
"""Columns whose values are traces of their own."""
TIME = "t_s"
MOST_SAMPLES = 20_000_000
"""In memory, of all graphs together: 320 MB."""
MOST_TRACES = 24
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
        names = _schema(path).names
        self._path, self._run, self._column = path, run, column
        self._by = [next(name for name in NAMES if name in names), *(name for name in SPLIT if name in names)]
        self._lock = threading.Lock()
        self._traces: dict[Part, native.Trace] = {}
        self._found: set[Part] = set()
        with _named_errors(path):
            texts = [name for name in self._by if name != "leg"]
            self._file = pq.ParquetFile(path, memory_map=True, read_dictionary=texts)
            groups = (_Group(path, self._file, number) for number in range(self._file.num_row_groups))
            self._groups = deque(group for group in groups if group.may_have("run", run))
        self._count = len(self._groups)
        # Limits of the whole run before all of it is read, so that the axis does not move.
        self._limits = [limits for group in self._groups if (limits := group.limits(TIME))]

    def read_on(self, for_s: float = math.inf) -> None:
        """Read row groups until all are read or a time has passed, at least one.

        Raises:
            InputError: the file cannot be read, or has too many samples.
        """
        begun = time.monotonic()
        with self._lock, _named_errors(self._path):
            while self._groups:
                self._add(self._groups.popleft())
                if time.monotonic() - begun >= for_s:
                    break
            self._traces = dict(sorted(self._traces.items()))
            if not self._groups:
                self._file.close()

    @property
    def share_read(self) -> float:
        """The share of the table's row groups of the run that is read, 0 to 1."""
        return 1 - len(self._groups) / self._count if self._count else 1.0

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
    def is_dotted(self) -> bool:
        """Whether samples are events of their own, which no line connects."""
        return "event" in self._by

    @property
    def is_of_flows(self) -> bool:
        """Whether its traces are flows, not links or proxies."""
        return self._by[0] == "flow"

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(len(trace) for trace in self._traces.values())

    @property
    def span_s(self) -> tuple[float, float]:
        """The times of the first and the last sample; 0 and 1 without any."""
        spans = [trace.span_s for trace in self._traces.values() if trace.span_s]
        if self._groups:
            spans += self._limits
        if not spans:
            return 0.0, 1.0
        first, last = min(first for first, _ in spans), max(last for _, last in spans)
        return (first, last) if last > first else (first, first + 1.0)

    def envelopes(self, from_s: float, to_s: float, columns: int) -> dict[Part, bytes]:
        """Return the smallest and then the largest values of each trace in equal columns of a time span, as doubles."""
        with self._lock:
            return {part: trace.envelope(from_s, to_s, columns) for part, trace in self._traces.items()}

    def _add(self, group: _Group) -> None:
        """Add the rows of the run in a row group to the traces."""
        by = self._by
        mixed = [name for name in by if group.only(name) is None]
        has_one_run = group.only("run") is not None
        table = group.read([*([] if has_one_run else ["run"]), *mixed, TIME, self._column])
        codes = np.zeros(len(table), dtype=np.int32)
        labels: list[tuple[Any, ...]] = [()]
        for name in by:
            only = group.only(name)
            if only is not None:
                labels = [(*label, only[0]) for label in labels]
                continue
            chunk = table[name].combine_chunks()
            encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode(null_encoding="encode")
            kinds = encoded.dictionary.to_pylist()
            codes = codes * len(kinds) + encoded.indices.to_numpy()
            labels = [(*label, kind) for label in labels for kind in kinds]
        there = codes if has_one_run else codes[table["run"].to_numpy() == self._run]
        places = np.full(len(labels), -1, dtype=np.int32)
        traces: list[native.Trace] = []
        for code in np.flatnonzero(np.bincount(there, minlength=len(labels))):
            part = _part(by, labels[code])
            if self._names and part.name not in self._names:
                continue
            self._found.add(part)
            if part in self._traces or len(self._traces) < MOST_TRACES:
                places[code] = len(traces)
                traces.append(self._traces.setdefault(part, native.Trace()))
        place = places[codes]
        if not has_one_run:
            place[table["run"].to_numpy() != self._run] = -1
        native.Trace.add(traces, place.data, _doubles(table[TIME]).data, _doubles(table[self._column]).data)
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
    if "run" not in schema.names or TIME not in schema.names or kind_of(path) is None:
        return []
    return [
        field.name
        for field in schema
        if field.name not in ("run", TIME, *SPLIT)
        and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
    ]


def kind_of(path: Path) -> str | None:
    """Return of what a table has rows: `flow`, `link` or `proxy`; none where of neither.

    Raises:
        InputError: the file cannot be read.
    """
    names = _schema(path).names
    return next((name for name in NAMES if name in names), None)


def names_in(path: Path) -> list[str]:
    """Return the flows, links or proxies that a table has rows of.

    Raises:
        InputError: the file cannot be read.
    """
    kind = kind_of(path)
    if kind is None:
        return []
    with _named_errors(path):
        check_room(path, 1, MOST_OF_A_PAGE)
        column = pq.read_table(path, columns=[kind], read_dictionary=[kind], memory_map=True)[kind]
        return sorted({str(name) for chunk in column.chunks for name in chunk.unique().to_pylist()})


def empty_columns(path: Path) -> frozenset[str]:
    """Return the columns of a table without any value, as far as the file says which these are.

    Raises:
        InputError: the file cannot be read.
    """
    with _named_errors(path), pq.ParquetFile(path) as file:
        groups = [_Group(path, file, number) for number in range(file.num_row_groups)]
        return frozenset(name for name in file.schema_arrow.names if all(group.is_empty(name) for group in groups))


class _Group:
    """A row group, of which columns with one value are not read: the file's statistics have it."""

    def __init__(self, path: Path, file: pq.ParquetFile, number: int) -> None:
        self._path = path
        self._file = file
        self._number = number
        about = file.metadata.row_group(number)
        self.rows = about.num_rows
        self._known: dict[str, Any] = {}
        for place in range(about.num_columns):
            chunk = about.column(place)
            self._known[chunk.path_in_schema] = chunk.statistics

    def may_have(self, column: str, value: int) -> bool:
        known = self._known.get(column)
        return known is None or not known.has_min_max or known.min <= value <= known.max

    def limits(self, column: str) -> tuple[float, float] | None:
        """Return the smallest and the largest value of a column; none where the file does not say."""
        known = self._known.get(column)
        return (known.min, known.max) if known is not None and known.has_min_max else None

    def is_empty(self, column: str) -> bool:
        known = self._known.get(column)
        return known is not None and known.has_null_count and known.null_count == self.rows

    def only(self, column: str) -> tuple[Any] | None:
        """Return the one value of a column; none where it may have several."""
        known = self._known.get(column)
        if known is None:
            return None
        if self.is_empty(column):
            return (None,)
        is_one = known.has_min_max and known.has_null_count and known.null_count == 0 and known.min == known.max
        # Long texts are cut off in statistics.
        return (known.min,) if is_one and len(str(known.min)) < 32 else None

    def read(self, columns: list[str]) -> pa.Table:
        check_group(self._path, self._file, self._number, len(columns))
        return self._file.read_row_group(self._number, columns)


def _part(by: list[str], values: tuple[Any, ...]) -> Part:
    """Return whose samples a trace has.

    Examples:
        >>> _part(["flow", "event"], ("main", "sent")), _part(["flow", "leg"], ("main", 2))
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


def _doubles(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _schema(path: Path) -> pa.Schema:
    with _named_errors(path):
        return pq.read_schema(path)


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path.name}: cannot be read: {error}", "run the study again") from error

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perigee.core import native
from perigee.errors import InputError

NAMES = ("flow", "link", "proxy")
"""The column that says what a row is of: the first of these that a table has."""
SPLIT = ("leg", "event")
"""Columns whose values are traces of their own."""
TIME = "t_s"
MOST_SAMPLES = 20_000_000
"""In memory, of all graphs together: 320 MB."""
MOST_TRACES = 24
MOST_COLUMNS = 4096


class Graph:
    """A quantity of a run over time. Threads may share it.

    Args:
        path: a table of results.
        run: number of the run.
        column: the quantity.

    Raises:
        InputError: the file cannot be read, or has no such quantity.
    """

    def __init__(self, path: Path, run: int, column: str) -> None:
        if column not in quantities(path):
            raise InputError(f"{column}: no quantity over time of {path.stem}")
        names = _schema(path).names
        self._path, self._run, self._column = path, run, column
        self._by = [next(name for name in NAMES if name in names), *(name for name in SPLIT if name in names)]
        self._lock = threading.Lock()
        self._traces: dict[str, native.Trace] = {}
        self._found: set[str] = set()
        with _named_errors(path):
            texts = [name for name in self._by if name != "leg"]
            self._file = pq.ParquetFile(path, memory_map=True, read_dictionary=texts)
            groups = (_Group(self._file, number) for number in range(self._file.num_row_groups))
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
    def names(self) -> list[str]:
        """The names of the traces: of each flow, link or proxy."""
        return list(self._traces)

    @property
    def left_out(self) -> int:
        """How many traces there are beyond `MOST_TRACES`."""
        return len(self._found) - len(self._traces)

    @property
    def is_dotted(self) -> bool:
        """Whether samples are events of their own, which no line connects."""
        return "event" in self._by

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

    def envelopes(self, from_s: float, to_s: float, columns: int) -> dict[str, bytes]:
        """Return the smallest and then the largest values of each trace in equal columns of a time span, as doubles."""
        with self._lock:
            return {name: trace.envelope(from_s, to_s, columns) for name, trace in self._traces.items()}

    def packed(self, from_s: float, to_s: float, columns: int) -> bytes:
        """Return the envelopes for a browser.

        Little-endian: length of the head (32 bits); the head as JSON, padded with spaces so that both have a multiple
        of 8 bytes; of each trace the smallest and then the largest values of all columns, as doubles, NaN where there
        is no sample.
        """
        share_read, whole = self.share_read, self.span_s
        envelopes = self.envelopes(from_s, to_s, columns)
        head = {
            "from": from_s,
            "to": to_s,
            "first": whole[0],
            "last": whole[1],
            "columns": columns,
            "samples": self.samples,
            "read": share_read,
            "dotted": self.is_dotted,
            "traces": list(envelopes),
            "left_out": self.left_out,
        }
        text = json.dumps(head).encode()
        text += b" " * (-(len(text) + 4) % 8)
        return b"".join([struct.pack("<I", len(text)), text, *envelopes.values()])

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
            named = _named(by, labels[code])
            self._found.add(named)
            if named in self._traces or len(self._traces) < MOST_TRACES:
                places[code] = len(traces)
                traces.append(self._traces.setdefault(named, native.Trace()))
        place = places[codes]
        if not has_one_run:
            place[table["run"].to_numpy() != self._run] = -1
        native.Trace.add(traces, place.data, _doubles(table[TIME]).data, _doubles(table[self._column]).data)
        if self.samples > MOST_SAMPLES:
            raise InputError(f"{self._column}: more than {MOST_SAMPLES:,} samples", "download the table")


class Graphs:
    """The graphs that were asked for last. Threads may share it; files are read one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int, int, int, str], Graph] = OrderedDict()

    def get(self, path: Path, run: int, column: str, for_s: float = math.inf) -> Graph:
        """Return a quantity of a run.

        Args:
            path: a table of results.
            run: number of the run.
            column: the quantity.
            for_s: how long to read; a graph that is not read to its end by then is read on by the next call.

        Raises:
            InputError: the file cannot be read, has no such quantity, or has too many samples of it.
        """
        try:
            about = path.stat()
        except OSError as error:
            raise InputError(f"{path.name}: {error.strerror}", "run the study again") from error
        key = (str(path), about.st_mtime_ns, about.st_size, run, column)
        with self._lock:
            graph = self._known.pop(key, None) or Graph(path, run, column)
            graph.read_on(for_s)
            self._known[key] = graph
            while sum(each.samples for each in self._known.values()) > MOST_SAMPLES and len(self._known) > 1:
                self._known.popitem(last=False)
        return graph


def quantities(path: Path) -> list[str]:
    """Return the columns of a table that can be drawn over time; none where it has no times.

    Raises:
        InputError: the file cannot be read.
    """
    schema = _schema(path)
    if "run" not in schema.names or TIME not in schema.names or not any(name in schema.names for name in NAMES):
        return []
    return [
        field.name
        for field in schema
        if field.name not in ("run", TIME, *SPLIT)
        and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
    ]


class _Group:
    """A row group, of which columns with one value are not read: the file's statistics have it."""

    def __init__(self, file: pq.ParquetFile, number: int) -> None:
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

    def only(self, column: str) -> tuple[Any] | None:
        """Return the one value of a column; none where it may have several."""
        known = self._known.get(column)
        if known is None:
            return None
        if known.has_null_count and known.null_count == self.rows:
            return (None,)
        is_one = known.has_min_max and known.has_null_count and known.null_count == 0 and known.min == known.max
        # Long texts are cut off in statistics.
        return (known.min,) if is_one and len(str(known.min)) < 32 else None

    def read(self, columns: list[str]) -> pa.Table:
        return self._file.read_row_group(self._number, columns)


def _named(by: list[str], values: tuple[Any, ...]) -> str:
    """Name a trace.

    Examples:
        >>> _named(["flow", "leg", "event"], ("main", None, "sent")), _named(["flow", "leg"], ("main", 2))
        ('main, sent', 'main, leg 2')
    """
    words = [
        f"leg {value}" if name == "leg" else str(value)
        for name, value in zip(by, values, strict=True)
        if value is not None
    ]
    return ", ".join(words)


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

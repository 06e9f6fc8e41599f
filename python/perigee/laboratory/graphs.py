# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Quantities over time out of results tables, reduced to the pixel columns of a graph.

The samples of the graphs that were asked for last stay in memory, so that zooming into 10 million of them reads no
file.
"""

from __future__ import annotations

import json
import struct
import threading
from collections import OrderedDict
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Graph:
    """A quantity of a run over time.

    Attributes:
        traces: of each flow, link or proxy by name.
        left_out: how many traces there are beyond `MOST_TRACES`.
        dotted: whether samples are events of their own, which no line connects.
    """

    traces: dict[str, native.Trace]
    left_out: int
    dotted: bool

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(len(trace) for trace in self.traces.values())

    @property
    def span_s(self) -> tuple[float, float]:
        """The times of the first and the last sample; 0 and 1 without any."""
        spans = [trace.span_s for trace in self.traces.values() if trace.span_s]
        if not spans:
            return 0.0, 1.0
        first, last = min(first for first, _ in spans), max(last for _, last in spans)
        return (first, last) if last > first else (first, first + 1.0)

    def envelopes(self, from_s: float, to_s: float, columns: int) -> dict[str, bytes]:
        """Return the smallest and then the largest values in so many columns of a time, of each trace, as doubles."""
        return {name: trace.envelope(from_s, to_s, columns) for name, trace in self.traces.items()}

    def packed(self, from_s: float, to_s: float, columns: int) -> bytes:
        """Return the envelopes for a browser.

        Little-endian: length of the head (32 bits); the head as JSON, padded with spaces so that both have a multiple
        of 8 bytes; of each trace the smallest and then the largest values of all columns, as doubles, NaN where there
        is no sample.
        """
        whole = self.span_s
        head = {
            "from": from_s,
            "to": to_s,
            "first": whole[0],
            "last": whole[1],
            "columns": columns,
            "samples": self.samples,
            "dotted": self.dotted,
            "traces": list(self.traces),
            "left_out": self.left_out,
        }
        text = json.dumps(head).encode()
        text += b" " * (-(len(text) + 4) % 8)
        return b"".join([struct.pack("<I", len(text)), text, *self.envelopes(from_s, to_s, columns).values()])


class Graphs:
    """The graphs that were asked for last. Threads may share it; files are read one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int, int, int, str], Graph] = OrderedDict()

    def get(self, path: Path, run: int, column: str) -> Graph:
        """Return a quantity of a run.

        Args:
            path: a table of results.
            run: number of the run.
            column: the quantity.

        Raises:
            InputError: the file cannot be read, has no such quantity, or has too many samples of it.
        """
        try:
            about = path.stat()
        except OSError as error:
            raise InputError(f"{path.name}: {error.strerror}", "run the study again") from error
        key = (str(path), about.st_mtime_ns, about.st_size, run, column)
        with self._lock:
            graph = self._known.pop(key, None)
            if graph is None:
                graph = read(path, run, column)
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


def read(path: Path, run: int, column: str) -> Graph:
    """Return a quantity of a run out of a table, read a row group at a time.

    Raises:
        InputError: as for `Graphs.get`.
    """
    if column not in quantities(path):
        raise InputError(f"{column}: no quantity over time of {path.stem}")
    names = _schema(path).names
    by = [next(name for name in NAMES if name in names), *(name for name in SPLIT if name in names)]
    traces: dict[str, native.Trace] = {}
    found: set[str] = set()
    try:
        with pq.ParquetFile(path, memory_map=True, read_dictionary=[name for name in by if name != "leg"]) as file:
            for number in range(file.num_row_groups):
                group = _Group(file, number)
                if group.may_have("run", run):
                    _add(group, run, column, by, traces, found)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path.name}: cannot be read: {error}", "run the study again") from error
    return Graph(dict(sorted(traces.items())), len(found) - len(traces), dotted="event" in by)


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


def _add(group: _Group, run: int, column: str, by: list[str], traces: dict[str, native.Trace], found: set[str]) -> None:
    """Add the rows of a run in a row group to the traces."""
    mixed = [name for name in by if group.only(name) is None]
    has_one_run = group.only("run") is not None
    table = group.read([*([] if has_one_run else ["run"]), *mixed, TIME, column])
    rows = slice(None) if has_one_run else table["run"].to_numpy() == run
    times, values = (_doubles(table[name])[rows] for name in (TIME, column))
    codes = np.zeros(len(times), dtype=np.int64)
    labels: list[tuple[Any, ...]] = [()]
    for name in by:
        only = group.only(name)
        if only is not None:
            labels = [(*label, only[0]) for label in labels]
            continue
        chunk = table[name].combine_chunks()
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode(null_encoding="encode")
        kinds = encoded.dictionary.to_pylist()
        codes = codes * len(kinds) + encoded.indices.to_numpy()[rows]
        labels = [(*label, kind) for label in labels for kind in kinds]
    for code in np.flatnonzero(np.bincount(codes, minlength=len(labels))):
        named = _named(by, labels[code])
        found.add(named)
        if named not in traces:
            if len(traces) >= MOST_TRACES:
                continue
            traces[named] = native.Trace()
        of_it = slice(None) if len(labels) == 1 else codes == code
        traces[named].add(times[of_it].data, values[of_it].data)
    if sum(len(trace) for trace in traces.values()) > MOST_SAMPLES:
        raise InputError(f"{column}: more than {MOST_SAMPLES:,} samples", "download the table")


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
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path.name}: cannot be read: {error}", "run the study again") from error

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The tables of runs on the disk, in files of one run or of several short ones, until all are there and are merged.

A shard is a line of text (`perigee-shard 1 <sha256 of the rest>`) and then, for each table, its name, its length and
its Arrow stream, with the rows of its runs in rising order. It is written whole or not at all, so a run is either kept
or done again. Its name says which runs it has, see `perigee.store.shard_names`.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import polars as pl
from polars.io.plugins import register_io_source

from perigee.errors import InputError
from perigee.files import atomic_file
from perigee.store.shard_names import runs_of
from perigee.store.streams import Streams, frame_of

MAGIC = b"perigee-shard 1 "
HEAD_BYTES = len(MAGIC) + 64 + 1
LENGTHS = struct.Struct("<HQ")  # bytes of the table's name, bytes of its Arrow stream
MESSAGE = struct.Struct("<II")  # begin of a message of an Arrow stream: a mark, bytes of the metadata
ROW_GROUP_ROWS = 1 << 17
WIDENED = frozenset({"states"})
"""Tables whose columns depend on the congestion controls of a run."""
PARTS = 256
"""Maximum shards whose tables are handed on as one, until that has the rows of a group."""
END = b"\xff\xff\xff\xff\0\0\0\0"
"""The end of an Arrow stream."""


def write_shard(path: Path, tables: Streams) -> None:
    """Write the tables of the runs of a shard.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    digest = hashlib.sha256()
    with atomic_file(path) as file:
        file.write(bytes(HEAD_BYTES))
        for name, stream in tables.items():
            encoded = name.encode()
            for part in (LENGTHS.pack(len(encoded), len(stream)), encoded, stream):
                file.write(part)
                digest.update(part)
        file.seek(0)
        file.write(MAGIC + digest.hexdigest().encode() + b"\n")


def read_shard(path: Path) -> dict[str, pl.DataFrame]:
    """Read the tables of the runs of a shard.

    Raises:
        InputError: the file is damaged.
    """
    check_shard(path)
    with path.open("rb") as file:
        return {name: frame_of(file.read(stream_bytes)) for name, stream_bytes in _streams_in(file)}


def check_shard(path: Path) -> None:
    """Compare a shard with its checksum.

    Raises:
        InputError: the file is damaged.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if head != MAGIC + found.encode() + b"\n":
        raise _damaged(path)


def _streams_in(file: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Yield name and length of each table's stream, at whose begin the file stands then; it need not be read."""
    at = HEAD_BYTES
    file.seek(at)
    while lengths := file.read(LENGTHS.size):
        name_bytes, stream_bytes = LENGTHS.unpack(lengths)
        yield file.read(name_bytes).decode(), stream_bytes
        at += LENGTHS.size + name_bytes + stream_bytes
        file.seek(at)


def _damaged(path: Path) -> InputError:
    return InputError(f"{path}: damaged; remove this file, then give the same command again to do its runs again")


class ShardReader:
    """Reads shards run by run: one of which further runs are wanted is read once, and kept until its last run.

    Args:
        only: the table that is read, of shards that were checked; none: all tables.
    """

    def __init__(self, only: str | None = None) -> None:
        self._only = only
        self._open: dict[Path, dict[str, pl.DataFrame]] = {}

    def tables(self, path: Path, runs: range) -> dict[str, pl.DataFrame]:
        """Return the tables of some successive runs of a shard.

        Args:
            path: the shard.
            runs: runs that it has, none of its own left out between them.

        Raises:
            InputError: the file is damaged.
        """
        held = runs_of(path.name)
        if len(runs) == len(held):
            return self._read(path)
        tables = self._open.get(path)
        if tables is None:
            tables = self._read(path)
        if runs[-1] == held[-1]:
            self._open.pop(path, None)
        else:
            self._open[path] = tables
        return {name: _rows_of(table, runs) for name, table in tables.items()}

    def _read(self, path: Path) -> dict[str, pl.DataFrame]:
        if self._only is None:
            return read_shard(path)
        with path.open("rb") as file:
            return {name: frame_of(file.read(length)) for name, length in _streams_in(file) if name == self._only}


def _rows_of(table: pl.DataFrame, runs: range) -> pl.DataFrame:
    first, behind = table["run"].to_numpy().searchsorted([runs[0], runs[-1] + 1])
    return table.slice(first, behind - first)


def same_run(reader: ShardReader, one: Path, other: Path, run: int) -> bool:
    """Whether two shards have the same tables of a run; `reader` reads those of several runs.

    Raises:
        InputError: a file is damaged.
    """
    if runs_of(one.name) == runs_of(other.name):
        return _digest_of(one) == _digest_of(other)
    tables, others = (reader.tables(path, range(run, run + 1)) for path in (one, other))
    for name in tables.keys() & others.keys() & WIDENED:
        schema = _widest([tables[name].schema, others[name].schema])
        tables[name], others[name] = (_widened(part[name], schema) for part in (tables, others))
    return tables.keys() == others.keys() and all(table.equals(others[name]) for name, table in tables.items())


def _digest_of(path: Path) -> bytes:
    """Return the checksum that a shard begins with: shards of equal checksums hold equal tables."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(head) != HEAD_BYTES or not head.startswith(MAGIC):
        raise _damaged(path)
    return head[len(MAGIC) :]


def merge_shards(kept: Sequence[Path], folder: Path, numbers: Sequence[int] | None = None) -> dict[str, int]:
    """Join the tables of all runs, in their order, into one Parquet file per table that has rows.

    The values depend on the tables' content only, and with one version of polars the bytes do, too: rows come in the
    order of the runs and are cut into row groups of a fixed size, whatever process wrote the shards and when, and
    whichever runs are in one of them.

    Args:
        kept: the shard of each run, from run 0.
        folder: where `<table>.parquet` is written.
        numbers: the number that each run has in its shard, rising within a shard; none: its own.

    Returns:
        The number of rows of each table that has any.

    Raises:
        InputError: a shard is damaged.
        StorageError: the disk is full, or the folder cannot be written.
    """
    shards = list(dict.fromkeys(kept))
    holders: dict[str, Path] = {}
    for path in shards:
        check_shard(path)
        with path.open("rb") as file:
            for name, _ in _streams_in(file):
                holders.setdefault(name, path)
    rows = {}
    for name, holder in holders.items():
        schema = _widest(_schema_in(path, name) for path in (shards if name in WIDENED else [holder]))
        rows[name] = _write_table(folder / f"{name}.parquet", _rows_in_order(kept, numbers, name, schema), schema)
    return rows


def _rows_in_order(
    kept: Sequence[Path], numbers: Sequence[int] | None, name: str, schema: pl.Schema
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table, shard by shard in the order of the runs."""
    reader = ShardReader(name)
    first = 0
    for path, run_by_run in itertools.groupby(kept):
        behind = first + sum(1 for _ in run_by_run)
        for there, here in _successive(numbers or range(behind), first, behind):
            for table in reader.tables(path, there).values():
                yield _widened(_renumbered(table, here - there[0]), schema)
        first = behind


def _write_table(path: Path, frames: Iterator[pl.DataFrame], schema: pl.Schema) -> int:
    """Write rows as they come, in groups of `ROW_GROUP_ROWS`, the last of which may be smaller; return their number."""
    rows = 0

    def source(*_: object) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for frame in _joined(frames):
            rows += frame.height
            yield frame

    with atomic_file(path) as file:
        register_io_source(source, schema=schema).sink_parquet(
            file, compression="zstd", compression_level=3, row_group_size=ROW_GROUP_ROWS
        )
    return rows


def _joined(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield longer frames of successive ones: each has a cost, however short it is."""
    parts: list[pl.DataFrame] = []
    for frame in frames:
        parts.append(frame)
        if len(parts) == PARTS or sum(part.height for part in parts) >= ROW_GROUP_ROWS:
            yield pl.concat(parts)
            parts = []
    if parts:
        yield pl.concat(parts)


def _widest(schemas: Iterable[pl.Schema]) -> pl.Schema:
    """Return the columns of any of these schemas: those of the first, then further ones as they come."""
    columns: dict[str, pl.DataType] = {}
    for schema in schemas:
        for name, kind in schema.items():
            if columns.setdefault(name, kind) != kind:
                # A name with one algorithm and a number with another.
                columns[name] = pl.String()
    return pl.Schema(columns)


def _schema_in(path: Path, table: str) -> pl.Schema:
    """Return the columns of a table of a shard, of which no row is read; none where it has none."""
    with path.open("rb") as file:
        for name, _ in _streams_in(file):
            if name == table:
                begin = file.read(MESSAGE.size)
                return frame_of(begin + file.read(MESSAGE.unpack(begin)[1]) + END).schema
    return pl.Schema()


def _widened(table: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Return a table with these columns; those that it lacks are empty."""
    if table.schema == schema:
        return table
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in schema.items()
    )


def _successive(numbers: Sequence[int], first: int, behind: int) -> Iterator[tuple[range, int]]:
    """Yield stretches of runs whose numbers in a shard are successive: these numbers, and the first run's own number.

    Examples:
        >>> list(_successive([0, 7, 8, 10], 1, 4)), list(_successive(range(9), 3, 6))
        ([(range(7, 9), 1), (range(10, 11), 3)], [(range(3, 6), 3)])
    """
    for _, stretch in itertools.groupby(range(first, behind), key=lambda run: numbers[run] - run):
        runs = list(stretch)
        yield range(numbers[runs[0]], numbers[runs[-1]] + 1), runs[0]


def _renumbered(table: pl.DataFrame, by: int) -> pl.DataFrame:
    """Return a table with the numbers of its runs changed by so much."""
    if not by:
        return table
    return table.with_columns((pl.col("run").cast(pl.Int64) + by).cast(table.schema["run"]))

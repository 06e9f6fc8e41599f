# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The tables of runs on the disk, in files of one run or of several short ones, until all are there and are merged.

A shard is a line of text (`perigee-shard 1 <sha256 of the rest>`) and then, for each table, its name, its length and
its Arrow stream, with the rows of its runs in rising order. It is written whole or not at all, so a run is either kept
or done again. Its name says which runs it has, see `perigee.store.shard_names`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perigee.errors import InputError
from perigee.files import atomic_file
from perigee.store.shard_names import runs_of

MAGIC = b"perigee-shard 1 "
HEAD_BYTES = len(MAGIC) + 64 + 1
LENGTHS = struct.Struct("<HQ")  # bytes of the table's name, bytes of its Arrow stream
ROW_GROUP_ROWS = 1 << 17
WIDENED = frozenset({"states"})
"""Tables whose columns depend on the congestion controls of a run."""
PARTS = 256
"""Maximum shards whose tables are copied into one, until a row group is full."""


def write_shard(path: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write the tables of the runs of a shard, straight to the disk: no copy of them is made in memory.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    with atomic_file(path) as file:
        file.write(bytes(HEAD_BYTES))
        for name, table in tables.items():
            encoded = name.encode()
            begin = file.tell()
            file.write(LENGTHS.pack(len(encoded), 0) + encoded)
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
            end = file.tell()
            file.seek(begin)
            file.write(LENGTHS.pack(len(encoded), end - begin - LENGTHS.size - len(encoded)))
            file.seek(end)
        file.seek(HEAD_BYTES)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        file.write(MAGIC + sha256.encode() + b"\n")


def read_shard(path: Path) -> dict[str, pa.Table]:
    """Read the tables of the runs of a shard.

    Raises:
        InputError: the file is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    head, body = content[:HEAD_BYTES], memoryview(content)[HEAD_BYTES:]
    if head != MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise InputError(f"{path}: damaged; remove this file, then give the same command again to do its runs again")
    tables = {}
    while body:
        name_bytes, stream_bytes = LENGTHS.unpack_from(body)
        name = bytes(body[LENGTHS.size : LENGTHS.size + name_bytes]).decode()
        start = LENGTHS.size + name_bytes
        # A copy, so that a short table does not keep the long ones of its run in memory.
        with pa.ipc.open_stream(pa.py_buffer(bytes(body[start : start + stream_bytes]))) as reader:
            tables[name] = reader.read_all()
        body = body[start + stream_bytes :]
    return tables


class ShardReader:
    """Reads shards run by run: one of which further runs are wanted is read once, and kept until its last run."""

    def __init__(self) -> None:
        self._open: dict[Path, dict[str, pa.Table]] = {}

    def tables(self, path: Path, runs: range) -> dict[str, pa.Table]:
        """Return the tables of some successive runs of a shard.

        Args:
            path: the shard.
            runs: runs that it has, none of its own left out between them.

        Raises:
            InputError: the file is damaged.
        """
        held = runs_of(path.name)
        if len(runs) == len(held):
            return read_shard(path)
        tables = self._open.get(path) or read_shard(path)
        if runs[-1] == held[-1]:
            self._open.pop(path, None)
        else:
            self._open[path] = tables
        return {name: _rows_of(table, runs) for name, table in tables.items()}


def _rows_of(table: pa.Table, runs: range) -> pa.Table:
    numbers = table["run"].to_numpy()
    first, behind = numbers.searchsorted([runs[0], runs[-1] + 1])
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
    return tables == others


def _digest_of(path: Path) -> bytes:
    """Return the checksum that a shard begins with: shards of equal checksums hold equal tables."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(head) != HEAD_BYTES or not head.startswith(MAGIC):
        raise InputError(f"{path}: damaged; remove this file, then give the same command again to do its runs again")
    return head[len(MAGIC) :]


def merge_shards(kept: Sequence[Path], folder: Path, numbers: Sequence[int] | None = None) -> dict[str, int]:
    """Join the tables of all runs, in their order, into one Parquet file per table that has rows.

    The values depend on the tables' content only, and with one version of Arrow the bytes do, too: rows come in the
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
    names = {name: table.schema for name, table in read_shard(kept[0]).items()}
    for name in names.keys() & WIDENED:
        names[name] = _widest(_schema_in(path, name) for path in dict.fromkeys(kept))
    reader = ShardReader()
    with contextlib.ExitStack() as files:
        writers: dict[str, _TableWriter] = {}
        first = 0
        for path, run_by_run in itertools.groupby(kept):
            behind = first + sum(1 for _ in run_by_run)
            for there, here in _successive(numbers or range(behind), first, behind):
                for name, table in reader.tables(path, there).items():
                    if not table.num_rows:
                        continue
                    if name not in writers:
                        writers[name] = files.enter_context(_table_file(folder, name, names[name]))
                    writers[name].add(_widened(_renumbered(table, here - there[0]), names[name]))
            first = behind
        return {name: writers[name].close() for name in names if name in writers}


def _widest(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of any of these schemas: those of the first, then further ones as they come."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for field in schema:
            known = fields.setdefault(field.name, field)
            if known.type != field.type:
                # A name with one algorithm and a number with another.
                fields[field.name] = pa.field(field.name, pa.large_string())
    return pa.schema(list(fields.values()))


def _schema_in(path: Path, table: str) -> pa.Schema:
    """Return the columns of a table of a shard, whose checksum is checked when its rows are read."""
    with path.open("rb") as file:
        file.seek(HEAD_BYTES)
        while lengths := file.read(LENGTHS.size):
            name_bytes, stream_bytes = LENGTHS.unpack(lengths)
            if file.read(name_bytes).decode() == table:
                with pa.ipc.open_stream(file) as reader:
                    return reader.schema
            file.seek(stream_bytes, 1)
    raise InputError(f"{path}: damaged; remove this file, then give the same command again to do its runs again")


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with these columns; those that it lacks are empty."""
    if table.schema == schema:
        return table
    known = set(table.schema.names)
    columns = [
        table[field.name].cast(field.type) if field.name in known else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _successive(numbers: Sequence[int], first: int, behind: int) -> Iterator[tuple[range, int]]:
    """Yield stretches of runs whose numbers in a shard are successive: these numbers, and the first run's own number.

    Examples:
        >>> list(_successive([0, 7, 8, 10], 1, 4)), list(_successive(range(9), 3, 6))
        ([(range(7, 9), 1), (range(10, 11), 3)], [(range(3, 6), 3)])
    """
    for _, stretch in itertools.groupby(range(first, behind), key=lambda run: numbers[run] - run):
        runs = list(stretch)
        yield range(numbers[runs[0]], numbers[runs[-1]] + 1), runs[0]


def _renumbered(table: pa.Table, by: int) -> pa.Table:
    """Return a table with the numbers of its runs changed by so much."""
    if not by:
        return table
    place = table.schema.get_field_index("run")
    field = table.schema.field(place)
    numbers = (table["run"].to_numpy().astype("int64") + by).astype(field.type.to_pandas_dtype())
    return table.set_column(place, field, pa.array(numbers, field.type))


@contextlib.contextmanager
def _table_file(folder: Path, name: str, schema: pa.Schema) -> Iterator[_TableWriter]:
    with (
        atomic_file(folder / f"{name}.parquet") as file,
        pq.ParquetWriter(file, schema, version="2.6", compression="zstd", compression_level=3) as parquet,
    ):
        yield _TableWriter(parquet, schema)


class _TableWriter:
    """Cuts the rows it is given into row groups of `ROW_GROUP_ROWS`; only the last may be smaller."""

    def __init__(self, parquet: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._parquet = parquet
        self._rows = 0
        self._whole: list[pa.Table] = [schema.empty_table()]
        self._whole_rows = 0
        self._parts: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        self._parts.append(table)
        self._whole_rows += table.num_rows
        if self._whole_rows >= ROW_GROUP_ROWS:
            waiting = self._join()
            while waiting.num_rows >= ROW_GROUP_ROWS:
                self._write(waiting.slice(0, ROW_GROUP_ROWS))
                waiting = waiting.slice(ROW_GROUP_ROWS)
            self._whole, self._whole_rows = [waiting], waiting.num_rows
        elif len(self._parts) == PARTS:
            # A shard's table has a schema of its own, kilobytes even for one row.
            self._whole.append(pa.concat_tables(self._parts).combine_chunks())
            self._parts = []

    def close(self) -> int:
        """Write what is left, and return the number of all rows."""
        self._write(self._join())
        return self._rows

    def _join(self) -> pa.Table:
        joined = pa.concat_tables([*self._whole, *self._parts])
        self._whole, self._parts = [], []
        return joined

    def _write(self, table: pa.Table) -> None:
        self._parquet.write_table(table.combine_chunks(), row_group_size=ROW_GROUP_ROWS)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One run's tables on the disk, each run in a file of its own, until all are there and are merged.

A shard is a line of text (`perigee-shard 1 <sha256 of the rest>`) and then, for each table, its name, its length and
its Arrow stream. It is written whole or not at all, so a run is either kept or done again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perigee.errors import InputError
from perigee.files import atomic_file

MAGIC = b"perigee-shard 1 "
HEAD_BYTES = len(MAGIC) + 64 + 1
LENGTHS = struct.Struct("<HQ")  # bytes of the table's name, bytes of its Arrow stream
ROW_GROUP_ROWS = 1 << 17
PARTS = 256
"""So many runs' tables are copied into one, until a row group is full."""
SHARD = re.compile(r"run-(\d{6,})\.shard")


def shard_path(folder: Path, index: int) -> Path:
    """Return where the shard of run `index` is."""
    return folder / f"run-{index:06d}.shard"


def runs_in(folder: Path) -> set[int]:
    """Return the runs whose shards are in a folder, which is read once; none where there is no such folder."""
    if not folder.is_dir():
        return set()
    with os.scandir(folder) as entries:
        found = (SHARD.fullmatch(entry.name) for entry in entries)
        return {int(name[1]) for name in found if name}


def write_shard(path: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write the tables of one run, straight to the disk: no copy of them is made in memory.

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
    """Read the tables of one run.

    Raises:
        InputError: the file is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    head, body = content[:HEAD_BYTES], memoryview(content)[HEAD_BYTES:]
    if head != MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise InputError(f"{path}: damaged; remove this file, then give the same command again to redo its run")
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


def digest_of(path: Path) -> bytes:
    """Return the checksum that a shard begins with: shards of equal checksums hold equal tables.

    Raises:
        InputError: it cannot be read, or is no shard.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(head) != HEAD_BYTES or not head.startswith(MAGIC):
        raise InputError(f"{path}: damaged; remove this file, then give the same command again to redo its run")
    return head[len(MAGIC) :]


def merge_shards(shards: Sequence[Path], folder: Path) -> dict[str, int]:
    """Join the shards, in the order given, into one Parquet file per table.

    The bytes depend on the tables' content and the Arrow version only: rows come in the shards' order and are cut into
    row groups of a fixed size, whatever process wrote the shards and when.

    Args:
        shards: the shards in run order.
        folder: where `<table>.parquet` is written.

    Returns:
        The number of rows of each table.

    Raises:
        InputError: a shard is damaged.
        StorageError: the disk is full, or the folder cannot be written.
    """
    names = {name: table.schema for name, table in read_shard(shards[0]).items()}
    with contextlib.ExitStack() as files:
        writers = {name: files.enter_context(_table_file(folder, name, schema)) for name, schema in names.items()}
        for path in shards:
            for name, table in read_shard(path).items():
                writers[name].add(table)
        return {name: writer.close() for name, writer in writers.items()}


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
            # A run's table has a schema of its own, kilobytes even for one row.
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

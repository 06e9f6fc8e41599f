# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One run's tables on the disk, each run in a file of its own, until all are there and are merged.

A shard is a line of text (`perigee-shard 1 <sha256 of the rest>`) and then, for each table, its name, its length and
its Arrow stream. It is written whole or not at all, so a run is either kept or done again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perigee.errors import InputError
from perigee.files import atomic_file

MAGIC = b"perigee-shard 1 "
HEAD_BYTES = len(MAGIC) + 64 + 1
LENGTHS = struct.Struct("<HQ")  # bytes of the table's name, bytes of its Arrow stream
ROW_GROUP_ROWS = 1 << 17


def shard_path(folder: Path, index: int) -> Path:
    """Return where the shard of run `index` is."""
    return folder / f"run-{index:06d}.shard"


def write_shard(path: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write the tables of one run.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    body = io.BytesIO()
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        stream = sink.getvalue()
        encoded = name.encode()
        body.write(LENGTHS.pack(len(encoded), stream.size))
        body.write(encoded)
        body.write(stream)
    content = body.getbuffer()
    with atomic_file(path) as file:
        file.write(MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n")
        file.write(content)


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
        with pa.ipc.open_stream(pa.py_buffer(body[start : start + stream_bytes])) as reader:
            tables[name] = reader.read_all()
        body = body[start + stream_bytes :]
    return tables


def merge_shards(shards: list[Path], folder: Path) -> dict[str, int]:
    """Join the shards, in the order given, into one Parquet file per table.

    The bytes depend on the tables' content and the Arrow version only: rows come in the shards' order and are cut into
    row groups of a fixed size, whoever wrote the shards and when.

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
        self._waiting = schema.empty_table()
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        self._waiting = pa.concat_tables([self._waiting, table])
        while self._waiting.num_rows >= ROW_GROUP_ROWS:
            self._write(self._waiting.slice(0, ROW_GROUP_ROWS))
            self._waiting = self._waiting.slice(ROW_GROUP_ROWS)

    def close(self) -> int:
        """Write what is left, and return the number of all rows."""
        self._write(self._waiting)
        return self._rows

    def _write(self, table: pa.Table) -> None:
        self._parquet.write_table(table.combine_chunks(), row_group_size=ROW_GROUP_ROWS)

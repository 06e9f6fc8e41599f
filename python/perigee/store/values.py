# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The sum of the values of tables, which says whether two results are the same, whatever wrote their files.

The bytes of a Parquet file depend on the version of the library that writes it, on compression and on the size of row
groups; its values do not. The sum of a table is the SHA-256 of its canonical form, fields that each end in a line
break: `perigee table 1`, the table's name, the number of its rows, and for each column, in order, its name, its type
(`text`, `bool`, `u32`, `u64`, `f64`, others alike) and three SHA-256: of a byte per row (1: there, 0: empty), of
the lengths of its texts (64 bits each), and of its values one after the other, little-endian. An empty cell has zeros
there, or no text, and each NaN is the same. The sum of results is the SHA-256 of `perigee results 1` and of the names
and sums of all tables that have rows, sorted by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perigee.errors import InputError

ROWS = 1 << 16
"""Rows read at a time."""


def table_sum(path: Path, name: str) -> str:
    """Return the sum of a table's values.

    Args:
        path: its file.
        name: what the table is called.

    Raises:
        InputError: it cannot be read, or has a column of a type that no table has.
    """
    try:
        with pq.ParquetFile(path) as file:
            columns = [_Column(field, path) for field in file.schema_arrow]
            for batch in file.iter_batches(ROWS):
                for column, cells in zip(columns, batch.columns, strict=True):
                    column.add(cells)
            rows = file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as a table: {error}; run the study again with --fresh") from error
    return _sum(["perigee table 1", name, str(rows), *(field for column in columns for field in column.fields())])


def sum_of_sums(sums: Mapping[str, str]) -> str:
    """Return the sum of the values of results, whose tables with rows have these sums.

    Examples:
        >>> sum_of_sums({"a": "1", "b": "2"}) == sum_of_sums({"b": "2", "a": "1"})
        True
    """
    return _sum(["perigee results 1", *(field for name in sorted(sums) for field in (name, sums[name]))])


class _Column:
    """The sums of a column, whose cells come in pieces."""

    def __init__(self, field: pa.Field, path: Path) -> None:
        kind = _kind(field.type)
        if kind is None:
            what = f"column {field.name} is of type {field.type}, which no table has"
            raise InputError(f"{path}: {what}; run the study again with --fresh")
        self._name, self._kind = field.name, kind
        self._there, self._lengths, self._values = (hashlib.sha256() for _ in range(3))

    def add(self, cells: pa.Array) -> None:
        self._there.update(cells.is_valid().to_numpy(zero_copy_only=False).astype("u1").tobytes())
        if self._kind == "null":
            return
        if self._kind == "text":
            self._add_texts(cells.cast(pa.large_binary()).fill_null(b""))
            return
        values = cells.cast(pa.uint8()) if self._kind == "bool" else cells
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        if self._kind.startswith("f"):
            numbers = np.where(np.isnan(numbers), np.nan, numbers)
        self._values.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())

    def _add_texts(self, texts: pa.LargeBinaryArray) -> None:
        _, offsets, data = texts.buffers()
        edges = np.frombuffer(offsets, "=i8")[texts.offset : texts.offset + len(texts) + 1]
        self._lengths.update(np.diff(edges).astype("<u8").tobytes())
        if data is not None and len(edges):
            self._values.update(memoryview(data)[edges[0] : edges[-1]])

    def fields(self) -> tuple[str, ...]:
        return (self._name, self._kind, *(digest.hexdigest() for digest in (self._there, self._lengths, self._values)))


def _sum(fields: list[str]) -> str:
    return hashlib.sha256("".join(f"{field}\n" for field in fields).encode()).hexdigest()


def _kind(of: pa.DataType) -> str | None:
    """Return what a type is called in the canonical form; none: no column has it."""
    if str(of) in ("string", "large_string", "string_view"):
        return "text"
    if pa.types.is_boolean(of) or pa.types.is_null(of):
        return str(of)
    letters = ((pa.types.is_unsigned_integer, "u"), (pa.types.is_signed_integer, "i"), (pa.types.is_floating, "f"))
    return next((f"{letter}{of.bit_width}" for is_of, letter in letters if is_of(of)), None)

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
import polars as pl

from perigee.errors import InputError
from perigee.store.slices import slices


def table_sum(path: Path, name: str) -> str:
    """Return the sum of a table's values.

    Args:
        path: its file.
        name: what the table is called.

    Raises:
        InputError: it cannot be read, or has a column of a type that no table has.
    """
    columns: list[_Column] = []
    rows = 0
    try:
        for part in slices(path):
            columns = columns or [_Column(column, kind, path) for column, kind in part.schema.items()]
            for column, cells in zip(columns, part, strict=True):
                column.add(cells)
            rows += part.height
    except (OSError, pl.exceptions.PolarsError) as error:
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

    def __init__(self, name: str, of: pl.DataType, path: Path) -> None:
        kind = _KINDS.get(of)
        if kind is None:
            what = f"column {name} is of type {of}, which no table has"
            raise InputError(f"{path}: {what}; run the study again with --fresh")
        self._name, self._kind = name, kind
        self._there, self._lengths, self._values = (hashlib.sha256() for _ in range(3))

    def add(self, cells: pl.Series) -> None:
        self._there.update(cells.is_not_null().cast(pl.UInt8).to_numpy().tobytes())
        if self._kind == "null":
            return
        if self._kind == "text":
            texts = cells.fill_null("")
            self._lengths.update(texts.str.len_bytes().to_numpy().astype("<u8").tobytes())
            self._values.update(str(texts.str.join("").item()).encode())
            return
        values = cells.cast(pl.UInt8) if self._kind == "bool" else cells
        numbers = values.fill_null(0).to_numpy()
        if self._kind.startswith("f"):
            numbers = np.where(np.isnan(numbers), np.nan, numbers)
        self._values.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())

    def fields(self) -> tuple[str, ...]:
        return (self._name, self._kind, *(digest.hexdigest() for digest in (self._there, self._lengths, self._values)))


def _sum(fields: list[str]) -> str:
    return hashlib.sha256("".join(f"{field}\n" for field in fields).encode()).hexdigest()


_KINDS: Mapping[pl.DataType, str] = {
    pl.String(): "text", pl.Boolean(): "bool", pl.Null(): "null",
    pl.UInt8(): "u8", pl.UInt16(): "u16", pl.UInt32(): "u32", pl.UInt64(): "u64",
    pl.Int8(): "i8", pl.Int16(): "i16", pl.Int32(): "i32", pl.Int64(): "i64",
    pl.Float32(): "f32", pl.Float64(): "f64",
}  # fmt: skip
"""Names of the types in the canonical form; no table has another type."""

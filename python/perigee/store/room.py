# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How much of a table is read at once: what its file declares is held against a bound before anything is read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import polars as pl

from perigee.errors import InputError
from perigee.store.slices import height

if TYPE_CHECKING:
    from pathlib import Path

BYTES_OF_VALUE = 8
"""The memory of a value, about."""
MOST_OF_A_PAGE = 64 << 20
"""Values of a table that a page of the laboratory reads whole: half a gigabyte."""


def check_room(path: Path, columns: int | None = None, most: int | None = None) -> None:
    """Refuse a table that declares more values than may be read at once.

    Args:
        path: the Parquet file.
        columns: how many of its columns are read; none: all.
        most: the number of values; none: as many as half of this machine's memory holds.

    Raises:
        InputError: it has more, or is no Parquet file.
        OSError: it cannot be read.
    """
    # Opened here: polars takes names of files in UTF-8 only.
    with path.open("rb") as file:
        try:
            rows = height(pl.scan_parquet(file))
            there = len(pl.read_parquet_schema(file))
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{path.name}: cannot be read: {error}", "run the study again") from error
    _check(path, rows, min(columns or there, there), most or _half_of_memory())


def _check(path: Path, rows: int, columns: int, most: int) -> None:
    if rows * columns > most:
        raise InputError(
            f"{path.name}: says that it has {rows} rows of {columns} columns, and {most} values are read at the most",
            "take the rows that you need to another file",
        )


def _half_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // BYTES_OF_VALUE

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables read a part at a time, so that none need fit in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from perigee.errors import InputError

ROWS = 1 << 17
"""Rows of a part: those of a row group of our files."""


def slices(path: Path, columns: Sequence[str] | None = None, rows: int = ROWS) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table in order, `rows` at a time; a part without rows of an empty table.

    Args:
        path: the Parquet file.
        columns: those that are read; none: all.
        rows: of a part.

    Raises:
        OSError: it cannot be read.
        polars.exceptions.PolarsError: it is damaged, or has no such column.
    """
    # Opened here: polars takes names of files in UTF-8 only.
    with path.open("rb") as file:
        scan = pl.scan_parquet(file)
        count = height(scan)
        whole = scan if columns is None else scan.select(columns)
        for begin in range(0, max(count, 1), rows):
            yield whole.slice(begin, rows).collect()


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Tell of a table that cannot be read what to do.

    Raises:
        InputError: it is gone or damaged.
    """
    try:
        yield
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{path.name}: cannot be read: {error}", "run the study again") from error


def height(scan: pl.LazyFrame) -> int:
    """Return the number of rows, without reading any."""
    return int(scan.select(pl.len()).collect().item())

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The tables that there are, and their columns. A results folder has files of those that have rows."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import polars as pl

_FILE = Path(__file__).parent.parent / "data" / "schema" / "results.json"
_TYPES = {"text": pl.String, "bool": pl.Boolean, "u32": pl.UInt32, "u64": pl.UInt64, "f64": pl.Float64}


@functools.cache
def _columns() -> dict[str, list[dict[str, Any]]]:
    return {table["name"]: table["columns"] for table in json.loads(_FILE.read_bytes())["tables"]}


@functools.cache
def _schemas() -> dict[str, pl.Schema]:
    return {
        name: pl.Schema({column["name"]: _TYPES[column["type"]] for column in columns})
        for name, columns in _columns().items()
    }


def is_table(name: str) -> bool:
    """Whether results can have a table of this name.

    Examples:
        >>> is_table("flows"), is_table("flow")
        (True, False)
    """
    return name in _schemas()


@functools.cache
def empty_table(name: str) -> pl.DataFrame:
    """Return a table without rows, the same each time; one without columns where there is no table of this name.

    Examples:
        >>> empty_table("gaps").columns, empty_table("gap").columns
        (['run', 'record', 'of', 'missing'], [])
    """
    return pl.DataFrame(schema=_schemas().get(name, pl.Schema()))


def blank_row(name: str) -> dict[str, Any]:
    """Return a row that says nothing: empty where that may be, otherwise 0 or an empty text.

    Examples:
        >>> row = blank_row("flows")
        >>> row["flow"], row["run"], row["rtt_min_ms"]
        ('', 0, None)
    """
    nothing = {"text": "", "bool": False}
    return {
        column["name"]: None if column["nullable"] else nothing.get(column["type"], 0) for column in _columns()[name]
    }

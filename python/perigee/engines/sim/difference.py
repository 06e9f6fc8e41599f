# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""First difference between two results of the same runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Difference:
    """The first cell that differs, or a table with rows in one result only.

    Attributes:
        table: the table.
        row: key of the row in both: its leading cells without measurements.
        column: the column; None: the results differ in rows or columns.
        values: the two values.
    """

    table: str
    row: Mapping[str, Any]
    column: str | None
    values: tuple[Any, Any]

    def __str__(self) -> str:
        """Describe the difference in a line.

        Examples:
            >>> str(Difference("flows", {"run": 3, "flow": "download"}, "received_bytes", (18824, 5000000)))
            'table flows, run 3, flow download, column received_bytes: 18824 and 5000000'
            >>> str(Difference("series", {}, None, ("10 rows", "11 rows")))
            'table series: 10 rows and 11 rows'
        """
        place = [f"table {self.table}", *(f"{key} {value}" for key, value in self.row.items())]
        place += [f"column {self.column}"] if self.column else []
        return f"{', '.join(place)}: {_text(self.values[0])} and {_text(self.values[1])}"


def first_difference(one: Mapping[str, pl.DataFrame], other: Mapping[str, pl.DataFrame]) -> Difference | None:
    """Return the first difference of two results, table by table; None if all cells are equal.

    Numbers are compared exactly. A table in one result only is a difference if it has rows.
    """
    for name in sorted({*one, *other}):
        tables = [result.get(name) for result in (one, other)]
        rows = [0 if table is None else table.height for table in tables]
        first, second = tables
        if first is None or second is None:
            if any(rows):
                return Difference(name, {}, None, (_rows(rows[0]), _rows(rows[1])))
        elif first.schema != second.schema:
            return Difference(name, {}, None, (", ".join(first.columns), ", ".join(second.columns)))
        elif found := _first_cell(name, first, second):
            return found
    return None


def _first_cell(name: str, one: pl.DataFrame, other: pl.DataFrame) -> Difference | None:
    if one.equals(other):
        return None
    shared = min(one.height, other.height)
    places: list[tuple[int, str]] = []
    for column in one.columns:
        # Two NaN cells are equal.
        differs = one[column].head(shared).ne_missing(other[column].head(shared)).arg_true()
        places += [(differs[0], column)] if len(differs) else []
    if not places:
        if one.height == other.height:
            return None
        return Difference(name, {}, None, (_rows(one.height), _rows(other.height)))
    place, column = min(places, key=lambda found: found[0])
    keys = {key: one[key][place] for key in one.columns if key in KEYS and key != column}
    key = {key: cell for key, cell in keys.items() if cell is not None}
    return Difference(name, key, column, (one[column][place], other[column][place]))


def _text(value: object) -> str:
    return "nothing" if value is None else str(value)


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


KEYS = ("run", "flow", "leg", "link", "proxy", "t_s", "number", "phase", "rtt_ms", "class", "page")
"""Columns that name a row."""

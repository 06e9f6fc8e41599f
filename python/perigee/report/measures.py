# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables with a row per group, or per link and group, made of the numbers in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from perigee.groups.group import Group
from perigee.numbers import number
from perigee.report.model import Cell, Table

Fact = Mapping[str, Any]
"""A row in full: groups, numbers and texts by the names of their columns in the data; None or NaN: unknown."""


@dataclass(frozen=True)
class Measure:
    """A column of a table.

    Attributes:
        name: its column in the data.
        head: its heading.
        digits: decimals of its numbers; None: it names a group, or is a word.
        scale: what its numbers are multiplied by for people.
        words: makes its text of the row; None: it is the number or the word.
    """

    name: str
    head: str = ""
    digits: int | None = None
    scale: float = 1.0
    words: Callable[[Fact], str] | None = None


GROUP = Measure("group")
"""The column that names the group of a row."""


def measures(
    name: str, caption: str, columns: Sequence[Measure], facts: Sequence[Fact], *, notes: Sequence[str] = (),
    folded: bool = False,
) -> Table:  # fmt: skip
    """Return a table; what no column shows is in its data only.

    Examples:
        >>> rate = Measure("goodput_mbps", "Throughput (Mbit/s)", 1)
        >>> table = measures("t", "T", [Measure("flow"), rate], [{"flow": "a", "goodput_mbps": 2.04, "rounds": 3}])
        >>> [cell.text for cell in table.rows[0]], table.data.columns
        (['a', '2.0'], ['flow', 'goodput_mbps', 'rounds'])
    """
    rows = [{key: value.name if isinstance(value, Group) else value for key, value in fact.items()} for fact in facts]
    data = pl.DataFrame(rows, infer_schema_length=None)
    return Table(
        name=name,
        caption=caption,
        head=[one.head for one in columns],
        rows=[[_cell(one, fact) for one in columns] for fact in facts],
        data=data.with_columns(pl.col(pl.Float64).fill_nan(None)),
        notes=notes,
        words=[place for place, one in enumerate(columns) if place and one.digits is None],
        folded=folded,
    )


def _cell(one: Measure, fact: Fact) -> Cell:
    value = fact[one.name]
    if one.words is not None:
        return Cell(one.words(fact))
    if one.digits is not None:
        return Cell(number(None if value is None else one.scale * value, one.digits))
    return Cell.naming(value) if isinstance(value, Group) else Cell(str(value))

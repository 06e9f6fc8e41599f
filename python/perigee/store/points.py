# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The factors of a study as typed columns: `point.loss` in %, `point.rate` in Mbit/s.

The table `flows` has the values of each run as JSON text, as the study writes them. Numbers with units are read by the
reader of studies, and given in the units of the result columns that they are compared with: times in ms, rates in
Mbit/s, sizes in B, shares in %.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from perigee.core import native
from perigee.errors import InputError

PREFIX = "point."
"""How the names of these columns begin."""

EXPERIMENT = "experiment"
"""The key under which a point names its experiment, where the study has several."""

Value = bool | int | float | str
"""The type of such a column's cells."""


@dataclass(frozen=True)
class PointColumn:
    """One key that a study varies, as a column.

    Attributes:
        name: the column, `point.` and the last part of the key; the whole key where several end alike.
        key: the key path in the study.
        unit: `ms`, `Mbit/s`, `B` or `%` of numbers with a unit; empty for text, switches and plain numbers.
        values: the values, each once, in the order of the study.
        texts: the same values as the study writes them.
    """

    name: str
    key: str
    unit: str
    values: tuple[Value, ...]
    texts: tuple[str, ...]

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)


@dataclass(frozen=True)
class Points:
    """The points of a study: the values that vary between its runs.

    Attributes:
        columns: a column per key that varies, in the order of the study.
        table: `run`, and each column; empty (null) where the run does not set the key.
    """

    columns: tuple[PointColumn, ...]
    table: pl.DataFrame

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column that has one."""
        return {column.name: column.unit for column in self.columns if column.unit}

    def join(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return a table with the columns added; one without `run` as it is."""
        if "run" not in table.columns or not self.columns:
            return table
        return table.join(self.table, on="run", how="left", maintain_order="left")


def points_of(flows: pl.DataFrame) -> Points:
    """Read what varies between runs out of the table `flows`.

    Raises:
        InputError: the column `point` is not what an engine writes.

    Examples:
        >>> point = '{"links.sat.loss":"0.01 %","flow.cc":"cubic"}', '{"links.sat.loss":"1 %","flow.cc":"bbr"}'
        >>> points = points_of(pl.DataFrame({"run": [0, 1], "point": point}))
        >>> points.table.rows(named=True)[1]
        {'run': 1, 'point.loss': 1.0, 'point.cc': 'bbr'}
        >>> points.units
        {'point.loss': '%'}
    """
    rows = flows.select("run", "point").unique(maintain_order=True)
    points = [named(_read(text)) for text in rows["point"]]
    keys = list(dict.fromkeys(key for point in points for key in point))
    table, columns = rows.select("run"), []
    for key, name in zip(keys, names_of(keys), strict=True):
        cells = [point.get(key) for point in points]
        known = [cell for cell in cells if cell is not None]
        unit, values = typed(known)
        column = iter(values)
        series = pl.Series(name, [None if cell is None else next(column) for cell in cells], dtype=_dtype(values))
        table = table.with_columns(series)
        texts = {value: as_text(cell) for value, cell in reversed(list(zip(values, known, strict=True)))}
        distinct = tuple(dict.fromkeys(values))
        columns.append(PointColumn(name, key, unit, distinct, tuple(texts[value] for value in distinct)))
    return Points(tuple(columns), table)


def named(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point in which the name of a variant stands for all that it sets.

    Examples:
        >>> named({"way": {"name": "with proxy", "proxy.enabled": True}, "flow.cc": {"name": "bbr"}})
        {'way': 'with proxy', 'flow.cc': {'name': 'bbr'}}
    """
    return {key: cell["name"] if _is_variant(key, cell) else cell for key, cell in point.items()}


def variants_of(point: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the variants of a point: by the key under which they vary the name, and the key paths that it sets.

    Examples:
        >>> found = variants_of('{"way":{"name":"PEPsal","flows.web.cc":"reno"},"flow.size":"1 MB"}')
        >>> found["way"][0], sorted(found["way"][1])
        ('PEPsal', ['flows.web.cc'])
    """
    cells = {key: cell for key, cell in _read(point).items() if _is_variant(key, cell)}
    return {key: (str(cell["name"]), frozenset(cell) - {"name"}) for key, cell in cells.items()}


def controls_of(point: str) -> dict[str, str]:
    """Return the congestion control that each variant of a point sets, by the variant's name; of several the first.

    Examples:
        >>> controls_of('{"way":{"name":"PEPsal","flows.web.cc":{"name":"reno"}},"path":{"name":"a","l.loss":"0"}}')
        {'PEPsal': 'reno'}
    """
    found: dict[str, str] = {}
    for key, cell in _read(point).items():
        for path, value in cell.items() if _is_variant(key, cell) else ():
            if path.endswith(".cc"):
                found.setdefault(str(cell["name"]), str(value["name"] if isinstance(value, Mapping) else value))
    return found


def _is_variant(key: str, cell: Any) -> bool:
    # Key paths have a point in them, names of variants' keys have none.
    return "." not in key and isinstance(cell, Mapping)


def own_keys(flow: str) -> tuple[str, str]:
    """Return the key paths that set the congestion control of a flow: one of several alike is `NAME.1`."""
    return "flow.cc", f"flows.{flow.split('.')[0]}.cc"


def without_experiment(point: str) -> str:
    """Return a point as it would be if its experiment were the study.

    Examples:
        >>> without_experiment('{"experiment":"spike","flow.cc":"bbr"}')
        '{"flow.cc":"bbr"}'
    """
    kept = {key: value for key, value in _read(point).items() if key != EXPERIMENT}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def names_of(keys: Sequence[str]) -> list[str]:
    """Return the names of the columns of these keys.

    Examples:
        >>> names_of(["links.sat.loss", "flow.cc"]), names_of(["links.up.loss", "links.down.loss", "flow.cc"])
        (['point.loss', 'point.cc'], ['point.links.up.loss', 'point.links.down.loss', 'point.cc'])
    """
    ends = [key.rpartition(".")[2] for key in keys]
    count = Counter(ends)
    return [PREFIX + (end if count[end] == 1 else key) for key, end in zip(keys, ends, strict=True)]


def typed(cells: Sequence[Any]) -> tuple[str, list[Value]]:
    """Return the unit of values of a study, and the values: all numbers of one unit, all switches, or all text.

    Examples:
        >>> typed(["300 ms", "0.6 s"]), typed([1, 2.5]), typed([True, False])
        (('ms', [300.0, 600.0]), ('', [1.0, 2.5]), ('', [True, False]))
        >>> typed(["300 ms", "off"]), typed(["bbr", {"name": "cubic", "beta": "50 %"}])
        (('', ['300 ms', 'off']), ('', ['bbr', 'cubic, beta = 50 %']))
    """
    quantities = [native.quantity(cell) if isinstance(cell, str) else None for cell in cells]
    read = [quantity for quantity in quantities if quantity is not None]
    if len(read) == len(cells) and len({unit for _, unit in read}) == 1:
        return read[0][1], [number for number, _ in read]
    if all(isinstance(cell, bool) for cell in cells):
        return "", list(cells)
    if all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells):
        return "", list(cells) if all(isinstance(cell, int) for cell in cells) else [float(cell) for cell in cells]
    return "", [as_text(cell) for cell in cells]


def as_text(cell: Any) -> str:
    """Return a value of a study as text: a table by its name and what it sets, else as JSON.

    Examples:
        >>> as_text("0.01 %"), as_text({"name": "bbr"}), as_text(["4 kB", "1 MB"]), as_text(True)
        ('0.01 %', 'bbr', '["4 kB", "1 MB"]', 'true')
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Mapping) and isinstance(cell.get("name"), str):
        rest = (f"{key} = {as_text(value)}" for key, value in cell.items() if key != "name")
        return ", ".join([cell["name"], *rest])
    return json.dumps(cell, ensure_ascii=False)


def _dtype(values: Iterable[Value]) -> type[pl.DataType]:
    kinds = {type(value) for value in values}
    return _DTYPES.get(kinds.pop(), pl.String) if len(kinds) == 1 else pl.String


_DTYPES: Mapping[type, type[pl.DataType]] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64}


def _read(text: str | None) -> dict[str, Any]:
    try:
        point = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"table flows: a point is no JSON ({error}); run the study again with --fresh") from error
    if not isinstance(point, dict):
        raise InputError("table flows: a point is no table of keys and values; run the study again with --fresh")
    return point

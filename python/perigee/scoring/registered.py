# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The numbers of a registered file, which `perigee report RESULTS --register FILE` wrote before results were known."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from perigee.errors import InputError
from perigee.files import read_bounded
from perigee.scoring.curve import OF_SOME_POINTS
from perigee.scoring.quantity import UNKNOWN, Cell, Found, Quantity, fits, metric_of, of_rows, together
from perigee.scoring.samples import PERCENTILES
from perigee.statistics.metrics import Metric
from perigee.store.points import EXPERIMENT

FILE = "registered.toml"
"""Its name beside a study."""

_PERCENTILES = "percentiles_"
"""Beginning of the column with percentiles over flows; which, stands behind it."""

_OF_PERCENTILES = re.compile(rf"{_PERCENTILES}\d+(_\d+)*").fullmatch

_BLOCKS = ("table", "curves")
"""Kinds of entries with the rows of a table or figure."""

_HEAD: Mapping[str, type] = {"date": str, "version": str, "first_seed": int, "runs": int}
"""Keys that identify the runs, as far as scores show them."""

MOST_BYTES = 64 * 1024 * 1024
"""Size of the largest file that is read."""


class Registered:
    """A registered file, see `Source`.

    Args:
        path: the file.

    Attributes:
        about: what identifies the runs: version, build, command, seeds, date, sums.

    Raises:
        InputError: it cannot be read, or is none.
    """

    def __init__(self, path: Path) -> None:
        try:
            content: dict[str, Any] = tomllib.loads(read_bounded(path, MOST_BYTES, "a registered file").decode())
            _check_head(content)
            for kind in ("quantity", *_BLOCKS):
                _check_entries(content, kind)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: is no file of predictions ({error}); `perigee report RESULTS --register FILE` writes one"
            ) from error
        self.about: Mapping[str, Any] = content["registered"]
        self._quantities = {(one["experiment"], one["metric"]): one for one in content.get("quantity", [])}
        self._blocks = [(one["name"], one) for kind in _BLOCKS for one in content.get(kind, [])]

    def find(self, quantity: Quantity, cell: Cell) -> Found | None:
        """Return a quantity in a cell, see `Source.find`."""
        experiment = str(cell.get(EXPERIMENT, ""))
        if quantity.link:
            return None
        if quantity.table:
            # A registered curve has some of its points only: its extremes and their places may not be among them.
            if quantity.statistic not in OF_SOME_POINTS:
                return None
            rows = self._rows(experiment, quantity.table, quantity.columns)
            return None if rows is None else of_rows(rows, quantity, cell, self._names(experiment))
        wanted = metric_of(quantity.metric)
        entry = self._quantities.get((experiment, wanted.name))
        if entry is None:
            return self._computed(wanted, quantity, cell)
        parts = [
            (row["factors"], found)
            for row in _dicts(entry, "cells")
            if fits(cell, row["factors"]) and (found := _found(row, quantity)) is not None
        ]
        return together(parts, quantity, cell)

    def has_none(self, metric: str, cell: Cell) -> bool | None:
        """Return whether flows of a cell have no value of a metric, see `Source.has_none`."""
        experiment = str(cell.get(EXPERIMENT, ""))
        entry = self._quantities.get((experiment, metric_of(metric).name))
        known = [factors for factors in self._names(experiment).values() if fits(cell, factors)]
        if entry is None or not known:
            return None
        return not any(fits(cell, row["factors"]) for row in _dicts(entry, "cells"))

    def _computed(self, wanted: Metric, quantity: Quantity, cell: Cell) -> Found | None:
        """Return a mean that follows from those of other quantities: a ratio of means, or a sum with factors.

        The mean of other arithmetic of flows does not follow from means.
        """
        names = wanted.parts if wanted.of_means else wanted.expression and wanted.expression.names
        if not names or quantity.statistic != "mean" or not (wanted.of_means or _is_affine(wanted)):
            return None
        parts = [self.find(replace(quantity, metric=name), cell) for name in names]
        means = [one.value for one in parts if one is not None]
        if len(means) < len(names):
            return None
        flows = min(one.flows for one in parts if one is not None)
        if wanted.expression:
            return Found(_value(wanted, means), flows=flows)
        return Found(wanted.scale * means[0] / means[1], flows=flows) if means[1] else None

    def _rows(self, experiment: str, name: str, columns: frozenset[str]) -> pl.DataFrame | None:
        begins = f"{experiment}-{name}" if experiment else name
        # Several of one name are numbered from the second on.
        named = [entry for own, entry in self._blocks if re.fullmatch(rf"{re.escape(begins)}(-\d+)?", own)]
        fitting = [entry for entry in named if columns <= set(entry.get("rows_columns", ()))]
        # Where a table and a figure have one name, the table comes first.
        fitting = [entry for entry in fitting if entry["place"].split()[0] == fitting[0]["place"].split()[0]]
        rows = [
            {key: None if cell == "" else cell for key, cell in row.items()}
            for entry in fitting
            for row in _dicts(entry, "rows")
        ]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False) if rows else None

    def _names(self, experiment: str) -> dict[str, Mapping[str, str]]:
        """Return the factors of the cells of an experiment by their names."""
        return {
            row["cell"]: row["factors"]
            for (own, _), entry in self._quantities.items()
            if own == experiment
            for row in _dicts(entry, "cells")
        }


def _check_head(content: Mapping[str, Any]) -> None:
    """Refuse a file without what identifies its runs.

    Raises:
        ValueError: as said; likewise below.
    """
    about = content.get("registered")
    _need(isinstance(about, dict), "it has no table [registered]")
    for key, kind in _HEAD.items():
        word = "text" if kind is str else "whole number"
        _need(isinstance(content["registered"].get(key), kind), f"[registered] has no {word} `{key}`")
    for key, value in content["registered"].items():
        parts = value if isinstance(value, list) else [value]
        is_plain = all(isinstance(part, str | int | float) for part in parts)
        _need(is_plain, f"`{key}` of [registered] must be a text or a number")


def _check_entries(content: Mapping[str, Any], kind: str) -> None:
    """Refuse entries of a kind whose rows cannot be read."""
    entries = content.get(kind, [])
    _need(isinstance(entries, list), f"`{kind}` must be tables, each begun with [[{kind}]]")
    texts, rows = (("experiment", "metric"), "cells") if kind == "quantity" else (("name", "place"), "rows")
    for number, entry in enumerate(entries, 1):
        where = f"[[{kind}]] {number}"
        _need(isinstance(entry, dict), f"{where} must be a table")
        for key in texts:
            _need(isinstance(entry.get(key), str), f"{where} has no text `{key}`")
        _need(kind == "quantity" or bool(entry["place"].split()), f"`place` of {where} must not be empty")
        columns, listed = entry.get(f"{rows}_columns", []), entry.get(rows, [])
        _need(isinstance(columns, list), f"`{rows}_columns` of {where} must be a list of texts")
        _need(all(isinstance(one, str) for one in columns), f"`{rows}_columns` of {where} must be a list of texts")
        _need(isinstance(listed, list), f"`{rows}` of {where} must be a list of lists")
        for place, row in enumerate(listed, 1):
            of_row = f"row {place} of `{rows}` of {where}"
            _need(isinstance(row, list) and len(row) == len(columns), f"{of_row} must be a list of {len(columns)}")
            if kind == "quantity":
                _check_cell(dict(zip(columns, row, strict=True)), of_row)


def _check_cell(row: Mapping[str, Any], where: str) -> None:
    """Refuse a cell without what every cell has."""
    for key in ("mean", "half_width", "sd"):
        _need(key in row, f"{where} has no `{key}`")
    _need(isinstance(row.get("cell"), str), f"{where} has no text `cell`")
    _need(isinstance(row.get("flows"), int), f"{where} has no whole number `flows`")
    factors = row.get("factors")
    are_texts = isinstance(factors, dict) and all(isinstance(one, str) for one in factors.values())
    _need(are_texts, f"{where} has no table of texts `factors`")
    for name in filter(_OF_PERCENTILES, row):
        values, count = row[name], name.count("_")
        is_as_long = values == "" or (isinstance(values, list) and len(values) == count)
        _need(is_as_long, f"`{name}` of {where} must be a list of {count}")


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _is_affine(wanted: Metric) -> bool:
    """Whether arithmetic is a sum of quantities with factors: then it is the same of means as of flows.

    Examples:
        >>> _is_affine(metric_of("100 - 2 * goodput_mbps")), _is_affine(metric_of("goodput_mbps / rtt_mean_ms"))
        (True, False)
    """
    count = len(wanted.expression.names) if wanted.expression else 0
    first, second = [2.0 + place for place in range(count)], [11.0 + 3.0 * place**2 for place in range(count)]
    between = [(3 * one + other) / 4 for one, other in zip(first, second, strict=True)]
    expected = (3 * _value(wanted, first) + _value(wanted, second)) / 4
    return math.isclose(_value(wanted, between), expected, rel_tol=1e-9, abs_tol=1e-9)


def _value(wanted: Metric, means: Sequence[float]) -> float:
    if wanted.expression is None:
        return UNKNOWN
    row = pl.DataFrame(dict(zip(wanted.expression.names, ([one] for one in means), strict=True)))
    value = row.select(wanted.expression.value.alias("value"))["value"][0]
    return UNKNOWN if value is None else float(value)


def _dicts(entry: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    columns = entry.get(f"{name}_columns", [])
    return [dict(zip(columns, row, strict=True)) for row in entry.get(name, [])]


def _found(row: Mapping[str, Any], quantity: Quantity) -> Found | None:
    """Return a statistic of a registered cell; None where it was not registered."""
    mean, sd, flows = _number(row["mean"]), _number(row["sd"]), int(row["flows"])
    value = UNKNOWN
    if quantity.statistic == "mean":
        return Found(mean, _number(row["half_width"]), sd, flows)
    if quantity.statistic == "sd":
        value = sd
    elif quantity.statistic == "sd_percent":
        value = 100 * sd / mean if mean else UNKNOWN
    elif quantity.statistic == "zero_percent":
        value = _number(row.get("zero_percent"))
    elif quantity.statistic in (*PERCENTILES, "iqr"):
        column = next(filter(_OF_PERCENTILES, row), "")
        percents = map(int, column.removeprefix(_PERCENTILES).split("_"))
        known = dict(zip(percents, row[column], strict=True)) if column and row[column] else {}
        wanted = (75, 25) if quantity.statistic == "iqr" else (PERCENTILES[quantity.statistic],)
        found = [known.get(percent, UNKNOWN) for percent in wanted]
        value = found[0] - found[1] if len(found) > 1 else found[0]
    return None if math.isnan(value) else Found(value, flows=flows)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else UNKNOWN

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The object of a published number: a quantity in a cell; the two places where it is found are `Source`s."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import polars as pl

from perigee.errors import InputError
from perigee.groups.factors import ALGORITHM, FLOW
from perigee.groups.names import without_number
from perigee.scoring.curve import Place, read
from perigee.statistics.expressions import parse
from perigee.statistics.metrics import Metric, metric, numeric
from perigee.store.points import EXPERIMENT, as_text
from perigee.store.schema import empty_table

Cell = Mapping[str, object]
"""A set of factors: `experiment`, `flow`, `cc`, and keys that the study varies (their last part does), with values."""

UNKNOWN = float("nan")

_VALUE = "looked up"
"""Column of what is looked up in a table."""

OF_TWO = ("glass_delta", "cohens_d", "t")
"""Statistics of two cells, the second of which is that of `minus`."""

T = TypeVar("T")


@dataclass(frozen=True)
class Quantity:
    """A quantity of flows, a column of a table or figure of the report, or of a link over time.

    Attributes:
        metric: metric or arithmetic over metrics; empty: a column of a table or link.
        statistic: of `OF_SAMPLE` or `OF_TWO`; of a curve or link of `OF_CURVE`.
        below: bound of `below_percent`, in the unit of the metric.
        across: `mean` or `sum` over several kinds of flows in the cell; empty: the cell has one.
        table: table or figure of the report, without the name of its experiment.
        link: directed link, of whose row per interval the mean over runs is a curve.
        column: the column of either, or arithmetic over columns.
        at: along which column it is read, and where, interpolated, or over which range.
        over_at: where along the same column it is read for what it is divided by, or what it recovers to.
    """

    metric: str = ""
    statistic: str = "mean"
    below: float = 0.0
    across: str = ""
    table: str = ""
    link: str = ""
    column: str = ""
    at: Mapping[str, Place] = field(default_factory=dict)
    over_at: Mapping[str, Place] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that a table needs for it."""
        return frozenset((*parse(self.column).names, *self.at))

    @property
    def of_mean(self) -> Quantity:
        """The mean of the same."""
        return replace(self, statistic="mean")

    @property
    def name(self) -> str:
        """Its name in files."""
        return self.metric or f"{self.table or self.link}.{self.column}"


@dataclass(frozen=True)
class Found:
    """A quantity in a source.

    Attributes:
        value: the number.
        half_width: half width of its confidence interval; NaN: none.
        sd: standard deviation over flows; NaN: none.
        flows: number of flows; 0: not known.
    """

    value: float
    half_width: float = UNKNOWN
    sd: float = UNKNOWN
    flows: int = 0


class Source(Protocol):
    """A place of results: a folder, or a registered file."""

    def find(self, quantity: Quantity, cell: Cell) -> Found | None:
        """Return a quantity in a cell; None where there is none.

        Raises:
            InputError: the cell is of several kinds of flows, and the quantity does not say how to take them together.
        """

    def has_none(self, metric: str, cell: Cell) -> bool | None:
        """Whether flows of a cell have no value of a metric; None where the experiment lacks the cell or the metric."""


@functools.cache
def metric_of(name: str) -> Metric:
    """Return a metric, arithmetic, or a column of the table `flows`.

    Raises:
        InputError: there is none of that name.

    Examples:
        >>> metric_of("sent_packets").name, metric_of("goodput_p90_mbps  - goodput_p10_mbps").name
        ('sent_packets', 'goodput_p90_mbps - goodput_p10_mbps')
    """
    return metric(name, numeric(empty_table("flows")))


def fits(cell: Cell, factors: Mapping[str, str]) -> bool:
    """Whether a group's factors are those of a cell; the cell's `experiment` aside.

    Examples:
        >>> factors = {"flow": "web.2", "cc": "bbr {}", "links.sat.queue.packets": "258", "proxy.enabled": "true"}
        >>> fits({"cc": "bbr", "packets": 258, "proxy.enabled": True, "flow": "web"}, factors)
        True
        >>> fits({"packets": 646}, factors), fits({"loss": "1 %"}, factors), fits({"flows.web.cc": "bbr"}, factors)
        (False, False, True)
        >>> fits({"packets": ""}, factors), fits({"loss": ""}, factors)
        (False, True)
    """
    return all(_has(factors, key, value) for key, value in cell.items() if key != EXPERIMENT)


def _has(factors: Mapping[str, str], key: str, value: object) -> bool:
    text = as_text(value)
    if key == ALGORITHM:
        return factors.get(ALGORITHM, "").partition(" {")[0] == text
    if key == FLOW:
        flow = factors.get(FLOW, "")
        return text in (flow, without_number(flow))
    named = [own for own in factors if own == key or own.endswith(f".{key}")]
    if not text:
        return not named
    # A key that sets a flow's own congestion control is no factor beside it.
    return any(factors[own] == text for own in named) if named else _has(factors, ALGORITHM, value)


def is_factor(key: str, varied: Iterable[str]) -> bool:
    """Whether a cell may have a key in a study where these vary.

    Examples:
        >>> [is_factor(key, ["links.sat.queue.packets"]) for key in ("packets", "flows.web.cc", "experiment", "pakets")]
        [True, True, True, False]
    """
    always = (EXPERIMENT, FLOW, ALGORITHM)
    return _last(key) in always or any(own == key or own.endswith(f".{key}") for own in varied)


def in_words(cell: Cell) -> str:
    """Return a cell as messages and files name it.

    Examples:
        >>> in_words({"experiment": "spike", "cc": "bbr", "proxy.enabled": True})
        'experiment = spike, cc = bbr, proxy.enabled = true'
    """
    return ", ".join(f"{key} = {as_text(value)}" for key, value in cell.items())


def kinds(factors: Sequence[Mapping[str, str]]) -> list[tuple[tuple[str, str], ...]]:
    """Return what kind of flow each is: equal for the flows of a `count`."""
    return [tuple(sorted({**one, FLOW: without_number(one.get(FLOW, ""))}.items())) for one in factors]


def together(parts: Sequence[tuple[Mapping[str, str], Found]], quantity: Quantity, cell: Cell) -> Found | None:
    """Return what a cell has of a quantity, of the groups that fit it; None without any.

    Raises:
        InputError: they are of several kinds, and the quantity has no `across`.
    """
    if not parts:
        return None
    found = [one for _, one in parts]
    several = len(set(kinds([factors for factors, _ in parts])))
    check_one_kind(several, quantity, cell, [in_words(factors) for factors, _ in parts])
    if len(found) == 1:
        return found[0]
    if quantity.across == "sum":
        return Found(sum(one.value for one in found), flows=min(one.flows for one in found))
    flows = sum(one.flows for one in found)
    if quantity.statistic in ("min", "max"):
        return Found((min if quantity.statistic == "min" else max)(one.value for one in found), flows=flows)
    # Other statistics of all flows together do not follow from those of each kind.
    if not flows or quantity.statistic not in ("mean", "zero_percent", "below_percent"):
        return None
    return Found(sum(one.value * one.flows for one in found) / flows, flows=flows)


def check_one_kind(several: int, quantity: Quantity, cell: Cell, names: Iterable[str]) -> None:
    """Refuse a cell of several kinds of flows, if the quantity does not say how to take them together.

    Raises:
        InputError: it does not.
    """
    if several > 1 and not quantity.across:
        listed = "; ".join(dict.fromkeys(names))
        raise InputError(
            f"`{quantity.name}` in the cell {in_words(cell) or 'without factors'} is of {several} "
            f'kinds of flows ({listed}); add what tells them apart, or `across = "mean"` or `"sum"`'
        )


def of_rows(rows: pl.DataFrame, quantity: Quantity, cell: Cell, names: Mapping[str, Mapping[str, str]]) -> Found | None:
    """Return a column of a table of the report in a cell; None where there is none.

    Args:
        rows: the table's numbers.
        quantity: with `column`, and `at` where the table is a curve.
        cell: the cell, whose factors are columns, or belong to the name in the column `group`.
        names: the factors of groups by name.

    Raises:
        InputError: several rows are left.

    Examples:
        >>> rows = pl.DataFrame({"group": ["bbr", "bbr", "cubic"], "x_s": [1.0, 3.0, 1.0], "y": [10.0, 20.0, 7.0]})
        >>> of_rows(rows, Quantity(table="t", column="y", at={"x_s": 2}), {"cc": "bbr"}, {}).value
        15.0
        >>> of_rows(rows, Quantity(table="t", column="y / x_s"), {"cc": "cubic"}, {}).value
        7.0
    """
    if not all(name in rows.columns and rows[name].dtype.is_numeric() for name in quantity.columns):
        return None
    for key, value in cell.items():
        if key == EXPERIMENT:
            continue
        column = next((one for one in rows.columns if one == key or _last(one) == _last(key)), None)
        if column is not None:
            rows = rows.filter([_same(seen, value) for seen in rows[column]])
        elif "group" in rows.columns:
            rows = rows.filter([_is_named(name, key, value, names) for name in rows["group"]])
        else:
            return None
    rows = rows.with_columns(parse(quantity.column).value.alias(_VALUE)).drop_nulls([_VALUE, *quantity.at])
    if rows.is_empty():
        return None
    if quantity.at:
        rows = _read_off(rows, quantity)
    if rows.height > 1 and not quantity.across:
        raise InputError(
            f"`{quantity.name}` in the cell {in_words(cell) or 'without factors'} is in {rows.height} "
            f"rows of that table; add what tells them apart of its columns: {', '.join(rows.columns)}"
        )
    values = rows[_VALUE].cast(pl.Float64).to_numpy()
    return Found(float(values.sum() if quantity.across == "sum" else values.mean()))


def _read_off(rows: pl.DataFrame, quantity: Quantity) -> pl.DataFrame:
    """Return a row for each curve, with its reading; a curve is what has the same texts."""
    texts = [name for name, kind in rows.schema.items() if kind == pl.String]
    curves = rows.partition_by(texts, maintain_order=True) if texts else [rows]
    values = [read(one, _VALUE, quantity.at, quantity.over_at, quantity.statistic, quantity.below) for one in curves]
    return pl.concat([one[:1] for one in curves]).with_columns(pl.Series(_VALUE, values))


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _same(seen: object, value: object) -> bool:
    if isinstance(seen, int | float) and not isinstance(seen, bool):
        return isinstance(value, int | float) and math.isclose(seen, value)
    return as_text(seen).casefold() == as_text(value).casefold()


def _is_named(name: str | None, key: str, value: object, names: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the group of a name has a factor; of unknown names by their words, as `cubic, satellite queue = 1 MB`."""
    if name is None:
        return False
    if name in names:
        return fits({key: value}, names[name])
    parts, text = name.split(", "), as_text(value)
    return text in parts or any(part.endswith(f"{_last(key).replace('_', ' ')} = {text}") for part in parts)

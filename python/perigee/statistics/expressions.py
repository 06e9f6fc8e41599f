# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Own quantities of a flow as arithmetic over columns and metrics: `goodput_mbps / rtt_mean_ms`.

Grammar: numbers, names, `+ - * /`, a sign, parentheses, and the functions `abs`, `sqrt`, `log10`, `min(a, b)`,
`max(a, b)`. Nothing is executed but this arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from perigee.errors import InputError

LONGEST = 500
"""Characters of an expression."""

DEEPEST = 50
"""Parentheses within each other."""

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_][A-Za-z0-9_.]*)|(.))")

_FUNCTIONS: Mapping[str, tuple[int, Callable[..., pl.Expr]]] = {
    "abs": (1, lambda a: a.abs()),
    "sqrt": (1, lambda a: a.sqrt()),
    "log10": (1, lambda a: a.log10()),
    "min": (2, lambda a, b: pl.min_horizontal(a, b)),
    "max": (2, lambda a, b: pl.max_horizontal(a, b)),
}
"""For each name: the number of arguments, and the function."""

_UNITS = {
    "mbps": "Mbit/s", "ms": "ms", "us": "us", "s": "s", "bytes": "B", "mb": "MB", "packets": "packets", "percent": "%",
}  # fmt: skip
"""Units by the last part of a column's name."""


@dataclass(frozen=True)
class Expression:
    """Arithmetic over columns.

    Attributes:
        text: as it was written, with single spaces.
        names: the columns that it names, each once.
        value: as an expression of polars; not finite (as after a division by zero) is no value.
        unit: derived from the columns' names; none where it cannot be.
    """

    text: str
    names: tuple[str, ...]
    value: pl.Expr
    unit: str | None


def unit_of(column: str) -> str:
    """Return the unit that the name of a column ends in; empty for a pure number.

    Examples:
        >>> unit_of("goodput_mbps"), unit_of("rto_count"), unit_of("bytes"), unit_of("download_5_mb_s")
        ('Mbit/s', '', 'B', 's')
    """
    return _UNITS.get(column.rpartition("_")[2], "")


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        InputError: it is none; the message shows where.

    Examples:
        >>> found = parse("goodput_mbps / (rtt_mean_ms - rtt_min_ms)")
        >>> found.names, found.unit
        (('goodput_mbps', 'rtt_mean_ms', 'rtt_min_ms'), 'Mbit/s per ms')
        >>> frame = pl.DataFrame({"goodput_mbps": [8.0, 1.0], "rtt_mean_ms": [6.0, 2.0], "rtt_min_ms": [2.0, 2.0]})
        >>> frame.select(found.value.alias("x"))["x"].to_list()
        [2.0, None]
        >>> parse("retransmitted_packets / sent_packets").unit, parse("100 * bytes").unit
        ('', None)
        >>> parse("goodput_mbps /")
        Traceback (most recent call last):
        perigee.errors.InputError: `goodput_mbps /`: something is missing at the end; write a number, a column or (
    """
    if len(text) > LONGEST:
        raise InputError(f"`{text[:30]}...`: has {len(text)} characters; an expression has at most {LONGEST}")
    return _Parser(text).whole()


@dataclass(frozen=True)
class _Part:
    """A part of an expression, and its unit: powers by unit, none where it is not known."""

    value: pl.Expr
    unit: tuple[tuple[str, int], ...] | None
    is_constant: bool = False


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = " ".join(text.split())
        self._tokens = [(found.lastindex or 0, found[found.lastindex or 0]) for found in _TOKEN.finditer(self._text)]
        self._at = 0
        self._depth = 0
        self._names: dict[str, None] = {}

    def whole(self) -> Expression:
        part = self._sum()
        if self._at < len(self._tokens):
            raise self._error(f"`{self._tokens[self._at][1]}` does not belong there")
        if not self._names:
            raise self._error("it names no column")
        value = pl.when(part.value.is_finite()).then(part.value)
        return Expression(self._text, tuple(self._names), value, None if part.unit is None else _written(part.unit))

    def _sum(self) -> _Part:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} parentheses are within each other")
        left = self._product()
        while (operator := self._symbol("+", "-")) is not None:
            right = self._product()
            unit = left.unit if left.unit == right.unit else None
            value = left.value + right.value if operator == "+" else left.value - right.value
            left = _Part(value, unit, left.is_constant and right.is_constant)
        self._depth -= 1
        return left

    def _product(self) -> _Part:
        left = self._factor()
        while (operator := self._symbol("*", "/")) is not None:
            right = self._factor()
            value = left.value * right.value if operator == "*" else left.value / right.value
            unit = _together(left, right, 1 if operator == "*" else -1)
            left = _Part(value, unit, left.is_constant and right.is_constant)
        return left

    def _factor(self) -> _Part:
        if self._symbol("-") is not None:
            part = self._factor()
            return _Part(-part.value, part.unit, part.is_constant)
        if self._symbol("(") is not None:
            part = self._sum()
            self._close()
            return part
        kind, token = self._tokens[self._at] if self._at < len(self._tokens) else (0, "")
        self._at += 1
        if kind == 1:
            return _Part(pl.lit(float(token)), (), is_constant=True)
        if kind == 2:
            return self._call(token) if self._symbol("(") is not None else self._column(token)
        if not token:
            raise self._error("something is missing at the end")
        raise self._error(f"`{token}` does not belong there")

    def _column(self, name: str) -> _Part:
        self._names[name] = None
        unit = unit_of(name)
        return _Part(pl.col(name).cast(pl.Float64), ((unit, 1),) if unit else ())

    def _call(self, name: str) -> _Part:
        if name not in _FUNCTIONS:
            raise self._error(f"there is no function `{name}`; there are {', '.join(_FUNCTIONS)}", "")
        count, make = _FUNCTIONS[name]
        arguments = [self._sum()]
        while len(arguments) < count:
            if self._symbol(",") is None:
                raise self._error(f"`{name}` takes {count} arguments", "")
            arguments.append(self._sum())
        self._close()
        units = {one.unit for one in arguments}
        keeps = name in ("abs", "min", "max") and len(units) == 1
        return _Part(make(*(one.value for one in arguments)), units.pop() if keeps else None)

    def _close(self) -> None:
        if self._symbol(")") is None:
            raise self._error("a ) is missing", "")

    def _symbol(self, *wanted: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at][1] in wanted:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _error(self, what: str, fix: str = "write a number, a column or (") -> InputError:
        return InputError(f"`{self._text}`: {what}" + (f"; {fix}" if fix else ""))


def _together(left: _Part, right: _Part, sign: int) -> tuple[tuple[str, int], ...] | None:
    """Return the unit of a product or ratio; a plain number as a factor may convert units, so that none is known."""
    if left.unit is None or right.unit is None or left.is_constant != right.is_constant:
        return None
    powers = dict(left.unit)
    for unit, power in right.unit:
        powers[unit] = powers.get(unit, 0) + sign * power
    return tuple((unit, power) for unit, power in powers.items() if power)


def _written(unit: tuple[tuple[str, int], ...]) -> str:
    """Return a unit as text.

    Examples:
        >>> _written((("Mbit/s", 1), ("ms", -1))), _written((("ms", 2),)), _written((("s", -1),))
        ('Mbit/s per ms', 'ms²', 'per s')
    """
    powers = {1: "", 2: "²", 3: "³"}
    above = [one + powers.get(power, f"^{power}") for one, power in unit if power > 0]
    below = [one + powers.get(-power, f"^{-power}") for one, power in unit if power < 0]
    return " ".join(word for word in ("·".join(above), f"per {'·'.join(below)}" if below else "") if word)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The words of the cases: instants ("enter up#2 + 1.5 round") and expressions over the rows of a log."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from states import CODES, Log

Value = Any
"""A number, or an array with a value per row."""

UNITS = {"s": 1.0, "ms": 1e-3}
"""Units of time that are the same in each cell, in seconds; `rtt`, `round` and `packet` are the cell's."""

_TERM = re.compile(r"^([0-9.]+) *(s|ms|rtt|round|packet)$")
_EDGE = re.compile(r"^(enter|leave) ([a-z_]+)(?:#(-?[0-9]+))?(?: after (.+))?$")


class WordsError(ValueError):
    """A text of a case that is not understood."""


class NotInLog(Exception):  # noqa: N818 - what it says is the name
    """A log does not have what a check or an event refers to."""


def duration(text: str, units: Mapping[str, float]) -> float:
    """Return the seconds of a text such as "5 s + 3 round".

    Args:
        text: terms with a unit each, joined by `+` or `-`.
        units: seconds of `rtt`, `round` and `packet` in the cell.

    Raises:
        WordsError: a term is none.
    """
    total = 0.0
    for sign, term in re.findall(r"([+-]?)\s*([^+-]+)", text):
        found = _TERM.match(term.strip())
        if not found:
            raise WordsError(f"`{term.strip()}` is no time; write a number and s, ms, rtt, round or packet")
        total += (-1 if sign == "-" else 1) * float(found[1]) * {**UNITS, **units}[found[2]]
    return total


def split_offset(text: str) -> tuple[str, str]:
    """Return the instant of a text, and what is added to it ("" for nothing)."""
    found = re.match(r"^(.*?)\s*([+-] .*)$", text)
    return (found[1], found[2]) if found else (text, "")


@dataclass(frozen=True)
class Visit:
    """A visit of a state.

    Attributes:
        state: its name.
        first: first row of it.
        end: first row after it; the number of rows where the log ends in it.
    """

    state: str
    first: int
    end: int


def visits(log: Log) -> list[Visit]:
    """Return the visits of states, in their order."""
    codes = log["state"]
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(codes[1:] != codes[:-1])), len(codes)]
    names = {code: name for name, code in CODES.items()}
    return [Visit(names[int(codes[a])], a, b) for a, b in itertools.pairwise(edges) if b > a]


def instant(text: str, log: Log, units: Mapping[str, float]) -> float:
    """Return the time, in seconds, that a text names in a log.

    Args:
        text: `start`, `end`, the name of an event, or `enter STATE` or `leave STATE` with `#n` (the n-th such
            visit, from
            the end if negative) and `after` another instant; then an offset, if any.
        log: the log, with the times of its events.
        units: see `duration`.

    Raises:
        NotInLog: the log has no such visit or event.
        WordsError: the text is no instant.
    """
    base, offset = split_offset(text.strip())
    return _base(base, log, units) + (duration(offset, units) if offset else 0.0)


def _base(text: str, log: Log, units: Mapping[str, float]) -> float:
    if text == "start":
        return 0.0
    if text == "end":
        return float(log["t"][-1]) + 1e-9
    if text in log.events:
        return log.events[text]
    found = _EDGE.match(text)
    if not found or found[2] not in CODES:
        if re.match(r"^[a-z0-9-]+$", text):
            raise NotInLog(f"no event `{text}`")
        raise WordsError(f"`{text}` is no instant")
    visit = find_visit(log, found[2], int(found[3] or 1), instant(found[4], log, units) if found[4] else None)
    if found[1] == "enter":
        return float(log["t"][visit.first])
    if visit.end >= len(log["t"]):
        raise NotInLog(f"the log ends in {found[2]}")
    return float(log["t"][visit.end])


def find_visit(log: Log, state: str, number: int, after: float | None) -> Visit:
    """Return the visit of this number (from 1; from the end if negative) that begins at `after` or later.

    Raises:
        NotInLog: there is none.
    """
    begin = log["t"]
    of_state = [v for v in visits(log) if v.state == state and (after is None or begin[v.first] >= after - 1e-9)]
    try:
        return of_state[number - 1 if number > 0 else number]
    except IndexError:
        late = "" if after is None else f" after {after:.3f} s"
        raise NotInLog(f"{state} is not visited {abs(number)} times{late}") from None


@dataclass
class Span:
    """Rows of a log that a check is about.

    Attributes:
        log: the log.
        first: the first row.
        end: the first row after them.
        constants: values of the cell, and names of states, by name.
        rows: which of them count; none: all.
        shown: what the expression's parts came to, for the report.
    """

    log: Log
    first: int
    end: int
    constants: Mapping[str, float]
    rows: npt.NDArray[np.bool_] | None = None
    shown: dict[str, float] = field(default_factory=dict)

    def evaluate(self, text: str) -> Value:
        """Return the value of an expression.

        Raises:
            NotInLog: the log has no such column, or no row here.
            WordsError: the expression is not understood.
        """
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError as error:
            raise WordsError(f"`{text}` is no expression: {error.msg}") from None
        return self._value(tree.body)

    def _column(self, name: str) -> npt.NDArray[np.float64]:
        return self.log[name][self.first : self.end]

    def _outside(self, node: ast.expr, row: int) -> Value:
        """Return an expression's value at a row of the log, which may be outside of the span."""
        if not 0 <= row < len(self.log["t"]):
            raise NotInLog("the log ends here")
        return Span(self.log, row, row + 1, self.constants)._value(node)[0]

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name):
                return self.constants[name] if name in self.constants else self._column(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return np.logical_not(self._value(operand))
            case ast.BoolOp(op=operator, values=parts):
                combine = np.logical_and if isinstance(operator, ast.And) else np.logical_or
                value = self._value(parts[0])
                for part in parts[1:]:
                    value = combine(value, self._value(part))
                return value
            case ast.BinOp(left=left, op=operator, right=right):
                return self._arithmetic(operator, self._value(left), self._value(right))
            case ast.Compare(left=left, ops=operators, comparators=others):
                return self._compare(left, operators, others)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, arguments, ast.unparse(node))
        raise WordsError(f"`{ast.unparse(node)}` is not understood")

    @staticmethod
    def _arithmetic(operator: ast.operator, left: Value, right: Value) -> Value:
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                with np.errstate(divide="ignore", invalid="ignore"):
                    return left / right
            case ast.Pow():
                return left**right
        raise WordsError("arithmetic is + - * / **")

    def _compare(self, left: ast.expr, operators: list[ast.cmpop], others: list[ast.expr]) -> Value:
        value, result = self._value(left), None
        for operator, other in zip(operators, others, strict=True):
            if isinstance(operator, ast.In) and isinstance(other, ast.Tuple):
                parts: list[Value] = [value == self._value(part) for part in other.elts]
                one, right = np.any(np.stack(np.broadcast_arrays(*parts)), axis=0), value
            else:
                right = self._value(other)
                match operator:
                    case ast.Lt():
                        one = value < right
                    case ast.LtE():
                        one = value <= right
                    case ast.Gt():
                        one = value > right
                    case ast.GtE():
                        one = value >= right
                    case ast.Eq():
                        one = value == right
                    case ast.NotEq():
                        one = value != right
                    case _:
                        raise WordsError("comparisons are < <= > >= == != and `in (A, B)`")
            result, value = one if result is None else np.logical_and(result, one), right
        return result

    def _call(self, name: str, arguments: list[ast.expr], text: str) -> Value:
        if name in ("before", "after"):
            (argument,) = arguments
            value = self._outside(argument, self.first - 1 if name == "before" else self.end)
            self.shown[text] = float(value)
            return value
        values = [self._value(argument) for argument in arguments]
        if name in ELEMENTWISE:
            return ELEMENTWISE[name](*values)
        if name not in AGGREGATES:
            known = ", ".join(sorted([*AGGREGATES, *ELEMENTWISE, "before", "after"]))
            raise WordsError(f"`{name}` is no function; there are {known}")
        values = [np.broadcast_to(value, self.end - self.first) for value in values]
        if self.rows is not None:
            values = [value[self.rows] for value in values]
        value = AGGREGATES[name](*values)
        if name not in ("all", "any"):
            self.shown[text] = float(value)
        return value


def _previous(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.concatenate((values[:1], values[:-1]))


def _first_where(condition: npt.NDArray[np.bool_], values: npt.NDArray[np.float64]) -> float:
    rows = np.flatnonzero(condition)
    if len(rows) == 0:
        raise NotInLog("no row fulfils the condition")
    return float(values[rows[0]])


AGGREGATES: Mapping[str, Any] = {
    "all": lambda x: bool(np.all(x)),
    "any": lambda x: bool(np.any(x)),
    "count": lambda x: int(np.sum(x)),
    "max": lambda *x: np.max(x[0]),
    "min": lambda *x: np.min(x[0]),
    "mean": np.mean,
    "median": np.median,
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
    "grown": lambda x: x[-1] - x[0],
    "changes": lambda x: int(np.sum(x[1:] != x[:-1])),
    "first_where": _first_where,
}
"""Functions of the rows of a span that return one number: `grown` is the last less the first; `changes` counts the
rows that differ
from the one before; `first_where(condition, x)` is x in the first row that fulfils the condition."""

ELEMENTWISE: Mapping[str, Any] = {
    "abs": np.abs,
    "prev": _previous,
    "least": lambda a, b: np.minimum(a, b),
    "most": lambda a, b: np.maximum(a, b),
    "highest": lambda a: np.maximum.accumulate(a),
    "log2": np.log2,
}
"""Functions with a value per row: `prev` is that of the row before, `highest` the maximum up to the row, `least`
and `most` the smaller and
the larger of two."""

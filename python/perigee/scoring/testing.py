# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of claims: a claim hits if all its checks hold fully, and misses if none holds at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

import polars as pl

from perigee.numbers import number
from perigee.scoring.published import Claim, ClaimTest, Looked
from perigee.scoring.quantity import Cell, Found, in_words
from perigee.store.points import as_text

HIT, PART, MISS = "hit", "part", "miss"
NOT_PREDICTED, NOT_MEASURED = "not predicted", "not measured"

Levels = Sequence[tuple[object, float]]
"""Values of the factor along which cells are compared, each with what the source has."""

EACH_CELL = ("all", "some_each")
"""Words of `holds` with a check in each cell; with the others one check is over all cells."""


class Asked(Protocol):
    """A source of quantities that claims are tested on."""

    def find(self, looked: Looked, cell: Cell) -> Found | None:
        """Return what it has in a cell; None: nothing."""

    def has_none(self, looked: Looked, cell: Cell) -> bool | None:
        """Whether flows of the cell have no value; None where there is no such cell or metric."""


class Degree(IntEnum):
    """How far a check holds."""

    NOT = 0
    WEAKLY = 1
    """It holds by the milder number, and not by `much`."""
    FULLY = 2


@dataclass(frozen=True)
class Check:
    """A test in one cell, or over all its cells where not all of them need to hold.

    Attributes:
        cell: what tells the cell apart from the others of the claim; empty: it has one.
        degree: how far it holds there; None: the source has nothing there.
        seen: what the source has, in words.
    """

    cell: str
    degree: Degree | None
    seen: str


@dataclass(frozen=True)
class Verdict:
    """The result of the tests of a claim.

    Attributes:
        state: `hit`, `part`, `miss`, `not predicted`, or `not measured`.
        checks: all checks of its tests; empty if it is not measured.
    """

    state: str
    checks: Sequence[Check]

    @property
    def holding(self) -> int:
        """Checks that hold fully."""
        return sum(one.degree is Degree.FULLY for one in self.checks)

    @property
    def weakly(self) -> int:
        """Checks that hold weakly."""
        return sum(one.degree is Degree.WEAKLY for one in self.checks)

    @property
    def seen(self) -> str:
        """The values of the source, in words."""
        return "; ".join(f"{one.cell}: {one.seen}" if one.cell else one.seen for one in self.checks)


def verdict(claim: Claim, asked: Asked) -> Verdict:
    """Test a claim.

    Args:
        claim: the claim.
        asked: where its quantities come from.
    """
    if claim.not_measured:
        return Verdict(NOT_MEASURED, ())
    is_mixed = len({(test.name, test.statistic, in_words(test.cell)) for test in claim.tests}) > 1
    checks: list[Check] = []
    for test in claim.tests:
        found = _checks(test, asked)
        of = f"{test.title}: " if is_mixed else ""
        checks += [
            replace(one, seen=of + one.seen) if not one.cell else replace(one, cell=of + one.cell) for one in found
        ]
    degrees = [one.degree for one in checks]
    if None in degrees:
        return Verdict(NOT_PREDICTED, checks)
    is_hit = all(one is Degree.FULLY for one in degrees)
    return Verdict(HIT if is_hit else PART if any(degrees) else MISS, checks)


def stated(claim: Claim) -> str:
    """Return the tests of a claim in words."""
    return "; ".join(dict.fromkeys(_stated(test) for test in claim.tests))


def _stated(test: ClaimTest) -> str:
    much = "" if math.isnan(test.much) else f", much: {test.much:.4g}"
    of = {"all": "", "most": ", in most comparisons", "some": ", in some comparison"}
    return _in_test(test) + much + of.get(test.holds, ", in some comparison of each cell")


def _in_test(test: ClaimTest) -> str:
    if test.kind == "never":
        return "never"
    if test.kind == "order":
        times = f"{test.factor:.4g} × " if test.factor != 1 else ""
        return f" > {times}".join(", ".join(map(as_text, tier)) for tier in test.tiers)
    values = ", ".join(map(as_text, test.values))
    if test.kind in ("peak", "trough"):
        return f"{test.kind} at {' or '.join(map(as_text, test.where))} of {values}"
    if test.kind == "rank":
        by = f" by {test.like.title}" if test.like else ""
        return f"rank correlation with {values}{by} at least {test.least:g}"
    if test.kind in ("alike", "rises", "falls"):
        slack = f", by {100 * test.slack:g} % at most" if test.slack else ""
        return f"{test.kind} along {values}" + (slack if test.kind == "alike" else slack and f"{slack} against it")
    bounds = [f"at least {test.least:g}"] if not math.isnan(test.least) else []
    bounds += [f"at most {test.most:g}"] if not math.isnan(test.most) else []
    return " and ".join(bounds)


def _checks(test: ClaimTest, asked: Asked) -> list[Check]:
    compared = [_compared(test, cell, asked) for cell in test.each]
    names = [in_words(cell) for cell in test.each]
    if test.holds in EACH_CELL:
        return [
            Check(name, None if one is None else _degree(test, one.mild, one.strict), seen)
            for name, (one, seen) in zip(names, compared, strict=True)
        ]
    seen = "; ".join(f"{name}: {seen}" if name else seen for name, (_, seen) in zip(names, compared, strict=True))
    known = [one for one, _ in compared if one is not None]
    if len(known) < len(compared):
        return [Check("", None, seen)]
    mild, strict = ([holds for one in known for holds in getattr(one, name)] for name in ("mild", "strict"))
    return [Check("", _degree(test, mild, strict), seen)]


@dataclass(frozen=True)
class _Compared:
    """Comparisons in one cell: whether each holds by the milder number, and by the stricter one."""

    mild: Sequence[bool]
    strict: Sequence[bool]


def _degree(test: ClaimTest, mild: Sequence[bool], strict: Sequence[bool]) -> Degree:
    enough: Callable[[Iterable[bool]], bool] = {"all": all, "most": _most}.get(test.holds, any)
    if not enough(mild):
        return Degree.NOT
    return Degree.FULLY if enough(strict) else Degree.WEAKLY


def _most(holds: Iterable[bool]) -> bool:
    seen = list(holds)
    return 2 * sum(seen) > len(seen)


def _compared(test: ClaimTest, each: Cell, asked: Asked) -> tuple[_Compared | None, str]:
    """Return the comparisons in a cell, None where the source lacks one of its values; and what it has, in words."""
    cell = {**test.cell, **each}
    if test.kind == "never":
        found = asked.has_none(test, cell)
        return (None, "nothing") if found is None else (_Compared([found], [found]), "never" if found else "some")
    if test.kind == "bound":
        one = asked.find(test, cell)
        if one is None:
            return None, "nothing"
        both = ([_is_within(which, one.value)] for which in (test, test.strict))
        return _Compared(*both), number(one.value, _digits(test, one.value))
    wanted = list(itertools.chain(*test.tiers)) or list(test.values)
    levels, missing = _levels(test, cell, wanted, test.along, asked)
    if missing:
        return None, f"nothing for {', '.join(missing)}"
    if test.kind == "rank":
        return _ranked(test, each, levels, asked)
    both = (_COMPARE[test.kind](which, levels) for which in (test, test.strict))
    ordered = sorted(levels, key=lambda level: -level[1]) if test.kind == "order" else levels
    return _Compared(*both), ", ".join(
        f"{as_text(one)} {number(value, _digits(test, value))}" for one, value in ordered
    )


def _levels(looked: Looked, cell: Cell, wanted: Sequence[object], along: str, asked: Asked) -> tuple[Levels, list[str]]:
    """Return what a source has for values of a factor, and the values for which it has nothing."""
    found = [(one, asked.find(looked, {**cell, along: one})) for one in wanted]
    missing = [as_text(one) for one, seen in found if seen is None]
    return [(one, seen.value) for one, seen in found if seen is not None], missing


def _digits(test: ClaimTest, value: float) -> int:
    """Return decimals that show a number of this size, however small its quantity usually is."""
    return max(test.digits, min(6, 2 - math.floor(math.log10(abs(value))))) if 0 < abs(value) < 1 else test.digits


def _is_within(test: ClaimTest, value: float) -> bool:
    # Comparisons with what is unknown are false: a bound that is not given always holds.
    return not (value < test.least or value > test.most)


def _ordered(test: ClaimTest, levels: Levels) -> list[bool]:
    """Return whether each value of a tier is larger than each of the next, times the factor; below 0, over it."""
    values = dict(levels)
    bounds = {one: _times(test.factor, value) for one, value in levels}
    pairs = [(values[high], bounds[low]) for upper, lower in itertools.pairwise(test.tiers)
             for high in upper for low in lower]  # fmt: skip
    # Equal values, as no losses at all, are neither the larger; but each is "no less than nine tenths of" the other.
    return [high > low if test.factor >= 1 else high >= low for high, low in pairs]


def _times(factor: float, value: float) -> float:
    """Return a value that is larger by a factor, also where it is below 0.

    Examples:
        >>> _times(2, 5), _times(2, -10), _times(0.5, -10)
        (10, -5.0, -20.0)
    """
    return value * factor if value >= 0 else value / factor


def _is_alike(test: ClaimTest, levels: Levels) -> list[bool]:
    values = [value for _, value in levels]
    least, most = min(values), max(values)
    return [most == least or most - least <= test.slack * abs(least)]


def _rises(test: ClaimTest, levels: Levels) -> list[bool]:
    values = [value for _, value in levels]
    steps = itertools.pairwise(values)
    return [values[-1] > values[0] and all(_is_no_step_back(test.slack, earlier, later) for earlier, later in steps)]


def _is_no_step_back(slack: float, earlier: float, later: float) -> bool:
    """Whether a value is no lower than the one before it, by more than slack; infinite ones have no share of that.

    Examples:
        >>> inf = math.inf
        >>> _is_no_step_back(0.1, 10, 9.5), _is_no_step_back(0, inf, inf), _is_no_step_back(0, -inf, -5)
        (True, True, True)
        >>> _is_no_step_back(0.1, inf, 5)
        False
    """
    return later >= earlier or (math.isfinite(earlier) and later >= earlier - slack * abs(earlier))


def _falls(test: ClaimTest, levels: Levels) -> list[bool]:
    return _rises(test, [(one, -value) for one, value in levels])


def _peaks(test: ClaimTest, levels: Levels) -> list[bool]:
    most = max(value for _, value in levels)
    return [any(one in test.where for one, value in levels if value == most)]


def _has_trough(test: ClaimTest, levels: Levels) -> list[bool]:
    return _peaks(test, [(one, -value) for one, value in levels])


_COMPARE: Mapping[str, Callable[[ClaimTest, Levels], list[bool]]] = {
    "order": _ordered, "alike": _is_alike, "rises": _rises, "falls": _falls, "peak": _peaks, "trough": _has_trough,
}  # fmt: skip


def _ranked(test: ClaimTest, each: Cell, levels: Levels, asked: Asked) -> tuple[_Compared | None, str]:
    """Compare the order of values with that published, or with that by another quantity."""
    by: Levels = [(one, -float(place)) for place, one in enumerate(test.values)]
    if test.like is not None:
        by, missing = _levels(test.like, {**test.like.cell, **each}, test.values, test.along, asked)
        if missing:
            return None, f"nothing of {test.like.title} for {', '.join(missing)}"
    correlation = rank_correlation([value for _, value in levels], [value for _, value in by])
    both = ([correlation >= which.least] for which in (test, test.strict))
    return _Compared(*both), f"{correlation:.2f}"


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation, ties with the mean of their ranks; NaN where all of a side are equal.

    Examples:
        >>> rank_correlation([1, 2, 3], [10, 30, 20])
        0.5
    """
    rows = pl.DataFrame({"first": first, "second": second}, strict=False)
    return float(rows.select(pl.corr("first", "second", method="spearman")).item())

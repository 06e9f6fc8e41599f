# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of claims: each is checked in one cell or several; it hits if all checks hold, and misses if none does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from perigee.numbers import number
from perigee.scoring.published import Claim
from perigee.scoring.quantity import Cell, Found, in_words
from perigee.store.points import as_text

HIT, PART, MISS = "hit", "part", "miss"
NOT_PREDICTED, NOT_MEASURED = "not predicted", "not measured"

Find = Callable[[Cell], Found | None]
"""Returns what a source has of a claim's quantity in a cell."""

Levels = Sequence[tuple[object, float]]
"""Values of the factor along which cells are compared, each with what the source has."""


@dataclass(frozen=True)
class Check:
    """A claim in one cell.

    Attributes:
        cell: what tells the cell apart from the others of the claim; empty: it has one.
        holds: whether the claim holds there; None: the source has nothing there.
        seen: what the source has, in words.
    """

    cell: str
    holds: bool | None
    seen: str


@dataclass(frozen=True)
class Verdict:
    """The result of the test of a claim.

    Attributes:
        state: `hit`, `part`, `miss`, `not predicted`, or `not measured`.
        checks: the claim in each of its cells; empty if it is not measured.
    """

    state: str
    checks: Sequence[Check]

    @property
    def holding(self) -> int:
        """Cells in which the claim holds."""
        return sum(bool(one.holds) for one in self.checks)

    @property
    def seen(self) -> str:
        """The values of the source, in words."""
        return "; ".join(f"{one.cell}: {one.seen}" if one.cell else one.seen for one in self.checks)


def verdict(claim: Claim, find: Find) -> Verdict:
    """Test a claim.

    Args:
        claim: the claim.
        find: where its quantity comes from.
    """
    if claim.not_measured:
        return Verdict(NOT_MEASURED, ())
    checks = [_check(claim, cell, find) for cell in claim.each]
    holds = [one.holds for one in checks]
    if None in holds:
        return Verdict(NOT_PREDICTED, checks)
    return Verdict(HIT if all(holds) else PART if any(holds) else MISS, checks)


def stated(claim: Claim) -> str:
    """Return the test of a claim in words."""
    if claim.test == "order":
        return " > ".join(", ".join(map(as_text, tier)) for tier in claim.tiers)
    values = ", ".join(map(as_text, claim.values))
    if claim.test in ("peak", "trough"):
        return f"{claim.test} at {' or '.join(map(as_text, claim.where))} of {values}"
    if claim.test in ("alike", "rises", "falls"):
        slack = f", by {100 * claim.slack:g} % at most" if claim.slack else ""
        return f"{claim.test} along {values}" + (slack if claim.test == "alike" else slack and f"{slack} against it")
    bounds = [f"at least {claim.least:g}"] if not math.isnan(claim.least) else []
    bounds += [f"at most {claim.most:g}"] if not math.isnan(claim.most) else []
    return " and ".join(bounds)


def _check(claim: Claim, each: Cell, find: Find) -> Check:
    name, cell = in_words(each), {**claim.cell, **each}
    if claim.test == "bound":
        found = find(cell)
        if found is None:
            return Check(name, None, "nothing")
        # Comparisons with what is unknown are false: a bound that is not given always holds.
        holds = not (found.value < claim.least or found.value > claim.most)
        return Check(name, holds, number(found.value, _digits(claim, found.value)))
    wanted = list(itertools.chain(*claim.tiers)) or list(claim.values)
    levels = [(one, find({**cell, claim.along: one})) for one in wanted]
    known = [(one, seen.value) for one, seen in levels if seen is not None]
    if len(known) < len(wanted):
        missing = ", ".join(as_text(one) for one, seen in levels if seen is None)
        return Check(name, None, f"nothing for {missing}")
    return Check(name, _TESTS[claim.test](claim, known), ", ".join(_shown(claim, known)))


def _shown(claim: Claim, levels: Levels) -> Iterator[str]:
    ordered = sorted(levels, key=lambda level: -level[1]) if claim.test == "order" else levels
    return (f"{as_text(one)} {number(value, _digits(claim, value))}" for one, value in ordered)


def _digits(claim: Claim, value: float) -> int:
    """Return decimals that show a number of this size, however small its quantity usually is."""
    return max(claim.digits, min(6, 2 - math.floor(math.log10(abs(value))))) if 0 < abs(value) < 1 else claim.digits


def _is_ordered(claim: Claim, levels: Levels) -> bool:
    values = dict(levels)
    pairs = itertools.pairwise(claim.tiers)
    return all(values[high] > values[low] for upper, lower in pairs for high in upper for low in lower)


def _is_alike(claim: Claim, levels: Levels) -> bool:
    values = [value for _, value in levels]
    return max(values) - min(values) <= claim.slack * abs(min(values))


def _rises(claim: Claim, levels: Levels) -> bool:
    values = [value for _, value in levels]
    steps = itertools.pairwise(values)
    return values[-1] > values[0] and all(later >= earlier - claim.slack * abs(earlier) for earlier, later in steps)


def _falls(claim: Claim, levels: Levels) -> bool:
    return _rises(claim, [(one, -value) for one, value in levels])


def _peaks(claim: Claim, levels: Levels) -> bool:
    most = max(value for _, value in levels)
    return any(one in claim.where for one, value in levels if value == most)


def _has_trough(claim: Claim, levels: Levels) -> bool:
    return _peaks(claim, [(one, -value) for one, value in levels])


_TESTS: Mapping[str, Callable[[Claim, Levels], bool]] = {
    "order": _is_ordered, "alike": _is_alike, "rises": _rises, "falls": _falls, "peak": _peaks, "trough": _has_trough,
}  # fmt: skip

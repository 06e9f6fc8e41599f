# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How far the results reproduce a publication, in words: counts of numbers and claims, fitted apart, and each miss."""

from __future__ import annotations

from collections.abc import Sequence

from perigee.groups.factors import switches_in_words
from perigee.numbers import number, signed
from perigee.report.context import Context
from perigee.report.model import Link
from perigee.scoring.score import ScoredClaim, ScoredValue
from perigee.scoring.testing import HIT, MISS, PART


def label(context: Context, one: ScoredValue) -> str:
    """Return what people call the cell of a published number."""
    cell = one.row.cell or {key: value for key, value in one.value.cell.items() if key != "experiment"}
    return context.of_cell(cell)


def pair(one: ScoredValue) -> tuple[str, str]:
    """Return the published and the simulated number for people."""
    digits = one.value.digits
    return number(one.row.value, digits), number(one.simulated, digits)


def error(one: ScoredValue) -> str:
    """Return the error for people; of shares in percentage points."""
    if one.is_met is None:
        return "–"
    if one.value.unit == "%":
        return f"{signed(one.error, one.value.digits)} pp"
    return f"{signed(one.error_percent)} %" if one.row.value else f"{signed(one.error, one.value.digits)}"


def judged(context: Context) -> tuple[list[ScoredValue], list[ScoredClaim]]:
    """Return the published numbers and claims that these results have; none that describes the network."""
    if context.score is None:
        return [], []
    values = [one for one in context.score.values if one.role != "input" and one.is_met is not None]
    return values, [one for one in context.score.claims if one.role != "input" and one.state in (HIT, PART, MISS)]


def summary(context: Context) -> tuple[str, list[Link]]:
    """Return how much is met, fitted and not fitted, and a link to each number or claim that is not."""
    numbers, claims = judged(context)
    fitted = [one for one in numbers if one.role == "fitted"]
    others = [one for one in numbers if one.role != "fitted"]
    parts = [_counted("Fitted", fitted), _counted("Not fitted" if fitted else "Published numbers", others)]
    if claims:
        held, partly = ([one for one in claims if one.state == state] for state in (HIT, PART))
        partial = f", {len(partly)} in part" if partly else ""
        parts.append(f"Claims: {len(held)} of {len(claims)}{partial}.")
    misses = [
        Link(
            f"{label(context, one)}, {switches_in_words(one.value.heading)}: {pair(one)[1]}, published {pair(one)[0]}",
            one.anchor,
        )
        for one in numbers
        if not one.is_met
    ]
    misses += [Link(f"{one.claim.claim}.", one.anchor) for one in claims if one.state != HIT]
    return " ".join(part for part in parts if part), misses


def _counted(noun: str, numbers: Sequence[ScoredValue]) -> str:
    if not numbers:
        return ""
    bounds = {one.value.within for one in numbers}
    within = f"within {100 * min(bounds):g} %" if len(bounds) == 1 else "within their bounds"
    return f"{noun}: {sum(bool(one.is_met) for one in numbers)} of {len(numbers)} {within}."

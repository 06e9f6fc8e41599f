# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of groups against a reference, with the size of each effect in words."""

from __future__ import annotations

import polars as pl

from perigee.groups.group import Group
from perigee.numbers import decimals, number, probability, signed
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.statistics.estimates import ALPHA, Contrast, at_level, effect_said, effect_word, percent
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import (
    Comparison,
    compare_groups,
    corrected,
    effects_in_words,
    method,
    share_draws,
    tests_in_words,
)  # fmt: skip


def section(context: Context) -> Section | None:
    """Return the tests; None without a reference and a group to compare."""
    pairs = against_reference(context)
    made: list[tuple[Metric, Group, Group, Comparison]] = []
    level = context.settings.confidence
    draws = share_draws(context.results, context.results)
    for metric in context.metrics(context.settings.tests):
        for group, reference in pairs:
            ours, theirs = (context.with_metric(one, metric.name) for one in (group, reference))
            found = compare_groups(ours, theirs, metric.name, shared_draws=draws, confidence=level)
            if found is not None:
                made.append((metric, group, reference, found))
    if not made:
        return None
    name = context.label(context.settings.reference or "")
    comparisons = [found for *_, found in made]
    results = list(zip(made, corrected(comparisons), strict=True))
    table = Table(
        name="t-tests",
        caption=f"Against {name}: differences of the means ± half widths of their {percent(level)} confidence "
        f"intervals; {tests_in_words(comparisons)}, at α = {ALPHA}; size of each effect",
        head=["Quantity", "", f"difference from {name}", "rounds", "t (degrees of freedom)", "p", "p (Wilcoxon)", "",
              f"effect [{percent(level)} interval]", "Cohen's d"],
        rows=[_row(*one, *p) for one, p in results],
        data=pl.DataFrame([_fact(level, *one, *p) for one, p in results], infer_schema_length=None),
        notes=[method(comparisons, "of this table"), effects_in_words(comparisons, level)],
        words=(1, 3, 7),
    )  # fmt: skip
    return Section("tests", f"Tests against {name}", [table])


def against_reference(context: Context) -> list[tuple[Group, Group]]:
    """Return the groups to test, each with its reference, from which it differs in one factor only.

    If the reference is an algorithm, each group's reference is the otherwise equal group of that algorithm.
    """
    wanted = context.settings.reference
    named = context.group(wanted or "")
    references = [named] if named else [group for group in context.groups if group.cc == wanted]
    pairs = []
    for group in context.groups:
        apart = [(reference, _differences(group, reference)) for reference in references]
        if named is None:
            apart = [(reference, keys) for reference, keys in apart if keys == {"cc"}]
        pairs += [(group, reference) for reference, keys in apart if len(keys) == 1][:1]
    return pairs


def _differences(one: Group, other: Group) -> set[str]:
    """Return the factors in which two groups differ."""
    keys = one.factors.keys() | other.factors.keys()
    return {key for key in keys if one.factors.get(key) != other.factors.get(key)}


def _row(
    metric: Metric, group: Group, _reference: Group, found: Comparison, p: float | None, ranks: float | None
) -> list[Cell]:
    test = found.contrast
    digits = decimals(metric.digits, found.difference, test.half_width if test else None)
    difference = signed(found.difference, digits)
    unit = "pp" if metric.unit == "%" else metric.unit
    cells = [Cell(metric.title), Cell.naming(group)]
    if test is None:
        rest = [Cell("–")] * 3
        return [*cells, Cell(f"{difference} {unit}"), Cell(found.size), *rest, Cell(found.reason), *[Cell("–")] * 2]
    is_significant = p is not None and p < ALPHA
    return [
        *cells,
        Cell(f"{difference} ± {number(test.half_width, digits)} {unit}"),
        Cell(found.size),
        Cell(f"t({test.degrees:.{0 if found.is_paired else 1}f}) = {number(test.t, 2)}"),
        Cell(probability(p)),
        Cell(probability(ranks)),
        Cell("significant" if is_significant else "not significant", "best" if is_significant else ""),
        Cell(f"{number(test.effect, 2)} {_ends(test)}"),
        Cell(f"{number(test.d, 2)}{effect_said(test.d, min(len(found.first), len(found.second)), p)}"),
    ]


def _ends(test: Contrast) -> str:
    if test.effect_low is None or test.effect_high is None:
        return "(no interval)"
    return f"[{number(test.effect_low, 2)}, {number(test.effect_high, 2)}]"


def _fact(
    confidence: float,
    metric: Metric,
    group: Group,
    reference: Group,
    found: Comparison,
    p: float | None,
    ranks: float | None,
) -> dict[str, object]:
    test = found.contrast
    return {
        "quantity": metric.name, "group": group.name, "reference": reference.name, "difference": found.difference,
        at_level("half_width", confidence): test and test.half_width, "unit": metric.unit, "paired": found.is_paired,
        "values": len(found.first), "values_of_reference": len(found.second), "t": test and test.t,
        "degrees": test and test.degrees, "p": test and test.p, "p_holm": p, "p_wilcoxon": test and test.p_wilcoxon,
        "p_wilcoxon_holm": ranks, "significant": None if p is None else p < ALPHA, "cohens_d": test and test.d,
        "effect": effect_word(test.d) if test else found.reason,
        "effect_size": test and test.effect, at_level("effect_low", confidence): test and test.effect_low,
        at_level("effect_high", confidence): test and test.effect_high,
        "effect_measure": "d_z" if found.is_paired else "g",
    }  # fmt: skip

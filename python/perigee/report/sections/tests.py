# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of groups against a reference, with the size of each effect in words."""

from __future__ import annotations

import polars as pl

from perigee.groups.group import Group
from perigee.groups.settings import ReportSettings
from perigee.numbers import between, decimals, number, probability, signed
from perigee.report.context import Context
from perigee.report.family import Tested, family
from perigee.report.model import Cell, Section, Table
from perigee.report.ranking import against_reference
from perigee.statistics.estimates import Contrast, at_level, effect_said, effect_word, level_of_tests, percent
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import Comparison, effects_in_words, method, verdict

VERDICTS = {
    "equal": "practically equal", "significant": "significant", "open": "not significant", "untested": "not tested",
}  # fmt: skip
"""Words of the table."""


def section(context: Context) -> Section | None:
    """Return the tests; None without a reference and a group to compare."""
    level, tests = context.settings.confidence, family(context)
    made: list[tuple[Metric, Group, Group, Comparison, Tested]] = []
    for metric in context.metrics(context.settings.tests):
        for group, reference in against_reference(context):
            tested = tests.of((metric, group, reference))
            if tested.comparison is not None:
                made.append((metric, group, reference, tested.comparison, tested))
    if not made:
        return None
    name = context.label(context.settings.reference or "")
    comparisons = [found for _, _, _, found, _ in made]
    table = Table(
        name="t-tests",
        caption=f"Against {name}: differences of the means with their {percent(level)} confidence intervals; "
        f"tests at α = {level_of_tests(level):g}; size of each effect",
        head=["Quantity", "", f"difference from {name}", f"{percent(level)} interval", "rounds",
              "t (degrees of freedom)", "p", "p (Wilcoxon)", "", f"effect [{percent(level)} interval]", "Cohen's d"],
        rows=[_row(context.settings, *one) for one in made],
        data=pl.DataFrame([_fact(context.settings, *one) for one in made], infer_schema_length=None),
        notes=[method(comparisons, tests.size), effects_in_words(comparisons, level, context.settings.effects)],
        words=(1, 4, 8),
    )  # fmt: skip
    return Section("tests", f"Tests against {name}", [table])


def _row(
    settings: ReportSettings, metric: Metric, group: Group, _reference: Group, found: Comparison, tested: Tested
) -> list[Cell]:
    test, p, level = found.contrast, tested.p, settings.confidence
    digits = decimals(metric.digits, found.difference, test.half_width if test else None)
    unit = "pp" if metric.unit == "%" else metric.unit
    cells = [Cell(metric.title), Cell.naming(group), Cell(f"{signed(found.difference, digits)} {unit}".rstrip())]
    if test is None:
        rest = [Cell("–")] * 3
        return [*cells, Cell("–"), Cell(found.size), *rest, Cell(found.reason), *[Cell("–")] * 2]
    judged = verdict(float(found.first.mean()), float(found.second.mean()), found, p, level)
    values = min(len(found.first), len(found.second))
    size = "" if judged == "equal" else effect_said(test.d, values, p, level_of_tests(level), settings.effects)
    return [
        *cells,
        Cell(between(found.interval, digits)),
        Cell(found.size),
        Cell(f"t({test.degrees:.{0 if found.is_paired else 1}f}) = {number(test.t, 2)}"),
        Cell(probability(p)),
        Cell(probability(tested.p_wilcoxon)),
        Cell(VERDICTS[judged], "best" if judged == "significant" else ""),
        Cell(f"{number(test.effect, 2)} {_ends(test)}"),
        Cell(f"{number(test.d, 2)}{size}"),
    ]


def _ends(test: Contrast) -> str:
    if test.effect_low is None or test.effect_high is None:
        return "(no interval)"
    return f"[{number(test.effect_low, 2)}, {number(test.effect_high, 2)}]"


def _fact(
    settings: ReportSettings,
    metric: Metric,
    group: Group,
    reference: Group,
    found: Comparison,
    tested: Tested,
) -> dict[str, object]:
    test, p, confidence = found.contrast, tested.p, settings.confidence
    return {
        "quantity": metric.name, "group": group.name, "reference": reference.name, "difference": found.difference,
        at_level("half_width", confidence): test and test.half_width, "unit": metric.unit, "paired": found.is_paired,
        "values": len(found.first), "values_of_reference": len(found.second), "t": test and test.t,
        "degrees": test and test.degrees, "p": test and test.p, "p_holm": p, "p_wilcoxon": test and test.p_wilcoxon,
        "p_wilcoxon_holm": tested.p_wilcoxon,
        "significant": None if p is None else p < level_of_tests(confidence), "cohens_d": test and test.d,
        "effect": effect_word(test.d, settings.effects) if test else found.reason,
        "effect_size": test and test.effect, at_level("effect_low", confidence): test and test.effect_low,
        at_level("effect_high", confidence): test and test.effect_high,
        "effect_measure": "d_z" if found.is_paired else "g",
    }  # fmt: skip

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""t tests of every group against the reference, with the size of each effect in words."""

from __future__ import annotations

import polars as pl

from perigee.metrics import sample
from perigee.numbers import number, signed
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.statistics import effect_word, t_test

ALPHA = 0.05


def section(context: Context) -> Section | None:
    """Return the tests, if there is a reference and more than one flow in a group."""
    reference = context.group(context.settings.reference or "")
    others = [group for group in context.groups if group is not reference]
    if reference is None or not others:
        return None
    rows, data = [], []
    for metric in context.metrics(context.settings.tests):
        theirs = sample(context.with_metric(reference, metric.name), metric.name)
        for group in others:
            seen = sample(context.with_metric(group, metric.name), metric.name)
            test = t_test(seen, theirs, comparisons=len(others))
            if test is None:
                continue
            difference = float(seen.mean() - theirs.mean())
            significant = test.is_significant(ALPHA)
            effect = effect_word(test.d)
            p = "< 0.001" if test.p_adjusted < 0.001 else number(test.p_adjusted, 3)
            rows.append(
                [
                    Cell(metric.title),
                    Cell(group.label),
                    Cell(f"{signed(difference, metric.digits)} {metric.unit}"),
                    Cell(f"t({test.degrees:.0f}) = {number(test.t, 2)}"),
                    Cell(p),
                    Cell("significant" if significant else "not significant", "best" if significant else ""),
                    Cell(f"{number(test.d, 2)} ({effect})"),
                ]
            )
            data.append(
                {
                    "quantity": metric.name, "group": group.key, "reference": reference.key, "difference": difference,
                    "unit": metric.unit, "t": test.t, "degrees": test.degrees, "p": test.p,
                    "p_bonferroni": test.p_adjusted, "significant": significant, "cohens_d": test.d, "effect": effect,
                }
            )  # fmt: skip
    if not rows:
        return None
    table = Table(
        name="t-tests",
        caption=f"Against {reference.label}: independent two-tailed t tests, α = {ALPHA}, p corrected for "
        f"{len(others)} comparisons (Bonferroni); Cohen's d with its word (0.2 small, 0.5 medium, 0.8 large)",
        head=[
            "Quantity",
            "",
            f"difference from {reference.label}",
            "t (degrees of freedom)",
            "p, corrected",
            "",
            "Cohen's d",
        ],
        rows=rows,
        data=pl.DataFrame(data),
        words=(1, 5),
    )
    return Section("tests", f"Tests against {reference.label}", [table])

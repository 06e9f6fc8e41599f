# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Effect of a switch of a study: groups with its first value minus groups with its second, by metric."""

from __future__ import annotations

import polars as pl

from perigee.errors import InputError
from perigee.groups.factors import capital
from perigee.groups.group import Group
from perigee.numbers import between, decimals, number, probability, signed
from perigee.report.context import Context
from perigee.report.family import Tested, family
from perigee.report.model import Cell, Section, Table
from perigee.report.ranking import of_switch, without
from perigee.statistics.estimates import at_level, bands_said, effect_said, glass_delta, level_of_tests, percent, spread
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import Comparison, method, verdict


def section(context: Context) -> Section | None:
    """Return the table of differences if `report.toml` names the switch.

    Raises:
        InputError: `between` is no key that varies with two values.
    """
    key = context.settings.between
    if not key:
        return None
    values = context.varied.get(key, [])
    if len(values) != 2:
        known = [f"`{name}`" for name, seen in context.varied.items() if len(seen) == 2]
        fix = f"name one of {', '.join(known)}" if known else "vary one, or remove `between`"
        raise InputError(f"report.toml: `between` = `{key}` is no key that the study varies with two values; {fix}")
    tests = family(context)
    made = [
        (metric, one, found, tested)
        for metric in context.metrics(context.settings.tests)
        for pair in of_switch(context, values)
        for one, tested in ((pair[0], tests.of((metric, *pair))),)
        if (found := tested.comparison) is not None
    ]
    if not made:
        return None
    comparisons = [found for _, _, found, _ in made]
    level = context.settings.confidence
    rows, data = zip(*(_row(context, key, *one) for one in made), strict=True)
    first, second = (context.said(key, value) for value in values)
    table = Table(
        name="differences",
        caption=f"{first} minus {second}: means, difference ± standard deviation over rounds, its {percent(level)} "
        "confidence interval, and Glass's Δ, the difference over the standard deviation of the second "
        f"({bands_said(context.settings.effects)}; said from five rounds on, where p is below "
        f"{level_of_tests(level):g})",
        head=["Quantity", "", second, first, "difference", f"{percent(level)} interval", "Glass's Δ", "p"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        notes=[method(comparisons, tests.size)],
        words=(1,),
    )
    return Section("differences", f"{capital(first)} and {second}", [table])


def _row(
    context: Context, key: str, metric: Metric, group: Group, found: Comparison, tested: Tested
) -> tuple[list[Cell], dict[str, object]]:
    """Return a row of the table, and of its data."""
    apart = found.first - found.second if found.is_paired else None
    deviation = spread(apart) if apart is not None else None
    delta = glass_delta(found.first, found.second)
    level = context.settings.confidence
    means = float(found.first.mean()), float(found.second.mean())
    digits = decimals(metric.digits, found.difference, deviation)
    is_equal = verdict(*means, found, tested.p, level) == "equal"
    alpha, words = level_of_tests(level), context.settings.effects
    size = "" if is_equal else effect_said(delta or 0.0, len(found.second), tested.p, alpha, words)
    cells = [
        Cell(metric.heading),
        Cell(without(group, key, context)),
        Cell(number(means[1], digits)),
        Cell(number(means[0], digits)),
        Cell(signed(found.difference, digits) + (f" ± {number(deviation, digits)}" if deviation else "")),
        Cell(between(found.interval, digits)),
        Cell("–" if delta is None else f"{signed(delta, 2)}{size}"),
        Cell("practically equal" if is_equal else probability(tested.p)),
    ]
    data = {
        "quantity": metric.name, "unit": metric.unit, "group": without(group, key),
        "mean_second": means[1], "mean_first": means[0],
        "difference": found.difference, "sd": deviation,
        "glass_delta": delta,
        at_level("half_width", context.settings.confidence): found.contrast.half_width if found.contrast else None,
        "p_holm": tested.p, "p_wilcoxon_holm": tested.p_wilcoxon, "rounds": len(found.first),
    }  # fmt: skip
    return cells, data

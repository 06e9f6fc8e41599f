# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Effect of a switch of a study: groups with its first value minus groups with its second, by metric."""

from __future__ import annotations

import polars as pl

from perigee.errors import InputError
from perigee.groups.factors import capital
from perigee.groups.group import Group
from perigee.numbers import decimals, number, probability, signed
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.statistics.estimates import at_level, effect_said, glass_delta, spread
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import Comparison, compare_groups, corrected, method, pairing_said, share_draws


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
    made = [
        (metric, one, found)
        for metric in context.metrics(context.settings.tests)
        for one, other in _pairs(context, key, values)
        if (found := _compare(context, one, other, metric)) is not None
    ]
    if not made:
        return None
    comparisons = [found for *_, found in made]
    rows, data = zip(
        *(_row(context, key, *one, *levels) for one, levels in zip(made, corrected(comparisons), strict=True)),
        strict=True,
    )
    first, second = (context.said(key, value) for value in values)
    table = Table(
        name="differences",
        caption=f"{first} minus {second}: means, difference ± standard deviation over rounds, and Glass's Δ, the "
        f"difference over the standard deviation of the second (0.2 small, 0.5 medium, 0.8 large; said from five "
        "rounds on, where p is below 0.05)",
        head=["Quantity", "", second, first, "difference", "Glass's Δ", "p"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        notes=[pairing_said(comparisons), method(comparisons, "in this table")],
        words=(1,),
    )
    return Section("differences", f"{capital(first)} and {second}", [table])


def _row(
    context: Context, key: str, metric: Metric, group: Group, found: Comparison, p: float | None, ranks: float | None
) -> tuple[list[Cell], dict[str, object]]:
    """Return a row of the table, and of its data."""
    apart = found.first - found.second if found.is_paired else None
    deviation = spread(apart) if apart is not None else None
    delta = glass_delta(found.first, found.second)
    digits = decimals(metric.digits, found.difference, deviation)
    cells = [
        Cell(metric.heading),
        Cell(_without(group, key, context)),
        Cell(number(float(found.second.mean()), digits)),
        Cell(number(float(found.first.mean()), digits)),
        Cell(signed(found.difference, digits) + (f" ± {number(deviation, digits)}" if deviation else "")),
        Cell("–" if delta is None else f"{signed(delta, 2)}{effect_said(delta, len(found.second), p)}"),
        Cell(probability(p)),
    ]
    data = {
        "quantity": metric.name, "unit": metric.unit, "group": _without(group, key),
        "mean_second": float(found.second.mean()), "mean_first": float(found.first.mean()),
        "difference": found.difference, "sd": deviation,
        "glass_delta": delta,
        at_level("half_width", context.settings.confidence): found.contrast.half_width if found.contrast else None,
        "p_holm": p, "p_wilcoxon_holm": ranks, "rounds": len(found.first),
    }  # fmt: skip
    return cells, data


def _compare(context: Context, one: Group, other: Group, metric: Metric) -> Comparison | None:
    ours, theirs = (context.with_metric(group, metric.name) for group in (one, other))
    draws = share_draws(context.results, context.results)
    return compare_groups(ours, theirs, metric.name, shared_draws=draws, confidence=context.settings.confidence)


def _pairs(context: Context, key: str, values: list[str]) -> list[tuple[Group, Group]]:
    """Return the pairs of groups that differ in the key only: first value, second value."""
    first, second = values
    others = {_without(group, key): group for group in context.groups if group.factors.get(key) == second}
    ours = [group for group in context.groups if group.factors.get(key) == first]
    return [(group, others[_without(group, key)]) for group in ours if _without(group, key) in others]


def _without(group: Group, key: str, context: Context | None = None) -> str:
    """Return the label of a group without the key: as in data, or with a context for readers."""
    rest = {name: value for name, value in group.factors.items() if name not in (key, "cc", "flow")}
    if context is None:
        return ", ".join([group.cc or group.factors.get("flow", ""), *(f"{name} = {rest[name]}" for name in rest)])
    own = context.algorithm(group.rows.row(0, named=True)) if group.cc else group.factors.get("flow", "")
    return ", ".join([own, *(context.said(name, value) for name, value in rest.items())])

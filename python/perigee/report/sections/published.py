# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Published and simulated results: each number with its error, each ordering with its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from perigee.groups.group import Group
from perigee.numbers import number, signed
from perigee.report.context import Context
from perigee.report.legends import broken, legend_of, size_of
from perigee.report.model import Block, Cell, Fact, Mark, Plot, Section, Table, Text
from perigee.report.provenance import cited
from perigee.report.published import Ordering, PublishedTable, PublishedValue
from perigee.report.style import FAINT, INK, WIDTH_IN, figure
from perigee.statistics.metrics import group_spread, sample


@dataclass(frozen=True)
class Comparison:
    """One published number and the simulated one.

    Attributes:
        value: its definition.
        group: its group.
        published: the published number.
        published_sd: its standard deviation; NaN: not published.
        simulated: the simulated number.
        simulated_sd: its standard deviation over flows; NaN: none.
    """

    value: PublishedValue
    group: Group
    published: float
    published_sd: float
    simulated: float
    simulated_sd: float

    @property
    def error_percent(self) -> float:
        """Relative error of the simulated number, in %."""
        return 100 * (self.simulated / self.published - 1) if self.published else float("nan")

    @property
    def is_met(self) -> bool | None:
        """True if the error is within the bound; None if not judged."""
        if self.value.within is None:
            return None
        return bool(abs(self.error_percent) <= 100 * self.value.within)


def compare(context: Context, table: PublishedTable) -> list[list[Comparison]]:
    """Return the comparisons of a published table: a list per column, an entry per published group."""
    return [
        [_compare(context, value, group) for group in context.groups if group.name in value.values]
        for value in table.values
    ]


def _compare(context: Context, value: PublishedValue, group: Group) -> Comparison:
    flows = context.with_metric(group, value.metric.name)
    seen = sample(flows, value.metric.name)
    spread = float("nan")
    if len(seen) == 0:
        simulated = float("nan")
    elif value.statistic == "zero_percent":
        simulated = 100 * float(np.mean(seen == 0))
    elif value.statistic == "below_percent":
        simulated = 100 * float(np.mean(seen < value.below))
    elif value.statistic == "max":
        simulated = float(seen.max())
    else:
        simulated = context.value(group, value.metric)
        deviation = group_spread(flows, value.metric)
        spread = float("nan") if deviation is None else deviation
    published = value.values[group.name]
    return Comparison(value, group, published, value.sd.get(group.name, float("nan")), simulated, spread)


def facts(context: Context) -> list[Fact]:
    """Return the numbers of matching numbers and orderings, for the head of the report."""
    if context.published is None:
        return []
    judged: list[Comparison] = []
    calibrated = 0
    for table in context.published.tables:
        of_table = [one for column in compare(context, table) for one in column if one.value.within]
        judged += of_table
        calibrated += len(of_table) if table.calibrated else 0
    found = []
    if judged:
        met = sum(bool(one.is_met) for one in judged)
        bounds = {one.value.within or 0.0 for one in judged}
        within = f"within {100 * min(bounds):.0f}\u202f%" if len(bounds) == 1 else "within their bounds"
        fitted = {0: "", len(judged): "; a link was calibrated on them"}
        on = fitted.get(calibrated, f"; a link was calibrated on {calibrated} of them")
        found.append(Fact(f"{met} of {len(judged)}", f"published means met {within}{on}"))
    checks = [_check(context, ordering) for ordering in context.published.orderings]
    known = [check for check in checks if check is not None]
    if known:
        found.append(Fact(f"{sum(holds for holds, _ in known)} of {len(known)}", "published orderings hold"))
    return found


def values(context: Context) -> Section | None:
    """Return the tables of published and simulated numbers, and a figure of both."""
    if context.published is None or not context.published.tables:
        return None
    source, work = context.published.source.rstrip("."), context.published.work
    blocks: list[Block] = [Text(f"Published: {source}." + (f" {cited(work).text}" if work else ""))]
    if context.published.calibration:
        blocks.append(Text(f"Calibration: {context.published.calibration}"))
    blocks += [Text(note) for note in context.published.notes]
    manifest = context.results.manifest
    if manifest["reduced"] or manifest["settings"]:
        blocks.append(Text("The runs here are not those of the publication: " + _changed(manifest) + "."))
    for table in context.published.tables:
        columns = [column for column in compare(context, table) if column]
        if not columns:
            continue
        blocks.append(_table(context, table, columns))
        if table.values[0].sd:
            blocks.append(_plot(context, table, columns))
    return Section("published", f"Published beside {context.found}", blocks)


def _changed(manifest: Mapping[str, Any]) -> str:
    changes = ["they have the study's reduced size"] if manifest["reduced"] else []
    return " and ".join([*changes, *(f"{setting} was set" for setting in manifest["settings"])])


def _table(context: Context, table: PublishedTable, columns: list[list[Comparison]]) -> Table:
    by_group = [{one.group.number: one for one in column} for column in columns]
    rows = []
    for group in context.groups:
        cells = [Cell(group.label)]
        for column in by_group:
            cells += _cells(column.get(group.number))
        if any(group.number in column for column in by_group):
            rows.append(cells)
    judged = any(column[0].value.within is not None for column in columns)
    notes = [one.note for one in table.values if one.note]
    if judged:
        notes.insert(0, "✓ within the bound, ✗ outside it. Mean ± standard deviation over flows, where they vary.")
    data = pl.DataFrame(
        [
            {
                "group": one.group.name,
                "quantity": one.value.metric.name,
                "statistic": one.value.statistic,
                "unit": one.value.unit,
                "published": one.published,
                "published_sd": one.published_sd,
                "simulated": one.simulated,
                "simulated_sd": one.simulated_sd,
                "error_percent": one.error_percent,
                "within_percent": None if one.value.within is None else 100 * one.value.within,
                "met": one.is_met,
                "flows": one.group.flows.height,
            }
            for column in columns
            for one in column
        ],
        infer_schema_length=None,
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
    return Table(
        name=f"published-{table.name}",
        caption=table.caption + ("; a link of the study was calibrated on these numbers" if table.calibrated else ""),
        head=["", *(head for _ in columns for head in ("published", context.found, "error"))],
        groups=[("", 1), *((column[0].value.heading, 3) for column in columns)],
        rows=rows,
        data=data,
        notes=notes,
    )


def _cells(one: Comparison | None) -> list[Cell]:
    if one is None:
        return [Cell("–"), Cell("–"), Cell("–")]
    digits = one.value.digits
    mark: Mark = "" if one.is_met is None else "good" if one.is_met else "bad"
    sign = {"": "", "good": " ✓", "bad": " ✗", "best": ""}[mark]
    if one.value.unit == "%":
        error = f"{signed(one.simulated - one.published, digits)} pp"
    else:
        error = f"{signed(one.error_percent)} %"
    return [
        Cell(_with_spread(one.published, one.published_sd, digits)),
        Cell(_with_spread(one.simulated, one.simulated_sd if one.value.sd else float("nan"), digits)),
        Cell((error if one.simulated == one.simulated else "–") + sign, mark),
    ]


def _with_spread(value: float, spread: float, digits: int) -> str:
    return number(value, digits) + (f" ± {number(spread, digits)}" if spread == spread else "")


def _plot(context: Context, table: PublishedTable, columns: list[list[Comparison]]) -> Plot:
    bound_words = (
        f"; grey: published ±\u202f{100 * within:.0f}\u202f%" if (within := columns[0][0].value.within) else ""
    )
    words = "; ".join(
        f"{one.group.label} {one.value.metric.title.lower()}: published {number(one.published, one.value.digits)}, "
        f"{context.found} {number(one.simulated, one.value.digits)} {one.value.unit}"
        for column in columns
        for one in column
    )
    return Plot.of(
        f"published-{table.name}",
        f"{table.caption}: mean and standard deviation over flows, published (circle) and {context.found} "
        f"(diamond){bound_words}.",
        words,
        partial(_figure, columns, context.found),
    )


def _figure(columns: list[list[Comparison]], found: str, width_in: float) -> Figure:
    lines = 1 if width_in == WIDTH_IN else len(columns)
    in_a_line = -(-len(columns) // lines)
    drawing = figure(2.6 if lines == 1 else 0.5 + 1.6 * lines, width_in)
    panels = drawing.subplots(lines, in_a_line, sharey=True, squeeze=False)
    for axes, column in zip(panels.flat, columns, strict=True):
        places = np.arange(len(column))[::-1]
        for place, one in zip(places, column, strict=True):
            bound = (one.value.within or 0) * one.published
            if bound:
                axes.barh(place, 2 * bound, 0.62, left=one.published - bound, color=FAINT, zorder=0)
            axes.errorbar(
                one.published, place + 0.14, xerr=_or_zero(one.published_sd), fmt="o", color=INK, mfc="white",
                capsize=2, lw=1,
            )  # fmt: skip
            axes.errorbar(
                one.simulated, place - 0.14, xerr=_or_zero(one.simulated_sd), fmt="D", color=one.group.look.color,
                capsize=2, lw=1,
            )  # fmt: skip
        axes.set_yticks(places, [one.group.label for one in column])
        axes.set_xlabel(broken(column[0].value.heading, 0.8 * width_in / in_a_line, size_of("axes.labelsize")))
        axes.grid(visible=False, axis="y")
        axes.use_sticky_edges = False
        axes.margins(x=0.06, y=0.12)
    handles = [
        Line2D([], [], marker="o", color=INK, mfc="white", lw=1),
        Line2D([], [], marker="D", color=INK, lw=1),
    ]
    legend_of(drawing, handles, ["published", found])
    return drawing


def _or_zero(value: float) -> float:
    return value if value == value else 0.0


def orderings(context: Context) -> Section | None:
    """Return the publication's orderings with their verdicts."""
    if context.published is None or not context.published.orderings:
        return None
    rows, data = [], []
    for ordering in context.published.orderings:
        checked = _check(context, ordering)
        if checked is None:
            continue
        holds, means = checked
        seen = " > ".join(
            f"{context.label(key)} {number(mean, ordering.metric.digits)}"
            for key, mean in sorted(means.items(), key=lambda item: -item[1])
        )
        cell = Cell("✓ holds", "good") if holds else Cell("✗ does not hold", "bad")
        rows.append([Cell(ordering.claim), Cell(ordering.metric.heading), Cell(seen), cell])
        stated = " > ".join(", ".join(tier) for tier in ordering.tiers)
        facts_here = {"claim": ordering.claim, "quantity": ordering.metric.name, "stated": stated, "holds": holds}
        data.append(facts_here | {f"simulated_{key}": mean for key, mean in means.items()})
    if not rows:
        return None
    table = Table(
        name="orderings",
        caption=f"Orderings the publication states, checked on the {context.found} means",
        head=["Statement", "By", f"{context.found.capitalize()}, highest first", "Result"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        words=(1, 2, 3),
    )
    return Section("orderings", "What the publication states", [table])


def _check(context: Context, ordering: Ordering) -> tuple[bool, dict[str, float]] | None:
    """Return whether an ordering holds and the means; None if a group or its metric is missing."""
    means: dict[str, float] = {}
    for key in (key for tier in ordering.tiers for key in tier):
        group = context.group(key)
        mean = context.value(group, ordering.metric) if group else float("nan")
        if mean != mean:
            return None
        means[key] = mean
    pairs = zip(ordering.tiers, ordering.tiers[1:], strict=False)
    return all(means[high] > means[low] for upper, lower in pairs for high in upper for low in lower), means

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Published and simulated results: each number with its error, each ordering with its verdict."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.legends import broken, legend_of, size_of
from perigee.report.model import Block, Cell, Mark, Plot, Section, Table, Text
from perigee.report.provenance import cited
from perigee.report.published import Published, PublishedTable
from perigee.report.reproduction import Comparison, checks, compare
from perigee.report.style import FAINT, INK, WIDTH_IN, figure


def values(context: Context) -> Section | None:
    """Return the tables of published and simulated numbers, and a figure of both."""
    if context.published is None or not context.published.tables:
        return None
    source, work = context.published.source.rstrip("."), context.published.work
    blocks: list[Block] = [Text(f"Published: {source}." + (f" {cited(work).text}" if work else ""))]
    if context.published.calibration:
        blocks.append(Text(f"Calibration: {context.published.calibration}"))
    blocks += [Text(note) for note in context.published.notes]
    if settings := context.results.manifest["settings"]:
        changed = " and ".join(f"{setting} was set" for setting in settings)
        blocks.append(Text(f"The runs here are not those of the publication: {changed}."))
    for table in context.published.tables:
        columns = [column for column in compare(context, table) if column]
        if not columns:
            continue
        blocks.append(_table(context, table, columns))
        if table.values[0].sd:
            blocks.append(_plot(context, table, columns))
    return Section("published", f"Published beside {context.found}", blocks)


def _table(context: Context, table: PublishedTable, columns: list[list[Comparison]]) -> Table:
    by_group = [{one.group.number: one for one in column} for column in columns]
    rows = []
    for group in context.groups:
        cells = [Cell(group.label)]
        for column in by_group:
            cells += _cells(context.published, column.get(group.number))
        if any(group.number in column for column in by_group):
            rows.append(cells)
    bounds = " or ".join(dict.fromkeys(f"{100 * column[0].value.within:g} %" for column in columns))
    notes = [f"✓ within {bounds} of the published number, ✗ outside. Mean ± standard deviation over flows."]
    notes += [one.note for one in table.values if one.note]
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
                "within_percent": 100 * one.value.within,
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


def _cells(published: Published | None, one: Comparison | None) -> list[Cell]:
    if one is None or published is None:
        return [Cell("–"), Cell("–"), Cell("–")]
    digits = one.value.digits
    mark: Mark = "" if one.is_met is None else "good" if one.is_met else "bad"
    sign, spoken = {"good": (" ✓", "within the bound"), "bad": (" ✗", "outside the bound")}.get(mark, ("", ""))
    return [
        Cell(_with_spread(one.published, one.published_sd, digits)),
        Cell(_with_spread(one.simulated, one.simulated_sd if one.value.sd else float("nan"), digits)),
        Cell(one.error + sign, mark, spoken, anchor=one.anchor(published)),
    ]


def _with_spread(value: float, spread: float, digits: int) -> str:
    return number(value, digits) + (f" ± {number(spread, digits)}" if spread == spread else "")


def _plot(context: Context, table: PublishedTable, columns: list[list[Comparison]]) -> Plot:
    bound = f"{100 * columns[0][0].value.within:g}"
    words = "; ".join(
        f"{one.group.label} {one.value.metric.title.lower()}: published {number(one.published, one.value.digits)}, "
        f"{context.found} {number(one.simulated, one.value.digits)} {one.value.unit}"
        for column in columns
        for one in column
    )
    return Plot.of(
        f"published-{table.name}",
        f"{table.caption}: mean and standard deviation over flows, published (circle) and {context.found} "
        f"(diamond); grey: published ±\u202f{bound}\u202f%.",
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
            bound = one.value.within * one.published
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
    for checked in checks(context, context.published):
        ordering, means = checked.ordering, checked.means
        seen = " > ".join(
            f"{context.label(key)} {number(mean, ordering.metric.digits)}"
            for key, mean in sorted(means.items(), key=lambda item: -item[1])
        )
        cell = Cell("✓ holds", "good") if checked.holds else Cell("✗ does not hold", "bad")
        rows.append([Cell(ordering.claim, anchor=checked.anchor), Cell(ordering.metric.heading), Cell(seen), cell])
        stated = " > ".join(", ".join(tier) for tier in ordering.tiers)
        facts = {"claim": ordering.claim, "quantity": ordering.metric.name, "stated": stated, "holds": checked.holds}
        data.append(facts | {f"simulated_{key}": mean for key, mean in means.items()})
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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Published and simulated results: each number with its error, each claim with its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from perigee.groups.factors import ALGORITHM, switches_in_words
from perigee.groups.looks import Look, other
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.legends import broken, legend_of, size_of
from perigee.report.model import Block, Cell, Mark, Plot, Section, Table, Text
from perigee.report.provenance import cited
from perigee.report.reproduction import error, label, pair
from perigee.report.style import FAINT, INK, WIDTH_IN, figure
from perigee.scoring.published import PublishedTable
from perigee.scoring.score import ScoredValue
from perigee.scoring.testing import HIT, MISS, PART, stated

ROLES = {
    "fitted": "; a link of the study was calibrated on these numbers",
    "input": "; the study took them as they are",
}
"""Additions to a caption, by what the numbers are to the study."""


def values(context: Context) -> Section | None:
    """Return the tables of published and simulated numbers, and a figure of both."""
    if context.published is None or context.score is None or not context.published.tables:
        return None
    source, work = context.published.source.rstrip("."), context.published.work
    blocks: list[Block] = [Text(f"Published: {source}." + (f" {cited(work).text}" if work else ""))]
    if context.published.calibration and any(one.role == "fitted" for one in context.score.values):
        blocks.append(Text(f"Calibration: {context.published.calibration}"))
    blocks += [Text(note) for note in context.published.notes]
    if settings := context.results.manifest["settings"]:
        changed = " and ".join(f"{setting} was set" for setting in settings)
        blocks.append(Text(f"The runs here are not those of the publication: {changed}."))
    for table in context.published.tables:
        columns = [column for column in context.score.of_table(table) if column]
        if not columns:
            blocks.append(Text(f"{table.place}, {table.caption}: not measured. {table.not_measured}"))
            continue
        blocks.append(_table(context, table, columns))
        drawn = [column for column in columns if any(_has_spreads(one) for one in column)]
        if drawn:
            blocks.append(_plot(context, table, drawn))
    return Section("published", f"Published beside {context.found}", blocks)


def _table(context: Context, table: PublishedTable, columns: Sequence[Sequence[ScoredValue]]) -> Table:
    by_label = [{label(context, one): one for one in column} for column in columns]
    rows = []
    for name in dict.fromkeys(name for column in by_label for name in column):
        cells = [Cell(name)]
        for column in by_label:
            cells += _cells(column.get(name))
        rows.append(cells)
    bounds = " or ".join(dict.fromkeys(f"{100 * column[0].value.within:g} %" for column in columns))
    notes = [
        f"✓ within {bounds} of the published number, as far as it can be read, ✗ outside. "
        "Mean ± standard deviation over flows.",
        table.conditions,
        *(one.value.note for one, *_ in columns),
        *(
            f"{one.value.heading}: not measured. {one.value.not_measured}"
            for one, *_ in columns
            if one.value.not_measured
        ),
    ]
    data = pl.DataFrame([_fact(one) for column in columns for one in column], infer_schema_length=None)
    return Table(
        name=f"published-{table.name}",
        caption=f"{table.caption} ({table.place}){ROLES.get(columns[0][0].role, '')}",
        head=["", *(head for _ in columns for head in ("published", context.found, "error"))],
        groups=[("", 1), *((switches_in_words(column[0].value.heading), 3) for column in columns)],
        rows=rows,
        data=data.with_columns(pl.col(pl.Float64).fill_nan(None)),
        notes=[note for note in notes if note],
    )


def _fact(one: ScoredValue) -> dict[str, object]:
    return {
        "cell": one.name,
        "quantity": one.value.name,
        "statistic": one.value.statistic,
        "unit": one.value.unit,
        "published": one.row.value,
        "published_sd": one.row.sd,
        "simulated": one.simulated,
        "simulated_sd": one.found.sd if one.found else float("nan"),
        "error_percent": one.error_percent,
        "within_percent": 100 * one.value.within,
        "rounding": one.row.rounding,
        "met": one.is_met,
        "in_spread": one.in_spread,
        "role": one.role,
        "flows": one.found.flows if one.found else 0,
    }


def _cells(one: ScoredValue | None) -> list[Cell]:
    if one is None:
        return [Cell("–"), Cell("–"), Cell("–")]
    digits = one.value.digits
    mark: Mark = "" if one.is_met is None or one.role == "input" else "good" if one.is_met else "bad"
    sign, spoken = {"good": (" ✓", "within the bound"), "bad": (" ✗", "outside the bound")}.get(mark, ("", ""))
    has_spread = one.found is not None and not math.isnan(one.row.sd)
    return [
        Cell(_with_spread(one.row.value, one.row.sd, digits)),
        Cell(_with_spread(one.simulated, one.found.sd if one.found and has_spread else float("nan"), digits)),
        Cell(error(one) + sign, mark, spoken, anchor=one.anchor),
    ]


def _with_spread(value: float, spread: float, digits: int) -> str:
    return number(value, digits) + (f" ± {number(spread, digits)}" if spread == spread else "")


def _plot(context: Context, table: PublishedTable, columns: Sequence[Sequence[ScoredValue]]) -> Plot:
    bound = f"{100 * columns[0][0].value.within:g}"
    words = "; ".join(
        f"{label(context, one)} {switches_in_words(one.value.title.lower())}: published {pair(one)[0]}, "
        f"{context.found} {pair(one)[1]} {one.value.unit}"
        for column in columns
        for one in column
    )
    return Plot.of(
        f"published-{table.name}",
        f"{table.caption}: mean and standard deviation over flows, published (circle) and {context.found} "
        f"(diamond); grey: published ±\u202f{bound}\u202f%.",
        words,
        partial(_figure, context, columns),
    )


def _figure(context: Context, columns: Sequence[Sequence[ScoredValue]], width_in: float) -> Figure:
    most = max(len(column) for column in columns)
    lines = 1 if width_in == WIDTH_IN else len(columns)
    in_a_line = -(-len(columns) // lines)
    high = max(1.0, most / 6)
    drawing = figure(2.6 * high if lines == 1 else 0.5 + 1.6 * high * lines, width_in)
    names = {tuple(label(context, one) for one in column) for column in columns}
    panels = drawing.subplots(lines, in_a_line, sharey=len(names) == 1, squeeze=False)
    for axes, column in zip(panels.flat, columns, strict=True):
        places = np.arange(len(column))[::-1]
        for place, one in zip(places, column, strict=True):
            low, high_end = one.bounds
            axes.barh(place, high_end - low, 0.62, left=low, color=FAINT, zorder=0)
            axes.errorbar(
                one.row.value, place + 0.14, xerr=_or_zero(one.row.sd), fmt="o", color=INK, mfc="white",
                capsize=2, lw=1,
            )  # fmt: skip
            if one.found is not None:
                axes.errorbar(
                    one.simulated, place - 0.14, xerr=_or_zero(one.found.sd), fmt="D",
                    color=_look(context, one).color, capsize=2, lw=1,
                )  # fmt: skip
        axes.set_yticks(places, [label(context, one) for one in column])
        axes.set_xlabel(
            broken(switches_in_words(column[0].value.heading), 0.8 * width_in / in_a_line, size_of("axes.labelsize"))
        )
        axes.grid(visible=False, axis="y")
        axes.use_sticky_edges = False
        axes.margins(x=0.06, y=0.12)
    handles = [
        Line2D([], [], marker="o", color=INK, mfc="white", lw=1),
        Line2D([], [], marker="D", color=INK, lw=1),
    ]
    legend_of(drawing, handles, ["published", context.found])
    return drawing


def _has_spreads(one: ScoredValue) -> bool:
    return one.is_met is not None and not math.isnan(one.row.sd)


def _look(context: Context, one: ScoredValue) -> Look:
    cc = one.cell.get(ALGORITHM)
    return context.look_of_algorithm(context.label(str(cc))) if cc else other(0)


def _or_zero(value: float) -> float:
    return value if value == value else 0.0


def claims(context: Context) -> Section | None:
    """Return the publication's claims with their verdicts."""
    if context.score is None or not context.score.claims:
        return None
    marks: dict[str, tuple[str, Mark]] = {HIT: ("✓ holds", "good"), MISS: ("✗ does not hold", "bad")}
    rows, data = [], []
    for one in context.score.claims:
        claim, verdict = one.claim, one.verdict
        weakly = f", {verdict.weakly} weakly" if verdict.weakly else ""
        partly = f"holds in {verdict.holding} of {len(verdict.checks)}{weakly}"
        text, mark = marks.get(one.state, (partly if one.state == PART else one.state, ""))
        heading = claim.not_measured or claim.heading
        seen = verdict.seen or "–"
        rows.append(
            [Cell(claim.claim, anchor=one.anchor), Cell(claim.place), Cell(heading), Cell(seen), Cell(text, mark)]
        )
        data.append({
            "id": claim.name, "claim": claim.claim, "place": claim.place, "quantity": claim.quantities,
            "statistic": claim.statistics, "test": claim.kinds, "stated": stated(claim), "seen": verdict.seen,
            "result": one.state, "holding": verdict.holding, "weakly": verdict.weakly, "checks": len(verdict.checks),
            "role": one.role, "not_measured": claim.not_measured,
        })  # fmt: skip
    table = Table(
        name="claims",
        caption=f"What the publication concludes, tested on the {context.found} results",
        head=["Statement", "Place", "By", context.found.capitalize(), "Result"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        words=(1, 2, 3, 4),
    )
    return Section("claims", "What the publication states", [table])

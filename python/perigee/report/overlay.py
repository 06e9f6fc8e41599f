# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Page comparing results of a study: differences, cells, and overlaid time series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from perigee.comparison.cells import Difference, as_frame, pairs, remarks
from perigee.comparison.changes import Change, changes, letters
from perigee.errors import InputError
from perigee.groups.group import Group
from perigee.groups.looks import Look, other
from perigee.numbers import between, number, plural, probability, signed
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.html import write
from perigee.report.model import Block, Cell, Fact, Plot, Report, Section, Table, Text
from perigee.report.provenance import citations, made
from perigee.report.sections.representative import rtt_of
from perigee.report.style import styled
from perigee.statistics.estimates import percent
from perigee.statistics.metrics import mean
from perigee.store.origins import ORIGINS
from perigee.store.results import Results

ROWS = (
    ("goodput_mbps", "Throughput\n(Mbit/s)"),
    ("rtt_ms", "Round-trip\ntime (ms)"),
    ("cwnd_packets", "Window\n(packets)"),
    ("retransmitted_total", "Retransmitted\nso far (packets)"),
)
"""Quantities over time: column and label."""

BEHIND = Look("#6b737c", "-", "", "")
"""How the reference results are drawn."""


def write_overlay(results: Sequence[Results], cells: Sequence[Difference], out: Path) -> None:
    """Write the page of compared results.

    Args:
        results: two or more; the first is the reference.
        cells: result of `perigee.comparison.cells.compare`.
        out: the HTML file.

    Raises:
        InputError: `out` is a folder.
        StorageError: it cannot be written.
    """
    if out.is_dir():
        raise InputError(f"{out}: is a folder; give the name of an HTML file to write with --out")
    with styled():
        write(overlay(results, cells), out)


def overlay(results: Sequence[Results], cells: Sequence[Difference]) -> Report:
    """Return the page of compared results; figures are drawn, no file is written."""
    contexts = [Context(one) for one in results]
    names = [f"{letter}: {_name(one)}" for letter, one in zip(letters(len(results)), results, strict=True)]
    sections = [Section("changes", "What differs", [_changes(changes(results), names)])]
    sections.append(Section("cells", "Cell by cell", [_table(results, cells, names, remarks(results, cells))]))
    if all(one.has("series") for one in results):
        note = Text(
            "Lines: the mean over the rounds at each instant since the flow began; areas: from the least to the "
            "largest of the rounds. A is grey, the others have the colour of the algorithm. Retransmissions are "
            "counted from the beginning."
        )
        plots = [_plot(contexts, groups, names, place) for place, groups in enumerate(_together(results))]
        blocks: list[Block] = [note, *(plot for plot in plots if plot)]
        sections.append(Section("series", "Over time", blocks))
    runs = [(letter, one.manifest["runs"]) for letter, one in zip(letters(len(results)), results, strict=True)]
    return Report(
        title=f"{results[0].study}: {' beside '.join(letters(len(results)))}",
        question=f"What differs between {', '.join(names[:-1])} and {names[-1]}?",
        facts=[Fact(str(count), f"{plural(count, 'run')} of {letter}") for letter, count in runs],
        sections=sections,
        made=[
            (f"{letter}, {name}", text)
            for letter, context in zip(letters(len(results)), contexts, strict=True)
            for name, text in made(context)
        ],
        citations=citations(None, *(one.manifest["versions"]["perigee"] for one in results)),
    )


def _together(results: Sequence[Results]) -> list[dict[int, Group]]:
    """Return for each group of A that others share the group in each of the results with it, by their number."""
    found: dict[int, dict[int, Group]] = {}
    for at, b in enumerate(results[1:], 1):
        for ours, theirs in pairs(results[0], b):
            found.setdefault(ours.number, {0: ours})[at] = theirs
    return list(found.values())


def means_over_time(context: Context, group: Group) -> pl.DataFrame:
    """Return a group's time series: `t_s`, and mean, minimum and maximum of each quantity over the flows.

    Args:
        context: the results.
        group: flows of one kind, one per round.

    Returns:
        Columns `t_s` (since the flow began, the end of the interval) and, for each quantity of `ROWS`, `NAME`,
        `NAME_low` and `NAME_high`, in the unit of its name.
    """
    parts = []
    for run, flow in group.flows.select("run", "flow").iter_rows():
        part = context.series(run, flow)
        if part.is_empty():
            continue
        step = float(part["t_s"].diff().median() or 1.0)  # type: ignore[arg-type]
        parts.append(
            part.select(
                (pl.col("t_s") / step).round(0).mul(step).alias("t_s"),
                pl.col("goodput_mbps").cast(pl.Float64),
                rtt_of(part).cast(pl.Float64).alias("rtt_ms"),
                pl.col("cwnd_packets").cast(pl.Float64),
                pl.col("retransmitted_packets").cast(pl.Float64).cum_sum().alias("retransmitted_total"),
            ).filter(pl.col("t_s") >= 0)
        )
    if not parts:
        return pl.DataFrame()
    names = [name for name, _ in ROWS]
    return (
        pl.concat(parts)
        .group_by("t_s")
        .agg(
            *(pl.col(name).mean() for name in names),
            *(pl.col(name).min().alias(f"{name}_low") for name in names),
            *(pl.col(name).max().alias(f"{name}_high") for name in names),
        )
        .sort("t_s")
    )


def _plot(contexts: Sequence[Context], groups: dict[int, Group], names: Sequence[str], place: int) -> Plot | None:
    all_parts = {at: means_over_time(contexts[at], group) for at, group in groups.items()}
    both = {at: part for at, part in all_parts.items() if not part.is_empty()}
    if len(both) < 2:
        return None
    title, letter = _title(groups), letters(len(contexts))
    means = [f"{number(mean(groups[at].flows['goodput_mbps']))} Mbit/s in {letter[at]}" for at in both]
    words = f"{title}: {', '.join(means)}"
    rounds = ", ".join(str(groups[at].flows.height) for at in both)
    curves = [part.select(pl.lit(letter[at]).alias("results"), pl.all()) for at, part in both.items()]
    shown = [(name, label) for name, label in ROWS if any(part[name].count() for part in both.values())]
    looks = {at: replace(groups[0].look, dash=other(at - 1).dash) if at else BEHIND for at in both}
    lines = [
        [Curve(names[at], looks[at], part["t_s"], part[name], (part[f"{name}_low"], part[f"{name}_high"]))
         for at, part in both.items()]
        for name, _ in shown
    ]  # fmt: skip
    draw = partial(
        over_time, [TimePanel(title, lines)], [label for _, label in shown], "Time since the flow began (s)",
        height_in=1.25,
    )  # fmt: skip
    return Plot.of(
        f"overlay-{place}",
        f"{words} ({rounds} flows).",
        f"{words}, over time",
        draw,
        data=pl.concat(curves),
    )


def _title(groups: dict[int, Group]) -> str:
    """Return the label of a group, or its label in each of the results if they differ."""
    labels = {at: group.label for at, group in groups.items()}
    if len(set(labels.values())) == 1:
        return labels[0]
    return ", ".join(f"{label} in {letters(at + 1)[-1]}" for at, label in labels.items())


def _changes(found: Sequence[Change], names: Sequence[str]) -> Block:
    if not found:
        return Text("Nothing: study, settings, size, engine, seeds and versions are the same.")
    return Table(
        name="changes",
        caption="How the results were made, where it is not the same",
        head=["", *names],
        rows=[[Cell(one.what), *(Cell(value) for value in one.values)] for one in found],
        data=pl.DataFrame({"what": [one.what for one in found]}).hstack(
            [pl.Series(name, [one.values[at] for one in found]) for at, name in enumerate(letters(len(names)))]
        ),
        words=tuple(range(1, len(names) + 1)),
    )


def _table(
    results: Sequence[Results], cells: Sequence[Difference], names: Sequence[str], remarks: Sequence[str]
) -> Table:
    many = len(results) > 2
    shown = [cell for cell in cells if not cell.is_same]
    # Without tests, a remark says so once.
    tested = any(cell.comparison.contrast for cell in shown)
    level = percent(cells[0].confidence) if cells else ""
    rows = []
    for cell in shown:
        interval = "" if cell.comparison.interval is None else f" {between(cell.comparison.interval, cell.digits)}"
        tests = (cell.comparison.reason or probability(cell.p), probability(cell.p_wilcoxon))
        named = [cell.groups[0].label if many else cell.label, cell.metric.heading]
        named += [cell.other_in_words] if many else []
        texts = (
            *named, *cell.means, cell.difference_in_words + interval,
            signed(cell.percent), *(tests if tested else ()), cell.size,
        )  # fmt: skip
        rows.append([Cell(text) for text in texts])
    other = "other" if many else "B"
    head = ["Flows", "Quantity", *(["Other"] if many else []), "A", other, f"{other} - A"]
    return Table(
        name="cells",
        caption=f"Means, and the difference {other} - A" + (f" with its {level} confidence interval" if tested else ""),
        head=[*head, "%", *(("p", "p (Wilcoxon)") if tested else ()), "flows"],
        rows=rows,
        data=as_frame(results, cells),
        notes=[*names, *remarks],
        words=(1, *((2,) if many else ()), len(head) + (3 if tested else 1)),
    )


def _name(results: Results) -> str:
    return f"{results.path.name} ({ORIGINS[results.manifest['engine']].numbers})"

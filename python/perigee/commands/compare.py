# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.commands import options
from perigee.console import out_console
from perigee.numbers import number, probability, signed

if TYPE_CHECKING:
    from perigee.report.comparison import Difference
    from perigee.store.results import Results


def command(
    results: Annotated[list[Path], typer.Argument(help="Two or more results folders of one study.", metavar="A B...")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Also write a page with the time series of all laid over each other."
        ),
    ] = None,
    confidence: options.Confidence = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write the cells to this CSV file.")
    ] = None,
) -> None:
    """Compare results of a study cell by cell: engines, versions, settings.

    First comes what differs in how they were made: settings, size, engine, versions, files. Each cell has the means in
    A and in another, their difference with its confidence interval, also in % of A, and how many flows they are of;
    differences of shares are in percentage points (pp). Where both results took the same random draws, rounds are
    compared in pairs (t test of the differences, and Wilcoxon's signed-rank test), otherwise by Welch's t test; p is
    corrected for the number of cells (Holm). Cells that are the same flow by flow are named below the table. The page
    of --out adds throughput, round trip, window and retransmissions over time, of all on one scale.

    [bold]Examples[/bold]

      perigee compare results/claypool-2021 results/claypool-2021-new
      perigee compare results/validation-sim results/validation-emu --out overlay.html
      perigee compare results/a results/b results/c --csv differences.csv
    """
    from perigee.files import write_atomically
    from perigee.report.comparison import as_frame, remarks
    from perigee.report.comparison import compare as compare_results
    from perigee.report.csv_text import csv_text
    from perigee.store.results import Results

    found = [Results(folder) for folder in results]
    cells = compare_results(*found, confidence=confidence)
    for table in tables(found, cells):
        out_console.print(table)
    for remark in remarks(found, cells):
        out_console.print(escape(remark), highlight=False, soft_wrap=True)
    if csv:
        write_atomically(csv, csv_text(as_frame(found, cells)).encode())
    if out:
        from perigee.report.overlay import write_overlay

        write_overlay(found, cells, out)
        out_console.print(str(out), soft_wrap=True, markup=False)


def tables(results: Sequence[Results], cells: Sequence[Difference]) -> Iterator[Table]:
    """Yield the tables for people: what differs in how results were made, and the cells that differ."""
    from perigee.report.changes import changes, letters
    from perigee.statistics.estimates import percent

    names = letters(len(results))
    title = "   ".join(f"{name}: {escape(str(one.path))}" for name, one in zip(names, results, strict=True))
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column("What differs")
    for name in names:
        made.add_column(name)
    differs = changes(results)
    for one in differs:
        made.add_row(escape(one.what), *map(escape, one.values))
    if not differs:
        made.add_row("nothing in study, settings, size, engine, seeds, versions")
    yield made
    shown = [cell for cell in cells if not cell.is_same]
    if not shown:
        return
    table = Table(box=box.SIMPLE_HEAD)
    many = len(results) > 2
    for heading in ("Flows", "Quantity", *(["Other"] if many else [])):
        table.add_column(heading)
    other = "other" if many else "B"
    # Where nothing can be tested, the remarks say so once.
    tested = any(cell.comparison.contrast for cell in shown)
    of_tests = (f"{percent(cells[0].confidence)} interval", "p", "p (Wilcoxon)") if tested else ()
    for heading in ("A", other, f"{other} - A", "%", *of_tests, "flows"):
        table.add_column(heading, justify="right")
    last = ("", "")
    for cell in shown:
        digits = cell.digits
        interval = "-" if cell.half_width != cell.half_width else f"± {number(cell.half_width, digits)}"
        tests = (interval, cell.comparison.reason or probability(cell.p), probability(cell.p_wilcoxon))
        named = (cell.groups[0].label if many else cell.label, cell.metric.heading)
        table.add_row(
            "" if named[0] == last[0] else escape(named[0]), "" if named == last else named[1],
            *([cell.other_in_words] if many else []), number(cell.a, digits), number(cell.b, digits),
            cell.difference_in_words, signed(cell.percent), *(tests if tested else ()), cell.comparison.size,
            end_section=cell is shown[-1],
        )  # fmt: skip
        last = named
    yield table

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee compare`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from perigee.commands import options
from perigee.console import out_console
from perigee.numbers import between, probability, signed

if TYPE_CHECKING:
    from perigee.comparison.cells import Difference
    from perigee.store.results import Results


SPARED = ("p (Wilcoxon)", "flows", "%", "p")
"""Columns that a narrow table omits, in this order."""

LEAST_OF_TEXT = {"Flows": 8, "Quantity": 18}
"""Characters of a column below which its words would be cut."""

WIDEST = 1000
"""More characters than any table has."""


def command(
    results: Annotated[list[Path], typer.Argument(help="Two or more results folders of one study.", metavar="A B...")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Also write a page that overlays the time series of all results."
        ),
    ] = None,
    confidence: options.Confidence = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write the cells to this CSV file.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write sentence, cells and remarks to this file.")
    ] = None,
) -> None:
    """Compare results of a study cell by cell: engines, versions, settings.

    A sentence says what differs most. The first table lists differences in provenance: settings, size, engine,
    versions, files. Each cell has the means of A and of the other result, their difference with its confidence
    interval, also in % of A, and the number of flows; differences of shares are in percentage points (pp). Means with
    late emulated runs are marked (†). Where both results used the same random draws, rounds are compared in pairs
    (paired t test, and Wilcoxon's signed-rank test), otherwise by Welch's t test; p and intervals are corrected for the
    number of cells (Holm). Cells that are identical flow by flow are named below the table. The page of --out adds
    throughput, round trip, window and retransmissions over time, on one scale.

    [bold]Examples[/bold]

      perigee compare results/claypool-2021 results/claypool-2021-new
      perigee compare results/validation-sim results/validation-emu --out overlay.html
      perigee compare results/a results/b results/c --csv differences.csv
    """
    from perigee.comparison.cells import as_frame, remarks
    from perigee.comparison.cells import compare as compare_results
    from perigee.comparison.summary import as_json, said
    from perigee.files import write_atomically
    from perigee.report.csv_text import csv_text
    from perigee.store.results import Results

    found = [Results(folder) for folder in results]
    cells = compare_results(*found, confidence=confidence)
    for sentence in said(found, cells):
        out_console.print(escape(sentence), highlight=False, soft_wrap=True)
    for table in tables(found, cells, out_console.width):
        out_console.print(table)
    for remark in remarks(found, cells):
        out_console.print(escape(remark), highlight=False, soft_wrap=True)
    if csv:
        write_atomically(csv, csv_text(as_frame(found, cells)).encode())
    if json_file:
        write_atomically(json_file, json.dumps(as_json(found, cells)).encode())
    if out:
        from perigee.report.overlay import write_overlay

        write_overlay(found, cells, out)
        out_console.print(str(out), soft_wrap=True, markup=False)


def tables(results: Sequence[Results], cells: Sequence[Difference], width: int) -> Iterator[Table]:
    """Yield the tables for people: what differs in how results were made, and the cells that differ.

    The columns of `SPARED` go where a table would be wider than `width`, characters, and its title says which.
    """
    from perigee.comparison.changes import changes, letters
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
    for count in range(len(SPARED) + 1):
        table = of_cells(shown, percent(cells[0].confidence), SPARED[:count], are_many=len(results) > 2)
        # The columns of texts fold.
        if Measurement.get(out_console, out_console.options.update(max_width=WIDEST), table).minimum <= width:
            break
    yield table


def of_cells(shown: Sequence[Difference], confidence: str, spared: Sequence[str], *, are_many: bool) -> Table:
    """Return the table of cells without some of its columns."""
    title = f"without {', '.join(spared)}: too narrow; --csv has all" if spared else None
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    other = "other" if are_many else "B"
    numbers = ["A", other, f"{other} - A", "%"]
    # Where nothing can be tested, the remarks say so once.
    if any(cell.comparison.contrast for cell in shown):
        numbers += [f"{confidence} interval", "p", "p (Wilcoxon)"]
    numbers = [heading for heading in (*numbers, "flows") if heading not in spared]
    rows: list[list[str]] = []
    last = ("", "")
    for cell in shown:
        found = {
            "A": cell.means[0],
            other: cell.means[1],
            f"{other} - A": cell.difference_in_words,
            "%": signed(cell.percent),
            f"{confidence} interval": between(cell.comparison.interval, cell.digits),
            "p": cell.comparison.reason or probability(cell.p),
            "p (Wilcoxon)": probability(cell.p_wilcoxon),
            "flows": cell.size,
        }
        named = (cell.groups[0].label if are_many else cell.label, cell.metric.heading)
        texts = ("" if named[0] == last[0] else escape(named[0]), "" if named == last else named[1])
        rows.append([*texts, *([cell.other_in_words] if are_many else []), *(found[heading] for heading in numbers)])
        last = named
    for heading in ("Flows", "Quantity", *(["Other"] if are_many else [])):
        table.add_column(heading, min_width=LEAST_OF_TEXT.get(heading))
    for place, heading in enumerate(numbers, start=len(table.columns)):
        widest = max(cell_len(text) for text in (heading, *(row[place] for row in rows)))
        table.add_column(heading, justify="right", min_width=widest)
    for row in rows:
        table.add_row(*row)
    table.add_section()
    return table

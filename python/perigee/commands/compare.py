# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.console import error_console, out_console
from perigee.numbers import number, probability, signed


def command(
    a: Annotated[Path, typer.Argument(help="A results folder.", metavar="A")],
    b: Annotated[Path, typer.Argument(help="Another, of the same study.", metavar="B")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also write a page with the time series of both laid over each other."),
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the cells to this CSV file.")] = None,
) -> None:
    """Compare two results of a study cell by cell: two engines, two versions, two settings.

    Each cell has the mean in A and B and the difference B - A with its 95 % confidence interval. Where both results
    took the same random draws, rounds are compared in pairs (t test of the differences, and Wilcoxon's signed-rank
    test), otherwise by Welch's t test; p is corrected for the number of cells (Holm). The page of --out adds
    throughput, round trip, window and retransmissions over time, A's and B's on one scale.

    [bold]Examples[/bold]

      perigee compare results/claypool-2021 results/claypool-2021-new
      perigee compare results/validation-sim results/validation-emu --out overlay.html
      perigee compare results/a results/b --csv differences.csv
    """
    from perigee.files import write_atomically
    from perigee.report.comparison import as_frame, remarks
    from perigee.report.comparison import compare as compare_results
    from perigee.report.csv_text import csv_text
    from perigee.store.results import Results

    first, second = Results(a), Results(b)
    cells = compare_results(first, second)
    table = Table(title=f"A: {escape(str(a))}   B: {escape(str(b))}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("Flows")
    table.add_column("Quantity")
    for heading in ("A", "B", "B - A", "%", "95 % interval", "p", "p (Wilcoxon)", "rounds"):
        table.add_column(heading, justify="right")
    last = ""
    for cell in cells:
        digits = cell.digits
        interval = "-" if cell.half_width != cell.half_width else f"± {number(cell.half_width, digits)}"
        tests = (cell.comparison.reason or probability(cell.p), probability(cell.p_wilcoxon), cell.comparison.size)
        table.add_row(
            "" if cell.label == last else escape(cell.label), cell.metric.heading, number(cell.a, digits),
            number(cell.b, digits), signed(cell.difference, digits), signed(cell.percent), interval, *tests,
            end_section=cell is cells[-1],
        )  # fmt: skip
        last = cell.label
    if first.study != second.study:
        error_console.print(f"note: A is of {first.study}, B of {second.study}", highlight=False, soft_wrap=True)
    out_console.print(table)
    for remark in remarks(first, second, cells):
        out_console.print(escape(remark), highlight=False, soft_wrap=True)
    if csv:
        write_atomically(csv, csv_text(as_frame(cells)).encode())
    if out:
        from perigee.report.overlay import write_overlay

        write_overlay(first, second, cells, out)
        out_console.print(str(out), soft_wrap=True, markup=False)

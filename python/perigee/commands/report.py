# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.console import out_console


def command(
    results: Annotated[Path, typer.Argument(help="A results folder that `perigee run` made.", metavar="RESULTS")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file to write. \\[default: report.html in the folder]")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", "-f", help="Any of html, pdf, png, csv, latex, separated by commas.")
    ] = "html",
) -> None:
    """Make tables and figures of a finished study.

    The HTML report is one file that needs nothing else. Other formats (figures as PDF or PNG, tables as CSV or
    LaTeX) go to a folder beside it.

    [bold]Examples[/bold]

      perigee report results/claypool-2021
      perigee report results/claypool-2021 --out viasat2.html --format html,pdf,csv
    """
    from perigee.report.writer import write_report

    wanted = [name.strip() for name in formats.split(",") if name.strip()]
    for path in write_report(results, out, wanted):
        out_console.print(str(path), highlight=False, soft_wrap=True, markup=False)

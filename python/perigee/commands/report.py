# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands import options
from perigee.console import out_console
from perigee.errors import InputError

if TYPE_CHECKING:
    from perigee.groups.settings import Choice


def command(
    results: Annotated[Path, typer.Argument(help="A results folder that `perigee run` made.", metavar="RESULTS")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="HTML file to write. \\[default: report.html in the folder; figures.html of --figure]",
        ),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            "-f",
            metavar="html|pdf|png|csv|latex",
            help="Several are separated by commas, or the option is repeated. \\[default: html]",
        ),
    ] = None,
    experiment: Annotated[
        list[str] | None,
        typer.Option(help="Of a study of several experiments: report on this one; repeatable.", metavar="NAME"),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="Draw this instead of the report: lines, heatmap, scatter, boxes, cdf, rtt or time; repeatable.",
            metavar="KIND",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help='Of a figure: what it shows, as goodput_mbps or "goodput_mbps / rtt_mean_ms"; repeatable.',
            metavar="METRIC",
        ),
    ] = None,
    x: Annotated[
        list[str] | None,
        typer.Option(
            "--x",
            help="Of a figure: along its horizontal axis, as loss; heatmap takes two.",
            metavar="KEY",
        ),
    ] = None,
    hue: Annotated[
        str, typer.Option(help="Of a figure: what has a colour each, as cc; none for none.", metavar="KEY")
    ] = "",
    facet: Annotated[
        list[str] | None,
        typer.Option(help="Of a figure: what has a panel each, columns first, then rows; repeatable.", metavar="KEY"),
    ] = None,
    confidence: options.Confidence = None,
) -> None:
    """Make tables and figures of a finished study.

    The HTML report is one file that needs nothing else. Other formats (figures as PDF, as wide as a page and in
    NAME-column.pdf as a column, or as PNG; tables and the curves of figures as CSV; tables as LaTeX) go to a folder
    beside it.

    What the study varies is the report's structure: a number that varies is along the horizontal axis, colours are the
    algorithms, everything else has panels. --figure chooses one figure, with its metric and what goes where. KEY is the
    last part of a key that varies (loss of links.sat.loss), the whole key, cc or flow. A metric is one of the
    reference, a numeric column of flows.parquet, or arithmetic over these with + - * / ( ), abs, sqrt, log10, min and
    max; "TITLE (UNIT) = ..." names it.

    [bold]Examples[/bold]

      perigee report results/claypool-2021
      perigee report results/claypool-2021 --out viasat2.html --format html,pdf,csv
      perigee report results/sweep --figure lines --metric goodput_mbps --x loss --facet profile
      perigee report results/sweep --figure heatmap --x rate --x delay --format pdf
      perigee report results/sweep --figure lines --metric "goodput_mbps / rtt_mean_ms"
    """
    from perigee.report.writer import write_report

    given = ["html"] if formats is None else [name.strip() for text in formats for name in text.split(",")]
    wanted = [*dict.fromkeys(name for name in given if name)]
    choices = _choices(figure or [], metric or [], x or [], hue, facet or [])
    for path in write_report(results, out, wanted, choices, experiment or (), confidence):
        out_console.print(str(path), highlight=False, soft_wrap=True, markup=False)


def _choices(figures: list[str], metrics: list[str], x: list[str], hue: str, facets: list[str]) -> list[Choice]:
    """Return what is chosen of each figure.

    Raises:
        InputError: something is chosen of no figure.
    """
    from perigee.groups.settings import Choice

    given = {"--metric": metrics, "--x": x, "--hue": hue, "--facet": facets}
    if not figures and (alone := [name for name, value in given.items() if value]):
        raise InputError(f"{alone[0]}: says how a figure is drawn; say which with --figure, as --figure lines")
    return [Choice(figure, tuple(metrics), tuple(x), hue, tuple(facets)) for figure in figures]

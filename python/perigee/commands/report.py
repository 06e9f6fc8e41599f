# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee report`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands import options
from perigee.console import error_console, out_console, say
from perigee.errors import InputError

if TYPE_CHECKING:
    from perigee.groups.settings import Choice
    from perigee.report.style import Form


@dataclass(frozen=True)
class ReportOptions:
    """Options and arguments of `perigee report`."""

    results: Annotated[Path, typer.Argument(help="Results folder of `perigee run`.", metavar="RESULTS")]
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="HTML file to write. \\[default: report.html in the folder; figures.html with --figure]",
        ),
    ] = None
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            "-f",
            metavar="html|pdf|png|csv|latex|claims",
            help="Output formats, separated by commas; repeatable. \\[default: html]",
        ),
    ] = None
    experiment: Annotated[
        list[str] | None,
        typer.Option(help="Report only on this experiment of the study; repeatable.", metavar="NAME"),
    ] = None
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="Draw a figure instead of the report: lines, heatmap, gain, scatter, boxes, bars, cdf, dots, rtt, "
            "time, window, rows, bands, campaign, kept or in-turn; repeatable.",
            metavar="KIND",
        ),
    ] = None
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help='With --figure: metric to show, such as goodput_mbps or "goodput_mbps / rtt_mean_ms"; repeatable.',
            metavar="METRIC",
        ),
    ] = None
    x: Annotated[
        list[str] | None,
        typer.Option(
            "--x",
            help="With --figure: key along the horizontal axis, such as loss; heatmap and gain take two.",
            metavar="KEY",
        ),
    ] = None
    hue: Annotated[
        str, typer.Option(help="With --figure: key shown by colour, such as cc, or none.", metavar="KEY")
    ] = ""
    facet: Annotated[
        list[str] | None,
        typer.Option(
            help="With --figure: key with a panel per value, columns first, then rows; repeatable.", metavar="KEY"
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            help='Name for an algorithm, a key or a value in the report: cubic=CUBIC, loss="Loss of the link"; '
            "repeatable.",
            metavar="KEY=TEXT",
        ),
    ] = None
    font: Annotated[
        str,
        typer.Option(help='Font of the figures, such as "Times New Roman". \\[default: DejaVu Sans]', metavar="NAME"),
    ] = ""
    figure_width: Annotated[
        str,
        typer.Option(
            "--figure-width",
            help="Width of figures in PDF and PNG, such as 252pt or 88mm. \\[default: page width, and 252pt beside it]",
            metavar="WIDTH",
        ),
    ] = ""
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="Figures drawn at once. \\[default: one per core]", metavar="N", min=1),
    ] = None
    confidence: options.Confidence = None
    reference: Annotated[
        str | None,
        typer.Option(
            help="Compare all others with this congestion control only, which needs fewer tests. "
            "\\[default: that of report.toml]",
            metavar="NAME",
        ),
    ] = None
    register: Annotated[
        Path | None,
        typer.Option(
            help="Write every quantity of the report of a whole study to this new TOML file, as a prediction.",
            metavar="FILE",
        ),
    ] = None


def command(given: ReportOptions) -> None:
    """Write tables and figures of a finished study.

    The HTML report is one self-contained file. Other formats (figures as PDF in page width, and in column width as
    NAME-column.pdf, or as PNG; tables and the curves of figures as CSV; tables as LaTeX, and figures with their
    captions in NAME-figure.tex) go to a folder beside it. There the format claims writes CLAIMS.md for an artifact
    committee: each published number and ordering with its result, the command, time, disk, and SHA-256 of the values.

    The report follows what the study varies: a varied number is the horizontal axis, algorithms are colours, and
    everything else has panels. --figure draws a single figure with its metric and axes. KEY is the last part of a
    varied key (loss of links.sat.loss), the whole key, cc or flow. A metric is one of the reference, a numeric column
    of flows.parquet, or an expression of these with + - * / ( ), abs, sqrt, log10, min and max;
    "TITLE (UNIT) = ..." names it.

    [bold]Examples[/bold]

      perigee report results/claypool-2021
      perigee report results/claypool-2021 --out viasat2.html --format html,pdf,csv
      perigee report results/sweep --reference cubic
      perigee report results/sweep --figure lines --metric goodput_mbps --x loss --facet profile
      perigee report results/sweep --figure heatmap --x rate --x delay --format pdf
      perigee report results/sweep --figure lines --metric "goodput_mbps / rtt_mean_ms"
      perigee report results/sweep --format pdf,latex --font "Times New Roman" --figure-width 252pt
      perigee report results/sweep --label cubic=CUBIC --label loss="Loss of the link"
      perigee report results/wu-2008 --register studies/wu-2008/registered.toml
    """
    from perigee.commands.progress import share
    from perigee.report.writer import write_report

    formats = [name.strip() for text in given.formats or ["html"] for name in text.split(",")]
    wanted = [*dict.fromkeys(name for name in formats if name)]
    asides: list[str] = []
    with share(error_console, "Report") as watch:
        written = write_report(
            given.results, given.out, wanted, _choices(given), given.experiment or (), given.confidence, _form(given),
            given.jobs, watch, reference=given.reference, register=given.register, tell=asides.append,
        )  # fmt: skip
    for aside in asides:
        say(f"note: {aside}")
    for path in written:
        out_console.print(str(path), highlight=False, soft_wrap=True, markup=False)


def _form(given: ReportOptions) -> Form:
    """Return font, width and labels of the figures.

    Raises:
        InputError: one of them is wrong.
    """
    from perigee.report.style import Form, width_of_figures

    labels = {}
    for text in given.label or ():
        # A key of a value has an equals sign between blanks: links.sat.loss = 0 %=lossless.
        key, label = [*re.split(r"(?<! )=(?! )", text, maxsplit=1), ""][:2]
        if not key.strip() or not label.strip():
            raise InputError(f"--label {text}: write KEY=TEXT, such as cubic=CUBIC")
        labels[key.strip()] = label.strip()
    return Form(given.font, width_of_figures(given.figure_width) if given.figure_width else None, labels)


def _choices(given: ReportOptions) -> list[Choice]:
    """Return the choices for each figure.

    Raises:
        InputError: an option of figures is given without --figure.
    """
    from perigee.groups.settings import Choice

    parts = {"--metric": given.metric, "--x": given.x, "--hue": given.hue, "--facet": given.facet}
    if not given.figure and (alone := [name for name, value in parts.items() if value]):
        raise InputError(f"{alone[0]}: changes a figure; choose it with --figure, such as --figure lines")
    metrics, x, facets = (tuple(part or ()) for part in (given.metric, given.x, given.facet))
    return [Choice(figure, metrics, x, given.hue, facets) for figure in given.figure or ()]

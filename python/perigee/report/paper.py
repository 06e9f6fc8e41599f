# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figures and tables as files for papers: PDF and PNG in two widths, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from perigee.errors import InputError
from perigee.files import atomic_file, storage_errors, write_atomically
from perigee.groups.names import distinct
from perigee.report.csv_text import csv_text
from perigee.report.latex import figure, latex
from perigee.report.model import Plot, Report
from perigee.report.style import COLUMN_IN, in_a_column

SMALL_UP_TO_IN = 5.0
"""Width of the widest figure with the small letters of a column."""


def write(report: Report, folder: Path, formats: Sequence[str], width_in: float | None = None) -> None:
    """Write each figure and table to a file in `folder`.

    Args:
        report: the report.
        folder: created if missing; files of the same name are replaced.
        formats: any of `pdf` (figures, as wide as a page, and in `NAME-column.pdf` as wide as a column), `png`
            (figures), `csv` (tables, and in `NAME-curves.csv` the curves of figures), `latex` (tables, and in
            `NAME-figure.tex` a figure with its caption, which has the PDF).
        width_in: width of the figures, inches; None: page width, and column width beside it.

    Raises:
        InputError: `folder` is a symbolic link.
        StorageError: it cannot be written.
    """
    if folder.is_symlink():
        raise InputError(f"{folder}: is a symbolic link, and nothing is written through one; remove it, or give --out")
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for plot in report.plots():
        kinds = [kind for kind in ("pdf", "png") if kind in formats]
        if width_in is not None and plot.draw and kinds:
            with in_a_column() if width_in <= SMALL_UP_TO_IN else nullcontext():
                drawing = plot.draw(width_in)
                for kind in kinds:
                    _save(plot, drawing, folder / f"{plot.name}.{kind}", kind)
        else:
            for kind in kinds:
                _save(plot, plot.figure, folder / f"{plot.name}.{kind}", kind)
            if "pdf" in formats and plot.draw:
                with in_a_column():
                    _save(plot, plot.draw(COLUMN_IN), folder / f"{plot.name}-column.pdf", "pdf")
    if "latex" in formats:
        for name, text in _latex(report, is_column=width_in is None):
            write_atomically(folder / f"{name}.tex", text.encode())
    if "csv" in formats:
        for name, data in numbers(report):
            write_atomically(folder / f"{name}.csv", csv_text(data).encode())


def numbers(report: Report) -> list[tuple[str, pl.DataFrame]]:
    """Return the data of tables and of figures' curves, each with the stem of its CSV file."""
    tables = [(table.name, table.data) for table in report.tables()]
    curves = [(f"{plot.name}-curves", plot.data) for plot in report.plots() if plot.data is not None]
    names = distinct([name for name, _ in tables + curves], lambda name, copy: f"{name}-{copy}")
    return list(zip(names, [data for _, data in tables + curves], strict=True))


def _latex(report: Report, *, is_column: bool) -> list[tuple[str, str]]:
    """Return tables, and figures with their captions, for LaTeX, each with the stem of its file."""
    tables = [(table.name, latex(table)) for table in report.tables()]
    figures = [
        (f"{plot.name}-figure", figure(plot, f"{plot.name}{'-column' if is_column and plot.draw else ''}.pdf"))
        for plot in report.plots()
    ]
    names = distinct([name for name, _ in tables + figures], lambda name, copy: f"{name}-{copy}")
    return list(zip(names, [text for _, text in tables + figures], strict=True))


def _save(plot: Plot, drawing: Figure, path: Path, kind: str) -> None:
    metadata = {"CreationDate": None, "Title": plot.caption} if kind == "pdf" else {"Description": plot.alt}
    with atomic_file(path) as file:
        drawing.savefig(file, format=kind, metadata=metadata)

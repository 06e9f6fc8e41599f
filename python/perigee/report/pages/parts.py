# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Parts that the pages of single things share: tables of texts, and figures of a mark per algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes

from perigee.groups.looks import look, name_of, number_of
from perigee.report.model import Cell, Table

Row = Sequence[Cell | str]
"""Cells of a row, as texts where they have no mark."""


def table(
    name: str,
    caption: str,
    head: Sequence[str],
    rows: Sequence[Row],
    *,
    words: Sequence[int] = (),
    lead: int = 1,
    folded: bool = False,
    data: pl.DataFrame | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Return a table; its data are its texts where none are given."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    if data is None:
        data = pl.DataFrame({title: [row[place].text for row in cells] for place, title in enumerate(head)})
    return Table(name, caption, head, cells, data, notes=notes, words=words, folded=folded, lead=lead)


def dots(axes: Axes, titles: Sequence[str], rows: Sequence[Mapping[str, float]]) -> None:
    """Draw rows from the top with a mark per algorithm, the first algorithm's larger than those of its references."""
    for place, name in enumerate(dict.fromkeys(name for row in rows for name in row)):
        style, values = look(number_of(name)), [row.get(name, float("nan")) for row in rows]
        axes.plot(
            values, range(len(rows)), ls="", label=name_of(name), marker=style.marker, color=style.color,
            ms=4 if place else 7, clip_on=False, zorder=3 if place else 4,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), titles)
    axes.set_ylim(len(rows) - 0.5, -0.5)

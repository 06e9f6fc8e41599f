# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Parts of what studies, results and profiles show of themselves in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from perigee.numbers import number

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS = 20
"""Rows of a table that are shown."""

Row = Sequence[str]


def heading(kind: str, name: str, title: str) -> str:
    """Return the first line of what is shown: `Study NAME: TITLE`."""
    said = f": {escape(title)}" if title else ""
    return f"<p><strong>{escape(' '.join(filter(None, (kind, name))))}</strong>{said}</p>"


def paragraph(text: str) -> str:
    """Return a paragraph; nothing if the text is empty."""
    return f"<p>{escape(text)}</p>" if text else ""


def image(png: bytes) -> str:
    """Return an image that is part of the page."""
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(png).decode()}"/>'


def frame_html(frame: pl.DataFrame) -> str:
    """Return the first rows of a table, and how many more it has."""
    rows = [[_cell(value) for value in row] for row in frame.head(MOST_ROWS).iter_rows()]
    more = frame.height - len(rows)
    return table_html(frame.columns, rows) + (paragraph(f"and {more} more") if more > 0 else "")


def table_html(head: Row, rows: Iterable[Row]) -> str:
    """Return a table.

    Examples:
        >>> table_html(["a"], [["<1>"]])
        '<table><thead><tr><th scope="col">a</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}" if value == round(value, 6) else number(value, 2)
    return str(value)

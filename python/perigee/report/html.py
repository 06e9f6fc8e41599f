# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The report as one self-contained HTML file with figures (SVG), styles, script and data.

All content is readable without the script, which only adds interaction.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import jinja2
import polars.selectors as selectors
from markupsafe import Markup, escape

from perigee.files import write_atomically
from perigee.groups.looks import style_sheet
from perigee.report.csv_text import csv_text
from perigee.report.drawings import Watch, drawings
from perigee.report.legends import with_units
from perigee.report.model import Listing, Plot, Report, Table, Text

DIGITS = 6
"""Significant digits of numbers in the page's data; `--format csv` has all."""
UNQUOTED = ",:;/=+*'()!@$?"
"""Characters of data that stand in an address as they are."""
LARGEST_DATA_BYTES = 120_000
"""Maximum size of a table's or figure's data in the page, bytes; larger data are in `--format csv` only."""


def write(report: Report, path: Path, workers: int | None = None, watch: Watch | None = None) -> None:
    """Write the report to `path`; see `drawings` for the processes.

    Raises:
        StorageError: it cannot be written.
    """
    write_atomically(path, render(report, workers, watch).encode())


def render(report: Report, workers: int | None = 1, watch: Watch | None = None) -> str:
    """Return the page; see `drawings` for the processes."""
    plots = [replace(plot, figure=plot.beside or plot.figure) for plot in report.plots()]
    drawn = drawings(plots, workers, watch)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perigee.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    kinds = {"table": Table, "plot": Plot, "text": Text, "listing": Listing}
    environment.tests.update({name: lambda block, kind=kind: isinstance(block, kind) for name, kind in kinds.items()})
    environment.filters["prose"] = prose
    style, stretch, page = (
        files("perigee.report").joinpath(name).read_text("utf-8") for name in ("page.css", "stretch.js", "page.js")
    )
    script = f"{stretch}\n{page}"
    return environment.get_template("page.html").render(
        report=report,
        draw=lambda plot: drawn[plot.name],
        data_link=data_link,
        style=Markup(f"{style_sheet()}\n{style}"),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        policy=policy(script),
    )


def prose(text: str) -> Markup:
    r"""Return a text of the page: numbers stay with their units, and what stands in backticks is code.

    Examples:
        >>> prose("`geo` <10 us>")
        Markup('<code>geo</code> &lt;10\xa0µs&gt;')
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(with_units(text)))))  # noqa: S704 - escaped


def policy(script: str) -> str:
    """Return the content security policy: own styles and images, this one script, no requests.

    Examples:
        >>> policy("")
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; base-uri 'none'; form-action 'none'"
    """  # noqa: E501 - one value
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def data_link(block: Table | Plot) -> str:
    """Return a link to a table's or figure's data as CSV embedded in the page; empty without data."""
    if block.data is None or block.data.is_empty():
        return ""
    if block.data.estimated_size() > LARGEST_DATA_BYTES:
        return ""
    rounded = block.data.with_columns(selectors.float().round_sig_figs(DIGITS))
    return f"data:text/csv;charset=utf-8,{quote(csv_text(rounded), safe=UNQUOTED)}"


_CODE = re.compile(r"`([^`]+)`")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The report as one HTML file that needs nothing else: figures are inside as SVG, styles too, no scripts."""

from __future__ import annotations

import io
import re
from pathlib import Path

import jinja2
from markupsafe import Markup

from perigee.files import write_atomically
from perigee.report.model import Listing, Plot, Report, Table, Text


def write(report: Report, path: Path) -> None:
    """Write the report to `path`.

    Raises:
        StorageError: it cannot be written.
    """
    write_atomically(path, render(report).encode())


def render(report: Report) -> str:
    """Return the page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perigee.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    kinds = {"table": Table, "plot": Plot, "text": Text, "listing": Listing}
    environment.tests.update({name: lambda block, kind=kind: isinstance(block, kind) for name, kind in kinds.items()})
    return environment.get_template("page.html").render(report=report, svg=svg)


def svg(plot: Plot) -> Markup:
    """Return a figure as an inline SVG element with its text for those who cannot see it."""
    buffer = io.StringIO()
    plot.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    # Ids are per page, not per drawing: keep those of two figures apart.
    prefix = plot.name + "-"
    drawing = re.sub(r'\bid="', f'id="{prefix}', drawing)
    drawing = re.sub(r'href="#', f'href="#{prefix}', drawing)
    drawing = re.sub(r"url\(#", f"url(#{prefix}", drawing)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"\n\s*", "\n", drawing)
    alt = Markup.escape(plot.alt)
    return Markup(drawing.replace("<svg ", f'<svg role="img" aria-label="{alt}" ', 1))  # noqa: S704 - drawn here

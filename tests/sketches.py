# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figures of reports that are not drawn, for tests that look at something else.

Two thirds of the processor time of a report are the drawing of its figures as SVG. A sketched one is made as ever, with
its panels, data, names and scales, but the element of the page is empty.
"""

from __future__ import annotations

import io
from typing import Any

from perigee.report import svg
from perigee.report.model import Plot

ELEMENT = '<svg viewBox="0 0 100 100"></svg>'

drawn = svg.draw
"""The function that draws a figure for the page."""


def begin() -> None:
    """Draw no more figures in this process."""
    svg.draw = sketched


def sketched(plot: Plot) -> svg.Drawing:
    """Return what a page has of a figure, without the drawing."""
    figure: Any = plot.figure
    figure.savefig = _empty
    try:
        return drawn(plot)
    finally:
        del figure.savefig


def _empty(out: io.StringIO, **_options: object) -> None:
    out.write(ELEMENT)

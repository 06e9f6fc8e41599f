# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws the picture of the site's first page from the results of claypool-2021: published throughput beside simulated.

    .venv/bin/python tools/picture.py results/claypool-2021

`make picture` runs the study and calls it. The site's first page gets its means. The SVG has light
and dark colours, of which the reader's browser chooses.
"""

from __future__ import annotations

import functools
import io
import re
import sys
from html import escape
from pathlib import Path

import matplotlib as mpl

from perigee.files import write_atomically
from perigee.groups.looks import table
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.model import Plot
from perigee.report.reproduction import judged, label, pair
from perigee.report.style import styled
from perigee.store.results import Results

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/published-throughput.svg"
FIGURE = PICTURE.stem
START = ROOT / "docs/site/start.md"
PAGE = table().inks["paper"]["light"]
MEANS = ("capture_goodput_mbps", "capture_rtt_mean_ms")
"""Quantities of the table of the site's first page."""
COLOURS = {one["light"]: (name, one["dark"]) for name, one in table().inks.items()}
COLOURS |= {row.light: (f"c{number}", row.dark) for number, row in enumerate(table().rows)}
"""Colours of figures: the name of each in the picture, and its colour on dark pages."""


def picture(plot: Plot) -> str:
    """Return a figure as an SVG file whose lines, texts and page have colours for light and for dark pages."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": plot.name}):
        plot.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, facecolor=PAGE)
    return with_colours(buffer.getvalue(), plot.alt)


def with_colours(drawing: str, alt: str) -> str:
    """Return matplotlib's SVG with variables in the place of `COLOURS`, and a text for those who do not see it.

    Examples:
        >>> with_colours('<?xml?><svg width="9"><path style="fill: #16191d"/></svg>', "A").splitlines()[-1]
        '</style><path style="fill: var(--ink)"/></svg>'
    """
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", drawing[drawing.index("<svg") :], flags=re.DOTALL)
    for colour, (name, _) in COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    # A hundredth of a point is finer than any screen.
    shorter = functools.partial(re.sub, r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}")
    body = re.sub(r'(?<= d=")[^"]+', lambda path: shorter(path[0]), body)
    light = "; ".join(f"--{name}: {colour}" for colour, (name, _) in COLOURS.items())
    dark = "; ".join(f"--{name}: {colour}" for name, colour in COLOURS.values())
    style = f"\n<style>\nsvg {{ {light} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}\n</style>"
    head, _, rest = body.partition(">")
    return f'<svg role="img" aria-label="{escape(alt)}"{head.removeprefix("<svg")}>{style}{rest}'


def with_means(text: str, results: Results) -> str:
    """Return a page whose rows, each an algorithm, have its means over the download beside the published ones."""
    context = Context(results)
    numbers, _ = judged(context)
    for group in {label(context, one) for one in numbers}:
        cells = (
            f"{simulated} ({published})"
            for name in MEANS
            for one in numbers
            if (label(context, one), one.value.name, one.value.statistic) == (group, name, "mean")
            for published, simulated in (pair(one),)
        )
        text = re.sub(
            rf"^\| {re.escape(group)} \|.*\|$", " | ".join((f"| {group}", *cells)) + " |", text, flags=re.MULTILINE
        )
    return text


def main() -> None:
    """Draw the picture from the results folder that the command line names, and write their means."""
    results = Results(Path(sys.argv[1]))
    with styled():
        report = assemble(results)
        plot = next(one for one in report.plots() if one.name == FIGURE)
        write_atomically(PICTURE, picture(plot).encode())
    write_atomically(START, with_means(START.read_text(encoding="utf-8"), results).encode())
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()

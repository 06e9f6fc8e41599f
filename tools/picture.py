# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws the picture of the site's first page from the results of claypool-2021: published throughput beside simulated.

    .venv/bin/python tools/picture.py results/claypool-2021

`make picture` runs the study and calls it. README and the site's first page get how many published figures these
results meet. The SVG has light and dark colours, of which the reader's browser chooses.
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
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.model import Plot
from perigee.report.reproduction import judged, label, pair
from perigee.report.style import FAINT, INK, styled
from perigee.scoring.testing import HIT
from perigee.store.results import Results

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/published-throughput.svg"
FIGURE = PICTURE.stem
README, START = ROOT / "README.md", ROOT / "docs/site/start.md"
PAGE, EDGE = "#ffffff", "#6b737c"
MEANS = ("capture_goodput_mbps", "capture_rtt_mean_ms")
"""Quantities of the table of the site's first page."""
COLOURS = {
    INK: ("ink", "#e6ebf2"),
    FAINT: ("faint", "#333b46"),
    EDGE: ("edge", "#8795a8"),
    PAGE: ("page", "#12171e"),
}
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
        >>> with_colours('<?xml?><svg width="9"><path style="fill: #1b1f24"/></svg>', "A").splitlines()[-1]
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


Score = tuple[int, int]
"""How many are met, of how many."""


def scores(results: Results) -> tuple[Score, Score, Score]:
    """Return how many published numbers are met that a link was fitted to, how many others, and how many claims."""
    context = Context(results)
    if context.published is None:
        raise SystemExit(f"{results.path}: nothing published is kept with these results")
    numbers, claims = judged(context)

    def met(role: str) -> Score:
        found = [bool(one.is_met) for one in numbers if one.role == role]
        return sum(found), len(found)

    return met("fitted"), met("predicted"), (sum(one.state == HIT for one in claims), len(claims))


def with_scores(text: str, fitted: Score, others: Score, orderings: Score) -> str:
    """Return a page with these scores: in the table of README, or in the sentence of the site.

    Examples:
        >>> with_scores("| its orderings of the algorithms | each holds | 7 of 14 |", (9, 24), (2, 30), (3, 14))
        '| its orderings of the algorithms | each holds | 3 of 14 |'
        >>> old = "Of the 4 throughputs that the link was fitted to, 1, and 1 of 3 orderings hold."
        >>> with_scores(old, (9, 12), (2, 42), (3, 14))
        'Of the 12 throughputs that the link was fitted to, 9 are within it; of 42 others 2, 3 of 14 orderings hold.'
    """
    rows = {
        "throughputs, to which the link was fitted": fitted,
        "its other figures": others,
        "its orderings of the algorithms": orderings,
    }
    for words, (met, of) in rows.items():
        text = re.sub(rf"({words} \|[^|]*\| )\d+ of \d+", rf"\g<1>{met} of {of}", text)
    said = (
        f"Of the {fitted[1]} throughputs that the link was fitted to, {fitted[0]} are within it; of {others[1]} others "
        f"{others[0]}, {orderings[0]} of {orderings[1]} orderings hold."
    )
    return re.sub(r"Of the \d+ throughputs that the link was fitted to, .*? orderings hold\.", said, text)


def with_means(text: str, results: Results) -> str:
    """Return a page whose rows, each an algorithm, have its means over the download beside the published ones."""
    context = Context(results)
    numbers, _ = judged(context)
    for group in {label(context, one) for one in numbers}:
        cells = (
            f"{simulated} ({published})"
            for name in MEANS
            for one in numbers
            if (label(context, one), one.value.name) == (group, name)
            for published, simulated in (pair(one),)
        )
        text = re.sub(rf"^\| {group} \|.*\|$", " | ".join((f"| {group}", *cells)) + " |", text, flags=re.MULTILINE)
    return text


def main() -> None:
    """Draw the picture from the results folder that the command line names, and write their scores."""
    results = Results(Path(sys.argv[1]))
    with styled():
        report = assemble(results)
        plot = next(one for one in report.plots() if one.name == FIGURE)
        write_atomically(PICTURE, picture(plot).encode())
    found = scores(results)
    for page in (README, START):
        text = with_scores(page.read_text(encoding="utf-8"), *found)
        write_atomically(page, (with_means(text, results) if page == START else text).encode())
    print(PICTURE.relative_to(ROOT), *(f"{met} of {of}" for met, of in found))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries out the studies of the pages in docs/answers, draws their pictures, and writes their numbers.

    .venv/bin/python tools/answers.py             all of them, a minute of one core
    .venv/bin/python tools/answers.py NAME ...    some of them

A page has its paragraph in a comment `answer`, with places for numbers, and below that filled in; and its study as text
between the markers `study` and `end`. This program writes both, from `studies/answers/NAME.toml` and its results.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import polars as pl

import perigee
from perigee.api.results import Results
from perigee.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
STUDIES, PAGES, PICTURES = ROOT / "studies/answers", ROOT / "docs/answers", ROOT / "docs/images"
Rows = list[tuple[str, float]]
ALGORITHMS = {"cubic": "CUBIC", "bbr": "BBR", "hybla": "Hybla", "vegas": "Vegas", "copa": "Copa"}
WIDTH, LEFT, BAR, GAP, HEAD = 720, 190, 22, 8, 34
"""Sizes of the pictures, in pixels: the whole, the labels, a bar, what is between two, the title of a panel."""
STYLE = (
    "svg { --ink: #16191d; --bar: #3b6ea5; --other: #b06f2c; font: 14px system-ui, sans-serif; fill: var(--ink) } "
    "@media (prefers-color-scheme: dark) { svg { --ink: #e6e8ea; --bar: #7fb0e0; --other: #dda46a } }"
)


@dataclass(frozen=True)
class Panel:
    """Bars of one quantity.

    Attributes:
        title: what it is, with its unit.
        rows: the values, each with its label.
        digits: decimals of what stands behind a bar.
    """

    title: str
    rows: Rows
    digits: int = 0


@dataclass(frozen=True)
class Answer:
    """The results that a page tells.

    Attributes:
        panels: its bars.
        lines: curves in place of bars: each with its points over time.
    """

    panels: tuple[Panel, ...]
    lines: tuple[tuple[str, list[tuple[float, float]]], ...] = ()

    def told(self, template: str) -> str:
        """Return a paragraph with its numbers: `{0[CUBIC]}` is the value of the first panel's row of that label."""
        values = [{label: f"{value:.{panel.digits}f}" for label, value in panel.rows} for panel in self.panels]
        return template.format(*values)


def means(
    results: Results, column: str, value: str = "goodput_mbps", table: str = "flows", flow: str | None = None
) -> Rows:
    """Return the means over rounds of a value, for each value of what varies; of several flows of a run their sum."""
    rows = results[table]
    rows = rows if flow is None else rows.filter(pl.col("flow").str.starts_with(flow))
    of_run = pl.sum(value) if value == "goodput_mbps" else pl.mean(value)
    runs = rows.group_by("run", column, maintain_order=True).agg(of_run)
    found = runs.group_by(column, maintain_order=True).agg(pl.mean(value))
    return [(ALGORITHMS.get(str(label), str(label)), float(mean)) for label, mean in found.iter_rows()]


def _cubic(results: Results) -> Answer:
    return Answer(
        (
            Panel(
                "Throughput of 60 s over 50 Mbit/s, 600 ms, one packet in 10,000 lost (Mbit/s)",
                means(results, "point.cc"),
            ),
        ),
    )


def _starlink(results: Results) -> Answer:
    ways = {"down": "download", "up": "upload"}
    frame = results["flows"].with_columns(
        (pl.col("point.cc").replace(ALGORITHMS) + ", " + pl.col("point.direction").replace(ways)).alias("which")
    )
    rows = frame.group_by("which", maintain_order=True).agg(pl.mean("goodput_mbps")).rows()
    return Answer(
        (Panel("Throughput of 45 s, alone over the profile starlink (Mbit/s)", [(str(a), float(b)) for a, b in rows]),),
    )


def _buffers(results: Results) -> Answer:
    rows = [(f"{float(size) / 1e6:.0f} MB", mean) for size, mean in means(results, "point.buffer")]
    return Answer(
        (Panel("Throughput of 60 s with a receive buffer of at most ... (Mbit/s)", rows),),
    )


def _tests(results: Results) -> Answer:
    count, length = {1: "1 connection", 8: "8 connections"}, {10_000.0: "10 s", 60_000.0: "60 s"}
    frame = results["flows"].with_columns(
        (
            pl.col("point.count").cast(pl.Int64).replace_strict(count)
            + ", "
            + pl.col("point.duration").replace_strict(length)
        ).alias("which")
    )
    runs = frame.group_by("run", "which", maintain_order=True).agg(pl.sum("goodput_mbps"))
    rows = runs.group_by("which", maintain_order=True).agg(pl.mean("goodput_mbps")).rows()
    return Answer(
        (
            Panel(
                "Sum of all connections over the same link of 50 Mbit/s (Mbit/s)", [(str(a), float(b)) for a, b in rows]
            ),
        ),
    )


def _slots(results: Results) -> Answer:
    frame = results["exchanges"].filter(pl.col("duration_ms").is_not_null())
    names = {"slots": "profile starlink", "constant": "constant delay"}
    lines, rows = [], []
    for name, label in names.items():
        part = frame.filter(pl.col("point.link") == name).sort("start_s")
        lines.append((label, list(zip(part["start_s"].to_list(), part["duration_ms"].to_list(), strict=True))))
        rows.append((f"{label}, most", float(part["duration_ms"].max())))  # type: ignore[arg-type]
    return Answer(
        (Panel("Round trip of a ping each 20 ms over a minute (ms)", rows),),
        tuple(lines),
    )


def _controller(results: Results) -> Answer:
    return Answer(
        (
            Panel("Throughput (Mbit/s)", means(results, "point.cc"), 1),
            Panel("Round trip, 95th percentile (ms)", means(results, "point.cc", "rtt_p95_ms")),
        ),
    )


def _proxy(results: Results) -> Answer:
    return Answer(
        (
            Panel(
                "Time of a download of 5 MB over 600 ms, one packet in 1,000 lost (s)",
                means(results, "point.path", "duration_s"),
                1,
            ),
        ),
    )


def _queue(results: Results) -> Answer:
    return Answer(
        (
            Panel("Sum of four downloads over 50 Mbit/s (Mbit/s)", means(results, "point.queue", flow="download"), 1),
            Panel("Round trip of a ping beside them (ms)", means(results, "point.queue", "rtt_mean_ms", flow="ping")),
        ),
    )


def _call(results: Results) -> Answer:
    return Answer(
        (
            Panel("Delay from mouth to ear (ms)", means(results, "point.beside", "mouth_to_ear_ms", "voice")),
            Panel("Quality of the call, from 1 to 4.5 (MOS)", means(results, "point.beside", "mos", "voice"), 1),
        ),
    )


ANSWERS: dict[str, Callable[[Results], Answer]] = {
    "cubic-over-satellite": _cubic,
    "bbr-or-cubic-for-starlink": _starlink,
    "buffers-for-600-ms": _buffers,
    "why-speed-tests-differ": _tests,
    "emulate-15-s-slots": _slots,
    "rate-controller-on-a-varying-link": _controller,
    "haproxy-or-a-pep": _proxy,
    "which-queue-for-a-gateway": _queue,
    "upload-kills-the-call": _call,
}


def picture(answer: Answer, alt: str) -> str:
    """Return the picture of an answer as SVG, with colours for light and for dark pages."""
    body, top = _lines(answer) if answer.lines else _bars(answer.panels)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" aria-label="{escape(alt)}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *body, "</svg>", ""])


def _bars(panels: Sequence[Panel]) -> tuple[list[str], int]:
    body, top = [], 0
    for panel in panels:
        body.append(_text(0, top + 20, panel.title, weight=600))
        top += HEAD
        most = max(value for _, value in panel.rows)
        for label, value in panel.rows:
            width = round((WIDTH - LEFT - 60) * value / most)
            body.append(_text(LEFT - 10, top + 16, label, anchor="end"))
            body.append(f'<rect x="{LEFT}" y="{top}" width="{width}" height="{BAR}" fill="var(--bar)"/>')
            body.append(_text(LEFT + width + 6, top + 16, f"{value:.{panel.digits}f}"))
            top += BAR + GAP
        top += GAP
    return body, top


def _lines(answer: Answer) -> tuple[list[str], int]:
    title, height, left = answer.panels[0].title, 220, 40
    most = max(value for _, points in answer.lines for _, value in points)
    longest = max(at for _, points in answer.lines for at, _ in points)
    body = [_text(0, 20, title, weight=600)]
    for number, (label, points) in enumerate(answer.lines):
        colour = f"var(--{('bar', 'other')[number]})"
        places = " ".join(
            f"{left + (WIDTH - left) * at / longest:.1f},{HEAD + height * (1 - value / most):.1f}"
            for at, value in points
        )
        body.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        body.append(
            f'<text x="{left + 220 * number}" y="{HEAD + height + 40}" style="fill: {colour}">{escape(label)}</text>'
        )
    body += [_text(left - 6, round(HEAD + height * (1 - at)) + 5, f"{at * most:.0f}", anchor="end") for at in (0, 1)]
    body += [_text(left + (WIDTH - left) * at // 60, HEAD + height + 18, f"{at} s") for at in (0, 15, 30, 45)]
    return body, HEAD + height + 50


def _text(x: int, y: int, text: str, anchor: str = "start", weight: int = 400) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'


ANSWER = re.compile(r"<!-- answer: (.*?) -->.*?<!-- end -->", re.DOTALL)
STUDY = re.compile(r"<!-- study -->.*?<!-- end -->", re.DOTALL)


def with_study(page: str, name: str) -> str:
    """Return a page with the text of its study."""
    text = (STUDIES / f"{name}.toml").read_text(encoding="utf-8")
    return STUDY.sub(lambda _: f"<!-- study -->\n\n```toml\n{text}```\n\n<!-- in the tab -->\n\n<!-- end -->", page)


def carried_out(name: str) -> Answer:
    """Return what the results of a study say today."""
    with tempfile.TemporaryDirectory() as folder:
        return ANSWERS[name](perigee.run(STUDIES / f"{name}.toml", out=Path(folder) / "out"))


def with_answer(page: str, answer: Answer) -> str:
    """Return a page with the numbers of its paragraph."""

    def told(found: re.Match[str]) -> str:
        return f"<!-- answer: {found[1]} -->\n\n{answer.told(' '.join(found[1].split()))}\n\n<!-- end -->"

    return ANSWER.sub(told, page)


def main() -> None:
    """Carry out the studies that the command line names, or all."""
    for name in sys.argv[1:] or ANSWERS:
        page, answer = PAGES / f"{name}.md", carried_out(name)
        text = with_answer(page.read_text(encoding="utf-8"), answer)
        write_atomically(page, with_study(text, name).encode())
        write_atomically(PICTURES / f"answer-{name}.svg", picture(answer, text.partition("\n")[0].strip("# ")).encode())
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()

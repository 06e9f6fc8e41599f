# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws the moving picture of the README: the study that the laboratory in a browser tab begins with, simulated.

    .venv/bin/python tools/moving_picture.py      writes docs/images/tab.svg (needs Node)

Node reads the study from the tab's own module. Everything that moves is a result: the lines are what arrived and what
waited, the dots on the path are as many as the throughput of their instant, the bars at the gateway are the queue. A
reader who wants no motion sees the whole run.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

import perigee
from perigee.files import write_atomically
from perigee.groups.looks import name_of, number_of, table

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/tab.svg"
FIRST = "import('./web/src/study.js').then(({ FIRST, written }) => console.log(written(FIRST)))"
NAMES = ("cubic", "bbr")

SHOWN_S = 15
"""One run on the screen; the tab plays in as much."""
STEPS = 75
"""Instants of what moves, and points of a line."""
DOTS = 8
"""Dots of an algorithm on the path when it fills the link."""
CROSSING_S = 1.6
"""Time of a dot from end to end on the screen."""
PATH = "M 110 120 Q 450 -70 790 120"
"""The way over the satellite."""
PANELS = ((60, 420, 196, 336), (500, 860, 196, 336))
"""Left, right, top and bottom of each."""
TITLES = ("Throughput, Mbit/s", "Waiting before the satellite, MB")
BAR_X = 70
"""Left edge of the first queue's bar."""

STYLE = """\
svg { --ink: #1b1f24; --grey: #6b737c; --line: #d5dae0; font: 14px system-ui, sans-serif; fill: var(--ink) }
@media (prefers-color-scheme: dark) { svg { --ink: #e6ebf2; --grey: #97a3b4; --line: #333b46 } }
.note { fill: var(--grey); font-size: 13px }
.line { fill: none; stroke: var(--line) }
.course { fill: none; stroke-width: 2; stroke-linejoin: round }
.course, .now, .dot, .bar, .seen { animation: none infinite linear }
.now { stroke: var(--grey); opacity: 0 }
.bar { transform-box: fill-box; transform-origin: bottom }
.dot { opacity: 0 }
@media (prefers-reduced-motion: no-preference) {
.now { opacity: 1; animation: now SHOWNs infinite linear }
.seen { animation: seen SHOWNs infinite linear }
}
@keyframes now { to { transform: translateX(WIDEpx) } }
@keyframes seen { from { transform: scaleX(0) } }
"""


def course(values: Sequence[float], most: float, panel: tuple[int, int, int, int]) -> str:
    """Return the points of a line through values at equal distances of time.

    Examples:
        >>> course([0, 2, 1], 2, (0, 100, 0, 10))
        '0,10 50,0 100,5'
    """
    left, right, top, bottom = panel
    step = (right - left) / (len(values) - 1)
    return " ".join(
        f"{left + step * at:g},{bottom - (bottom - top) * value / most:.4g}" for at, value in enumerate(values)
    )


def keyframes(name: str, property: str, values: Sequence[str]) -> str:  # noqa: A002 - the word of styles
    """Return the frames of a property that has each of these values for the same time; equal neighbours are one.

    Examples:
        >>> keyframes("a", "opacity", ["0", "0", "1", "1"])
        '@keyframes a { 0%,49.99% { opacity: 0 } 50%,99.99% { opacity: 1 } }'
    """
    frames, at = [], 0
    for value, same in groupby(values):
        begin, at = at, at + len(list(same))
        frames.append(f"{100 * begin / len(values):g}%,{100 * at / len(values) - 0.01:.4g}% {{ {property}: {value} }}")
    return f"@keyframes {name} {{ {' '.join(frames)} }}"


def binned(values: Sequence[float]) -> list[float]:
    """Return the means of as many equal parts as there are steps."""
    size = len(values) / STEPS
    parts = [values[round(size * step) : round(size * (step + 1))] for step in range(STEPS)]
    return [sum(part) / len(part) for part in parts]


def lines(name: str, courses: Sequence[Sequence[float]], most: Sequence[float]) -> Iterator[str]:
    """Yield an algorithm's line in each panel.

    Args:
        name: of the algorithm.
        courses: throughput in Mbit/s and queue in MB, a value per step.
        most: throughput and queue at the top of their panels.
    """
    for panel, values, top in zip(PANELS, courses, most, strict=True):
        yield f'<polyline class="course {name}" points="{course(values, top, panel)}"/>'


def moving(name: str, place: int, courses: Sequence[Sequence[float]], most: Sequence[float]) -> Iterator[str]:
    """Yield the bar of an algorithm's queue, its dots on the path, and the styles by which they move; see `lines`.

    Args:
        name: of the algorithm.
        place: 0 for the first algorithm, 1 for the second.
        courses: throughput in Mbit/s and queue in MB, a value per step.
        most: throughput and queue at the top of their panels.
    """
    throughput, queue = courses
    x = BAR_X + 16 * place
    yield f'<rect class="bar {name}-fill" id="{name}-bar" x="{x}" y="58" width="12" height="60"/>'
    styles = [keyframes(f"{name}-bar", "transform", [f"scaleY({value / most[1]:.2f})" for value in queue])]
    moved = [f"#{name}-bar {{ animation: {name}-bar {SHOWN_S}s infinite steps(1) }}"]
    for dot in range(DOTS):
        shown = ["1" if value / most[0] * DOTS > dot + 0.5 else "0" for value in throughput]
        if "1" not in shown:
            continue
        # Dots that come first are the farthest apart.
        delay = CROSSING_S * (int(f"{dot:03b}"[::-1], 2) + place / 2) / DOTS
        move = f'dur="{CROSSING_S}s" begin="-{delay:.2f}s" repeatCount="indefinite" path="{PATH}"'
        yield f'<circle class="dot {name}-fill" id="{name}{dot}" r="4"><animateMotion {move}/></circle>'
        styles.append(keyframes(f"{name}-dot{dot}", "opacity", shown))
        moved.append(f"#{name}{dot} {{ animation: {name}-dot{dot} {SHOWN_S}s infinite steps(1) }}")
    styles += ["@media (prefers-reduced-motion: no-preference) {", *moved, "}"]
    yield f"<style>{chr(10).join(styles)}</style>"


def legend(name: str, place: int, mean_mbps: float) -> Iterator[str]:
    """Yield an algorithm's name and mean throughput, and its colours on light and dark pages."""
    x = 290 + 170 * place
    yield f'<rect class="{name}-fill" x="{x}" y="98" width="12" height="12"/>'
    yield f'<text x="{x + 20}" y="109">{escape(name_of(name))}: {mean_mbps:.1f} Mbit/s</text>'
    row = table().rows[number_of(name)]
    light, dark = (
        f".{name} {{ stroke: {colour} }} .{name}-fill {{ fill: {colour} }}" for colour in (row.light, row.dark)
    )
    yield f"<style>{light} @media (prefers-color-scheme: dark) {{ {dark} }}</style>"


def frames(most: Sequence[float], seconds: float) -> Iterator[str]:
    """Yield axes, titles and the line of the instant of both panels."""
    for (left, right, top, bottom), title, highest in zip(PANELS, TITLES, most, strict=True):
        yield f'<path class="line" d="M {left} {top} V {bottom} H {right}"/>'
        yield f'<text class="note" x="{left}" y="{top - 10}">{title}</text>'
        for y, text in ((top + 5, f"{highest:g}"), (bottom, "0")):
            yield f'<text class="note" x="{left - 8}" y="{y}" text-anchor="end">{text}</text>'
        yield f'<text class="note" x="{right}" y="{bottom + 18}" text-anchor="end">{seconds:g} s</text>'
        yield f'<path class="now" d="M {left} {top} V {bottom}"/>'


def picture(results: perigee.Results, most: tuple[float, float], seconds: float, about: str) -> str:
    """Return the picture of results that have an algorithm per run.

    Args:
        results: of the study.
        most: throughput in Mbit/s and queue in MB at the top of the panels.
        seconds: duration of a run.
        about: the link, in words.
    """
    links = results.links.filter(results.links["link"] == "satellite.down")
    drawn: list[str] = []
    moved: list[str] = []
    for place, (run, name) in enumerate(results.points.select("run", "point.cc").rows()):
        throughput = results.series.filter(results.series["run"] == run)["goodput_mbps"].to_list()
        queue = links.filter(links["run"] == run)["queue_bytes"].to_list()
        courses = (binned(throughput), [value / 1e6 for value in binned(queue)])
        drawn += lines(name, courses, most)
        moved += moving(name, place, courses, most)
        moved += legend(name, place, results.flows.filter(results.flows["run"] == run)["goodput_mbps"][0])
    (left, right, top, bottom), _ = PANELS
    style = STYLE.replace("SHOWN", str(SHOWN_S)).replace("WIDE", str(right - left))
    size = f'y="{top - 4}" width="{right - left}" height="{bottom - top + 8}"'
    clips = (f'<rect class="seen" style="transform-origin: {one[0]}px 0" x="{one[0]}" {size}/>' for one in PANELS)
    compared = " and ".join(map(name_of, NAMES))
    alt = f"A download over a geostationary link under {compared}: throughput and queue over {seconds:g} s"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 364" role="img" aria-label="{escape(alt)}">',
            f'<style>\n{style}</style>\n<clipPath id="shown">{"".join(clips)}</clipPath>',
            f'<path class="line" d="{PATH}" stroke-dasharray="3 5"/>',
            f'<text class="note" x="450" y="58" text-anchor="middle">{escape(about)}</text>',
            '<text x="90" y="140" text-anchor="middle">gateway</text>',
            '<text x="790" y="140" text-anchor="middle">terminal</text>',
            *frames(most, seconds),
            '<g clip-path="url(#shown)">',
            *drawn,
            "</g>",
            *moved,
            "</svg>\n",
        ]
    )


def simulated() -> tuple[perigee.Results, tuple[float, float], float, str]:
    """Return results of the study that the tab begins with, and what `picture` needs beside them."""
    node = subprocess.run(["node", "-e", FIRST], cwd=ROOT, check=True, capture_output=True, text=True)
    study = perigee.Study.from_toml(node.stdout)
    link = study.file.content["links"][1]
    rate_mbps, queue_kb = (float(str(link[key]).split()[0]) for key in ("rate", "queue"))
    seconds = float(study.file.content["flows"][0]["duration"].split()[0])
    return study.run(), (rate_mbps, queue_kb / 1e3), seconds, f"geostationary: {link['rate']}, {link['delay']} one way"


def main() -> None:
    """Simulate, draw, and say where the picture is."""
    write_atomically(PICTURE, picture(*simulated()).encode())
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()

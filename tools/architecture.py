#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws `docs/images/architecture.svg` from `docs/architecture.toml` and `crates/layers.toml`, or checks them.

`architecture.py` draws; `architecture.py --check` compares both texts with `cargo metadata` and the sources, and the
picture with the texts, looks for circles between the modules of each crate, prints every finding and exits with 1 if
there is one.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rust_modules

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "architecture.toml"
LAYERS = ROOT / "crates" / "layers.toml"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

PREFIX = "perigee-"
EVERYBODY = f"{PREFIX}units"

WIDTH = 1120
MARGIN = 20
LAYER_HEIGHT = 104
COLUMNS = 6
BOX_WIDTH = 164
BOX_HEIGHT = 58
STEP_WIDTH = 122
STEP_HEIGHT = 60
STEP_GAP = 14
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1b2430; }
.title { font-size: 15px; font-weight: 600; }
.name { font-weight: 600; }
.small { font-size: 10.5px; fill: #4b5768; }
.mono { font: 10.5px ui-monospace, monospace; fill: #4b5768; }
.page { fill: #ffffff; }
.box { fill: #f3f6fa; stroke: #8795a8; }
.wall { fill: #e4effa; stroke: #3f78b5; }
.line { stroke: #8795a8; fill: none; }
.head { fill: #8795a8; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6ebf2; }
  .small, .mono { fill: #a9b5c6; }
  .page { fill: #12171e; }
  .box { fill: #1d2530; stroke: #66758a; }
  .wall { fill: #173049; stroke: #5b9bd8; }
  .line { stroke: #66758a; }
  .head { fill: #66758a; }
}"""


@dataclasses.dataclass(frozen=True)
class Crate:
    """A crate of the workspace."""

    name: str
    layer: int
    column: int
    does: str
    depends: tuple[str, ...]
    """The crates of the workspace that it may link; those of its tests are not among them."""
    system: bool
    """It may read the clock, files and the environment."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A station of a path through the code."""

    place: str
    does: str
    file: str
    symbol: str
    """A function or type that is in the file."""


@dataclasses.dataclass(frozen=True)
class Flow:
    """A path through the code: of a packet, of a setting."""

    title: str
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True)
class Architecture:
    """The content of `architecture.toml` and `layers.toml`."""

    crates: dict[str, Crate]
    paths: tuple[Flow, ...]

    @classmethod
    def load(cls) -> Architecture:
        """Read both texts."""
        text = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
        sections = tomllib.loads(LAYERS.read_text(encoding="utf-8"))
        allowed = {crate: below for section in sections.values() for crate, below in section.items()}
        crates = {
            crate["name"]: Crate(
                crate["name"],
                layer,
                crate["column"],
                crate["does"],
                tuple(f"{PREFIX}{other}" for other in allowed.get(crate["name"].removeprefix(PREFIX), ())),
                crate["name"].removeprefix(PREFIX) not in sections["core"],
            )
            for layer, row in enumerate(text["layers"])
            for crate in row["crates"]
        }
        paths = (Flow(path["title"], tuple(Step(**step) for step in path["steps"])) for path in text["paths"])
        return cls(crates, tuple(paths))

    def reaches(self, crate: str) -> set[str]:
        """Every crate that `crate` links, by whatever way."""
        below = self.crates[crate].depends if crate in self.crates else ()
        return set(below).union(*(self.reaches(other) for other in below))

    def drawn(self, crate: Crate) -> list[str]:
        """The lines of the picture: dependencies that no other one implies, without those on the crate that all use."""
        implied = set().union({EVERYBODY}, *(self.reaches(other) for other in crate.depends))
        return [other for other in crate.depends if other not in implied]


def linked() -> dict[str, set[str]]:
    """Return the crates that each crate of the workspace links, its build script included, by `cargo metadata`."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    packages: list[dict[str, Any]] = json.loads(answer.stdout)["packages"]
    names = {package["name"] for package in packages}
    return {
        package["name"]: {
            entry["name"] for entry in package["dependencies"] if entry["kind"] != "dev" and entry["name"] in names
        }
        for package in packages
    }


def findings(architecture: Architecture, code: dict[str, set[str]]) -> Iterator[str]:
    """Where the texts differ from the code, and the picture from the texts."""
    where, layers = SOURCE.relative_to(ROOT), LAYERS.relative_to(ROOT)
    for name in sorted(code.keys() ^ architecture.crates.keys()):
        yield f"{where}: {name} is either there or a crate of the workspace, not both"
    for crate in architecture.crates.values():
        linked_crates = code.get(crate.name, set(crate.depends))
        for other in sorted(linked_crates - set(crate.depends)):
            yield f"{layers}: {crate.name} may not depend on {other}; remove the dependency, or allow it here"
        for other in sorted(set(crate.depends) - linked_crates):
            yield f"{layers}: {crate.name} does not depend on {other}; remove it here"
        for other in crate.depends:
            if other in architecture.crates and architecture.crates[other].layer >= crate.layer:
                yield f"{where}: {other} is not in a layer below {crate.name}"
    for path in architecture.paths:
        for step in path.steps:
            yield from missing(step, where)
    if not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != draw(architecture):
        yield f"{PICTURE.relative_to(ROOT)}: differs from {where}; run tools/architecture.py"


def circles(crates: Path) -> Iterator[str]:
    """The modules of each crate in the folder `crates` that use each other in a circle."""
    for root in sorted(crates.glob("*/src/lib.rs")):
        for circle in rust_modules.circles(rust_modules.graph_of(root.parent)):
            crate = root.parent.parent.name
            yield f"crates/{crate}: {', '.join(circle)} use each other; move what they share into a module below them"


def missing(step: Step, where: Path) -> Iterator[str]:
    """Whether the file and symbol of a step are not there."""
    file = ROOT / step.file
    if not file.is_file():
        yield f"{where}: {step.place}: {step.file} is not there"
    elif not re.search(rf"\b{re.escape(step.symbol)}\b", file.read_text(encoding="utf-8")):
        yield f"{where}: {step.place}: {step.file} has no {step.symbol}"


def draw(architecture: Architecture) -> str:
    """The picture as SVG."""
    body: list[str] = []
    bottom = crates_panel(architecture, body)
    for path in architecture.paths:
        bottom = path_panel(path, bottom, body)
    height = bottom + MARGIN
    title = "Crates of Perigee and the paths of a packet and a setting through them"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">',
            f"<style>\n{STYLE}\n</style>",
            '<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
            f'<rect class="page" width="{WIDTH}" height="{height}"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def crates_panel(architecture: Architecture, body: list[str]) -> int:
    """Draw the layers, the highest first, and the lines between them; where the panel ends."""
    text(body, MARGIN, 26, "Who may depend on whom", "title")
    note = (
        f"An arrow: depends on. Arrows that others imply are left out, and those to {EVERYBODY}. "
        "Blue: may read the clock, files and the environment."
    )
    text(body, MARGIN, 44, note, "small")
    layers = 1 + max(crate.layer for crate in architecture.crates.values())
    pitch = (WIDTH - 2 * MARGIN - BOX_WIDTH) / (COLUMNS - 1)
    places = {
        crate.name: (MARGIN + pitch * crate.column, 60 + LAYER_HEIGHT * (layers - 1 - crate.layer))
        for crate in architecture.crates.values()
    }
    for crate in architecture.crates.values():
        left, top = places[crate.name]
        for other in architecture.drawn(crate):
            to_left, to_top = places[other]
            line(body, (left + BOX_WIDTH / 2, top + BOX_HEIGHT), (to_left + BOX_WIDTH / 2, to_top))
    for crate in architecture.crates.values():
        left, top = places[crate.name]
        rectangle(body, (left, top), (BOX_WIDTH, BOX_HEIGHT), "wall" if crate.system else "box")
        text(body, left + 8, top + 18, crate.name, "name")
        for number, words in enumerate(textwrap.wrap(crate.does, 27)):
            text(body, left + 8, top + 34 + 14 * number, words, "small")
    return 60 + LAYER_HEIGHT * layers - LAYER_HEIGHT + BOX_HEIGHT


def path_panel(path: Flow, top: int, body: list[str]) -> int:
    """Draw one path as a row of steps, broken where the page ends; where the panel ends."""
    text(body, MARGIN, top + 42, path.title, "title")
    in_row = (WIDTH - 2 * MARGIN + STEP_GAP) // (STEP_WIDTH + STEP_GAP)
    top += 54
    for number, step in enumerate(path.steps):
        row, column = divmod(number, in_row)
        left, y = MARGIN + column * (STEP_WIDTH + STEP_GAP), top + row * (STEP_HEIGHT + STEP_GAP)
        rectangle(body, (left, y), (STEP_WIDTH, STEP_HEIGHT), "box")
        for row_of_text, words in enumerate(textwrap.wrap(step.does, 17)):
            text(body, left + 7, y + 17 + 14 * row_of_text, words, "name")
        text(body, left + 7, y + STEP_HEIGHT - 9, step.place, "mono")
        if column:
            line(body, (left - STEP_GAP, y + STEP_HEIGHT / 2), (left - 2, y + STEP_HEIGHT / 2))
        elif number:
            line(body, (left + 12, y - STEP_GAP), (left + 12, y - 2))
    rows = -(-len(path.steps) // in_row)
    return top + rows * (STEP_HEIGHT + STEP_GAP) - STEP_GAP


def text(body: list[str], x: float, y: float, words: str, kind: str) -> None:
    """Add a line of text."""
    body.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{html.escape(words)}</text>')


def rectangle(body: list[str], at: tuple[float, float], size: tuple[float, float], kind: str) -> None:
    """Add a box."""
    body.append(f'<rect class="{kind}" x="{at[0]:g}" y="{at[1]:g}" width="{size[0]:g}" height="{size[1]:g}" rx="5"/>')


def line(body: list[str], start: tuple[float, float], end: tuple[float, float]) -> None:
    """Add an arrow."""
    body.append(f'<path class="line" d="M{start[0]:g} {start[1]:g} {end[0]:g} {end[1]:g}" marker-end="url(#to)"/>')


def main() -> int:
    """Draw, or check."""
    parser = argparse.ArgumentParser(description="Draw docs/images/architecture.svg from docs/architecture.toml.")
    parser.add_argument("--check", action="store_true", help="compare with the code instead; draw nothing")
    architecture = Architecture.load()
    if not parser.parse_args().check:
        PICTURE.write_text(draw(architecture), encoding="utf-8")
        return 0
    found = [*findings(architecture, linked()), *circles(ROOT / "crates")]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

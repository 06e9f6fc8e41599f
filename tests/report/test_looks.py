# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of looks: read alike everywhere, and told apart by every eye, on light and dark grounds."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from test_report_claims import synthetic

from conftest import ROOT, tool
from perigee.cc.catalog import algorithms
from perigee.groups.looks import Look, Row, look, name_of, number_of, other, style_sheet, table
from perigee.report.context import Context
from perigee.report.svg import VARIABLES
from synthetic import SyntheticEngine

Array = npt.NDArray[np.float64]

LINES_APART = 0.09
"""Distance in OKLab of two lines or points that only colour tells apart, at the least; an eye just sees 0.02."""
NEVER_ALIKE = 0.08
"""Least distance of any two algorithms for an eye that sees all colours."""
OTHERS_APART = 0.06
"""Least distance of what is no algorithm from any algorithm, for such an eye."""
CONTRAST = {"light": 3.0, "dark": 4.5}
"""Contrast of a colour with its ground at the least (WCAG 2.2, 1.4.11), on a dark one as of text."""

EYES = {
    "all colours": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""Linear sRGB as eyes see it: Machado, Oliveira and Fernandes (2009), severity 1."""


def linear(colour: str) -> Array:
    """Return the linear sRGB of a colour."""
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def perceived(rgb: Array) -> Array:
    """Return a colour of linear sRGB in OKLab (Ottosson 2020), where distances are as seen."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    opponents = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.asarray(opponents @ np.cbrt(cones @ np.clip(rgb, 0, 1)), dtype=np.float64)


def distance(one: Row, two: Row, eyes: Sequence[str] = tuple(EYES)) -> float:
    """Return how far apart two colours are for the eye and on the ground that tell them apart worst."""
    return min(
        float(np.linalg.norm(perceived(EYES[eye] @ linear(a)) - perceived(EYES[eye] @ linear(b))))
        for a, b in ((one.light, two.light), (one.dark, two.dark))
        for eye in eyes
    )


def luminance(colour: str) -> float:
    return float(linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))


def alike(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the pairs of rows that some eye cannot tell apart, as lines or as points."""
    for one, two in itertools.combinations(rows, 2):
        if distance(one, two) < LINES_APART:
            for part in ("dash", "marker"):
                if getattr(one, part) == getattr(two, part):
                    yield f"{one.name or one.light}, {two.name or two.light}: the same {part}"


def test_every_algorithm_has_a_row_and_a_name_for_people() -> None:
    found = table()
    assert {row.key for row in found.rows[: found.own]} == {one.name for one in algorithms()}
    assert len({row.name for row in found.rows[: found.own]}) == found.own
    assert all(row.name != row.key for row in found.rows[: found.own])
    assert name_of("cubic") == "Cubic"


def test_algorithms_are_told_apart_as_lines_and_as_points_by_every_eye() -> None:
    found = table()
    rows = found.rows[: found.own]
    assert list(alike(rows)) == []
    assert list(alike([*rows, found.rows[found.own]])) == []
    close = [
        f"{one.name}, {two.name}"
        for one, two in itertools.combinations(rows, 2)
        if distance(one, two, ["all colours"]) < NEVER_ALIKE
    ]
    assert close == []
    # The bound is one that colours can fail.
    assert list(alike([rows[0], Row("#0a76b6", "#4aa8e0", "solid", "circle", name="another blue")])) != []


def test_what_is_no_algorithm_has_no_algorithms_colour_and_is_told_apart_too() -> None:
    found = table()
    others = found.rows[found.first_other :]
    assert list(alike(others)) == []
    named = found.rows[: found.first_other]
    near = [
        (one.light, two.light) for one in others for two in named if distance(one, two, ["all colours"]) < OTHERS_APART
    ]
    assert near == []


def test_colours_stand_out_from_their_ground() -> None:
    paper = table().inks["paper"]
    for row in table().rows:
        for ground, least in CONTRAST.items():
            high, low = sorted((luminance(getattr(row, ground)), luminance(paper[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= least, (row, ground)


def test_variants_of_an_algorithm_keep_its_colour_and_authors_algorithms_share_one() -> None:
    variants = [look(number_of("cubic"), again) for again in range(5)]
    assert len({(one.dash, one.marker, one.hatch) for one in variants}) == 5
    assert {one.color for one in variants} == {look(number_of("cubic")).color}
    assert number_of("mine") == number_of("yours") == table().own
    assert look(10_000) in [other(place) for place in range(200)]


def test_groups_have_the_names_and_looks_of_their_algorithms_in_whatever_order_a_study_has_them(tmp_path: Path) -> None:
    for first in ("bbr", "vivace"):
        context = Context(synthetic(tmp_path / first, SyntheticEngine(1), f'order = ["{first}"]\n'))
        assert context.groups[0].cc == first
        assert {group.look for group in context.groups} == {look(number_of(group.cc)) for group in context.groups}
        assert [group.label for group in context.groups] == [name_of(group.cc) for group in context.groups]
        (hue,) = context.factors(context.groups)
        assert context.looks(hue) == {group.label: group.look for group in context.groups}


def test_style_sheet_module_and_reports_are_as_the_table_has_them() -> None:
    assert tool("looks").main(["--check"]) == 0
    light, dark = (
        dict(re.findall(r"--(c\d+): (#\w+);", part))
        for part in style_sheet().split("@media screen and (prefers-color-scheme: dark)")
    )
    for number, row in enumerate(table().rows):
        assert (light[f"c{number}"], dark[f"c{number}"]) == (row.light, row.dark)
        assert light[VARIABLES[row.light].removeprefix("--")] == row.light


def test_the_page_calls_and_draws_algorithms_as_python_does() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("skipped: no Node, which reads the page's module")
    keys = [*(one.name for one in algorithms()), "mine"]
    script = f"""
        import * as looks from {json.dumps((ROOT / "web/src/looks.js").as_uri())};
        const keys = {json.dumps(keys)};
        console.log(JSON.stringify({{
          names: keys.map(looks.nameOf),
          looks: [...keys.map((key) => looks.numberOf(key)), looks.otherOf(0), looks.otherOf(9)]
            .map((number) => looks.lookOf(number)),
          again: looks.lookOf(looks.numberOf("cubic"), false, 1),
        }}));
    """
    done = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    page = json.loads(done.stdout)
    assert page["names"] == [name_of(key) for key in keys]
    here = [*(look(number_of(key)) for key in keys), other(0), other(9)]
    assert [said(one["colour"], one["dash"]) for one in page["looks"]] == [of(one) for one in here]
    assert said(page["again"]["colour"], page["again"]["dash"]) == of(look(number_of("cubic"), 1))


def said(colour: str, dash: Sequence[float]) -> tuple[str, tuple[float, ...]]:
    return colour, tuple(dash)


def of(one: Look) -> tuple[str, tuple[float, ...]]:
    return said(one.color, () if one.dash == "-" else one.dash[1])


@pytest.mark.parametrize("sheet", ["python/perigee/report/page.css", "web/page.css"])
def test_style_sheets_have_no_colour_and_no_size_of_letters_of_their_own(sheet: str) -> None:
    text = (ROOT / sheet).read_text(encoding="utf-8")
    screen = re.sub(r"@media print \{.*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL), flags=re.DOTALL)
    assert re.findall(r"#[0-9a-f]{3,8}\b|\brgba?\(", screen) == []
    assert re.findall(r"font(?:-size)?:\s*[\d.]+(?:rem|px)", screen) == []
    known = set(re.findall(r"(--[\w-]+):", style_sheet() + text))
    assert set(re.findall(r"var\((--[\w-]+)", text)) - known - {"--shade", "--first"} == set(), (
        "of no sheet and no script"
    )

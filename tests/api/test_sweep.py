# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Designs fill their ranges as their authors define, and a sweep runs their points."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perigee as package
from conftest import SMALL_STUDY, Perigee
from perigee.api.designs import Axis, read_axis, settings_of
from perigee.errors import InputError

AXES = [read_axis("links.l.delay=0..100 ms"), read_axis("links.l.loss=log 0.01 %..1 %"), read_axis("flow.cc=cubic,bbr")]


def points(axes: list[Axis], design: str, count: int, seed: int = 1) -> list[dict[str, Any]]:
    (setting,) = settings_of(axes, design, count, seed)
    key, _, text = setting.partition("=")
    assert key == "vary.linked"
    return list(tomllib.loads(f"value = {text}")["value"])


def numbers(found: list[dict[str, Any]], key: str) -> list[float]:
    return [float(point[key].split()[0]) for point in found]


def test_a_latin_hypercube_has_one_point_in_each_part_of_each_range() -> None:
    found = points(AXES, "lhs", 20)
    assert sorted(int(delay / 5) for delay in numbers(found, "links.l.delay")) == list(range(20))
    # Two decades in twenty parts of equal ratios.
    ratios = [loss / 0.01 for loss in numbers(found, "links.l.loss")]
    assert all(sum(100 ** (n / 20) <= ratio < 100 ** ((n + 1) / 20) for ratio in ratios) == 1 for n in range(20))
    assert [point["flow.cc"] for point in found].count("cubic") == 10


def test_sobol_s_points_fill_all_equal_boxes_alike() -> None:
    found = points([AXES[0], read_axis("links.l.queue=0..1 MB")], "sobol", 64)
    boxes = {
        (int(delay / 12.5), int(queue * 8))
        for delay, queue in zip(numbers(found, "links.l.delay"), numbers(found, "links.l.queue"), strict=True)
    }
    assert boxes == set(itertools.product(range(8), range(8)))


def test_whole_numbers_of_a_design_have_equal_parts_of_its_points() -> None:
    for design, count, axis, parts in (
        ("lhs", 300, "flow.count=1..3", {1: 100, 2: 100, 3: 100}),
        ("sobol", 256, "flow.count=1..4", {1: 64, 2: 64, 3: 64, 4: 64}),
        ("lhs", 400, "flow.count=-1..2", {-1: 100, 0: 100, 1: 100, 2: 100}),
        # Between the half numbers: 1 from 0.5 to 1.5, 13 from 12.5 to 13.5.
        ("lhs", 1000, "flow.count=log 1..13", None),
    ):
        found = Counter(point["flow.count"] for point in points([read_axis(axis)], design, count))
        if parts is not None:
            assert found == parts, (design, axis)
            continue
        for number in range(1, 14):
            share = math.log((number + 0.5) / (number - 0.5)) / math.log(13.5 / 0.5)
            assert abs(found[number] - count * share) <= 1.5, number


def test_the_seed_of_a_design_determines_its_points() -> None:
    for design in ("lhs", "sobol"):
        assert points(AXES, design, 8, 3) == points(AXES, design, 8, 3) != points(AXES, design, 8, 4)


def test_a_grid_has_its_levels_at_equal_distances_or_ratios() -> None:
    assert settings_of(
        [read_axis("links.l.loss=log 0.01 %..1 %:3"), read_axis("hosts.initial_window=1..10:4")], "grid", None
    ) == [
        "vary.links.l.loss=0.01 %,0.1 %,1 %",
        "vary.hosts.initial_window=1,4,7,10",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("links.l.loss", "the key or its values are missing"),
        ("links.l.loss=1 ms..2 %", "two units"),
        ("links.l.loss=log 0 %..2 %", "begins above 0"),
        ("links.l.loss=2 %..2 %", "the range is empty"),
        ("links.l.loss=0 %..2 %:1", "divided into 2 to"),
        ("links.l.loss=a..b", "not a range"),
    ],
)
def test_a_malformed_range_is_refused_with_the_fix(given: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_axis(given)


def test_an_impossible_design_is_refused() -> None:
    for axes, design, count, message in (
        (AXES, "sobol", None, "give --points 64"),
        (AXES, "sobol", 100, "give 64 or 128"),
        (AXES, "grid", 8, "a grid has every combination"),
        (AXES, "grid", None, "a grid needs the number of values"),
        ([AXES[0], AXES[0]], "lhs", 4, "given twice"),
        (AXES, "random", 4, "the designs are: grid, lhs, sobol"),
        ([read_axis("flow.count=1..2:4")], "grid", None, r"of 4 values .* write flow.count=1.0..2.0:4 for fractions"),
        ([read_axis("flow.x=1.0..1.000001:4")], "grid", None, "of 4 values .* to 6 digits; write fewer values"),
    ):
        with pytest.raises(InputError, match=message):
            settings_of(axes, design, count)


def test_a_sweep_s_points_are_columns_of_its_results(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL_STUDY)
    given = ("sweep", "small.toml", "--over", "links.l.delay=1..9 ms", "--over", "flow.cc=cubic,bbr")
    done = perigee(*given, "--design", "sobol", "--points", "8")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "results/small-sweep\n"
    with package.load(tmp_path / "results/small-sweep") as results:
        flows = results.flows.sort("run")
        drawn = points([read_axis("links.l.delay=1..9 ms"), AXES[2]], "sobol", 8)
        assert flows["point.cc"].to_list() == [point["flow.cc"] for point in drawn]
        assert flows["point.delay"].to_list() == pytest.approx(numbers(drawn, "links.l.delay"))
    shown = perigee(*given, "--design", "lhs", "--points", "3", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert perigee("report", "results/small-sweep").returncode == 0


def test_a_mistake_in_a_key_or_value_is_said_of_the_option_that_has_it(perigee: Perigee) -> None:
    for over, said in (
        ("links.satellite.down.los=0..1 %:3", "did you mean `loss`?"),
        ("links.satellite.down.loss=-1..1 %:3", "is negative"),
        ("satellite.down.loss=0..1 %:3", "did you mean `links.satellite.down.loss`?"),
    ):
        refused = perigee("sweep", "claypool-2021", "--over", over, "--dry-run")
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"error: --over {over.split('=')[0]}=")
        assert said in refused.stderr

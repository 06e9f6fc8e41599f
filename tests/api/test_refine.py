# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A refined sweep puts its points where the response changes most, and its results are those of a sweep over them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perigee as package
from conftest import SMALL_STUDY, Perigee
from perigee.api.designs import read_axis, settings_of
from perigee.api.refined_sweep import carry_out
from perigee.api.refinement import PARTS, Means, Node, Refinement, Rule
from perigee.engines.run import runner
from perigee.engines.run.job import Job
from perigee.engines.run.runner import Done
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError, InterruptedRunError
from perigee.files import sha256_of
from perigee.places import find_study
from perigee.store.folder import ResultsFolder

STUDY = (
    SMALL_STUDY.replace('"10 kB"', '"1 MB"')
    + 'cc = "cubic"\n[measure]\npcap = true\n[vary]\n"flow.cc" = ["cubic", "bbr"]\n'
)
"""A short transfer by two algorithms, whose captures are kept."""
OVER = "links.l.loss=log 0.01 %..10 %:4"

Watch = Callable[..., None]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


def points(over: list[str], rule: str, response: Callable[..., float | None]) -> tuple[Refinement, dict[Node, Means]]:
    """The points that a response of the values asks for, and the means there."""
    refinement = Refinement([read_axis(text) for text in over], Rule.read(rule))
    means: dict[Node, Means] = {}
    nodes = refinement.grid
    while nodes:
        assert not set(nodes) & means.keys()
        for node in nodes:
            values = [float(str(value).split()[0]) for value in refinement.values(node).values()]
            means[node] = {"flow f": response(*values)}
        nodes = refinement.advance(means)
    return refinement, means


def values(refinement: Refinement, means: dict[Node, Means]) -> list[float]:
    (key,) = (axis.key for axis in refinement.axes)
    return sorted(float(str(refinement.values(node)[key]).split()[0]) for node in means)


def refined(study: Path, out: Path, *, workers: int = 2, watch: Watch = lambda *_: None, points: int = 8) -> Done:
    refinement = Refinement([read_axis(OVER)], Rule(points))

    def watched(done: float, total: int, /, outlook: tuple[str, float | None] | None = None) -> None:
        watch(done, total, outlook)

    job = Job(find_study(str(study)), Simulator, ("rounds=2",), out=out, workers=workers)
    return carry_out(job, refinement, watched, lambda _text: None)


def sums(folder: Path) -> dict[str, str]:
    files = [*folder.glob("*.parquet"), *folder.glob("study/*"), *folder.glob("captures/*")]
    return {str(path.relative_to(folder)): sha256_of(path) for path in files}


def test_a_step_is_found_to_the_shortest_interval_with_few_points() -> None:
    refinement, means = points(["x=0.0..256.0:5"], "30", lambda x: float(x > 79.3))
    found = values(refinement, means)
    assert len(found) == 5 + 6, "one interval is bisected six times"
    assert {79.0, 80.0} < set(found), "64 parts of 64"
    assert refinement.end == "no interval with a larger change can be bisected further"
    (line,) = refinement.steepest(means)
    assert "x from 79.0 to 80.0: goodput_mbps from 0 to 1" in line
    assert "100% of its range (1/64 of an interval of the first grid, as short as it gets)" in line


def test_a_straight_line_gets_equal_intervals_and_no_change_no_points() -> None:
    _, means = points(["x=0.0..4.0:3"], "17", lambda x: 3 * x)
    assert sorted(means) == [(place * PARTS // 8,) for place in range(17)]
    refinement, means = points(["x=0.0..4.0:3"], "17", lambda _x: 3.0)
    assert (len(means), refinement.end) == (3, "no change between neighbours is above 1 % of the range")


def test_changes_below_the_share_get_no_points() -> None:
    refinement, means = points(["x=0.0..4.0:5"], "goodput_mbps 1000 10 %", lambda x: x)
    assert len(means) == 17, "quarters of an interval change by 1/16, halves by 1/8"
    assert refinement.end == "no change between neighbours is above 10 % of the range"


def test_whole_numbers_are_bisected_down_to_neighbours() -> None:
    refinement, means = points(["x=1..100:3"], "50", lambda x: float(x > 34))
    found = values(refinement, means)
    assert found == sorted(set(found))
    assert {34, 35} <= set(found)
    assert len(found) <= 3 + 6
    _, means = points(["x=1..9:3"], "50", lambda x: x)
    assert len(means) == 9


def test_where_values_end_the_response_changes_most() -> None:
    refinement, means = points(["x=0.0..256.0:5"], "14", lambda x: x if x < 172.8 else None)
    found = values(refinement, means)
    assert {172.0, 173.0} < set(found)
    assert "to no value (1/64" in refinement.steepest(means)[0]


def test_two_ranges_are_bisected_across_the_one_that_matters() -> None:
    refinement, means = points(["x=0.0..4.0:3", "y=0.0..4.0:3"], "60", lambda x, _y: float(x > 1.3))
    assert {node[1] for node in means} == {0, PARTS, 2 * PARTS}
    assert len(means) == 9 + 3 * 6
    assert refinement.steepest(means)[0].startswith("x from 1.28125 to 1.3125, y = ")
    _, means = points(["x=0.0..4.0:3", "y=0.0..4.0:3"], "80", lambda x, y: float(x + y > 3.3))
    assert 79 <= len(means) <= 80
    assert sum(2.5 < (x + y) / 32 < 4 for x, y in means) > len(means) / 2, "most points are at the step"


def test_results_are_those_of_a_sweep_over_the_points_from_any_number_of_workers(small: Path, tmp_path: Path) -> None:
    done = refined(small, tmp_path / "one", workers=1)
    assert (done.runs, done.resumed) == (8 * 2 * 2, 0)
    refined(small, tmp_path / "two", workers=2)
    assert sums(tmp_path / "one") == sums(tmp_path / "two")
    settings = json.loads((tmp_path / "one/manifest.json").read_text())["settings"]
    assert settings[0] == "rounds=2"
    plain = Job(find_study(str(small)), Simulator, settings, out=tmp_path / "plain", workers=1)
    runner.carry_out(plain)
    assert sums(tmp_path / "one") == sums(tmp_path / "plain")
    assert len(list((tmp_path / "one/captures").iterdir())) == 64
    assert not (tmp_path / "one/stages").exists()
    # Either command finds them complete, another refinement does not.
    assert refined(small, tmp_path / "one").resumed == 32
    assert runner.carry_out(Job(plain.study, plain.engine, settings, out=tmp_path / "one")).resumed == 32
    with pytest.raises(InputError, match="holds other results"):
        refined(small, tmp_path / "one", points=9)


def test_an_interrupted_sweep_resumes_in_any_stage(small: Path, tmp_path: Path) -> None:
    refined(small, tmp_path / "at-once")
    said: list[str] = []
    stop_after = [3, 17, 22]

    def stop(done: float, _total: int, outlook: tuple[str, float | None] | None) -> None:
        if outlook:
            said.append(outlook[0])
            if done > stop_after[0]:
                raise KeyboardInterrupt

    kept = 0
    while stop_after:
        with pytest.raises(InterruptedRunError, match=r"stopped in stage \d: \d+ runs of up to 32 are kept in"):
            refined(small, tmp_path / "out", workers=1, watch=stop)
        with pytest.raises(InputError, match="holds other results"):
            refined(small, tmp_path / "out", points=9)
        now = sum(len(ResultsFolder(path).shards()) for path in (tmp_path / "out/stages").iterdir())
        assert now > kept
        kept = now
        del stop_after[0]
    assert refined(small, tmp_path / "out").resumed >= kept
    assert sums(tmp_path / "out") == sums(tmp_path / "at-once")
    assert said[0] == "stage 1, 4 of up to 8 points"
    assert said[-1].startswith("stage 2, ") or said[-1].startswith("stage 3, ")


def test_a_refined_sweep_is_an_ordinary_folder_of_results(perigee: Perigee, small: Path, tmp_path: Path) -> None:
    given = ("sweep", small, "--over", OVER, "--refine", "rtt_mean_ms 7", "--out", "out")
    listed = perigee(*given, "--dry-run")
    assert listed.returncode == 0, listed.stderr
    assert "this is the first stage; up to 3 more points follow where rtt_mean_ms changes most" in listed.stderr
    assert "8 runs: 8 points in 1 round" in listed.stderr
    done = perigee(*given)
    assert (done.returncode, done.stdout) == (0, "out\n"), done.stderr
    assert "7 points in " in done.stderr
    assert "steepest: links.l.loss from " in done.stderr
    assert "14 runs; next: perigee report out" in done.stderr
    with package.load(tmp_path / "out") as results:
        flows = results.flows
        losses = flows.filter(pl.col("point.cc") == "bbr")["point.loss"].to_list()
        assert losses == sorted(set(losses))
        assert {0.01, 0.1, 1.0, 10.0} < set(losses)
    assert perigee("report", "out").returncode == 0
    assert "all 14 runs are there already" in perigee(*given).stderr
    assert "14 runs; next" in perigee(*given, "--fresh").stderr


def test_impossible_refinements_are_refused(perigee: Perigee, small: Path, tmp_path: Path) -> None:
    for over, option, message in (
        (["x=1.0..2.0:4"], "4", "the first grid has 4 points, which leaves none to refine"),
        (["flow.cc=cubic,bbr"], "8", "let the study vary it: --set vary.flow.cc=cubic,bbr"),
        (["x=1..2:2", "y=1..2:2", "z=1..2:2"], "20", "3 ranges; give one or two"),
        (["x=1..2:2", "x=1..2:2"], "20", "--over x: given twice"),
        (["x=1..2"], "20", "a grid needs the number of values"),
        (["x=1.0..2.0:4"], "100001", "a study has at most 100000"),
        (["x=1.0..2.0:4"], "8 0 %", "the share must lie between"),
        (["x=1.0..2.0:4"], "many", "no number of points"),
        (["x=1.0..2.0:4"], "rtt_men_ms 8", "did you mean `rtt_mean_ms`?"),
    ):
        with pytest.raises(InputError) as refused:
            Refinement([read_axis(text) for text in over], Rule.read(option))
        assert message in str(refused.value)
    for more, message in (
        (("--shard", "1/2"), "leave out --shard"),
        (("--design", "lhs"), "leave out --design lhs"),
        (("--points", "8"), "leave out --points"),
        (("--set", "rounds=70000"), "a study has at most 1000000 runs and 100000 points"),
    ):
        done = perigee("sweep", small, "--over", OVER, "--refine", "8", *more)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_the_grid_has_the_values_of_a_plain_one() -> None:
    axes = [read_axis(OVER)]
    assert Refinement(axes, Rule(9)).settings(Refinement(axes, Rule(9)).grid) == settings_of(axes, "grid", None)


def test_a_stage_that_leads_elsewhere_is_refused(small: Path, tmp_path: Path) -> None:
    def stop(done: float, *_: object) -> None:
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        refined(small, tmp_path / "out", workers=1, watch=stop)
    elsewhere = (tmp_path / "out/stages/000").rename(tmp_path / "elsewhere")
    (tmp_path / "out/stages/000").symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(InputError, match="stages/000: is a symbolic link"):
        refined(small, tmp_path / "out")
    assert sorted(elsewhere.rglob("*")) == before

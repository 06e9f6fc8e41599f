# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs with equal settings and seeds are simulated once, and the results are those of each run simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import SMALL_STUDY
from perigee.engines.plan.contract import Output
from perigee.engines.run.equal import EqualRuns
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import StudyFile, find_study

ROUNDS, POINTS = 4, 6
EXPERIMENTS = """
[[experiments]]
name = "algorithms"
set = { "links.l.loss" = "0 %" }
vary = { "flow.cc" = ["reno", "cubic", "bbr"] }

[[experiments]]
name = "losses"
set = { "flow.cc" = "cubic" }
vary = { "links.l.loss" = ["0 %", "1 %"] }

[[experiments]]
name = "again"
set = { "flow.cc" = "cubic", "links.l.loss" = "1 %" }

[measure]
series = "5 ms"
"""
EQUAL = {3: 1, 5: 4}
"""Points that equal an earlier one."""


@pytest.fixture
def small(tmp_path: Path) -> StudyFile:
    path = tmp_path / "small.toml"
    path.write_text(f"rounds = {ROUNDS}\n{SMALL_STUDY}{EXPERIMENTS}")
    return find_study(str(path))


def files(folder: Path) -> dict[str, bytes]:
    found = [*folder.glob("*.parquet"), *folder.glob("captures/*")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(found)}


@pytest.mark.parametrize("together", [1, 4096])
@pytest.mark.parametrize("settings", [[], ["measure.pcap=true"]])
def test_the_results_are_those_of_each_run_simulated(
    small: StudyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int, settings: list[str]
) -> None:
    job = Job(small, Simulator, settings, out=tmp_path / "once", workers=2)
    job.plan.most_together = together
    assert carry_out(job).runs == ROUNDS * POINTS
    monkeypatch.setattr(Simulator, "is_repeatable", False)
    carry_out(Job(small, Simulator, settings, out=tmp_path / "each", workers=2))
    assert files(tmp_path / "once") == files(tmp_path / "each") != {}


def test_each_is_simulated_once_and_all_are_counted(
    small: StudyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[int] = []
    execute = Simulator.execute

    def noted(plan: Simulator, index: int, *further: object) -> Output | None:
        simulated.append(index)
        return execute(plan, index, *further)  # type: ignore[arg-type]

    monkeypatch.setattr(Simulator, "execute", noted)
    seen: list[float] = []
    job = Job(small, Simulator, out=tmp_path / "out", workers=1)
    job.plan.most_together = 1
    carry_out(job, lambda done, _total, outlook=None: seen.append(done))
    assert sorted(simulated) == [run for run in range(ROUNDS * POINTS) if run % POINTS not in EQUAL]
    assert seen == sorted(seen)
    assert seen[-1] == ROUNDS * POINTS


def test_runs_with_seeds_of_their_own_are_all_simulated(small: StudyFile) -> None:
    all_runs = list(range(ROUNDS * POINTS))
    assert EqualRuns(Simulator(small, [], reduced=False), all_runs).carried_out != all_runs
    small.path.write_text(f'independent = ["links.l.loss"]\n{small.text}')
    assert EqualRuns(Simulator(find_study(str(small.path)), [], reduced=False), all_runs).carried_out == all_runs


def test_missing_runs_are_made_from_one_of_them(small: StudyFile, tmp_path: Path) -> None:
    carry_out(Job(small, Simulator, out=tmp_path / "whole", workers=1))
    kept = [0, 1, POINTS + 3]
    with Job(small, Simulator, out=tmp_path / "part", workers=1) as job, job.folder.open(job.identity(), job.files):
        for run in kept:
            output = job.plan.execute(run, lambda *_: True, job.folder.captures)
            assert output is not None
            job.folder.keep(run, output.tables, {})
    assert carry_out(Job(small, Simulator, out=tmp_path / "part", workers=1)).resumed == len(kept)
    assert files(tmp_path / "part") == files(tmp_path / "whole")

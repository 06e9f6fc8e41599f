# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee run --verify` carries a study fast and plain, and finds the first cell that differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from conftest import SMALL_STUDY, Perigee
from perigee.commands import run
from perigee.core import native
from perigee.engines.plan.native import NativePlan, native_plan
from perigee.engines.run.job import Job
from perigee.engines.sim.engine import Simulator
from perigee.engines.sim.verify import verify
from perigee.errors import RunError
from perigee.places import StudyFile, find_study
from perigee.store.streams import stream_of


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(f'rounds = 3\n{SMALL_STUDY}[vary]\n"flow.cc" = ["reno", "cubic"]\n')
    return path


def test_a_study_that_is_the_same_both_ways_is_said_to_be_identical_and_nothing_is_kept(
    perigee: Perigee, small: Path, tmp_path: Path
) -> None:
    done = perigee("run", small, "--verify", "--set", "measure.pcap=true")
    assert (done.returncode, done.stderr.count("error")) == (0, 0), done.stderr
    runs, rest = done.stdout.split(", ", 1)
    assert runs == "6 runs"
    assert rest.endswith("12 captures: identical\n")
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_fast_results_are_kept_where_a_folder_is_given(perigee: Perigee, small: Path, tmp_path: Path) -> None:
    assert perigee("run", small, "--verify", "--out", "fast").returncode == 0
    again = perigee("run", small, "--out", "fast")
    assert "all 6 runs are there already" in again.stderr
    assert perigee("run", small, "--plain", "--out", "plain").returncode == 0
    for table in (tmp_path / "fast").glob("*.parquet"):
        assert table.read_bytes() == (tmp_path / "plain" / table.name).read_bytes(), table.name


def test_the_first_cell_that_differs_is_named_and_the_command_fails(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = NativePlan.execute

    def changed(self: NativePlan, index: int, *more: object) -> object:
        output = execute(self, index, *more)  # type: ignore[arg-type]
        assert output is not None
        if index == 4 and self._core.is_plain:
            flows = output.table("flows").with_columns(received_bytes=pl.lit(9999, pl.UInt64))
            return type(output)({**output.tables, "flows": stream_of(flows)})
        return output

    monkeypatch.setattr(NativePlan, "execute", changed)
    job = Job(find_study(str(small)), Simulator, out=tmp_path / "out", workers=1)
    found = verify(job, lambda _way: lambda *_, outlook=None: None, print)
    assert str(found.difference) == "table flows, run 4, flow f, column received_bytes: 10000 and 9999"
    with pytest.raises(RunError, match="fast and plain differ: table flows, run 4, flow f"):
        run._verify(job)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "emu"), "--verify: only the simulator has two ways to carry packets"),
        (("--shard", "1/2"), "--verify: a shard has no tables"),
        (("--plain",), "leave out --plain"),
    ],
)
def test_what_cannot_be_compared_is_refused(perigee: Perigee, small: Path, options: tuple[str, ...], said: str) -> None:
    done = perigee("run", small, "--verify", *options)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_a_study_that_is_plain_itself_is_compared_with_fast_runs(small: Path) -> None:
    small.write_text('carriage = "plain"\n' + small.read_text())
    study = find_study(str(small))
    assert native_plan(study, (), False).is_plain
    ways: list[bool] = []

    def watched(study: StudyFile, settings: Sequence[str], reduced: bool) -> Simulator:
        plan = Simulator(study, settings, reduced)
        ways.append(plan._core.is_plain)
        return plan

    found = verify(Job(study, watched), lambda _way: lambda *_, outlook=None: None, print)
    assert (found.difference, ways) == (None, [False, True])


def test_plain_runs_are_done_one_by_one(small: Path) -> None:
    study = find_study(str(small))
    fast, plain = (native_plan(study, settings, False) for settings in ((), ("carriage=plain",)))
    assert isinstance(fast, native.Plan)
    assert fast.run_several(range(6), 60, lambda _: True)[0] == 6
    assert plain.run_several(range(6), 60, lambda _: True)[0] == 0

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Short runs are done and kept many at a time, and give the bytes of runs that are kept one by one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import SMALL_STUDY
from perigee.engines.run.job import Job
from perigee.engines.run.part import Part
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError, RunError
from perigee.places import StudyFile, find_study
from perigee.store import shards
from perigee.store.folder import ResultsFolder
from perigee.store.merging import merge
from perigee.store.shard_names import runs_of, shard_name, shards_in
from perigee.store.shards import ShardReader, write_shard
from perigee.store.streams import Streams, stream_of

ROUNDS = 300
POINTS = 2


@pytest.fixture
def small(tmp_path: Path) -> StudyFile:
    path = tmp_path / "small.toml"
    path.write_text(f"rounds = {ROUNDS}\n{SMALL_STUDY}{VARIED}")
    return find_study(str(path))


VARIED = '[vary]\n"flow.cc" = ["reno", "cubic"]\n[measure]\nseries = "5 ms"\n'


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def one_by_one(study: StudyFile, out: Path) -> Path:
    job = Job(study, Simulator, out=out, workers=2)
    job.plan.most_together = 1
    carry_out(job)
    return out


def parts(study: StudyFile, out: Path, number: int, of: int) -> Path:
    carry_out(Job(study, Simulator, out=out, workers=1, part=Part(number, of)))
    return out


def test_runs_that_were_kept_together_are_the_bytes_of_runs_kept_one_by_one(
    small: StudyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def noted(path: Path, tables: Streams) -> None:
        written.append(path.name)
        write_shard(path, tables)

    single = one_by_one(small, tmp_path / "single")
    monkeypatch.setattr(shards, "write_shard", noted)
    done = carry_out(Job(small, Simulator, out=tmp_path / "together", workers=2))
    assert done.runs == ROUNDS * POINTS
    assert len(written) < ROUNDS, "most runs are in shards with others"
    assert sorted(run for name in written for run in runs_of(name)) == list(range(ROUNDS * POINTS))
    assert tables(tmp_path / "together") == tables(single) != {}


def test_parts_of_a_study_have_every_nth_run_and_merge_into_the_same_bytes(small: StudyFile, tmp_path: Path) -> None:
    single = one_by_one(small, tmp_path / "single")
    folders = [parts(small, tmp_path / f"{number}-of-3", number, 3) for number in (1, 2, 3)]
    held = [runs_of(path.name) for path in (folders[1] / "shards").iterdir()]
    assert any(runs.step == 3 and len(runs) > 10 for runs in held)
    # Runs in other shards are still the same runs.
    again = parts(small, tmp_path / "2-of-6", 2, 6)
    assert tables(merge([*folders, again], tmp_path / "merged").folder) == tables(single)


def test_a_run_that_differs_is_found_within_a_shard_of_many(small: StudyFile, tmp_path: Path) -> None:
    folders = [parts(small, tmp_path / f"{number}-of-2", number, 2) for number in (1, 2)]
    other = parts(small, tmp_path / "4-of-4", 4, 4)
    there = max(shards_in(other / "shards").values(), key=lambda path: len(runs_of(path.name)))
    changed = shards.read_shard(there)
    changed["flows"] = changed["flows"].with_columns(start_s=pl.lit(1.5))
    write_shard(there, {name: stream_of(table) for name, table in changed.items()})
    first = runs_of(there.name)[0]
    with pytest.raises(InputError, match=rf"run {first} differs from that in .*2-of-2; leave one of the folders out"):
        merge([*folders, other], tmp_path / "merged")


def test_what_is_there_of_an_interrupted_study_is_not_done_again(
    small: StudyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, seen = tmp_path / "out", 0
    keep = ResultsFolder.keep_several

    def full(self: ResultsFolder, runs: range, tables: Streams) -> None:
        nonlocal seen
        seen += len(runs)
        if seen > ROUNDS:
            raise KeyboardInterrupt
        keep(self, runs, tables)

    with monkeypatch.context() as patch:
        patch.setattr(ResultsFolder, "keep_several", full)
        with pytest.raises(Exception, match=r"stopped: \d+ of 600 runs are kept"):
            carry_out(Job(small, Simulator, out=out, workers=1))
    kept = len(shards_in(out / "shards"))
    assert 0 < kept <= ROUNDS
    done = carry_out(Job(small, Simulator, out=out, workers=1))
    assert (done.runs, done.resumed) == (ROUNDS * POINTS, kept)
    assert tables(out) == tables(one_by_one(small, tmp_path / "single"))


def test_a_run_that_fails_is_named_and_those_before_it_are_kept(
    small: StudyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several, execute = Simulator.execute_several, Simulator.execute

    def until_400(self: Simulator, runs: range, *more: object) -> object:
        return several(self, runs[: max(0, 400 - runs[0])], *more) if runs[0] < 400 else (0, {})  # type: ignore[arg-type]

    def fail_at_400(self: Simulator, index: int, *more: object) -> object:
        if index == 400:
            raise RunError("run 400: the queue caught fire")
        return execute(self, index, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Simulator, "execute_several", until_400)
    monkeypatch.setattr(Simulator, "execute", fail_at_400)
    with pytest.raises(RunError, match="run 400"):
        carry_out(Job(small, Simulator, out=tmp_path / "out", workers=1))
    assert set(range(400)) <= shards_in(tmp_path / "out" / "shards").keys()


def test_rows_of_each_run_are_read_out_of_a_shard_of_many(tmp_path: Path) -> None:
    runs = range(1, 30, 7)
    rows = [run for run in runs for _ in range(run % 3)]
    path = tmp_path / shard_name(runs)
    write_shard(path, {"rows": stream_of(pl.DataFrame({"run": rows}, {"run": pl.UInt32}))})
    reader = ShardReader()
    for run in runs:
        assert reader.tables(path, range(run, run + 1))["rows"]["run"].to_list() == [run] * (run % 3)
    assert reader.tables(path, range(1, 16, 7))["rows"]["run"].to_list() == [run for run in rows if run < 16]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results are complete or absent, runs resume, and files of others are never overwritten."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, environment
from perigee.engines.plan.contract import Output, Progress
from perigee.engines.run import crew
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import FaultError, InputError, InterruptedRunError, RunError, StorageError
from perigee.places import StudyFile, find_study
from perigee.store.results import Results
from synthetic import SyntheticEngine, SyntheticPlan


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def job(study: Path, out: Path, engine: SyntheticEngine | None = None, **more: Any) -> Job:
    return Job(find_study(str(study)), engine or SyntheticEngine(3), out=out, **more)


class FailingEngine(SyntheticEngine):
    """Raises the given error in one run."""

    def __init__(self, error: BaseException, at: int = 7) -> None:
        super().__init__(3)
        self._error, self._at = error, at

    def __call__(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> SyntheticPlan:
        """Plan the runs, one of which fails."""
        plan = super().__call__(study, settings, reduced)
        execute, error, at = plan.execute, self._error, self._at

        def fail(index: int, progress: Progress, captures: Path) -> Output | None:
            if index == at:
                raise error
            return execute(index, progress, captures)

        plan.execute = fail  # type: ignore[method-assign]
        return plan


def test_tables_are_the_same_bytes_on_one_worker_and_on_four(study: Path, tmp_path: Path) -> None:
    carry_out(job(study, tmp_path / "one", workers=1))
    carry_out(job(study, tmp_path / "four", workers=4))
    assert tables(tmp_path / "one") == tables(tmp_path / "four") != {}


def test_a_fault_of_the_simulator_costs_its_own_run_only(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fault = FaultError("run 7 (round 1, seed 5): a link lost a packet\n---- small.toml\nrounds = 3\n----")
    with pytest.raises(FaultError) as first:
        carry_out(job(study, out, FailingEngine(fault), workers=2))
    assert str(first.value).splitlines() == [
        "run 7 (round 1, seed 5): a link lost a packet",
        f"1 of 12 runs without results; the others are kept in {out}",
        "---- small.toml", "rounds = 3", "----",
    ]  # fmt: skip
    there = Results(out)
    assert set(there.table("flows")["run"]) == set(range(12)) - {7}
    assert there.manifest["faults"] == {"7": "run 7 (round 1, seed 5): a link lost a packet"}
    with pytest.raises(FaultError, match="run 7"):
        carry_out(job(study, out, workers=2))


def test_a_run_that_fails_is_named_and_the_others_are_kept(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RunError, match="run 7"):
        carry_out(job(study, out, FailingEngine(RunError("run 7 (round 1): the queue caught fire")), workers=1))
    assert len(list((out / "shards").iterdir())) == 7
    done = carry_out(job(study, out))
    assert (done.runs, done.resumed) == (12, 7)
    carry_out(job(study, tmp_path / "at-once"))
    assert tables(out) == tables(tmp_path / "at-once")


def test_an_interrupt_keeps_what_is_done_and_says_how_much(study: Path, tmp_path: Path) -> None:
    def stop(done: float, _total: int, /, outlook: object = None) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="of 12 runs are kept in") as caught:
        carry_out(job(study, tmp_path / "out", SyntheticEngine(3, pause_s=0.05), workers=1), stop)
    assert caught.value.exit_code == 130
    assert carry_out(job(study, tmp_path / "out")).resumed >= 4


def test_an_interrupt_is_not_raised_while_locks_of_the_workers_may_be_held(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_whole: list[bool] = []

    def interrupted(waiting: set[Any], **more: Any) -> Any:
        left_whole.append(False)
        os.kill(os.getpid(), signal.SIGINT)
        done = wait(waiting, **more)
        left_whole[-1] = True
        return done

    monkeypatch.setattr(crew, "wait", interrupted)
    with pytest.raises(InterruptedRunError, match="of 12 runs are kept in"):
        carry_out(job(study, tmp_path / "out", SyntheticEngine(3, pause_s=1.0), workers=2))
    assert left_whole == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    assert carry_out(job(study, tmp_path / "out")).runs == 12


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_leaves_a_folder_that_the_same_command_resumes(
    study: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, str(ROOT / "tests" / "synthetic.py"), "run", str(study), "--out", str(out), "-j", "2"]
    slow = {**environment(), "PAUSE_S": "1"}
    with subprocess.Popen(command, env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while len(list(out.glob("shards/*.shard"))) < 3 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        errors = process.communicate(timeout=300)[1]
    kept = len(list(out.glob("shards/*.shard")))
    assert 3 <= kept < 12
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert f"{kept} of 12 runs are kept" in errors
        assert f"resume with: perigee run {study} --out {out} -j 2" in errors
    again = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert f"12 runs, {kept} of them from before" in again.stderr
    carry_out(job(study, tmp_path / "at-once"))
    assert tables(out) == tables(tmp_path / "at-once")
    assert not list(out.rglob("*.tmp"))
    assert not (out / "shards").exists()


def test_a_full_disk_is_a_clear_error_and_loses_nothing(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real, left = tmp_path / "out", os.fsync, [20]

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="the disk is full; free some space, then give the same command") as caught:
        carry_out(job(study, out, workers=1))
    assert caught.value.exit_code == 1
    monkeypatch.undo()
    kept = len(list((out / "shards").glob("*.shard")))
    assert kept > 0
    assert not list(out.rglob("*.tmp"))
    assert carry_out(job(study, out)).resumed == kept


def test_a_folder_that_is_not_perigees_is_left_alone(study: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter1.tex").write_text("Introduction")
    for fresh in (False, True):
        with pytest.raises(InputError, match=r"is no results folder \(it holds chapter1.tex"):
            carry_out(job(study, foreign, fresh=fresh))
    assert [path.name for path in foreign.iterdir()] == ["chapter1.tex"]


def test_a_file_in_the_place_of_the_folder_is_left_alone(study: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match="is a file, not a folder"):
        carry_out(job(study, tmp_path / "notes"))
    assert (tmp_path / "notes").read_text() == "mine"


def test_results_of_other_settings_are_not_overwritten_unless_asked_to(results: Path, study: Path) -> None:
    before = tables(results)
    with pytest.raises(InputError, match=r'holds other results \(settings none there, \["rounds=2"\] here'):
        carry_out(job(study, results, settings=["rounds=2"]))
    assert tables(results) == before
    assert carry_out(job(study, results, settings=["rounds=2"], fresh=True)).runs == 8
    assert Results(results).table("flows").height == 8


def test_results_of_another_build_are_neither_continued_nor_taken_for_this_ones(results: Path, study: Path) -> None:
    with pytest.raises(InputError, match="another build"):
        carry_out(job(study, results, SyntheticEngine(3, build="another")))


def test_finished_results_are_not_done_again(results: Path, study: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in results.glob("*.parquet")}
    assert carry_out(job(study, results)).resumed == 12
    assert {path: path.stat().st_mtime_ns for path in results.glob("*.parquet")} == before


def test_two_processes_cannot_fill_one_folder(study: Path, tmp_path: Path) -> None:
    tried: list[bool] = []

    def again(_done: float, _total: int, /, outlook: object = None) -> None:
        if not tried:
            tried.append(True)
            with pytest.raises(InputError, match="another perigee is writing there"):
                carry_out(job(study, tmp_path / "out"))

    carry_out(job(study, tmp_path / "out"), again)
    assert tried


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"\xff\x00", "damaged"),
        (b"[]", "is not a manifest of perigee results"),
        (b'{"format": "other"}', "is not a manifest of perigee results"),
        (b'{"format": "perigee-results", "version": 99}', "format version 99, but this perigee reads version 2"),
        (b'{"format": "perigee-results", "version": 2}', "no usable `state`"),
    ],
)
def test_a_damaged_manifest_is_a_clear_error_and_stays_as_it_is(
    results: Path, study: Path, content: bytes, message: str
) -> None:
    (results / "manifest.json").write_bytes(content)
    for attempt in (lambda: Results(results), lambda: carry_out(job(study, results))):
        with pytest.raises(InputError, match=message):
            attempt()
    assert (results / "manifest.json").read_bytes() == content


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_table_is_noticed(results: Path, damage: str) -> None:
    path = results / "flows.parquet"
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[:-10])
    else:
        content[200] ^= 1
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"flows.parquet: (damaged or changed|cannot be read)"):
        Results(results)


def test_a_damaged_shard_is_noticed_and_can_be_redone(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RunError):
        carry_out(job(study, out, FailingEngine(RunError("run 7")), workers=1))
    shard = out / "shards" / "run-000002.shard"
    shard.write_bytes(shard.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"run-000002.shard: damaged; remove this file") as caught:
        carry_out(job(study, out))
    assert not list(out.glob("*.parquet"))
    Path(str(caught.value).split(":")[0]).unlink()
    assert carry_out(job(study, out)).runs == 12


def test_unfinished_results_are_not_reported(study: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError):
        carry_out(job(study, tmp_path / "out", FailingEngine(RunError("run 7")), workers=1))
    with pytest.raises(InputError, match=r"not finished \(7 of 12 runs\)"):
        Results(tmp_path / "out")


def test_tables_are_let_go_with_the_results_that_read_them(results: Path) -> None:
    found = Results(results)
    found.table("flows")
    watched = weakref.ref(found)
    del found
    assert watched() is None, "an evaluation opens hundreds of folders, each as large as memory bears"


def test_the_manifest_says_what_was_run_where_and_with_what(results: Path) -> None:
    manifest = json.loads((results / "manifest.json").read_text())
    assert manifest["format"] == "perigee-results"
    assert manifest["state"] == "complete"
    assert (manifest["rounds"], manifest["first_seed"]) == (3, 1000)
    assert manifest["tables"]["flows"]["rows"] == 12
    assert {"perigee", "python", "polars"} <= manifest["versions"].keys()
    assert {"system", "machine", "cores"} <= manifest["host"].keys()

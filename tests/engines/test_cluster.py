# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A study on a Dask cluster: a scheduler and two workers, of which one is killed, give the bytes of one machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, SMALL_STUDY, Perigee, environment, running
from perigee.engines.cluster.files import files_of
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from study_text import flow, link

pytest.importorskip("distributed", reason="distributed is not installed")

STARTED_S = 300
STUDY = (
    """
name = "cluster"
rounds = 8
nodes = ["a", "b"]
"""
    + link("l", "a b", profile="./mine.toml")
    + flow("f", "a b", size="200 kB")
    + '[vary]\n"flow.cc" = ["reno", "cubic", "bbr"]\n'
)
"""A study with a profile beside it, which workers do not have."""

OWN = ROOT / "tests" / "planted_cc" / "delay_shy.c"
WAIT = """
import sys
from distributed import Client
with Client(sys.argv[1], set_as_default=False) as client:
    client.wait_for_workers(2, timeout=300)
"""
PROGRAM = """
import os, signal, sys
from functools import partial
from pathlib import Path
from distributed import Client
from perigee.engines.cluster.engine import ClusterSimulator
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.places import find_study

address, study, out, victim = sys.argv[1:]
with Client(address, set_as_default=False) as client:
    client.wait_for_workers(2, timeout=300)
killed = False

def watch(done, total, outlook=None):
    global killed
    if done >= 3 and not killed:
        killed = True
        os.kill(int(victim), signal.SIGKILL)

done = carry_out(Job(find_study(study), partial(ClusterSimulator, address=address), out=Path(out), workers=4), watch)
assert killed
print(done.runs, done.resumed)
"""


@contextlib.contextmanager
def dask(program: str, *arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--no-dashboard", *arguments]
    # A killed worker leaves its temporary folder.
    env = {**environment(), "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error", "TMPDIR": str(cwd)}
    with (
        (cwd / f"{program}.log").open("a") as log,
        running(command, cwd=cwd, env=env, stdout=log, stderr=log) as process,
    ):
        yield process


def written(file: Path, by: subprocess.Popen[str]) -> dict[str, object]:
    """Return the JSON that a process writes into a file, once it is there."""
    until = time.monotonic() + STARTED_S
    while time.monotonic() < until and by.poll() is None:
        with contextlib.suppress(OSError, json.JSONDecodeError):
            found: dict[str, object] = json.loads(file.read_text())
            return found
        time.sleep(0.05)
    raise AssertionError(f"{file.name} was not written; exit code {by.poll()}")


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def test_a_cluster_gives_the_bytes_of_one_machine_though_a_worker_is_killed(tmp_path: Path, perigee: Perigee) -> None:
    own = tmp_path / "own"
    own.mkdir()
    study = own / "study.toml"
    study.write_text(STUDY)
    shutil.copy(ROOT / "profiles/geo.toml", own / "mine.toml")
    carry_out(Job(find_study(str(study)), Simulator, out=tmp_path / "alone", workers=2))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = elsewhere / "scheduler.json"
    common = ("--scheduler-file", str(place))
    worker = (*common, "--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--host", "127.0.0.1")
    with dask("scheduler", *common, "--host", "127.0.0.1", "--port", "0", cwd=elsewhere) as scheduler:
        address = str(written(place, scheduler)["address"])
        none = perigee("run", study, "--cluster", address, "--out", tmp_path / "none")
        assert none.returncode == 2
        assert f"--cluster {address}: the scheduler has no worker; start some with" in none.stderr
        assert not (tmp_path / "none").exists()
        with dask("worker", *worker, cwd=elsewhere), dask("worker", *worker, cwd=elsewhere) as victim:
            command = [sys.executable, "-c", PROGRAM, address, str(study), str(tmp_path / "out"), str(victim.pid)]
            done = subprocess.run(
                command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=500
            )
            assert done.returncode == 0, done.stderr + (elsewhere / "worker.log").read_text()
            assert done.stdout.split() == ["24", "0"]
            assert tables(tmp_path / "out") == tables(tmp_path / "alone") != {}
            again = perigee("run", study, "--cluster", address, "--out", tmp_path / "out")
            assert "all 24 runs are there already" in again.stderr
            asked = perigee("cc", "evaluate", OWN, "--quick", "--criterion", "7.11", "--cluster", address)
            assert (asked.returncode, "delay_shy.c runs on this machine only" in asked.stderr) == (2, True)


@pytest.mark.long
def test_an_evaluation_is_the_same_page_on_two_workers_and_a_cluster(tmp_path: Path, perigee: Perigee) -> None:
    place = tmp_path / "scheduler.json"
    common = ("--scheduler-file", str(place), "--host", "127.0.0.1")
    worker = (*common, "--no-nanny", "--nthreads", "1", "--memory-limit", "0")
    # 7.3 has files beside it, which workers do not have.
    asked = ("cc", "evaluate", "vegas", "--quick", "--criterion", "7.3")
    with dask("scheduler", *common, "--port", "0", cwd=tmp_path) as scheduler:
        address = str(written(place, scheduler)["address"])
        with dask("worker", *worker, cwd=tmp_path), dask("worker", *worker, cwd=tmp_path):
            command = [sys.executable, "-c", WAIT, address]
            subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=STARTED_S)
            made = []
            for name, how in (("2", ("--jobs", "2")), ("c", ("--cluster", address))):
                done = perigee(*asked, *how, "-o", f"{name}.html", "--json", f"{name}.json")
                assert done.returncode == 0, done.stderr
                made.append([(tmp_path / f"{name}.{ending}").read_bytes() for ending in ("html", "json")])
            assert made[0] == made[1]


def test_what_a_study_names_goes_with_it_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "links").mkdir()
    for name in ("links/one.toml", "links/recording.txt", "other.txt", "two.toml"):
        (tmp_path / name).write_text('trace = "recording.txt"' if name == "links/one.toml" else "")
    (tmp_path / "study.toml").write_text(
        'name = "s"\nprofile = "links/one.toml"\nelse = ["geo", "../x", "/etc/hosts"]\n'
    )
    found = files_of(find_study("study.toml"), ["links.l.profile=./two.toml"])
    assert set(found) == {"links/one.toml", "links/recording.txt", "two.toml", "profiles/geo.toml"}


def test_a_cluster_that_is_not_there_or_not_fit_is_named_in_one_line(tmp_path: Path, perigee: Perigee) -> None:
    (tmp_path / "study.toml").write_text(SMALL_STUDY)
    nonsense = perigee("run", "study.toml", "--cluster", "nonsense://here")
    assert nonsense.returncode == 2
    assert "--cluster nonsense://here: no scheduler answers there" in nonsense.stderr
    assert "Traceback" not in nonsense.stderr
    emulated = perigee("run", "study.toml", "--cluster", "tcp://127.0.0.1:1", "--engine", "emu")
    assert (emulated.returncode, os.linesep in emulated.stderr.rstrip()) == (2, False)

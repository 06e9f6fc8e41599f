# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The memory of runs is estimated before they begin, and no more runs begin at once than fit."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from perigee.engines.host.memory import available_bytes
from perigee.engines.run import job as jobs
from perigee.engines.run import runner
from perigee.engines.run.crew import Crew
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.places import find_study
from study_text import flow, link

GIB = 1 << 30


class StopError(Exception):
    """An engine that must not run."""


STUDY = (
    """
name = "room"
time_limit = "2 min"
nodes = ["a", "m", "b"]
[measure]
series = "10 ms"
goodput_bin = "100 ms"
events = true
pcap = true
milestones = { every = "100 kB", upto = "1 MB" }
"""
    + link("near", "a m", rate="50 Mbit/s", delay="1 ms")
    + link("far", "m b", rate="10 Mbit/s", delay="20 ms", queue={"bytes": "50 kB"}, loss="1 %")
    + flow("sized", "a b", size="2 MB")
    + flow("timed", "a b", duration="5 s")
    + flow("pages", "a b", kind="request", request="1 kB", response="20 kB", repeat=5)
    + flow("beats", "a b", kind="ping", interval="100 ms", packet="64 B", repeat=30)
    + flow("packets", "a b", kind="udp", rate="1 Mbit/s", packet="1000 B", duration="3 s")
)
DEAD = (
    """
name = "dead"
time_limit = "720 h"
nodes = ["a", "b"]
"""
    + link("l", "a b", rate="10 Mbit/s", delay="1 ms", loss="100 %")
    + flow("f", "a b", size="10 MB")
    + '[vary]\n"flow.cc" = ["reno", "cubic"]\n'
)


def study(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "invented.toml"
    path.write_text(text)
    return path


def test_a_run_writes_no_more_rows_than_estimated_and_not_far_fewer(tmp_path: Path) -> None:
    job = Job(find_study(str(study(tmp_path, STUDY))), Simulator, out=tmp_path / "out")
    reckoned = {part.name: part for part in job.plan.rooms[0]}
    folder = carry_out(job).folder
    # Flows without a duration are bounded by the time limit.
    loose = {"series": 40, "links": 40, "events": 6, "milestones": 3, "exchanges": 1, "flows": 1}
    for name, most in loose.items():
        rows = pl.read_parquet(folder / f"{name}.parquet").height
        assert rows <= reckoned[name].rows <= most * rows, (name, rows, reckoned[name])
    captured = sum(path.stat().st_size for path in (folder / "captures").iterdir())
    assert captured <= reckoned["captures"].file <= 10 * captured


def test_a_run_that_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "available_bytes", lambda: GIB)
    job = Job(find_study(str(study(tmp_path, DEAD))), Simulator, out=tmp_path / "out")
    said = r"run 0: its results take up to 1.9 GiB of memory \(table links: 5,184,004 rows\), and 1 GiB are free; raise"
    with pytest.raises(InputError, match=said):
        carry_out(job)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("free", "settings", "said"), [
    (3 * GIB, (), "1 run at a time instead of 2: the results of one take up to 1.9 GiB of memory, and 3 GiB are free"),
    (4 * GIB, (), None),
    (GIB, ("measure.series=1 h", "measure.goodput_bin=1 h"), None),
    (1, ("time_limit=1 min",), None),
])  # fmt: skip
def test_fewer_runs_go_at_once_where_not_all_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, settings: tuple[str, ...], said: str | None
) -> None:
    monkeypatch.setattr(jobs, "available_bytes", lambda: free)
    workers: list[int] = []

    class Idle(Crew):
        def __init__(self, plan: object, folder: object, count: int, *_: object) -> None:
            workers.append(count)
            raise StopError

    monkeypatch.setattr(runner, "Crew", Idle)
    heard: list[str] = []
    job = Job(find_study(str(study(tmp_path, DEAD))), Simulator, settings, out=tmp_path / "out", workers=2)
    with pytest.raises(StopError):
        carry_out(job, say=heard.append)
    assert workers == [1 if said else 2]
    assert heard == ([said] if said else [])


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_free_memory_is_the_machines_or_what_its_cgroups_leave(tmp_path: Path) -> None:
    free = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    4096 kB\n"}
    assert available_bytes(machine(tmp_path / "none", free)) == 4096 * 1024
    assert available_bytes(tmp_path / "nothing") is None
    second = {
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/memory.max": "2000000\n",
        "sys/fs/cgroup/outer/memory.current": "1500000\n",
        "sys/fs/cgroup/outer/memory.stat": "anon 5\ninactive_file 300000\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/inner/memory.current": "1\n",
    }
    assert available_bytes(machine(tmp_path / "v2", free | second)) == 800_000
    first = {
        "proc/self/cgroup": "5:cpu:/\n4:memory:/elsewhere\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1200000\n",
    }
    assert available_bytes(machine(tmp_path / "v1", free | first)) == 0

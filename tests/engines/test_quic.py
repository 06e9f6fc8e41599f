# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows over QUIC give the same values by one worker and by two, fast and plain."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Perigee
from study_text import flow, link

STUDY = (
    'name = "quic"\nrounds = 2\nnodes = ["a", "b"]\n[vary]\n"flows.f.cc" = ["cubic", "bbr3"]\n[measure]\nqlog = true\n'
    + link("link", "a b", rate="20 Mbit/s", delay="20 ms", loss="1 %")
    + flow("f", "a b", size="1 MB", transport="quic")
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_one_worker_and_two_write_equal_values_and_logs(perigee: Perigee, study: Path, tmp_path: Path) -> None:
    sums = []
    for workers in ("1", "2"):
        done = perigee("run", study, "--jobs", workers, "--out", workers)
        assert done.returncode == 0, done.stderr
        sums += [line for line in perigee("verify", workers).stdout.splitlines() if "all values" in line]
    assert len(sums) == 2
    assert sums[0] == sums[1]
    logs = sorted(path.name for path in (tmp_path / "1/captures").iterdir())
    assert len(logs) == 2 * 4, "one of each end in each of four runs"
    for name in logs:
        assert (tmp_path / "1/captures" / name).read_bytes() == (tmp_path / "2/captures" / name).read_bytes(), name


def test_packets_may_be_carried_fast_or_plain(perigee: Perigee, study: Path) -> None:
    done = perigee("run", study, "--verify")
    assert (done.returncode, done.stderr.count("error")) == (0, 0), done.stderr
    assert done.stdout.startswith("4 runs, ")
    assert done.stdout.endswith(": identical\n")

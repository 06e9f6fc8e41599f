# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Recorded links, replayed once or in a loop."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee
from study_text import flow, link

SLOT_MS = 400


def recording(folder: Path, rates: list[int], delays: list[int]) -> None:
    """A recording with a slot of `SLOT_MS` for each rate (packets per ms) and delay (ms)."""
    folder.mkdir()
    lines = [
        t for n, rate in enumerate(rates) for t in range(n * SLOT_MS + 1, (n + 1) * SLOT_MS + 1) for _ in range(rate)
    ]
    (folder / "bw.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "delay.txt").write_text("".join(f"{delay}\n" * (SLOT_MS // 10) for delay in delays))


def profile(path: Path, replay: str, *folders: str) -> Path:
    traces = {name: [f"{folder}/{name}.txt" for folder in folders] for name in ("bw", "delay")}
    path.write_text(
        f'name = "{path.stem}"\ntitle = "t"\nsource = "chosen"\n[link]\nqueue = "90 kB"\nreplay = {replay}\n'
        f"rate = {{ trace = {traces['bw']} }}\ndelay = {{ trace = {traces['delay']} }}\n"
    )
    return path


@pytest.mark.parametrize("replay", ['"loop"', '"stop"'])
def test_a_transfer_over_recordings_is_the_same_on_the_fast_and_on_the_plain_way(
    perigee: Perigee, tmp_path: Path, replay: str
) -> None:
    recording(tmp_path / "monday", [1, 2, 3], [10, 20, 30])
    recording(tmp_path / "tuesday", [4, 5], [40, 50])
    profile(tmp_path / "leo.toml", replay, "monday", "tuesday")
    study = 'name = "replayed"\nnodes = ["a", "b"]\nrounds = 2\ntime_limit = "8 s"\n[measure]\nseries = "500 ms"\n'
    study += link("leo", "a b", profile="./leo.toml") + flow("f", "a b", duration="6 s")
    (tmp_path / "study.toml").write_text(study)
    done = perigee("run", "study.toml", "--verify", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("identical\n")
    links = pl.read_parquet(tmp_path / "out" / "links.parquet").filter(pl.col("link") == "leo.down")
    carried = links.group_by("run").agg(pl.col("delivered_bytes").sum()).sort("run")["delivered_bytes"]
    assert carried[0] == carried[1]
    # The recordings last 2 s; a link that stops carries nothing after them.
    later = links.filter(pl.col("t_s") > 2.5)["delivered_packets"].sum()
    assert (later == 0) == (replay == '"stop"')

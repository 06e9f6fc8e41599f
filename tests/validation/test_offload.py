# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""With segmentation offload the simulated TCP hands down trains as long as those of this machine's kernel."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee, needs_tun
from study_text import flow, link

APART_S = 60e-6
"""Segments that are further apart than this are in different trains: on the first link they are 12 us apart."""

STUDY = (
    """
name = "trains"
time_limit = "60 s"
nodes = ["server", "router", "client"]
[hosts]
rmem = ["4096 B", "131072 B", "16 MB"]
wmem = ["4096 B", "16384 B", "8 MB"]
[measure]
events = true
"""
    + link("access", "server router", rate="1 Gbit/s", delay="1 ms")
    + link("bottleneck", "router client", rate="{mbps} Mbit/s", delay="19 ms", queue="{queue_kb} kB")
    + flow("download", "server client", size="{size_kb} kB", cc="{cc}")
)


def trains(results: Path) -> float:
    """Return the mean number of segments that left together, in the last three quarters of a download."""
    at = pl.read_parquet(results / "events.parquet").filter(pl.col("event") == "sent")["t_s"]
    late = at[len(at) // 4 :]
    return len(late) / (1 + int((late.diff().drop_nulls().to_numpy() > APART_S).sum()))


@pytest.mark.parametrize(
    ("mbps", "cc"),
    [
        (20, "cubic"),
        pytest.param(50, "cubic", marks=pytest.mark.long),
        pytest.param(100, "cubic", marks=pytest.mark.long),
        (100, "bbr"),
    ],
)
def test_trains_are_as_long_as_those_of_the_kernel(perigee: Perigee, tmp_path: Path, mbps: int, cc: str) -> None:
    study = tmp_path / "trains.toml"
    study.write_text(STUDY.format(mbps=mbps, queue_kb=5 * mbps, size_kb=250 * mbps, cc=cc))

    def mean(name: str, *options: str) -> float:
        done = perigee("run", study, *options, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        return trains(tmp_path / name)

    here, single = mean("here"), mean("single", "--set", "hosts.segmentation_offload=false")
    needs_tun()
    kernel = mean("kernel", "--engine", "emu")
    print(f"| {mbps} Mbit/s, {cc} | {kernel:.2f} | {here:.2f} | {single:.2f} |")
    # A kernel whose packets wait for a processor joins trains.
    assert here == pytest.approx(kernel, rel=0.15)

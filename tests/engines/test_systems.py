# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Receivers that are not Linux: their windows and their acknowledgements over a long path."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import perigee
import study_text

LONG = (
    'name = "long"\nnodes = ["server", "client"]\n'
    + study_text.link("path", "server client", rate="400 Mbit/s", delay="300 ms", queue={"bdp": 1})
    + study_text.flow("download", "server client", cc="cubic", duration="30 s")
    + '[hosts.server]\nwmem = ["4096 B", "16384 B", "100 MB"]\n[hosts.client]\nlike = "SYSTEM"\n'
)


def measured(folder: Path, system: str) -> tuple[float, float]:
    """The throughput of the last ten seconds, and the acknowledgements for each segment."""
    study = folder / f"{system}.toml"
    study.write_text(LONG.replace("SYSTEM", system))
    results = perigee.run(study, out=folder / system)
    late = results["series"].filter(pl.col("t_s") > 20)
    links = results["links"].group_by("link").agg(pl.col("delivered_packets").sum())
    packets = dict(links.iter_rows())
    return late["goodput_mbps"].mean(), packets["path.up"] / packets["path.down"]  # type: ignore[return-value]


def test_windows_and_macos_receive_with_their_windows_and_acknowledge_in_their_way(tmp_path: Path) -> None:
    # A window over a round trip of 600 ms: 16.8 MB are 223 Mbit/s, 4 MiB are 56 Mbit/s.
    rate, acks = measured(tmp_path, "windows-11")
    assert rate == pytest.approx(223, rel=0.04)
    assert acks == pytest.approx(0.5, abs=0.02)
    rate, acks = measured(tmp_path, "macos-15")
    assert rate == pytest.approx(56, rel=0.04)
    # After 256 segments, or 100 ms of them.
    assert 1 / 300 < acks < 1 / 100

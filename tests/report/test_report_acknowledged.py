# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Goodput as the sender knows it: by acknowledgements, and by SACK over short times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from perigee.statistics.acknowledged import acknowledged
from perigee.statistics.metrics import short_time, with_metric
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    'name = "acks"\nnodes = ["a", "r", "b"]\n[measure]\nseries = "1 s"\n'
    + link("wire", "a r", rate="10 Mbit/s", delay="5 ms", queue="100 kB")
    + link("far", "r b", rate="2 Mbit/s", delay="250 ms", queue="100 kB")
    + flow("f", "a b", duration="20 s", cc="reno")
)
PROXY = """
[[proxies]]
name = "p"
node = "r"
flows = ["f"]
buffer = "4 MB"
sides = { wire = { cc = "reno" }, far = { cc = "reno" } }
"""


def results_of(folder: Path, text: str) -> Results:
    folder.mkdir()
    (folder / "study.toml").write_text(text)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results"))
    return Results(folder / "results")


def test_what_arrived_and_was_not_acknowledged_in_time_does_not_count(tmp_path: Path) -> None:
    results = results_of(tmp_path / "one", STUDY)
    flows = with_metric(results.table("flows"), "acked_goodput_mbps", results)
    received, acked = flows["goodput_mbps"][0], flows["acked_goodput_mbps"][0]
    # Arrivals of the last 250 ms of 20 s.
    assert 0.008 * received < received - acked < 0.02 * received


def test_a_split_flow_counts_by_what_its_receiver_acknowledged(tmp_path: Path) -> None:
    results = results_of(tmp_path / "split", STUDY + PROXY)
    flows = with_metric(results.table("flows"), "acked_goodput_mbps", results)
    legs = results.legs("series").group_by("leg").agg(pl.max("acked_bytes")).sort("leg")
    first, last = legs["acked_bytes"]
    assert first > 1.05 * last, "the proxy has acknowledged what it still holds"
    assert flows["acked_goodput_mbps"][0] == pytest.approx(8e-6 * last / 20)


def test_sack_makes_a_recovery_no_step_of_the_short_time_goodput(tmp_path: Path) -> None:
    results = results_of(tmp_path / "lossy", STUDY.replace('queue = "100 kB"', 'queue = "30 kB"'))
    (known,) = acknowledged(results, results.table("flows")).values()
    assert (known["known_bytes"] >= known["acked_bytes"]).all()
    assert known["known_bytes"].is_sorted()
    assert (known["known_bytes"] > known["acked_bytes"]).any(), "this path loses packets"
    # In a recovery acknowledgements stand still, then one covers all: growth from second to second falls and jumps.
    columns = ("known_bytes", "acked_bytes")
    steps = {name: np.abs(np.diff(known[name].to_numpy().astype(float), n=2)).max() for name in columns}
    assert steps["known_bytes"] < 0.6 * steps["acked_bytes"], steps
    # The goodput over short times is that of what is known.
    at, with_sack = short_time(known)
    _, without = short_time(known.with_columns(known_bytes=pl.col("acked_bytes")))
    place = abs(with_sack - without).argmax()
    assert known.filter(pl.col("known_bytes") > pl.col("acked_bytes"))["t_s"].to_list() == [at[place]]
    off_line = [abs(one[place] - (one[place - 1] + one[place + 1]) / 2) for one in (with_sack, without)]
    assert off_line[0] < 0.5 * off_line[1], off_line


class Older(Results):
    """Results of a version that had no such column."""

    def table(self, name: str) -> pl.DataFrame:
        """Return a table without the column."""
        return super().table(name).drop("sacked_bytes", strict=False)


def test_results_without_the_column_of_sack_are_read(tmp_path: Path) -> None:
    older = Older(results_of(tmp_path / "older", STUDY).path)
    (known,) = acknowledged(older, older.table("flows")).values()
    assert (known["known_bytes"] == known["acked_bytes"]).all()

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Calls and populations of a study: their tables, metrics and report, and the engines that refuse them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Perigee
from perigee.errors import InputError
from perigee.statistics.metrics import metric, with_metric
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "users"
rounds = 1
nodes = ["servers", "town"]
"""
    + link("satellite", "servers town", rate="4 Mbit/s", delay="250 ms", queue="100 kB")
    + flow(
        "web",
        "servers town",
        kind="web",
        connections_per_s=20,
        duration="10 s",
        warmup="2 s",
        access_least="5 ms",
        access_most="15 ms",
    )
    + flow(
        "probe",
        "servers town",
        kind="transactions",
        interval="500 ms",
        request="300 B",
        responses=["1024 B", "8192 B"],
        duration="10 s",
    )
    + flow("call", "servers town", kind="voice", duration="10 s")
    + '[vary]\n"links.satellite.queue" = ["20 kB", "100 kB"]\n'
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def test_calls_and_populations_have_tables_metrics_and_sections_of_the_report(
    perigee: Perigee, study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = perigee("run", study, "--out", out)
    assert done.returncode == 0, done.stderr
    results = Results(out)
    flows = results.table("flows")
    assert flows["kind"].to_list() == ["web", "transactions", "voice"] * 2
    responses = results.table("responses")
    probe = responses.filter(pl.col("flow") == "probe")
    assert probe["least_bytes"].to_list() == [1024, 8192] * 2
    assert probe["transactions"].to_list() == [10] * 4
    web = responses.filter(pl.col("flow") == "web")
    assert (web["most_bytes"] < 2 * web["least_bytes"]).all()
    with_all = flows
    for name in ("response_ms", "response_8192_b_ms", "mos", "mouth_to_ear_ms"):
        with_all = with_metric(with_all, name, results)
    of = {kind: with_all.filter(pl.col("kind") == kind) for kind in ("web", "transactions", "voice")}
    assert of["transactions"]["response_8192_b_ms"].to_list() == probe["mean_ms"].to_list()[1::2]
    own = web.filter(pl.col("run") == 0)
    mean = float(np.average(own["mean_ms"].to_numpy(), weights=own["completed"].to_numpy()))
    assert of["web"]["response_ms"][0] == pytest.approx(mean)
    assert of["voice"]["response_ms"].null_count() == of["web"]["mos"].null_count() == 2
    # At least 250 ms on the way, 20 ms of speech in a packet, and 60 ms in the playout buffer.
    assert (of["voice"]["mouth_to_ear_ms"] > 330).all()
    assert of["voice"]["mos"].is_between(1, 4.5).all()
    done = perigee("report", out, "--format", "html,csv")
    assert done.returncode == 0, done.stderr
    page = (out / "report.html").read_text()
    assert "Response times of users" in page
    assert "Calls" in page
    shown = pl.read_csv(out / "report-files" / "responses.csv")
    assert shown["transactions"].sum() == responses["transactions"].sum()
    assert pl.read_csv(out / "report-files" / "voice.csv").height == 2


def test_an_unknown_metric_is_answered_with_those_of_populations() -> None:
    with pytest.raises(InputError, match="response_<bytes>_b_ms"):
        metric("response_of_8_kb")

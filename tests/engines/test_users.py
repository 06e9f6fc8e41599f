# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Quality for users: videos, calls, page loads and scores, in tables, metrics, and sections of the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Perigee
from perigee.statistics.metrics import with_metric
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    'name = "users"\nnodes = ["server", "home"]\n'
    + link("satellite", "server home", rate="4 Mbit/s", delay="30 ms", queue="1 MB")
    + flow("film", "server home", kind="video", duration="40 s", buffer="20 s")
    + flow("talk", "server home", kind="call", rate="1 Mbit/s", duration="10 s")
    + '[vary]\n"links.satellite.rate" = ["900 kbit/s", "50 Mbit/s"]\n'
)


def test_videos_and_calls_have_tables_metrics_and_sections_of_the_report(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    out = tmp_path / "out"
    done = perigee("run", tmp_path / "study.toml", "--out", out)
    assert done.returncode == 0, done.stderr
    results = Results(out)
    videos, calls = results.table("videos"), results.table("calls")
    assert videos["segments"].to_list() == [10, 10]
    assert calls["frames"].to_list() == [300, 300]
    slow, fast = (calls.filter(pl.col("run") == run) for run in (0, 1))
    assert slow["frozen_percent"][0] > 50, "1 Mbit/s over 900 kbit/s, beside a video"
    assert fast["on_time_percent"][0] == 100
    assert videos["stalls"][1] == 0
    assert videos["bitrate_mbps"][0] < videos["bitrate_mbps"][1]
    flows = results.table("flows")
    for name in ("bitrate_mbps", "stalled_percent", "on_time_percent", "frozen_percent"):
        flows = with_metric(flows, name, results)
    of = {kind: flows.filter(pl.col("kind") == kind) for kind in ("video", "call")}
    assert of["video"]["bitrate_mbps"].to_list() == videos["bitrate_mbps"].to_list()
    assert of["call"]["on_time_percent"].to_list() == calls["on_time_percent"].to_list()
    assert of["call"]["bitrate_mbps"].null_count() == of["video"]["frozen_percent"].null_count() == 2
    done = perigee("report", out, "--format", "html,csv")
    assert done.returncode == 0, done.stderr
    page = (out / "report.html").read_text()
    assert "Video calls" in page
    assert "Time to the first picture" in page
    shown = pl.read_csv(out / "report-files" / "video.csv")
    assert sorted(shown["bitrate_mbps"]) == pytest.approx(sorted(videos["bitrate_mbps"]))
    assert pl.read_csv(out / "report-files" / "call.csv").height == 2


PAGES = (
    'name = "pages"\nnodes = ["server", "home"]\n'
    + link("satellite", "server home", rate="50 Mbit/s", delay="300 ms", queue="4 MB")
    + flow("browser", "server home", kind="pages", page="small", duration="40 s", pause="1 s")
    + '[vary]\n"flow.protocol" = ["h2", "http/1.1"]\n'
)


def test_page_loads_have_a_table_metrics_and_a_section_of_the_report(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(PAGES)
    (tmp_path / "report.toml").write_text('sections = ["pages"]\n')
    out = tmp_path / "out"
    done = perigee("run", tmp_path / "study.toml", "--out", out)
    assert done.returncode == 0, done.stderr
    results = Results(out)
    loads = results.table("pages")
    assert loads["objects"].unique().to_list() == [13]
    whole = loads.filter(pl.col("load_ms").is_not_null())
    assert (whole["arrived_objects"] == 13).all()
    # The handshakes of TCP and TLS, the document in two windows, and at least one request for its objects.
    assert (whole["document_ms"] > 4 * 600).all()
    assert (whole["load_ms"] >= whole["document_ms"] + 600).all()
    flows = with_metric(results.table("flows"), "page_load_ms", results)
    means = loads.group_by("run", maintain_order=True).agg(pl.col("load_ms").mean())["load_ms"]
    assert flows["page_load_ms"].to_list() == pytest.approx(means.to_list())
    done = perigee("report", out, "--format", "html,csv")
    assert done.returncode == 0, done.stderr
    assert "Page load time" in (out / "report.html").read_text()
    assert pl.read_csv(out / "report-files" / "pages.csv").height == 2


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('page = "huge"', "small"),
        ('protocol = "h3"', "did you mean `h2`"),
        ("tls = 3", "tls"),
        ('access_least = "1 ms"', "access_least"),
        ('responses = ["1 kB"]', "both `page` and `responses`"),
        ('duration = "0 s"', "duration"),
    ],
)
def test_wrong_settings_of_a_browser_are_refused_with_their_line(
    perigee: Perigee, tmp_path: Path, key: str, said: str
) -> None:
    name = key.partition(" ")[0]
    flow = PAGES.partition("[vary]")[0]
    kept = [line for line in flow.splitlines() if not line.startswith(f"{name} =")]
    place = kept.index('kind = "pages"') + 1
    (tmp_path / "study.toml").write_text("\n".join([*kept[:place], key, *kept[place:]]))
    done = perigee("run", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert f"study.toml:{place + 1}" in done.stderr
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


PINGS = (
    'name = "pings"\nnodes = ["server", "home"]\n'
    + link("satellite", "server home", rate="10 Mbit/s", delay="30 ms", queue="250 kB")
    + flow("ping", "home server", kind="ping", interval="50 ms", packet="84 B", repeat=200)
    + flow("download", "server home", duration="10 s")
)

NEEDS = """
[[quality]]
name = "call"
optimal_ms = { 50 = 50, 99 = 100 }
unacceptable_ms = { 50 = 500, 99 = 600 }
optimal_loss_percent = 1
unacceptable_loss_percent = 5
[[quality]]
name = "film"
optimal_ms = { 50 = 1000 }
unacceptable_ms = { 50 = 2000 }
least_mbps = 25
throughput_of = "download"
"""


def test_pings_are_scored_against_the_needs_of_applications(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(PINGS)
    (tmp_path / "report.toml").write_text('sections = ["quality"]\n' + NEEDS)
    out = tmp_path / "out"
    for command in (("run", tmp_path / "study.toml", "--out", out), ("report", out, "--format", "html,csv")):
        done = perigee(*command)
        assert done.returncode == 0, done.stderr
    assert "Quality of Outcome" in (out / "report.html").read_text()
    shown = pl.read_csv(out / "report-files" / "quality.csv")
    assert shown["quality"].to_list() == ["call", "film"]
    took = Results(out).table("exchanges")["duration_ms"].drop_nulls().to_numpy()
    parts = [1 - (np.percentile(took, at) - low) / (high - low) for at, low, high in ((50, 50, 500), (99, 100, 600))]
    assert shown["latency"][0] == pytest.approx(100 * min(max(min(parts), 0), 1))
    assert 0 < shown["latency"][0] < 100
    assert shown["score"][0] == min(shown["latency"][0], shown["loss"][0])
    assert shown["throughput"][0] is None
    assert shown.row(1)[2:] == (0, 100, None, 0), "10 Mbit/s are not 25"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{ 50 = 500, 99 = 600 }", "{ 50 = 500 }", "same percentiles"),
        ("{ 50 = 500, 99 = 600 }", "{ 50 = 500, 99 = 90 }", "99 %: 90 must be above the optimal 100"),
        ("99 = 100", "p99 = 100", "`p99` is no percentile"),
        ("optimal_loss_percent = 1\n", "", "go together"),
        ('throughput_of = "download"', "", "go together"),
        ('name = "call"', "", "quality 1 has no `name`"),
    ],
)
def test_wrong_requirements_are_refused_before_the_run(
    perigee: Perigee, tmp_path: Path, old: str, new: str, said: str
) -> None:
    (tmp_path / "study.toml").write_text(PINGS)
    (tmp_path / "report.toml").write_text(NEEDS.replace(old, new, 1))
    done = perigee("run", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "report.toml" in done.stderr
    assert said in done.stderr

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Proxies of a study: legs in the tables, the report of their effect, and the engines that refuse them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perigee as perigee_api
from conftest import ROOT, Perigee
from perigee.cc.catalog import algorithms
from perigee.errors import InputError
from perigee.places import headers
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "split"
rounds = 3
nodes = ["server", "gateway", "client"]
[measure]
series = "200 ms"
"""
    + link("wire", "server gateway", rate="1 Gbit/s", delay="5 ms")
    + link("satellite", "gateway client", rate="20 Mbit/s", delay="250 ms", queue="1 MB", loss="0.05 %")
    + flow("download", "server client", size="3 MB")
    + """
[[proxies]]
name = "pep"
node = "gateway"
[proxies.sides.wire]
cc = "cubic"
[proxies.sides.satellite]
cc = "hybla"
[vary]
"proxy.enabled" = [true, false]
"""
)
REPORT = 'between = "proxy.enabled"\ntests = ["goodput_mbps"]\n'


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "report.toml").write_text(REPORT)
    return tmp_path / "study.toml"


def test_a_split_flow_is_one_flow_with_legs_and_the_report_says_what_the_proxy_changes(
    perigee: Perigee, study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = perigee("run", study, "--out", out)
    assert done.returncode == 0, done.stderr
    results = Results(out)
    flows = results.table("flows")
    assert flows.height == 6
    assert flows["completed"].all()
    legs = results.legs("flows")
    assert legs["leg"].to_list() == [1, 2] * 3
    assert legs["cc"].to_list() == ["cubic", "hybla"] * 3
    assert legs["received_bytes"].unique().to_list() == [3_000_000]
    assert results.legs("series")["leg"].unique().sort().to_list() == [1, 2]
    loaded = perigee_api.load(out)
    assert loaded.legs().select("leg", "cc", "point.enabled").unique().sort("leg").rows() == [
        (1, "cubic", True),
        (2, "hybla", True),
    ]
    assert loaded.legs("series").height == results.legs("series").height
    assert loaded.proxies["proxy"].unique().to_list() == ["pep"]
    for name in ("links", "nothing"):
        with pytest.raises(InputError, match=name):
            loaded.legs(name)
    held = results.table("proxies")
    assert held["proxy"].unique().to_list() == ["pep"]
    assert held["held_max_bytes"].max() > 0  # type: ignore[operator]
    done = perigee("report", out, "--format", "html,csv")
    assert done.returncode == 0, done.stderr
    found = pl.read_csv(out / "report-files" / "differences.csv")
    on, off = (
        flows.filter(pl.col("point") == json.dumps({"proxy.enabled": value}, separators=(",", ":")))["goodput_mbps"]
        for value in (True, False)
    )
    difference, spread = float(on.mean() - off.mean()), float(off.std())  # type: ignore[arg-type,operator]
    assert found["difference"].to_list() == pytest.approx([difference])
    assert found["glass_delta"].to_list() == pytest.approx([difference / spread])
    assert pl.read_csv(out / "report-files" / "legs.csv")["to_node"].to_list() == ["gateway", "client"]
    page = (out / "report.html").read_text()
    assert "Legs and proxies" in page
    assert "with proxy minus without proxy" in page
    assert "Throughput, beside that without proxy (" in page
    (out / "study" / "report.toml").write_text(REPORT + '[labels]\n"proxy.enabled = true" = "split"\n')
    assert perigee("report", out).returncode == 0
    page = (out / "report.html").read_text()
    assert "Throughput, beside that without proxy (" in page
    assert ">split<" in page
    assert "with proxy" not in page
    assert "with the end that opens first" in page


def test_a_switch_that_does_not_vary_is_an_error_that_names_those_that_do(
    perigee: Perigee, study: Path, tmp_path: Path
) -> None:
    assert perigee("run", study, "--out", tmp_path / "out").returncode == 0
    (tmp_path / "out/study/report.toml").write_text('between = "proxy.buffer"\n')
    done = perigee("report", tmp_path / "out")
    assert done.returncode == 2
    assert "`proxy.buffer` is no key that the study varies with two values; name one of `proxy.enabled`" in done.stderr


def test_the_algorithm_of_a_leg_may_be_an_authors_own(perigee: Perigee, study: Path, tmp_path: Path) -> None:
    source = (headers() / "reno.c").read_text().replace("CC_REGISTER(reno", "CC_REGISTER(mine")
    (tmp_path / "mine.c").write_text(source)
    study.write_text(STUDY.replace('cc = "hybla"', 'cc = "./mine.c"'))
    done = perigee("run", study, "--set", "rounds=1", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert Results(tmp_path / "out").legs("flows")["cc"].to_list() == ["cubic", "mine"]


def test_engines_without_proxies_refuse_the_flow_by_name(perigee: Perigee, study: Path, tmp_path: Path) -> None:
    live = ("--engine", "live", "--set", "live.servers.server=127.0.0.1:5201", "--dry-run")
    done = perigee("run", study, *live, "--out", tmp_path / "live")
    assert done.returncode == 2
    assert "flow `download` is split by [[proxies]]" in done.stderr
    assert "--set proxy.enabled=false" in done.stderr


def test_the_study_of_a_publication_runs_at_its_reduced_size(reduced: Callable[[str], Path]) -> None:
    results = Results(reduced("liu-2022"))
    flows, legs = results.table("flows"), results.legs("flows")
    heights = {}
    for name in ("proxy", "campus", "legs"):
        of_it = pl.col("point").str.contains(f'"experiment":"{name}"')
        heights[name] = (flows.filter(of_it).height, legs.filter(of_it).height)
    assert heights == {"proxy": (16, 24), "campus": (16, 24), "legs": (6, 18)}
    assert flows["completed"].all()


def test_the_paced_leg_of_liu_2022_sends_at_its_rate_and_no_faster(perigee: Perigee, tmp_path: Path) -> None:
    still = ("links.satellite.down.loss=[]", "links.satellite.down.rate=200 Mbit/s", "rounds=1", "leg=paced")
    settings = [word for one in still for word in ("--set", one)]
    study = ROOT / "studies" / "liu-2022"
    done = perigee("run", study, "--reduced", "--experiment", "legs", *settings, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    results = Results(tmp_path / "out")
    assert results.legs("flows").filter(pl.col("leg") == 2)["cc"].to_list() == ["paced"]
    # Once the receive window has grown, each second brings what the sender paces.
    assert results.table("flows")["goodput_p90_mbps"].item() == pytest.approx(120.0, rel=0.01)


def test_independent_draws_make_the_differences_those_of_independent_samples(
    perigee: Perigee, study: Path, tmp_path: Path
) -> None:
    (tmp_path / "report.toml").write_text('sections = ["differences"]\n' + REPORT)
    for name, key, said in (
        ("paired", "", "t test of pairs of the same round"),
        ("apart", 'independent = ["proxy.enabled"]\n', "Welch&#39;s t test"),
    ):
        out = tmp_path / name
        study.write_text(key + STUDY)
        assert perigee("run", study, "--out", out).returncode == 0
        done = perigee("report", out)
        assert done.returncode == 0, done.stderr
        assert said in (out / "report.html").read_text(), name


def test_the_gallery_of_splits_has_every_congestion_control_at_its_reduced_size(
    reduced: Callable[[str], Path],
) -> None:
    results = Results(reduced("split-gallery"))
    assert set(results.table("flows")["cc"]) == {one.name for one in algorithms()}
    legs = results.legs("flows")
    assert legs.height == results.table("flows").height
    assert set(legs.filter(pl.col("leg") == 2)["cc"]) == {"hybla"}

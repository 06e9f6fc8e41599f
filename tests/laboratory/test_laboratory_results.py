# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results as the page asks for them: the list and what it says, one folder, its files and tables, graphs over time."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import pretended

from browsing import SCRIPT, Browser, made, submit
from conftest import SMALL_STUDY
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.groups.looks import number_of
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.findings import Level, read_findings
from perigee.laboratory.runs import Runs
from perigee.places import find_study
from perigee.store.manifest import read_manifest, write_manifest
from synthetic import SyntheticEngine


def names(browser: Browser, query: str = "") -> set[str]:
    return {one["name"] for one in browser.get(f"/api/results?{query}").json()["results"]}


def test_results_are_searched_labelled_and_downloaded(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = made(laboratory, study, "one")
    made(laboratory, study, "two", rounds=3)
    (laboratory.place.results / "broken").mkdir()
    (laboratory.place.results / "broken" / "manifest.json").write_text("{")
    found = browser.get("/api/results").json()
    assert {one["name"]: one["state"] for one in found["results"]} == {
        "one": "finished",
        "two": "finished",
        "broken": "damaged",
    }
    submit(browser, "/api/results/one/labels", tags="Base, rain", notes="before the storm")
    assert names(browser, "q=base+STORM") == {"one"}
    assert names(browser, "page=0&q=invented") == {"one", "two"}
    assert browser.get("/api/results/broken").json()["contents"] is None
    one = browser.get("/api/results/one").json()
    assert (one["tags"], one["notes"], one["runs"]) == (["Base", "rain"], "before the storm", 8)
    assert {table["name"] for table in one["contents"]["tables"]} > {"flows", "series"}
    assert one["contents"]["has_graphs"]
    flows = pl.read_parquet(folder / "flows.parquet")
    assert pl.read_parquet(io.BytesIO(browser.get("/files/results/one/tables/flows.parquet").content)).equals(flows)
    csv = browser.get("/files/results/one/tables/flows.csv")
    assert 'filename="one-flows.csv"' in csv.headers["content-disposition"]
    read = pl.read_csv(csv.content, infer_schema_length=None)
    assert read["goodput_mbps"].to_list() == flows["goodput_mbps"].to_list()
    (folder / "captures").mkdir()
    (folder / "captures" / "run-000000-a.pcapng").write_bytes(b"x" * 1_000_000)
    archive = zipfile.ZipFile(io.BytesIO(browser.get("/files/results/one/captures.zip").content))
    assert archive.testzip() is None
    files = [(one.filename, one.file_size) for one in archive.infolist()]
    assert files == [("one-captures/run-000000-a.pcapng", 1_000_000)]
    assert browser.get("/files/results/one/figures.zip").status_code == 404
    (folder / "flows.parquet").write_bytes(b"PAR1 damaged PAR1")
    damaged = browser.get("/files/results/one/tables/flows.csv")
    assert (damaged.status_code, "cannot be read" in damaged.json()["error"]) == (404, True)
    assert submit(browser, "/api/compare", result=["one"]).status_code == 422


def test_a_table_comes_in_parts(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = made(laboratory, study, "one")
    series = pl.read_parquet(folder / "series.parquet")
    assert series.height > 200
    part = browser.get("/api/results/one/tables/series?first=150").json()
    assert (part["table"], part["first"], part["count"], len(part["rows"])) == ("series", 150, series.height, 100)
    column = [one["name"] for one in part["columns"]].index("t_s")
    assert [float(row[column]) for row in part["rows"]] == pytest.approx(series["t_s"][150:250].to_list())
    assert browser.get(f"/api/results/one/tables/series?first={series.height}").json()["rows"] == []
    for wrong in ("none", "flows.parquet", "..%2Fflows", SCRIPT):
        assert browser.get(f"/api/results/one/tables/{wrong}").status_code == 404, wrong


def test_a_list_says_the_headline_quantity_of_the_main_flow_alone(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    folder = made(laboratory, study, "one", rounds=1)
    flows = pl.read_parquet(folder / "flows.parquet").with_columns(cc=pl.lit("cubic"), goodput_mbps=pl.lit(17.5))
    # A page of the web beside the download: none of its requests is in the mean of the download.
    beside = flows.with_columns(flow=pl.lit("page"), kind=pl.lit("request"), goodput_mbps=pl.lit(0.26))
    pl.concat([flows, beside]).write_parquet(folder / "flows.parquet")
    headline = read_findings(folder).headline
    assert headline is not None
    assert {(one.least, one.most) for one in headline.levels} == {(17.5, 17.5)}
    assert (headline.noun, headline.unit) == ("throughput", "Mbit/s")
    (folder / "study" / "report.toml").write_text('headline = ["rtt_mean_ms"]\n')
    headline = read_findings(folder).headline
    assert headline is not None
    assert headline.noun == "mean round-trip time"


def test_results_are_narrowed_by_engine_tag_and_person_and_say_what_they_found(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    for name in ("one", "two", "three"):
        made(laboratory, study, name)
        laboratory.findings.get(laboratory.place.results / name)
    submit(browser, "/api/results/one/labels", tags="rain")
    for name, owner in (("two", "ada"), ("three", "bob")):
        number = laboratory.queue.add(replace(pretended.entries(1)[0], owner=owner))
        laboratory.queue.change(number, ["waiting"], state="done", results=name)
    assert names(browser) == {"one", "two", "three"}
    assert names(browser, "tag=rain") == {"one"}
    assert names(browser, "who=ada") == {"two"}
    assert names(browser, "engine=emu") == set()
    found = browser.get("/api/results").json()
    assert (found["engines"], found["tags"]) == (["sim"], ["rain"])
    assert [one["name"] for one in found["people"]] == ["ada", "bob"]
    finding = next(one["finding"] for one in found["results"] if one["name"] == "one")
    levels = [Level(**one) for one in finding["headline"]["levels"]]
    assert {one.look for one in levels} == {number_of(name) for name in ("bbr", "cubic", "hybla", "vivace")}
    assert all(0 < one.least <= one.most for one in levels)
    points = np.array(finding["courses"][0]["points"])
    assert ((points >= 0) & (points <= 1)).all()


def test_variants_have_the_colours_of_the_algorithms_that_they_set(tmp_path: Path) -> None:
    senders = {"Cubic, plain": '"cubic"', "Cubic, early": '{ name = "cubic", beta = "50 %" }', "New": '"bbr3"'}
    listed = ", ".join(f'{{ name = "{name}", "flow.cc" = {cc} }}' for name, cc in senders.items())
    (tmp_path / "study.toml").write_text(f"{SMALL_STUDY}[vary]\nsender = [{listed}]\n")
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "r", workers=1))
    headline = read_findings(tmp_path / "r").headline
    assert headline is not None
    looks = [number_of(key) for key in ("cubic", "cubic", "bbr3")]
    assert [(one.label, one.look) for one in headline.levels] == list(zip(senders, looks, strict=True))
    assert [point.flows[0].look for point in Runs(tmp_path / "r").points] == looks


def test_numbers_of_a_list_say_what_varies_and_over_what_they_reach(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        f'{SMALL_STUDY}[vary]\n"links.l.loss" = ["0 %", "1 %"]\n"links.l.rate" = ["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"]\n'
    )
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "r", workers=1))
    headline = read_findings(tmp_path / "r").headline
    assert headline is not None
    assert [one.label for one in headline.levels] == ["loss 0 %", "loss 1 %"]
    assert headline.over == ("rate of l",)


def test_results_of_an_entry_that_was_stopped_never_run(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = made(laboratory, study, "half")
    manifest = read_manifest(folder)
    write_manifest(folder / "manifest.json", {**manifest, "state": "running"})
    assert browser.get("/api/results/half").json()["state"] == "not complete"
    number = laboratory.queue.add(pretended.entries(1)[0])
    laboratory.place.entry(number).mkdir()
    (laboratory.place.entry(number) / "progress.json").write_text('{"done": 110, "total": 320}')
    laboratory.queue.change(number, ["waiting"], state="stopped", results="half", ended=1.0)
    for path in ("/api/results", "/api/results/half"):
        found = browser.get(path).text
        assert "stopped at 110 of 320" in found, path
        assert '"running"' not in found, path


def test_a_figure_takes_the_colours_of_its_report_along(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = made(laboratory, study, "one")
    colours = "<style>:root { --a: #123456; } @media (prefers-color-scheme: dark) { :root { --a: #abcdef; } }</style>"
    figure = '<figure class="plot"><svg viewBox="0 0 100 90"><path style="fill: {}"/></svg></figure>'
    (folder / "report.html").write_text(colours + figure.format("var(--a)"))
    drawn = browser.get("/files/results/one/figure.svg").text
    assert re.search(r"<style>:root\{ --a: #123456; ;[^}]*\}@media[^{]*\{:root\{ --a: #abcdef; ;", drawn)
    assert "<rect" not in drawn
    assert read_findings(folder).is_tall
    (folder / "report.html").write_text(figure.format("#1b1f24"))
    assert '<rect width="100%" height="100%" fill="#fff"/>' in browser.get("/files/results/one/figure.svg").text


def unpacked(body: bytes) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The head, and smallest and largest values of each trace, by trace, kind and column."""
    (length,) = struct.unpack_from("<I", body)
    head = json.loads(body[4 : 4 + length])
    assert (4 + length) % 8 == 0
    return head, np.frombuffer(body, offset=4 + length).reshape(len(head["traces"]), 2, head["columns"])


def test_graphs_over_time_have_names_and_samples_in_columns(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    folder = made(laboratory, study, "one")
    menu = browser.get("/api/results/one/graphs").json()
    assert [point["label"] for point in menu["points"]] == ["BBR", "Cubic", "Hybla", "PCC Vivace"]
    assert menu["points"][1]["runs"] == [[0, 1], [1, 5]]
    view = "run=0&run=5&what=series.goodput_mbps&what=series.cwnd_packets"
    data = browser.get(f"/api/results/one/graph?{view}&columns=10")
    assert (data.status_code, data.headers["content-type"]) == (200, "application/octet-stream")
    head, values = unpacked(data.content)
    assert [(one["run"], one["what"], one["name"]) for one in head["traces"]] == [
        (run, what, "download") for run in (0, 5) for what in (0, 1)
    ]
    own = pl.read_parquet(folder / "series.parquet").filter(pl.col("run") == 5)["goodput_mbps"]
    assert (np.nanmin(values[2, 0]), np.nanmax(values[2, 1])) == (own.min(), own.max())
    part, _ = unpacked(browser.get(f"/api/results/one/graph?{view}&from=1&to=2").content)
    assert (part["from"], part["to"]) == (1.0, 2.0)
    assert (part["first"], part["last"]) == (head["from"], head["to"])
    one = "run=0&what=series.goodput_mbps"
    for wrong in ("columns=0", "columns=5000", "from=2&to=1", "from=nan", "to=x"):
        assert browser.get(f"/api/results/one/graph?{one}&{wrong}").status_code == 404, wrong
    for wrong in ("", "run=0", "run=-1&what=series.goodput_mbps", "run=800&what=series.goodput_mbps"):
        assert browser.get(f"/api/results/one/graph?{wrong}").status_code == 404, wrong
    for wrong in ("what=flows.run", "what=series", f"what={SCRIPT}", "run=0:none&what=series.goodput_mbps"):
        assert browser.get(f"/api/results/one/graph?run=0&{wrong}").status_code == 404, wrong
    many = "&".join(f"run=0:flow{number}" for number in range(30))
    assert "from 1 to 24" in browser.get(f"/api/results/one/graph?{many}&what=series.goodput_mbps").json()["error"]
    table = folder / "series.parquet"
    table.unlink()
    table.symlink_to("/etc/passwd")
    assert browser.get(f"/api/results/one/graph?{one}").status_code == 404


def test_a_flow_or_a_link_is_asked_for_by_its_name(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = laboratory.place.results / "pairs"
    carry_out(Job(find_study(str(study)), SyntheticEngine(1, pairs=True), out=folder, workers=1))
    link = pl.read_parquet(folder / "links.parquet")["link"][0]
    for curves, traces in (("run=4:b", ["b"]), ("run=4:b&run=4", ["a", "b"]), ("run=4", ["a", "b"])):
        head, _ = unpacked(browser.get(f"/api/results/pairs/graph?{curves}&what=series.goodput_mbps").content)
        assert [one["name"] for one in head["traces"]] == traces
    head, _ = unpacked(browser.get(f"/api/results/pairs/graph?run=4&what=links.queue_bytes:{link}").content)
    assert [one["name"] for one in head["traces"]] == [link]
    assert browser.get(f"/api/results/pairs/graph?run=4&what=series.goodput_mbps:{link}").status_code == 404

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The first screen: an answer with numbers of the results beside figure 1, in words, and no message of the program."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from test_report_claims import report_of, synthetic
from test_report_sweeps import swept

from conftest import NARROW, ROOT, Perigee
from perigee.errors import InputError, NothingToDrawError
from perigee.report.computed import computed, fields
from perigee.report.context import Context
from perigee.report.html import render, write
from perigee.report.style import styled
from perigee.store.results import Results
from synthetic import SyntheticEngine

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

STUDIES = sorted(path.parent for path in (ROOT / "studies").glob("*/report.toml"))
SWEEP = ('"links.l.loss" = ["0 %", "1 %"]', '"links.l.delay" = ["20 ms", "10 ms"]')
BY_HAND = re.compile(
    r"\b\d+(?:\.\d+)?\b|\b(?:twice|half|thirds?|quarters?|fifths?|sixths?|eighths?|tenths?|thirtieth|[a-z]+ times)\b"
)
"""Numbers of a sentence, which are settings of the study where they are not computed."""
WIDE = {"width": 1300, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
PLACES = """
return [".said", ".first > .plot"].map(e => document.querySelector(e).getBoundingClientRect())
  .map(r => [r.left, r.right, r.top, r.bottom]);
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two algorithms at four settings."""
    return swept(tmp_path_factory.mktemp("sweep"), *SWEEP, report="sections = ['throughput', 'summary', 'links']\n")


@pytest.mark.parametrize("folder", STUDIES, ids=lambda path: path.name)
def test_the_numbers_of_an_answer_are_of_cells_that_its_study_has(folder: Path) -> None:
    settings = tomllib.loads((folder / "report.toml").read_text())
    study = (folder / "study.toml").read_text()
    answers = [part.get("answer", "") for part in (settings, *settings.get("experiments", {}).values())]
    cells = [cell for answer in answers for one in fields(answer) for cell in (one.cell, one.against or {})]
    assert not settings.get("answer") or "{" in settings["answer"], "an answer has numbers"
    written = [word for answer in answers for word in BY_HAND.findall(re.sub(r"\{[^{}]*\}", "", answer))]
    assert [word for word in written if not re.search(rf"\b{word}\b", study)] == [], "numbers are computed, or go"
    assert "title" not in settings, "a study has one title"
    for key, value in (pair for cell in cells for pair in cell.items()):
        assert key == "experiment" or re.search(rf"\b{re.escape(key.rpartition('.')[2])}\b", study), key
        assert value in study, f"{key} = {value}"


def test_an_answer_has_the_numbers_of_the_results_and_the_range_over_what_it_does_not_name(sweep: Results) -> None:
    flows = sweep.points.join(sweep.table("flows")).group_by("cc", "point.loss", "point.delay")
    means = {tuple(key): value for *key, value in flows.agg(pl.col("goodput_mbps").mean()).iter_rows()}
    changes = sorted(100 * (means["reno", 0, delay] / means["cubic", 0, delay] - 1) for delay in (10, 20))
    words = computed("{goodput_mbps: cc = reno, loss = 0 % against cc = cubic, loss = 0 %}", Context(sweep))
    assert all(f"{abs(end):.0f}" in words or "practically the same" in words for end in changes)
    text = computed("{goodput_mbps: cc = reno, loss = 1 %, delay = 10 ms}", Context(sweep))
    assert text == f"{means['reno', 1, 10]:.1f} Mbit/s"
    with pytest.raises(InputError, match="is no number of an answer; write "):
        computed("{goodput_mbps}", Context(sweep))


def test_an_answer_of_which_a_cell_is_missing_is_left_out_and_the_command_line_says_so(
    sweep: Results, perigee: Perigee, tmp_path: Path
) -> None:
    settings = sweep.path / "study" / "report.toml"
    former = settings.read_text()
    try:
        settings.write_text(f'answer = "BBR has {{goodput_mbps: cc = bbr}}."\n{former}')
        done = perigee("report", sweep.path, "--out", tmp_path / "r.html")
    finally:
        settings.write_text(former)
    assert "note: the answer of report.toml is left out: {goodput_mbps: cc = bbr}: these" in done.stderr
    assert 'class="answer"' not in (tmp_path / "r.html").read_text()


def test_an_answer_may_name_what_was_set_for_all_runs(tmp_path: Path) -> None:
    results = synthetic(tmp_path, SyntheticEngine(3))
    results.manifest["settings"] = ["load=4 homes", "links.sat.loss=1 %"]
    whole = computed("{goodput_mbps: cc = bbr}", Context(results))
    assert computed("{goodput_mbps: cc = bbr, load = 4 homes, loss = 1 %}", Context(results)) == whole
    with pytest.raises(NothingToDrawError, match="for load = 9 homes; all of them are with load = 4 homes, as was set"):
        computed("{goodput_mbps: load = 9 homes}", Context(results))


def test_a_reduced_run_has_no_answer_and_says_that_it_is_reduced(tmp_path: Path) -> None:
    results = synthetic(tmp_path, SyntheticEngine(3), 'answer = "BBR has {goodput_mbps: cc = bbr}."\n')
    assert "BBR has " in report_of(results).short.answer
    results.manifest["reduced"] = True
    report = report_of(results)
    assert (report.short.answer, bool(report.banner)) == ("", True)
    assert report.banner in render(report)


def test_a_page_has_words_for_links_and_units_stay_with_their_numbers_and_nothing_is_tallied(sweep: Results) -> None:
    page = render(report_of(sweep))
    body = re.sub(r"<(svg|script|style|dd)\b.*?</\1>|href=\"[^\"]*\"", "", page, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", "", body.partition('id="made"')[0])
    assert "l, downlink" in text
    for pattern in (
        r"\bl\.down\b",
        "`",
        r"report\.toml",
        r"\d (ms|Mbit/s|%|us)(?!\w)",
        r"\bin \d+; ",
        r" in \d+ of \d+",
    ):
        assert not re.search(pattern, text), re.search(rf".*{pattern}.*", text)


def test_an_interval_holds_zero_exactly_where_its_difference_is_not_significant(tmp_path: Path) -> None:
    def near(row: dict[str, Any]) -> None:
        shift = {"bbr": 0.0, "cubic": 2.0, "hybla": 5.5, "vivace": 7.5}[row["cc"]]
        row["goodput_mbps"] = 40.0 + shift + 3 * (row["round"] * len(row["cc"]) % 4)

    results = synthetic(tmp_path, SyntheticEngine(12, edit=near), "sections = ['summary']\n")
    (line,) = (one for one in report_of(results).answers if "throughput" in one)
    clauses = re.findall(r"[+−][\d.]+ \[(\S+), (\S+)\] Mbit/s \((.*?)\)", line)
    assert len(clauses) == 3
    for low, high, notes in clauses:
        low_, high_ = (float(end.replace("−", "-")) for end in (low, high))
        assert (low_ < 0 < high_) == ("not significant" in notes), line
    assert {"not significant" in notes for _, _, notes in clauses} == {True, False}


def test_the_answer_stands_left_of_figure_1_above_the_fold_and_above_it_on_a_telephone(
    chrome: Chrome, sweep: Results, tmp_path: Path
) -> None:
    with styled():
        write(report_of(sweep), tmp_path / "r.html")
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    chrome.get((tmp_path / "r.html").as_uri())
    (_, said, _, bottom), (figure, right, top, end) = chrome.execute_script(PLACES)
    assert said <= figure < right <= 1300
    assert max(bottom, end) <= 1000
    assert top < 200
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
    (left, _, _, bottom), (figure, _, top, _) = chrome.execute_script(PLACES)
    assert (left, bottom <= top) == (figure, True)

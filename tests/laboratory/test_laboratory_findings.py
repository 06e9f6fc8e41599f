# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Findings of results folders that are damaged or somebody else's: they take little time, and others stay listed."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from browsing import Browser, made
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.findings import Findings, first_figure, read_findings, sentences_of

BYTES = 200_000
MOST_S = 2.0
"""Processor time for a report of that size: some milliseconds where each part is read once, else 10 s and more."""


@pytest.mark.parametrize("piece", ['<p class="answer">', "<figure", "<figure>", "<details>", "<li>", "<h1", "<", "&"])
def test_a_report_of_the_same_tag_over_and_over_is_read_once(tmp_path: Path, piece: str) -> None:
    many = piece * (BYTES // len(piece))
    (tmp_path / "report.html").write_text(f"{many}<h2>In short</h2><ul><li>{many}</li><li>{many}</ul></section>{many}")
    begun = time.thread_time()
    assert not read_findings(tmp_path).has_figure
    assert time.thread_time() - begun < MOST_S


def test_sentences_are_those_of_lists_beside_tables_and_figures() -> None:
    answer, figure = '<p class="answer">A &lt; <b>B</b>.</p><p class="answer">C.</p>', "<figure><li>D.</li></figure>"
    short = f'<ul>{figure}<li class="a">E{figure}.</li></ul><details><li>F.</li></details><li>± G.</li><li>H.</li>'
    report = f"{answer}<h2>In short</h2>{short}</section><li>I.</li>"
    assert sentences_of(report) == ("A < B.", "E.", "H.")
    # An element that does not end hides nothing before it.
    assert sentences_of(report.replace("</details>", "")) == ("A < B.", "E.", "F.", "H.")
    assert sentences_of('<p class="answer">A.<h2>In short</h2><li>B.</li><li>C.') == ("B.",)


def test_a_report_of_any_length_is_read_to_where_its_first_figure_stands(tmp_path: Path) -> None:
    figure = '<figure id="a" class="wide plot"><svg viewBox="0 0 4 3"></svg></figure>'
    with (tmp_path / "report.html").open("w") as file:
        file.write(f"<h1>A title</h1><figure class='other'></figure>{figure}")
        file.truncate(1 << 40)
    found = read_findings(tmp_path)
    assert (found.title, found.has_figure, found.is_tall) == ("A title", True, False)
    assert b"</svg>" in first_figure(tmp_path)


def test_a_damaged_folder_keeps_no_other_out_of_the_list(
    browser: Browser, laboratory: Laboratory, study: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(laboratory, study, "whole")
    nested = made(laboratory, study, "nested")
    (nested / "study" / "published.toml").write_text("a=" + "[" * 5000)
    for name, column, value in (
        ("endless", "t_s", float("inf")), ("before", "t_s", -1e3), ("rate", "goodput_mbps", float("inf"))
    ):  # fmt: skip
        folder = made(laboratory, study, name)
        tables = ("series.parquet",) if column == "t_s" else ("series.parquet", "flows.parquet")
        for table in tables:
            given = pl.read_parquet(folder / table)
            given[0, column] = value
            given.write_parquet(folder / table)
    sized = made(laboratory, study, "sized")
    (sized / "report.html").write_text('<figure class="plot"><svg viewBox="0 0 1.2.3 4"></svg></figure>')
    caplog.set_level(logging.WARNING, "perigee.laboratory")
    laboratory.findings.several(laboratory.place.results.iterdir(), 60.0)
    for _ in range(2):
        found = {one["name"]: one["finding"] for one in browser.get("/api/results").json()["results"]}
    assert found["whole"]["headline"] == found["nested"]["headline"] == found["endless"]["headline"]
    assert found["whole"]["courses"][1:] == found["endless"]["courses"][1:] != []
    assert len(found["rate"]["headline"]["levels"]) == len(found["whole"]["headline"]["levels"]) - 1
    empty = {name for name, one in found.items() if not (one["headline"] or one["has_figure"])}
    assert empty == {"before", "sized"}
    assert laboratory.findings.get(sized) == Findings()
    # Each is logged once, however often the list is asked for.
    logged = sorted(Path(str(record.args[0])).name for record in caplog.records if isinstance(record.args, tuple))
    assert logged == sorted(empty)

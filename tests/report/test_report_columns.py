# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables of reports have what varies as columns, are folded if long, and pool the flows of a `count`."""

from __future__ import annotations

import polars as pl
import pytest

from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.drawings import drawings
from perigee.report.html import render
from perigee.report.latex import latex
from perigee.report.model import MOST_OPEN_ROWS, Cell, Report, Table, Text
from perigee.report.style import styled
from perigee.report.svg import VARIABLES
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    'name = "columns"\nrounds = 2\nnodes = ["a", "b"]\n'
    + link("l", "a b", rate="2 Mbit/s", delay="10 ms", queue="20 kB")
    + flow("f", "a b", duration="1 s", count=3, stagger="1200 ms")
    + '[vary]\n"links.l.loss" = ["0 %", "1 %"]\n"links.l.delay" = ["10 ms", "60 ms"]\n"flow.cc" = ["cubic", "reno"]\n'
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("columns")
    (folder / "study.toml").write_text(STUDY)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results", workers=1))
    return Results(folder / "results")


@pytest.fixture(scope="module")
def report(results: Results) -> Report:
    with styled():
        return assemble(results)


def table(report: Report, name: str) -> Table:
    return next(one for one in report.tables() if one.name == name)


def test_settings_are_columns_and_algorithms_too_in_the_summary(report: Report, results: Results) -> None:
    summary = table(report, "summary")
    assert summary.head == ["Quantity", "Loss", "Delay", "Cubic", "Reno"]
    assert [cell.text for cell in summary.rows[0][1:3]] == ["0 %", "10 ms"]
    assert len(summary.rows) % 4 == 0
    points = results.points.table
    runs = points.filter((pl.col("point.loss") == 1) & (pl.col("point.delay") == 60))["run"]
    flows = results.table("flows").filter(pl.col("run").is_in(runs.implode()) & (pl.col("cc") == "reno"))
    assert flows.height == 6
    shown = next(row for row in summary.rows if [cell.text for cell in row[1:3]] == ["1 %", "60 ms"])
    expected = float(flows["goodput_mbps"].mean())  # type: ignore[arg-type]
    assert float(shown[4].text.split(" ")[0]) == pytest.approx(expected, abs=0.06)


def test_flows_of_a_count_are_one_group_of_figures_and_tables(results: Results) -> None:
    context = Context(results)
    assert len(context.groups) == 24
    pooled = context.pooled(context.groups)
    assert len(pooled) == 8
    assert {group.rows.height for group in pooled} == {6}
    assert {group.levels["flow"] for group in pooled} == {"f"}
    assert not any(".1" in group.label or ".1" in group.name for group in pooled)
    assert len(context.drawn) == 8


def test_a_text_above_in_the_columns_that_name_a_row_is_not_said_again() -> None:
    rows = [
        [Cell("geo"), Cell("1 %"), Cell("5")],
        [Cell("geo"), Cell("2 %"), Cell("5")],
        [Cell("leo"), Cell("2 %"), Cell("5")],
    ]
    shown = Table("t", "Caption", ["Link", "Loss", "x"], rows, pl.DataFrame(), lead=2)
    said = [[shown.repeats(row, column) for column in range(2)] for row in range(3)]
    assert said == [[False, False], [True, False], [False, False]]
    assert not shown.repeats(1, 2)
    assert " & 2 \\% & 5" in latex(Table("t", "Caption", shown.head, rows[:2], pl.DataFrame(), lead=2))


def test_a_long_table_is_folded_with_the_number_of_its_rows(report: Report) -> None:
    page = render(report)
    for one in report.tables():
        assert one.is_folded or len(one.rows) <= MOST_OPEN_ROWS
        if one.is_folded:
            assert f"({len(one.rows)} row" in page


def test_a_quantity_that_is_the_same_everywhere_is_a_sentence_and_has_no_column(report: Report) -> None:
    for one in report.tables():
        for column in range(one.lead, len(one.head)) if one.name in ("links-main", "links") else ():
            assert len({row[column].text for row in one.rows}) > 1, one.head[column]
    assert any("The same in all rows: " in note for one in report.tables() for note in one.notes)


def test_the_hosts_of_a_study_that_sets_nothing_have_the_defaults(report: Report) -> None:
    texts = [block.text for section in report.sections for block in section.blocks if isinstance(block, Text)]
    assert any(text.startswith("The hosts' TCP has the defaults of Linux") for text in texts)
    assert table(report, "setup-hosts").is_folded
    assert "setup-hosts-changed" not in [one.name for one in report.tables()]


@pytest.mark.drawn
def test_figures_are_the_same_for_any_number_of_processes(report: Report) -> None:
    seen: list[float] = []
    with styled():
        several = drawings(report.plots()[:4], 3, seen.append)
        assert several == drawings(report.plots()[:4], 1)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) == 4


@pytest.mark.drawn
def test_figures_take_the_colours_of_a_light_or_dark_page(report: Report) -> None:
    page = render(report)
    drawn = page[page.index("<svg ") :]
    assert not any(f": {color}" in drawn for color in VARIABLES)
    assert "fill: #ffffff" not in drawn
    assert "stroke: var(--c0)" in drawn
    assert page.count("--c0: ") == 2

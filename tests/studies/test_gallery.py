# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The gallery: the reduced study, simulated, and its section of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from perigee.cc.catalog import algorithms
from perigee.groups.looks import look, name_of, number_of
from perigee.report.context import Context
from perigee.report.model import Plot, Section, Table
from perigee.report.sections import build, gallery
from perigee.report.style import COLUMN_IN, in_a_column, styled
from perigee.store.results import Results

PATHS = ["geo-100", "geo-10", "leo-100", "wired-100"]


@pytest.fixture(scope="module")
def drawn(reduced: Callable[[str], Path]) -> tuple[Results, Section]:
    """The reduced study's results and its section."""
    results = Results(reduced("gallery"))
    with styled():
        section = gallery.section(Context(results))
    assert section
    return results, section


def table(section: Section, node: str) -> pl.DataFrame:
    """The numbers of a path's table."""
    return next(b.data for b in section.blocks if isinstance(b, Table) and b.name == f"gallery-{node}")


def test_each_path_has_a_table_and_a_figure_with_every_algorithm(drawn: tuple[Results, Section]) -> None:
    results, section = drawn
    names = set(results.table("flows")["cc"])
    figures = {block.name: block for block in section.blocks if isinstance(block, Plot)}
    assert list(figures) == ["gallery-overview", *(f"gallery-{node}" for node in PATHS)]
    for node in PATHS:
        assert set(table(section, node)["cc"]) == names
        assert len(figures[f"gallery-{node}"].figure.axes) == 3 * len(names)


def test_figures_have_a_column_s_width_too_and_their_algorithms_the_colours_of_the_report(
    drawn: tuple[Results, Section],
) -> None:
    results, section = drawn
    context = Context(results)
    figures = [block for block in section.blocks if isinstance(block, Plot)]
    with styled(), in_a_column():
        assert all(one.draw and one.draw(COLUMN_IN).get_figwidth() == COLUMN_IN for one in figures)
    (overview, first, *_) = figures
    marks = {str(line.get_color()) for line in overview.figure.axes[0].lines if line.get_marker() == "o"}
    names = list(dict.fromkeys(results.table("flows")["cc"]))
    assert marks == {look(number_of(cc)).color for cc in names}
    rows = {axes.get_ylabel(): axes for axes in first.figure.axes if axes.get_ylabel()}
    for cc in names:
        wanted, label = look(number_of(cc)), context.label(cc)
        assert any(line.get_color() == wanted.color for line in rows[label].lines), cc


def test_every_algorithm_is_in_the_gallery_by_its_name_for_people(drawn: tuple[Results, Section]) -> None:
    results, _ = drawn
    every = {one.name for one in algorithms()}
    assert set(results.table("flows")["cc"]) == every, "add it to studies/gallery/study.toml"
    context = Context(results)
    assert {context.label(cc) for cc in every} == {name_of(cc) for cc in every}


def test_the_numbers_are_those_of_the_flows(drawn: tuple[Results, Section]) -> None:
    results, section = drawn
    flows = results.table("flows")
    for node in PATHS:
        for row in table(section, node).iter_rows(named=True):
            own = flows.filter((pl.col("to_node") == node) & (pl.col("cc") == row["cc"]) & (pl.col("flow") == "main"))
            alone = own.filter(pl.col("point").str.contains('"flows.beside.count":0', literal=True)).row(0, named=True)
            pair = own.filter(pl.col("point").str.contains('"flows.beside.count":1', literal=True)).row(0, named=True)
            other = flows.filter((pl.col("run") == pair["run"]) & (pl.col("flow") == "beside")).row(0, named=True)
            assert row["goodput_mbps"] == alone["goodput_mbps"]
            least = flows.filter(pl.col("to_node") == node)["rtt_min_ms"].min()
            assert row["queueing_ms"] == pytest.approx(alone["rtt_mean_ms"] - least)
            mine, theirs = pair["steady_goodput_mbps"], other["steady_goodput_mbps"]
            assert row["share_percent"] == pytest.approx(100 * mine / (mine + theirs))
            assert row["jain"] == pytest.approx((mine + theirs) ** 2 / (2 * (mine**2 + theirs**2)))


def test_the_time_to_the_capacity_is_the_end_of_the_first_second_that_has_it(drawn: tuple[Results, Section]) -> None:
    results, section = drawn
    reno = table(section, "wired-100").filter(pl.col("cc") == "reno")["to_full_s"][0]
    flows = results.table("flows").filter((pl.col("to_node") == "wired-100") & (pl.col("cc") == "reno"))
    run = flows.filter(pl.col("flow") == "main")["run"].min()
    series = results.table("series").filter(pl.col("run") == run).sort("t_s")
    rates = dict(series.select("t_s", "goodput_mbps").iter_rows())
    enough = 0.9 * 100 * 1448 / 1500
    full = [t for t in rates if t >= 1.0 and (rates[t] + rates[t - 0.5]) / 2 >= enough]
    assert reno == full[0]


def test_paths_are_what_their_names_say(drawn: tuple[Results, Section]) -> None:
    results, _ = drawn
    least = dict(results.table("flows").group_by("to_node").agg(pl.col("rtt_min_ms").min()).iter_rows())
    for node, rtt_ms in zip(PATHS, (600, 600, 40, 25), strict=True):
        assert least[node] == pytest.approx(rtt_ms, rel=0.01)
    manifest = json.loads((results.path / "manifest.json").read_text())
    assert manifest["reduced"]


def test_a_report_of_many_groups_keeps_the_gallerys_figures(drawn: tuple[Results, Section]) -> None:
    with styled():
        sections = build(Context(drawn[0]))
    assert [section.name for section in sections] == ["gallery", "setup"]
    assert any(isinstance(block, Plot) for block in sections[0].blocks)

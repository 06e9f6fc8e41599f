# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The gallery: the reduced study, simulated, and its figures of many algorithms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from perigee.cc.catalog import algorithms
from perigee.report.context import Context
from perigee.report.model import Plot, Section
from perigee.report.sections import build
from perigee.report.style import COLUMN_IN, in_a_column, styled
from perigee.store.results import Results

PATHS = ["geo-100", "geo-10", "leo-100", "wired-100"]


@pytest.fixture(scope="module")
def drawn(reduced: Callable[[str], Path]) -> tuple[Results, Section]:
    """The reduced study's results and the section of its figures."""
    results = Results(reduced("gallery"))
    with styled():
        sections = build(Context(results))
    assert [section.name for section in sections] == ["figures", "summary", "setup"]
    return results, sections[0]


def figures(section: Section) -> dict[str, Plot]:
    """The figures by name."""
    return {block.name: block for block in section.blocks if isinstance(block, Plot)}


def test_each_path_has_a_row_of_curves_per_algorithm_in_its_colour(drawn: tuple[Results, Section]) -> None:
    results, section = drawn
    context = Context(results)
    rows = [one for name, one in figures(section).items() if name.startswith("rows")]
    groups = {group.label.split(",")[0]: group for group in context.drawn}
    assert len(rows) == len(PATHS)
    for one in rows:
        labels = {axes.get_ylabel(): axes for axes in one.figure.axes if axes.get_ylabel()}
        assert labels.keys() == groups.keys()
        for label, group in groups.items():
            assert any(line.get_color() == group.look.color for line in labels[label].lines), label
    with styled(), in_a_column():
        assert all(one.draw and one.draw(COLUMN_IN).get_figwidth() == COLUMN_IN for one in figures(section).values())


def test_figure_1_has_the_means_of_the_flows_as_marks(drawn: tuple[Results, Section]) -> None:
    results, section = drawn
    dots = figures(section)["dots"].data
    assert dots is not None
    context = Context(results)
    of_main = results.points.join(results.table("flows")).filter(flow="main")
    (count,) = (name for name in dots.columns if name.endswith("count"))
    for row in dots.filter(pl.col("quantity").str.contains("goodput")).iter_rows(named=True):
        (node,) = (name for name in PATHS if context.label(name) == row["point.to"])
        own = of_main.filter(to_node=node)
        own = own.filter(pl.col("cc").map_elements(context.label, return_dtype=pl.String) == row["cc"])
        own = own.filter(pl.col(count).cast(pl.String) == row[count])
        mean = float(own["goodput_mbps"].mean())  # type: ignore[arg-type]
        assert row["mean"] == pytest.approx(100 * mean / (10 if node == "geo-10" else 100))


def test_every_algorithm_is_in_the_gallery_by_its_name_for_people(drawn: tuple[Results, Section]) -> None:
    results, _ = drawn
    every = {one.name for one in algorithms()}
    assert set(results.table("flows")["cc"]) == every, "add it to studies/gallery/study.toml and report.toml"
    assert all(Context(results).label(name)[0].isupper() for name in every)


def test_paths_are_what_their_names_say(drawn: tuple[Results, Section]) -> None:
    results, _ = drawn
    least = dict(results.table("flows").group_by("to_node").agg(pl.col("rtt_min_ms").min()).iter_rows())
    for node, rtt_ms in zip(PATHS, (600, 600, 40, 25), strict=True):
        assert least[node] == pytest.approx(rtt_ms, rel=0.01)
    manifest = json.loads((results.path / "manifest.json").read_text())
    assert manifest["reduced"]

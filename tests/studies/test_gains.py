# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figure `gain`, of the atlas of splitting at reduced size: what a switch changes on each path."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError, NothingToDrawError
from perigee.groups.settings import Choice
from perigee.places import find_study
from perigee.report.choice import plots_of
from perigee.report.context import Context
from perigee.report.model import Plot
from perigee.report.style import styled
from perigee.store.results import Results


@pytest.fixture(scope="module")
def atlas(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The atlas at reduced size: 2 delays, 2 loss rates, 5 senders, direct and split."""
    out = tmp_path_factory.mktemp("atlas") / "results"
    carry_out(Job(find_study("atlas"), Simulator, out=out, workers=1, reduced=True))
    return Results(out)


def drawn(results: Results, metric: str, hue: str = "") -> Plot:
    with styled():
        (plot,) = plots_of(Context(results), Choice("gain", (metric,), ("links.far.delay", "loss"), hue))
        assert plot.figure.axes
    return plot


def test_gain_is_the_quotient_of_the_two_runs_of_a_path(atlas: Results) -> None:
    data = drawn(atlas, "goodput_mbps").data
    assert data is not None
    assert data.height == 2 * 2 * 5
    rows = atlas.with_points("flows").filter(
        pl.col("point.links.far.delay") == 280, pl.col("point.loss") == 1, pl.col("point.sender") == "Hybla"
    )
    direct, split = (rows.filter(pl.col("point.enabled") == on)["goodput_mbps"].item() for on in (False, True))
    cell = data.filter(
        pl.col("point.links.far.delay") == 280, pl.col("point.loss") == 1, pl.col("point.sender") == "Hybla"
    )
    assert cell["gain"].item() == pytest.approx(split / direct)
    assert cell["pays_percent"].item() == (100 if split > 1.1 * direct else 0)


def test_less_time_is_a_gain_above_one(atlas: Results) -> None:
    """Durations and goodputs of downloads of one size tell the same."""
    of_time, of_rate = (drawn(atlas, name).data for name in ("duration_s", "goodput_mbps"))
    assert of_time is not None
    assert of_rate is not None
    assert of_time["gain"].to_list() == pytest.approx(of_rate["gain"].to_list(), rel=1e-6)


def test_splitting_pays_for_cubic_where_the_far_segment_is_short_and_lossy(atlas: Results) -> None:
    data = drawn(atlas, "goodput_mbps").data
    assert data is not None
    lossy = data.filter(pl.col("point.links.far.delay") == 25, pl.col("point.loss") == 1)
    gain = dict(lossy.select("point.sender", "gain").iter_rows())
    assert gain["Cubic"] > 1.1


def test_one_map_without_a_hue(atlas: Results) -> None:
    data = drawn(atlas, "goodput_mbps", hue="none").data
    assert data is not None
    assert data["points"].to_list() == [5] * 4


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        (Choice("gain", x=("loss",)), InputError, "name two axes"),
        (Choice("gain", x=("loss", "loss")), InputError, "must be different keys"),
        (Choice("gain", x=("loss", "links.far.delay"), hue="loss"), InputError, "must be different keys"),
        (Choice("gain", x=("loss", "links.far.delay"), facets=("sender",)), InputError, "no facets"),
        (Choice("gain", x=("loss", "links.far.delay"), flows=("nobody",)), NothingToDrawError, "no point has it"),
        (Choice("gain", x=("loss", "colour")), NothingToDrawError, "does not vary in these results"),
        (Choice("gain", ("power",), ("loss", "links.far.delay")), InputError, "ratio of means"),
    ],
)
def test_bad_choices_are_named(atlas: Results, choice: Choice, error: type[InputError], message: str) -> None:
    with pytest.raises(error, match=message):
        plots_of(Context(atlas), choice)


def test_without_a_switch_there_is_nothing_to_gain(results: Path) -> None:
    with pytest.raises(InputError, match="none varies here"):
        plots_of(Context(Results(results)), Choice("gain", x=("a", "b")))

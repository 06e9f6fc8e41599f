# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The keys that a study varies, as typed columns of its tables."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest

from perigee.engines.choice import engine
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.places import find_study
from perigee.store.points import points_of
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "sweep"
time_limit = "1 min"
nodes = ["server", "dish"]

"""
    + link("sat", "server dish", rate="10 Mbit/s", delay="20 ms", queue="60 kB")
    + flow("main", "server dish", size="50 kB")
    + """
[vary]
"links.sat.rate" = ["10 Mbit/s", "500 kbit/s"]
"links.sat.loss" = ["0 %", "100 ppm"]
linked = [{ "flow.cc" = "cubic", "flow.size" = "50 kB" }, { "flow.cc" = { name = "reno" } }]
"""
)


def points(*given: dict[str, object]) -> pl.DataFrame:
    """The table of points of a study with one run for each."""
    return points_of(pl.DataFrame({"run": range(len(given)), "point": [json.dumps(one) for one in given]})).table


def test_tables_have_what_varies_in_columns_with_units(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    out = tmp_path / "results"
    carry_out(Job(find_study(str(tmp_path)), engine("sim"), out=out))
    results = Results(out)
    assert results.points.units == {"point.rate": "Mbit/s", "point.loss": "%", "point.size": "B"}
    flows = results.with_points("flows")
    assert flows.select("point.rate", "point.loss", "point.cc", "point.size").rows() == [
        (rate, loss, cc, size)
        for rate in (10.0, 0.5)
        for loss in (0.0, 0.01)
        for cc, size in (("cubic", 50_000.0), ("reno", None))
    ]
    assert flows.drop(column.name for column in results.points.columns).equals(results.table("flows"))
    for name in ("series", "links", "rtt"):
        table = results.with_points(name)
        assert table.height == results.table(name).height > 0
        by_run = dict(flows.select("run", "point.rate").iter_rows())
        assert all(rate == by_run[run] for run, rate in table.select("run", "point.rate").iter_rows())
    rate, loss, cc, _ = results.points.columns
    assert (rate.key, rate.values, rate.texts) == ("links.sat.rate", (10.0, 0.5), ("10 Mbit/s", "500 kbit/s"))
    assert (loss.texts, loss.is_number, cc.is_number) == (("0 %", "100 ppm"), True, False)


def test_a_study_that_varies_nothing_has_no_further_columns() -> None:
    flows = pl.DataFrame({"run": [0, 1], "point": ["{}", "{}"]})
    assert points_of(flows).join(flows).equals(flows)


def test_a_quantity_beside_a_word_stays_text() -> None:
    table = points({"hosts.a": "50 ms"}, {"hosts.a": "off"})
    assert table["point.a"].to_list() == ["50 ms", "off"]


def test_quantities_of_two_kinds_stay_text() -> None:
    table = points({"links.a.queue": "50 ms"}, {"links.a.queue": "1 MB"})
    assert table["point.queue"].to_list() == ["50 ms", "1 MB"]


def test_the_same_quantity_in_two_units_is_one_value() -> None:
    found = points_of(pl.DataFrame({"run": [0, 1], "point": ['{"a.delay":"1 s"}', '{"a.delay":"1000 ms"}']}))
    assert (found.columns[0].values, found.columns[0].texts) == ((1000.0,), ("1 s",))


def test_an_unlimited_rate_is_infinite() -> None:
    assert points({"a.rate": "unlimited"}, {"a.rate": "1 Gbit/s"})["point.rate"].to_list() == [math.inf, 1000.0]


def test_switches_and_whole_numbers_keep_their_types() -> None:
    table = points({"a.sack": True, "a.count": 1, "a.share": 1}, {"a.sack": False, "a.count": 8, "a.share": 0.5})
    assert table.schema == {
        "run": pl.Int64, "point.sack": pl.Boolean, "point.count": pl.Int64, "point.share": pl.Float64,
    }  # fmt: skip


def test_keys_that_end_alike_keep_their_whole_path() -> None:
    table = points({"links.up.loss": "1 %", "links.down.loss": "2 %", "links.up.rate": "1 Mbit/s"})
    assert table.columns == ["run", "point.links.up.loss", "point.links.down.loss", "point.rate"]


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_point_that_no_engine_writes_is_wrong_input(text: str) -> None:
    with pytest.raises(InputError, match="table flows: a point is no"):
        points_of(pl.DataFrame({"run": [0], "point": [text]}))

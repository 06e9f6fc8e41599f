# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`import perigee`: making, changing and running studies, their results, link profiles, and the skeleton's tests."""

from __future__ import annotations

import gc
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

import perigee
from conftest import Perigee, environment, tool
from perigee import toml
from perigee.errors import InputError

STUDY: dict[str, Any] = {
    "name": "made",
    "title": "A study made by a test",
    "rounds": 2,
    "nodes": ["server", "dish"],
    "links": [
        {"name": "sat", "between": ["server", "dish"], "rate": "4 Mbit/s", "delay": "30 ms", "queue": "30 kB"},
    ],
    "flows": [{"name": "main", "from": "server", "to": "dish", "size": "100 kB"}],
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> perigee.Results:
    """Two algorithms over three losses."""
    study = perigee.Study.from_dict(STUDY).vary("links.sat.loss", ["0 %", "0.1 %", "1 %"])
    return study.vary("flow.cc", ["cubic", "vegas"]).run(out=tmp_path_factory.mktemp("swept") / "results", jobs=1)


def test_the_same_study_from_a_table_from_text_and_from_a_file_has_the_same_results(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(toml.document(STUDY))
    studies = (
        perigee.Study.from_dict(STUDY),
        perigee.Study.from_toml(toml.document(STUDY)),
        perigee.Study.load(tmp_path),
        perigee.Study.load(str(tmp_path / "study.toml")),
    )
    tables = []
    for study in studies:
        assert (study.name, study.title) == ("made", "A study made by a test")
        with study.run(jobs=1) as results:
            tables.append(results.flows)
    assert all(table.equals(tables[0]) for table in tables)


def test_a_study_is_never_changed_itself() -> None:
    study = perigee.Study.from_dict(STUDY)
    other = study.set("rounds", 1).vary("flow.cc", ["cubic", "bbr"])
    assert study.settings == ()
    assert other.settings == ("rounds=1", "vary.flow.cc=cubic,bbr")
    assert (study.points().height, other.points().height) == (1, 2)
    # `set` replaces `vary` for the same key, and the reverse.
    assert other.set("flow.cc", "reno").points().height == 1
    assert other.vary("flow.cc", ["reno", "vegas", "htcp"]).points()["point.cc"].to_list() == ["reno", "vegas", "htcp"]
    assert other.also("flow.cc", ["reno"]).points()["point.cc"].to_list() == ["cubic", "bbr", "reno"]


def test_values_of_a_study_reach_it_whatever_their_type() -> None:
    study = perigee.Study.from_dict(STUDY)
    queues = [{"bytes": "30 kB", "aqm": {"kind": "codel"}}, "60 kB"]
    points = study.vary("links.sat.queue", queues).vary("hosts.sack", [True, False]).points()
    assert points["point.sack"].to_list() == [True, False, True, False]
    assert "codel" in points["point.queue"][0]
    sizes = study.set("hosts.rmem", ["4 kB", "64 kB", "1 MB"]).set("rounds", np.int64(1)).set("seed", 7)
    assert sizes.points().height == 1
    with pytest.raises(InputError, match=r"links\.sat\.loss: 0\.1 has no unit|`0\.1`"):
        study.set("links.sat.loss", 0.1).points()


KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_tables_written_as_toml_read_back_the_same(content: dict[str, Any]) -> None:
    assert tomllib.loads(toml.document(content)) == content


def test_errors_name_the_line_and_the_key() -> None:
    with pytest.raises(perigee.InputError, match="<toml>:1: unknown key `nam`"):
        perigee.Study.from_toml('nam = "a"\n').points()
    study = perigee.Study.from_dict(STUDY)
    for wrong, message in (
        (lambda: study.set("flow.cc", object()), "flow.cc: <object .* is no value of a study"),
        (lambda: study.vary("flow.cc", []), "flow.cc: the list of values is empty"),
        (lambda: study.vary("flow.cc", "cubic"), "'cubic' is one value; give a list"),
        (lambda: study.set("", 1), "'': is no key path"),
        (lambda: study.vary("flow.ccc", ["cubic"]).points(), "^flow.ccc=cubic: .*ccc"),
        (lambda: perigee.load("/nowhere"), "/nowhere: no such results folder"),
        (lambda: perigee.Study.load("no-such-study"), "no study of that name"),
    ):
        with pytest.raises(perigee.InputError, match=message):
            wrong()


def test_a_temporary_folder_goes_with_its_results() -> None:
    study = perigee.Study.from_dict(STUDY)
    with study.run(jobs=1) as results:
        folder = results.folder
        flows = results.flows
        assert folder.is_dir()
    assert not folder.parent.exists()
    assert flows.height == results.flows.height == 2
    results = study.run(jobs=1)
    folder = results.folder
    del results
    gc.collect()
    assert not folder.parent.exists()
    with pytest.raises(InputError):
        study.vary("flow.cc", ["nonesuch"]).run()


def test_a_folder_of_ones_own_stays_and_is_not_run_again(tmp_path: Path) -> None:
    study, seen = perigee.Study.from_dict(STUDY), []
    out = tmp_path / "kept"
    with study.run(out=out, progress=lambda done, total: seen.append((done, total)), jobs=1) as results:
        assert results.folder == out
    assert seen[-1] == (2, 2)
    before = (out / "flows.parquet").stat().st_mtime_ns
    assert study.run(out=out).flows.equals(perigee.load(out).flows)
    assert (out / "flows.parquet").stat().st_mtime_ns == before


def test_results_have_their_tables_as_attributes_with_what_varied(swept: perigee.Results) -> None:
    assert (swept.study, swept.title, swept.engine) == ("made", "A study made by a test", "sim")
    assert set(swept.tables) >= {"flows", "series", "links", "rtt"}
    assert swept.units == {"point.loss": "%"}
    assert swept.points.columns == ["run", "point.loss", "point.cc"]
    assert swept.points["point.loss"].unique().sort().to_list() == [0.0, 0.1, 1.0]
    for name in ("flows", "series", "links", "rtt"):
        table = getattr(swept, name)
        assert {"point.loss", "point.cc"} <= set(table.columns)
        assert table.equals(swept.table(name))
    assert swept.events.is_empty()
    with pytest.raises(InputError, match=r"there is no table `connection`; the tables are: "):
        swept.table("connection")
    metrics = swept.with_metrics("retransmitted_percent")
    expected = 100 * metrics["retransmitted_packets"] / metrics["sent_packets"]
    assert (metrics["retransmitted_percent"] - expected).abs().max() < 1e-9  # type: ignore[operator]


def test_a_table_that_is_changed_does_not_change_the_results(swept: perigee.Results) -> None:
    height = swept.flows.height
    swept.flows.drop_in_place("goodput_mbps")
    assert swept.flows["goodput_mbps"].len() == height


def lines(figure: Figure) -> list[tuple[str, list[float], list[float]]]:
    """Label, places and means of the lines of a figure."""
    found = []
    for axes in figure.axes:
        handles: tuple[Any, list[str]] = axes.get_legend_handles_labels()
        for drawn, label in zip(*handles, strict=True):
            line: Any = drawn.lines[0] if isinstance(drawn, ErrorbarContainer) else drawn
            found.append((label.strip(), list(map(float, line.get_xdata())), list(map(float, line.get_ydata()))))
    return found


def test_a_figure_shows_the_means_over_what_varies(swept: perigee.Results) -> None:
    figure = swept.plot(x="loss", y="goodput_mbps")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel().replace("\n", " ")) == (
        "Loss of sat (%)", "Overall throughput (Mbit/s) higher is better →",
    )  # fmt: skip
    drawn = {label: (x, y) for label, x, y in lines(figure)}
    assert list(drawn) == ["Cubic", "Vegas"]
    for cc, (x, y) in drawn.items():
        means = swept.flows.filter(cc=cc.lower()).group_by("point.loss").agg(pl.mean("goodput_mbps")).sort("point.loss")
        assert x == means["point.loss"].to_list()
        assert y == pytest.approx(means["goodput_mbps"].to_list())


def test_a_figure_may_have_panels_words_along_its_axis_and_a_metric_of_ones_own(swept: perigee.Results) -> None:
    figure = swept.plot(x="cc", y="goodput_mbps / rtt_mean_ms", facet="point.loss", hue="none")
    assert [axes.get_title("left") for axes in figure.axes] == [f"loss {loss} %" for loss in ("0", "0.1", "1")]
    assert {text.get_text() for text in figure.axes[-1].get_xticklabels()} == {"Cubic", "Vegas"}
    assert isinstance(swept.plot(kind="boxes", y="duration_s"), Figure)


def test_where_only_the_algorithm_varies_it_is_along_the_axis_but_of_what_is_over_time() -> None:
    study = perigee.Study.from_dict(STUDY).set("measure.series", "200 ms").vary("flow.cc", ["cubic", "vegas"])
    with study.run(jobs=1) as results:
        figure, windows = results.plot(), results.plot(y="cwnd_packets")
    assert "Time" in windows.axes[-1].get_xlabel()
    assert {text.get_text() for text in figure.axes[0].get_xticklabels()} == {"Cubic", "Vegas"}


def test_a_figure_of_what_is_not_there_is_refused(swept: perigee.Results) -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"x": "rate"}, "^x=rate: does not vary in these results"),
        ({"y": "speed"}, "`speed` is no metric"),
        ({"hue": "colour"}, "^hue=colour: does not vary"),
        ({"kind": "pie"}, "^kind=pie: there is no such figure"),
    )
    for wrong, message in cases:
        with pytest.raises(InputError, match=message):
            swept.plot(**wrong)


def test_results_are_compared_with_several_others(swept: perigee.Results) -> None:
    study = perigee.Study.from_dict(STUDY).vary("flow.cc", ["cubic", "vegas"])
    with study.run(jobs=1) as a, study.set("links.sat.delay", "60 ms").run(jobs=1) as b, study.run(jobs=1) as c:
        comparison = a.compare(b, c)
        assert comparison.changes.rows() == [("links.sat.delay", "as in the study", "60 ms", "as in the study")]
        cells = comparison.cells
        assert set(cells.filter(other="C")["remark"]) == {"the same"}
        slower = cells.filter(other="B", quantity="rtt_mean_ms")
        assert (slower["difference"] > 50).all()
        assert slower["flows_a"].to_list() == [2, 2]
        assert "<td>links.sat.delay</td>" in comparison._repr_html_()
        with pytest.raises(InputError, match="nothing to compare it with"):
            a.compare()


def test_notebooks_show_studies_results_and_profiles(swept: perigee.Results) -> None:
    study = perigee.Study.from_dict(STUDY | {"title": "<b>"}).vary("links.sat.loss", ["0 %", "1 %"])
    html = study._repr_html_()
    assert "&lt;b&gt;" in html
    assert "2 points" in html
    assert "<td>1</td>" in html
    assert "error: " in study.vary("flow.cc", ["nonesuch"])._repr_html_()
    html = swept._repr_html_()
    assert '<th scope="col">point.loss (%)</th>' in html
    assert html.count("<tr>") == 7
    assert "data:image/png;base64," in perigee.Profile.load("geo")._repr_html_()


def test_a_profile_is_sampled_as_its_model_says() -> None:
    profile = perigee.Profile.load("viasat2")
    samples = profile.sample(seconds=20.0, every=0.01, seed=3)
    assert samples.columns == ["direction", "t_s", "rate_mbps", "delay_ms", "lost"]
    assert samples.height == 2 * 2000
    assert samples.equals(profile.sample(seconds=20.0, every=0.01, seed=3))
    assert not samples.equals(profile.sample(seconds=20.0, every=0.01, seed=4))
    assert samples["lost"].equals(samples["delay_ms"].is_null(), check_names=False)
    lossy = profile.set("down.loss", "50 %").sample(seconds=20.0, every=0.01)
    shares = dict(lossy.group_by("direction").agg(pl.mean("lost")).iter_rows())
    # 1000 of 2000 are expected; the standard deviation is 22.
    assert 0.45 < shares["down"] < 0.55
    assert isinstance(profile.draw(seconds=5.0), Figure)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": 0.0}, "give from 1 to"),
        ({"seconds": float("nan")}, "give from 1 to"),
        ({"seconds": 1e9, "every": 1e-5}, "give from 1 to"),
        ({"every": 1e-9}, "at least a microsecond"),
        ({"seed": -1}, "seed = -1: out of range"),
    ],
)
def test_samples_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        perigee.Profile.load("geo").sample(**arguments)


def test_importing_perigee_loads_nothing_that_is_slow() -> None:
    listed = "import sys, perigee; perigee.__version__; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    slow = {"matplotlib", "numpy", "polars", "perigee._core"}
    assert not slow & set(done.stdout.split())
    assert set(perigee.__all__) <= set(dir(perigee))
    with pytest.raises(AttributeError, match="has no attribute 'nonesuch'"):
        _ = perigee.nonesuch


def test_every_test_of_the_skeleton_runs_also_after_one_that_fails(perigee: Perigee, tmp_path: Path) -> None:
    assert perigee("cc", "new", "mycc").returncode == 0
    source = tmp_path / "mycc" / "mycc.c"
    source.write_text(source.read_text().replace("* param(sk, decrease) >> 10", "* param(sk, decrease) >> 11"))
    done = subprocess.run(
        [sys.executable, "mycc/test_mycc.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert [line.partition(" ")[0] for line in said] == ["1/4", "2/4", "3/4", "4/4", "3"]
    assert [line.rpartition(": ")[2] == "ok" for line in said[:4]] == [True, False, True, True]
    assert "a loss takes the share that is set: FAILED: AssertionError: " in said[1]
    assert said[-1] == "3 of 4 passed"


def test_the_reference_has_every_name() -> None:
    reference = tool("python_reference")
    assert [name for name in reference.ORDER if f"## {name}\n" not in reference.page()] == []
    assert set(reference.ORDER) == set(perigee.__all__) - {"__version__"}


def test_fingers_find_what_they_type(swept: perigee.Results, capsys: pytest.CaptureFixture[str]) -> None:
    assert "annotations" not in dir(perigee) and "NothingToDrawError" in dir(perigee)
    assert "gallery" in perigee.studies() and "hybla" in perigee.algorithms()
    study = perigee.Study.load("claypool-2021").set({"flow.size": "1 MB", "rounds": 1}).vary("flow.cc", ["cubic"])
    assert repr(study) == "<Study claypool-2021: flow.size=1 MB, rounds=1, vary.flow.cc=cubic>"
    study.run(progress=True).close()
    assert "claypool-2021: 1 of 1 run\n" in capsys.readouterr().err
    assert swept["flows"].equals(swept.flows)
    assert swept.summary().startswith("Throughput: ")


def test_a_wrong_setting_is_refused_at_once_and_one_of_an_unfinished_study_is_not() -> None:
    study = perigee.Study.load("claypool-2021")
    for key, value, message in (("flow.size", 10e6, "no unit"), ("flow.siz", "1 MB", "size")):
        with pytest.raises(InputError, match=message) as caught:
            study.set(key, value)
        assert "--set" not in str(caught.value)
    # Such a study gets its inputs later.
    replay = perigee.Study.load("starlink-replay")
    assert replay.set("rounds", 2).settings == ("rounds=2",)
    unfinished = perigee.Study.from_toml('name = "a"\nnodes = ["x", "y"]\n')
    assert unfinished.set("seed", 3).settings == ("seed=3",)


def test_a_figure_takes_the_place_of_axes_of_ones_own(swept: perigee.Results) -> None:
    from matplotlib.figure import Figure

    own = Figure(layout="constrained")
    left, right = own.subplots(1, 2)
    assert swept.plot(ax=right) is own
    assert left in own.axes and right not in own.axes
    assert own.subfigs[0].axes
    own.draw_without_rendering()

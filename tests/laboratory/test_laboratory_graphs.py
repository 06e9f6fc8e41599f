# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Graphs over time: what is read out of tables, reduced to columns of pixels, and sent to the page."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.groups.looks import number_of
from perigee.laboratory import graphs, views
from perigee.laboratory.graphs import Asked, Part
from perigee.laboratory.runs import Runs
from perigee.places import find_study
from synthetic import SyntheticEngine


def write(path: Path, columns: dict[str, Any], rows: int = 1 << 17) -> Path:
    """Write a table in row groups of equal size."""
    pl.DataFrame(columns).write_parquet(path, row_group_size=rows)
    return path


def read(path: Path, run: int, column: str, *names: str) -> graphs.Graph:
    """A graph, read to its end."""
    (graph,) = graphs.Graphs().get([Asked(path, run, column, names)])
    return graph


def unpacked(body: bytes) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The head, and smallest and largest values of each trace, by trace, kind and column."""
    (length,) = struct.unpack_from("<I", body)
    head = json.loads(body[4 : 4 + length])
    assert (4 + length) % 8 == 0
    count = sum(len(panel["traces"]) for panel in head["panels"])
    return head, np.frombuffer(body, offset=4 + length).reshape(count, 2, head["columns"])


def shown(folders: dict[str, Path], *curves: str, what: str = "series.goodput_mbps") -> views.Shown:
    """A view of results, the first of which are those of the page, read to its end."""
    here = next(iter(folders))
    several = tuple(views.Curve.parse(curve, here) for curve in curves)
    view = views.View(here, several, tuple(views.Quantity.parse(one) for one in what.split()))
    runs = {name: Runs(folder) for name, folder in folders.items()}
    return views.Shown(view, runs, folders.__getitem__, graphs.Graphs(), math.inf)


def made(folder: Path, study: Path, rounds: int = 2, **options: Any) -> Path:
    """Finished results of four algorithms."""
    carry_out(Job(find_study(str(study)), SyntheticEngine(rounds, **options), out=folder, workers=1))
    return folder


@pytest.mark.parametrize("rows", [7, 1000, 1 << 17])
def test_an_envelope_has_the_smallest_and_largest_samples_of_one_run_in_every_column(tmp_path: Path, rows: int) -> None:
    random = np.random.default_rng(5)
    count = 3000
    run, flow = np.sort(random.integers(0, 3, count)), random.choice(["a", "b"], count)
    time, value = random.uniform(0.0, 10.0, count), random.normal(size=count)
    missing = random.random(count) < 0.1
    columns = {"run": run, "flow": flow, "t_s": time, "x_ms": pl.Series(value).set(pl.Series(missing), None)}
    graph = read(write(tmp_path / "t.parquet", columns, rows), 1, "x_ms")
    assert (graph.parts, graph.is_dotted) == ([Part("a"), Part("b")], False)
    assert graph.samples == np.sum((run == 1) & ~missing)
    for part, envelope in graph.envelopes(2.0, 6.0, 40).items():
        sent = np.frombuffer(envelope).reshape(2, 40)
        for column in range(40):
            begin, end = 2.0 + column * 0.1, 2.1 + column * 0.1
            own = value[(run == 1) & (flow == part.name) & ~missing & (time >= begin) & (time < end)]
            expected = [own.min(), own.max()] if len(own) else [np.nan, np.nan]
            assert np.array_equal(sent[:, column], expected, equal_nan=True), (part, column)


def test_legs_and_events_are_traces_of_their_own(tmp_path: Path) -> None:
    columns = {
        "run": [0] * 4,
        "flow": ["main"] * 4,
        "leg": pl.Series([None, 1, 1, 2], dtype=pl.UInt32),
        "event": ["sent", "sent", "ack", "sent"],
        "t_s": [0.0, 1.0, 2.0, 3.0],
        "sequence": pl.Series([1, 2, 3, 4], dtype=pl.UInt64),
    }
    graph = read(write(tmp_path / "events.parquet", columns), 0, "sequence")
    assert graph.parts == [
        Part("main", 0, "sent"),
        Part("main", 1, "ack"),
        Part("main", 1, "sent"),
        Part("main", 2, "sent"),
    ]
    assert graph.is_dotted


def test_flows_beyond_the_most_are_counted_and_a_run_without_rows_has_no_traces(tmp_path: Path) -> None:
    count = graphs.MOST_TRACES + 5
    flows = [f"flow {number:02d}" for number in range(count)]
    path = write(tmp_path / "t.parquet", {"run": [0] * count, "flow": flows, "t_s": [0.5] * count, "x": [1.0] * count})
    assert read(path, 0, "x").left_out == 5
    last = read(path, 0, "x", flows[-1], "none")
    assert (last.parts, last.left_out) == ([Part(flows[-1])], 0)
    empty = read(path, 7, "x")
    assert (empty.parts, empty.span_s) == ([], (0.0, 1.0))


def test_graphs_in_memory_are_bounded_and_a_changed_file_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MOST_SAMPLES", 10)
    known = graphs.Graphs()
    columns: dict[str, list[Any]] = {
        "run": [0] * 6,
        "flow": ["a"] * 6,
        "t_s": [0.0, 1, 2, 3, 4, 5],
        "x": [1.0] * 6,
        "y": [2.0] * 6,
    }
    path = write(tmp_path / "t.parquet", columns)
    (first,) = known.get([Asked(path, 0, "x")])
    assert known.get([Asked(path, 0, "x")]) == [first]
    (other,) = known.get([Asked(path, 0, "y")])
    (again,) = known.get([Asked(path, 0, "x")])
    assert again is not first
    write(path, {name: values[:3] for name, values in columns.items()})
    assert known.get([Asked(path, 0, "x")])[0].samples == 3
    assert other.samples == 6
    write(path, {name: [*values, *values] for name, values in columns.items()})
    with pytest.raises(InputError, match="more than 10 samples"):
        known.get([Asked(path, 0, "x")])


def test_graphs_of_one_page_stay_together_or_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_SAMPLES", 10)
    known = graphs.Graphs()
    path = write(
        tmp_path / "t.parquet",
        {"run": [0] * 4, "flow": ["a"] * 4, "t_s": [0.0, 1, 2, 3], "x": [1.0] * 4, "y": [1.0] * 4, "z": [1.0] * 4},
    )
    both = [Asked(path, 0, "x"), Asked(path, 0, "y")]
    first = known.get(both)
    assert known.get(both) == first
    with pytest.raises(InputError, match="this page: more than 10 samples"):
        known.get([*both, Asked(path, 0, "z")])


def test_a_long_table_is_drawn_while_it_is_read_on_the_axis_of_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "ROWS", 2)
    columns = {"run": [0] * 6, "flow": ["b", "b", "b", "b", "a", "a"], "t_s": [0.0, 1, 2, 3, 4, 5], "x": [1.0] * 6}
    path, known = write(tmp_path / "t.parquet", columns), graphs.Graphs()
    seen = []
    for _ in range(4):
        (graph,) = known.get([Asked(path, 0, "x")], for_s=0.0)
        seen.append(([part.name for part in graph.parts], graph.samples, graph.span_s, round(graph.share_read, 2)))
    assert seen == [
        (["b"], 2, (0.0, 5.0), 0.33),
        (["b"], 4, (0.0, 5.0), 0.67),
        (["a", "b"], 6, (0.0, 5.0), 1.0),
        (["a", "b"], 6, (0.0, 5.0), 1.0),
    ]


def test_a_table_that_is_damaged_or_has_no_such_quantity_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"run": [0], "flow": ["a"], "t_s": [0.0], "x": [1.0]})
    for column in ("flow", "t_s", "run", "y", ""):
        with pytest.raises(InputError, match="no quantity over time"):
            read(path, 0, column)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read(path, 0, "x")
    with pytest.raises(InputError, match="run the study again"):
        read(tmp_path / "gone.parquet", 0, "x")


def test_runs_are_called_by_what_they_are_and_have_the_colours_of_the_report(tmp_path: Path, study: Path) -> None:
    one = made(tmp_path / "one", study)
    (tmp_path / "one" / "study" / "report.toml").write_text('order = ["vivace"]\nlabels = { vivace = "PCC" }\n')
    view = shown({"one": one}, "0", "1", "4", "3")
    assert [line.label for line in view.lines] == ["BBR, round 1", "Cubic, round 1", "BBR, round 2", "PCC, round 1"]
    assert [line.look for line in view.lines] == [number_of(name) for name in ("bbr", "cubic", "bbr", "vivace")]
    assert view.lines[0].dash != view.lines[2].dash
    assert [line.label for line in shown({"one": made(tmp_path / "two", study, 1)}, "0").lines] == ["BBR"]


def test_flows_of_one_run_and_the_same_run_of_other_results_are_told_apart(tmp_path: Path, study: Path) -> None:
    pairs = made(tmp_path / "pairs", study, 1, pairs=True)
    labels = [line.label for line in shown({"pairs": pairs}, "4").lines]
    assert labels == ["a by BBR, b by Cubic: a", "a by BBR, b by Cubic: b"]
    assert [line.label for line in shown({"pairs": pairs}, "4:b").lines] == labels[1:]
    with pytest.raises(InputError, match="no flow of that run"):
        shown({"pairs": pairs}, "4:c")
    both = shown({"one": made(tmp_path / "one", study, 1), "pairs": pairs}, "1", "pairs/1")
    assert [line.label for line in both.lines] == ["Cubic, one", "Cubic, pairs"]
    assert len({(line.look, line.dash) for line in both.lines}) == 2


def test_a_view_has_a_panel_per_quantity_on_one_axis_and_its_numbers_suit_their_unit(
    tmp_path: Path, study: Path
) -> None:
    folder = made(tmp_path / "one", study, 1)
    links = pl.read_parquet(folder / "links.parquet")
    name = links["link"][0]
    links.with_columns(queue_bytes=pl.lit(2_500_000, pl.UInt64)).write_parquet(folder / "links.parquet")
    view = shown({"one": folder}, "0", "1", what=f"series.goodput_mbps links.queue_bytes:{name}")
    head, sent = unpacked(view.packed(*view.span_s, 50))
    assert [line["label"] for line in head["lines"]] == ["BBR", "Cubic"]
    assert [panel["traces"] for panel in head["panels"]] == [[0, 1], [0, 1]]
    assert [(panel["unit"], panel["scale"]) for panel in head["panels"]] == [("Mbit/s", 1.0), ("MB", 1e6)]
    assert np.nanmax(sent[2:]) == 2_500_000
    assert view.panels[1].quantity.title == f"Queue of {name}"


def test_results_without_rows_in_a_table_have_an_empty_curve_beside_those_that_have_them(
    tmp_path: Path, study: Path
) -> None:
    one, other = (made(tmp_path / name, study, 1) for name in ("one", "other"))
    (other / "series.parquet").unlink()
    view = shown({"one": one, "other": other}, "1", "other/1", what="series.goodput_mbps")
    assert [line.label for line in view.lines] == ["Cubic, one"]
    with pytest.raises(InputError, match="serie: no such table"):
        shown({"one": one}, "1", what="serie.goodput_mbps")


def test_legs_stand_for_a_flow_whose_quantity_only_they_have(tmp_path: Path, study: Path) -> None:
    folder = made(tmp_path / "one", study, 1)
    for table in ("series", "flows"):
        rows = pl.read_parquet(folder / f"{table}.parquet").filter(pl.col("run") == 0)
        leg = rows.with_columns(leg=pl.lit(2, pl.UInt32))
        whole = rows.with_columns(leg=pl.lit(None, pl.UInt32))
        if table == "series":
            whole = whole.with_columns(cwnd_packets=pl.lit(None, rows.schema["cwnd_packets"]))
        else:
            leg = leg.with_columns(cc=pl.lit("hybla"))
        pl.concat([whole, leg]).write_parquet(folder / f"{table}.parquet")
    view = shown({"one": folder}, "0", what="series.goodput_mbps series.cwnd_packets")
    assert [line.label for line in view.lines] == ["BBR", "BBR: leg 2"]
    assert [[line.label for line, _, _ in panel.traces] for panel in view.panels] == [["BBR"], ["BBR: leg 2"]]
    assert [line.algorithm for line in view.lines] == ["BBR", "Hybla"]
    assert [line.label for line in shown({"one": folder}, "0:download~2").lines] == ["BBR: leg 2"]


def test_a_menu_has_no_quantity_that_is_empty_everywhere(tmp_path: Path) -> None:
    columns = {"run": [0], "t_s": [0.0], "x_ms": [1.0], "y_ms": pl.Series([None], dtype=pl.Float64)}
    write(tmp_path / "series.parquet", {**columns, "flow": ["a"]})
    write(tmp_path / "links.parquet", {**columns, "link": ["sat.down"]})
    write(tmp_path / "rtt.parquet", {"run": [0], "flow": ["a"], "rtt_ms": [1.0]})
    found = views.offered(tmp_path, {name: {"rows": 1} for name in ("series", "links", "rtt", "gone")})
    keys = {of: [one.key for one in several] for of, several in found.items()}
    assert keys == {"Flows": ["series.x_ms"], "Link sat.down": ["links.x_ms:sat.down"]}


@pytest.mark.parametrize("text", ["", "x", "-1", "1e3", "a/b", "../one/x", "9999999999"])
def test_what_is_no_run_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no number of a run"):
        views.Curve.parse(text, "one")


@pytest.mark.parametrize("text", ["12", "12:a:b,c~x", "2/3", "a,b=c@d/3:web.1~2"])
def test_a_curve_is_written_as_it_was_read(text: str) -> None:
    assert views.Curve.parse(text, "one").key("one") == text

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Graphs over time: what is read out of tables, reduced to columns of pixels, and sent to the page."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.laboratory import graphs, site_graphs
from perigee.laboratory.api.graphs import described
from perigee.laboratory.graphs import Asked, Part
from perigee.laboratory.quantities import offered
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
    assert graph.parts == [Part("a"), Part("b")]
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


def test_runs_and_flows_are_called_by_what_they_are(tmp_path: Path, study: Path) -> None:
    one = made(tmp_path / "one", study)
    (one / "study" / "report.toml").write_text('order = ["vivace"]\nlabels = { bbr = "The first" }\n')
    found = Runs(one)
    assert (found.points[0].label, found.points[0].runs, found.rounds) == ("The first", {0: 0, 1: 4}, 2)
    assert [flow[:4] for flow in found.points[0].flows] == [("download", 0, "download", "bbr")]
    assert found.by_rounds() == list(range(8))
    assert found.first(2) == [0, 1]
    pairs = Runs(made(tmp_path / "pairs", study, 1, pairs=True))
    assert pairs.points[4].label == "a by BBR, b by Cubic"
    assert pairs.flows(4) == ["a", "b"]


def test_results_without_a_table_over_time_say_what_asks_for_one(tmp_path: Path, study: Path) -> None:
    folder = made(tmp_path / "one", study, 1)
    menu = described(folder)
    assert menu["first"] == {
        "runs": [0, 1, 2, 3],
        "what": ["series.goodput_mbps", "series.rtt_mean_ms", "series.cwnd_packets"],
    }
    assert {
        "key": "series.goodput_mbps",
        "of": "Flows",
        "title": "Throughput",
        "unit": "Mbit/s",
        "table": "series",
    } in (menu["quantities"])
    for table in folder.glob("*.parquet"):
        if table.stem != "flows":
            table.unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "rounds": 1}))
    with pytest.raises(InputError, match=r"measure\.series in the study asks for one"):
        described(folder)


def test_a_run_of_a_site_has_the_samples_that_the_server_would_send(tmp_path: Path, study: Path) -> None:
    folder = made(tmp_path / "one", study, 1)
    files: dict[int, dict[str, Any]] = {}

    def write(run: int, content: dict[str, Any]) -> int:
        files[run] = content
        return 3_000_000

    menu = site_graphs.written(folder, write)
    assert menu is not None
    # Two runs fit into the room of one results folder, and the third begins within it.
    assert sorted(files) == [0, 1, 2]
    assert menu["left_out"] == 1
    assert menu["first"]["runs"] == [0, 1, 2]
    assert [point["runs"] for point in menu["points"]] == [[[0, 0]], [[0, 1]], [[0, 2]]]
    content = files[1]
    packed = zlib.decompress(base64.b64decode(content["values"]), -15)
    values = np.frombuffer(packed, "<f4").reshape(len(content["traces"]), 2, content["columns"])
    what = content["what"].index("series.goodput_mbps")
    (place,) = [at for at, trace in enumerate(content["traces"]) if trace["what"] == what]
    graph = read(folder / "series.parquet", 1, "goodput_mbps")
    (envelope,) = graph.envelopes(content["from"], content["to"], content["columns"]).values()
    expected = np.frombuffer(envelope).reshape(2, -1).astype("<f4")
    assert np.array_equal(values[place], expected, equal_nan=True)
    assert np.isfinite(expected).sum() == 2 * graph.samples


def test_a_menu_has_no_quantity_that_is_empty_everywhere(tmp_path: Path) -> None:
    columns = {"run": [0], "t_s": [0.0], "x_ms": [1.0], "y_ms": pl.Series([None], dtype=pl.Float64)}
    write(tmp_path / "series.parquet", {**columns, "flow": ["a"]})
    write(tmp_path / "links.parquet", {**columns, "link": ["sat.down"]})
    write(tmp_path / "rtt.parquet", {"run": [0], "flow": ["a"], "rtt_ms": [1.0]})
    found = offered(tmp_path, {name: {"rows": 1} for name in ("series", "links", "rtt", "gone")})
    keys = {of: [one.key for one in several] for of, several in found.items()}
    assert keys == {"Flows": ["series.x_ms"], "Link sat, downlink": ["links.x_ms:sat.down"]}

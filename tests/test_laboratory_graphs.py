# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Graphs over time: what is read out of tables, reduced to columns of pixels, and sent to the page."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from perigee.errors import InputError
from perigee.laboratory import graphs


def write(path: Path, columns: dict[str, Any], rows: int = 1 << 17) -> Path:
    """Write a table in row groups of equal size."""
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def read(path: Path, run: int, column: str) -> graphs.Graph:
    """A graph, read to its end."""
    return graphs.Graphs().get(path, run, column)


def unpacked(body: bytes) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The head, and smallest and largest values of each trace, by trace, kind and column."""
    (length,) = struct.unpack_from("<I", body)
    head = json.loads(body[4 : 4 + length])
    assert (4 + length) % 8 == 0
    return head, np.frombuffer(body, offset=4 + length).reshape(len(head["traces"]), 2, head["columns"])


@pytest.mark.parametrize("rows", [7, 1000, 1 << 17])
def test_an_envelope_has_the_smallest_and_largest_samples_of_one_run_in_every_column(tmp_path: Path, rows: int) -> None:
    random = np.random.default_rng(5)
    count = 3000
    run, flow = np.sort(random.integers(0, 3, count)), random.choice(["a", "b"], count)
    time, value = random.uniform(0.0, 10.0, count), random.normal(size=count)
    missing = random.random(count) < 0.1
    columns = {"run": run, "flow": flow, "t_s": time, "x_ms": pa.array(value, mask=missing)}
    graph = graphs.Graphs().get(write(tmp_path / "t.parquet", columns, rows), 1, "x_ms")
    assert graph.names == ["a", "b"]
    assert graph.samples == np.sum((run == 1) & ~missing)
    head, sent = unpacked(graph.packed(2.0, 6.0, 40))
    assert (head["from"], head["to"], head["traces"], head["dotted"]) == (2.0, 6.0, ["a", "b"], False)
    for number, name in enumerate(head["traces"]):
        for column in range(40):
            begin, end = 2.0 + column * 0.1, 2.1 + column * 0.1
            own = value[(run == 1) & (flow == name) & ~missing & (time >= begin) & (time < end)]
            expected = [own.min(), own.max()] if len(own) else [np.nan, np.nan]
            assert np.array_equal(sent[number, :, column], expected, equal_nan=True), (name, column)


def test_legs_and_events_are_traces_of_their_own(tmp_path: Path) -> None:
    columns = {
        "run": [0] * 4,
        "flow": ["main"] * 4,
        "leg": pa.array([None, 1, 1, 2], pa.uint32()),
        "event": ["sent", "sent", "ack", "sent"],
        "t_s": [0.0, 1.0, 2.0, 3.0],
        "sequence": pa.array([1, 2, 3, 4], pa.uint64()),
    }
    graph = read(write(tmp_path / "events.parquet", columns), 0, "sequence")
    assert graph.names == ["main, leg 1, ack", "main, leg 1, sent", "main, leg 2, sent", "main, sent"]
    assert graph.is_dotted


def test_flows_beyond_the_most_are_counted_and_a_run_without_rows_has_no_traces(tmp_path: Path) -> None:
    count = graphs.MOST_TRACES + 5
    flows = [f"flow {number:02d}" for number in range(count)]
    path = write(tmp_path / "t.parquet", {"run": [0] * count, "flow": flows, "t_s": [0.5] * count, "x": [1.0] * count})
    assert read(path, 0, "x").left_out == 5
    empty = read(path, 7, "x")
    assert (empty.names, empty.span_s) == ([], (0.0, 1.0))
    assert unpacked(empty.packed(0.0, 1.0, 10))[1].size == 0


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
    first = known.get(path, 0, "x")
    assert known.get(path, 0, "x") is first
    known.get(path, 0, "y")
    assert known.get(path, 0, "x") is not first
    write(path, {name: values[:3] for name, values in columns.items()})
    assert known.get(path, 0, "x").samples == 3
    with pytest.raises(InputError, match="more than 10 samples"):
        known.get(write(path, {name: [*values, *values] for name, values in columns.items()}), 0, "x")


def test_a_long_table_is_drawn_while_it_is_read_on_the_axis_of_the_whole_run(tmp_path: Path) -> None:
    columns = {"run": [0] * 6, "flow": ["b", "b", "b", "b", "a", "a"], "t_s": [0.0, 1, 2, 3, 4, 5], "x": [1.0] * 6}
    path, known = write(tmp_path / "t.parquet", columns, rows=2), graphs.Graphs()
    seen = []
    for _ in range(4):
        graph = known.get(path, 0, "x", for_s=0.0)
        head, _ = unpacked(graph.packed(*graph.span_s, 5))
        seen.append((graph.names, graph.samples, graph.span_s, round(head["read"], 2)))
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
        graphs.Graphs().get(tmp_path / "gone.parquet", 0, "x")

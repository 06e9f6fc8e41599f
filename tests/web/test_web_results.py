# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Graphs over time in the page, without a browser: addresses, labels, looks, and samples cut to columns."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from conftest import ROOT
from perigee.core import native
from perigee.groups.looks import number_of

MODULES = ROOT / "tests" / "web" / "results.mjs"
GOODPUT = {"key": "series.goodput_mbps", "of": "Flows", "unit": "Mbit/s"}
WINDOW = {"key": "series.cwnd_packets", "of": "Flows", "unit": "packets"}
QUEUE = {"key": "links.queue_bytes:sat.down", "of": "Link sat.down", "unit": "B"}


def called(name: str, given: Any) -> Any:
    """Return what a call of `results.mjs` answers."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, "--no-warnings", str(MODULES), name]
    ran = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def point(label: str, run: int, *controls: str, flows: tuple[str, ...] = ("main",)) -> dict[str, Any]:
    """A point of a menu with a run of two rounds, whose flows have these congestion controls."""
    own = [
        {"name": flow, "leg": 0, "label": flow, "cc": cc, "algorithm": cc, "look": number_of(cc)}
        for flow, cc in zip(flows, controls, strict=True)
    ]
    return {"label": label, "runs": [[0, run], [1, run + 10]], "flows": own}


def overlaid(curves: list[str], quantities: list[Any], **results: tuple[list[Any], list[Any]]) -> Any:
    """The lines and panels that the page makes of points and traces of results, by their names."""
    menus = {name: {"points": points, "rounds": 2} for name, (points, _) in results.items()}
    answers = {name: traces for name, (_, traces) in results.items()}
    return called("overlaid", {"curves": curves, "quantities": quantities, "menus": menus, "answers": answers})


def test_a_curve_is_written_as_it_was_read_and_what_is_no_run_is_refused() -> None:
    good = ["12", "12:a:b,c~x", "2/3", "a,b=c@d/3:web.1~2", "3:main~2"]
    assert called("curves", good) == good
    wrong = ["", "x", "-1", "1e3", "a/b", "../one/x", "9999999999"]
    assert all(said.startswith("refused: ") for said in called("curves", wrong))


def test_columns_of_a_site_become_those_of_a_window_as_the_samples_would() -> None:
    random = np.random.default_rng(7)
    time, value = np.sort(random.uniform(0.0, 10.0, 300)), random.normal(size=300)
    trace = native.Trace()
    trace.extend(time.data, value.data)

    def columns(from_s: float, to_s: float, count: int) -> list[list[float | None]]:
        found = np.frombuffer(trace.envelope(from_s, to_s, count)).reshape(2, count)
        return [[None if np.isnan(one) else float(one) for one in half] for half in found]

    low, high = columns(0.0, 10.0, 4000)
    # Windows whose columns are whole numbers of those of the site: each has the same samples.
    windows = [(0.0, 10.0, 100), (2.5, 5.0, 50), (5.0, 10.0, 2000), (-5.0, 15.0, 80)]
    file = {"from": 0.0, "to": 10.0, "columns": 4000}
    found = called("cut", {"file": file, "trace": {"low": low, "high": high}, "windows": windows})
    for (from_s, to_s, count), one in zip(windows, found, strict=True):
        assert one == columns(from_s, to_s, count), (from_s, to_s, count)


def test_a_value_is_read_at_the_nearest_samples_and_beyond_a_trace_only_near_it() -> None:
    trace = {"low": [None, 1, None, None, 4, *[None] * 195], "high": [None, 2, None, None, 5, *[None] * 195]}
    window = {"from": 0, "to": 200, "columns": 200}
    times = [1.5, 2.2, 3.8, 0.5, 5.5, 50, None]
    expected = [[1, 2], [1, 2], [4, 5], [1, 2], [4, 5], None, [1, 5]]
    assert called("ranges", {"trace": trace, "window": window, "times": times}) == expected
    drawn = called("points", {"trace": trace, "window": window, "scale": 2})
    assert drawn == {"t": [1.25, 1.75, 4.25, 4.75], "v": [0.5, 1, 2, 2.5]}


def test_runs_are_called_by_what_they_are_and_rounds_of_one_algorithm_differ_in_dashes() -> None:
    points = [point("BBR, 1 % loss", 0, "bbr"), point("Cubic, 1 % loss", 1, "cubic")]
    traces = [{"run": run, "what": 0, "name": "main"} for run in (0, 1, 10)]
    found = overlaid(["0", "1", "10"], [GOODPUT], one=(points, traces))
    assert found["common"] == "1 % loss"
    labels, numbers, dashes = zip(*found["lines"], strict=True)
    assert labels == ("BBR, round 1", "Cubic, round 1", "BBR, round 2")
    assert numbers[0] == numbers[2] != numbers[1]
    assert dashes[0] != dashes[2]


def test_flows_of_one_run_and_the_same_run_of_other_results_are_told_apart() -> None:
    pair = [point("a by bbr, b by cubic", 0, "bbr", "cubic", flows=("a", "b"))]
    traces = [{"run": 0, "what": 0, "name": name} for name in ("a", "b")]
    found = overlaid(["0"], [GOODPUT], one=(pair, traces))
    assert (found["common"], [line[0] for line in found["lines"]]) == ("a by bbr, b by cubic, round 1", ["a", "b"])
    (alone,) = overlaid(["0:b"], [GOODPUT], one=(pair, traces))["lines"]
    assert alone[0] == "a by bbr, b by cubic, round 1: b"
    single = ([point("Cubic", 0, "cubic")], [{"run": 0, "what": 0, "name": "main"}])
    both = overlaid(["0", "two/0"], [GOODPUT], one=single, two=single)["lines"]
    assert [line[0] for line in both] == ["one", "two"]
    assert len({json.dumps(line[1:]) for line in both}) == 2


def test_a_view_has_a_panel_per_quantity_and_its_numbers_suit_their_unit() -> None:
    points = [point("BBR", 0, "bbr")]
    traces = [
        {"run": 0, "what": 0, "name": "main"},
        {"run": 0, "what": 1, "name": "sat.down", "most": 2_500_000},
    ]
    found = overlaid(["0"], [GOODPUT, QUEUE, WINDOW], one=(points, traces))
    assert [line[0] for line in found["lines"]] == ["BBR, round 1"]
    assert found["panels"] == [["Mbit/s", 1, [0]], ["MB", 1e6, [0]], ["packets", 1, []]]


def test_legs_stand_for_a_flow_whose_quantity_only_they_have() -> None:
    own = point("BBR", 0, "bbr")
    own["flows"].append({"name": "main", "leg": 2, "label": "main", "cc": "hybla", "algorithm": "Hybla", "look": 2})
    traces = [
        {"run": 0, "what": 0, "name": "main"},
        {"run": 0, "what": 0, "name": "main", "leg": 2},
        {"run": 0, "what": 1, "name": "main", "leg": 2},
    ]
    found = overlaid(["0"], [GOODPUT, WINDOW], one=([own], traces))
    assert [line[0] for line in found["lines"]] == ["BBR, round 1", "BBR, round 1: leg 2"]
    assert [panel[2] for panel in found["panels"]] == [[0], [1]]
    assert found["lines"][0][1] != found["lines"][1][1], "each leg has the colour of its own congestion control"
    assert [line[0] for line in overlaid(["0:main~2"], [GOODPUT], one=([own], traces))["lines"]] == [
        "BBR, round 1: leg 2"
    ]

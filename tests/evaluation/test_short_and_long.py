# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""RFC 9743, 5.2.3: short transfers are as many as their figures take, and ask for the share that a cell names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from perigee.engines.run.job import Job
from perigee.engines.sim.engine import Simulator
from perigee.evaluation.cells import settings_of
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.judging import Cell, judge
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import subject_of
from perigee.evaluation.studies import Order, candidate, study_of
from perigee.evaluation.tables import Tables
from perigee.keeper.kept import results_of

SHORT = next(one for one in CRITERIA if one.id == "5.2.3")
TWINS = ROOT / "tests" / "planted_cc" / "twins"
UNITS = {"s": 1.0, "ms": 1e-3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "Mbit/s": 1e6, "%": 0.01}
FEWEST = 200
"""Transfers of 10 kB that a run has at the least; of 33 the slowest tenth are three."""


def value(text: str) -> float:
    number, unit = text.split()
    return float(number) * UNITS[unit]


@pytest.mark.parametrize("variant", study_of(SHORT).content["vary"]["short"], ids=lambda one: str(one["name"]))
def test_short_transfers_ask_for_the_share_that_a_cell_names_while_the_long_one_lasts(variant: dict[str, Any]) -> None:
    content = study_of(SHORT).content
    flows = {flow["name"]: dict(flow) for flow in content["flows"]}
    for key, setting in variant.items():
        if key != "name":
            _, flow, name = key.split(".")
            flows[flow][name] = setting
    short, share = re.fullmatch(r"(\w+) at (\d+ %)", variant["name"]).groups()  # type: ignore[union-attr]
    long = flows["other" if short == "candidate" else "candidate"]
    sizes = [value(size) for size in flows[short]["responses"]]
    interval, start, lasts = (value(flows[short][key]) for key in ("interval", "start", "duration"))
    rate = value(content["links"][0]["rate"])
    assert 8 * sum(sizes) / len(sizes) / interval == pytest.approx(value(share) * rate, rel=0.01)
    assert lasts / interval * sizes.count(10e3) / len(sizes) >= FEWEST
    assert value(long["start"]) < start
    assert value(long["start"]) + value(long["duration"]) == start + lasts
    assert len(long["responses"]) == 1
    assert value(long["interval"]) > value(long["duration"])
    assert 8 * value(long["responses"][0]) > rate * value(long["duration"]), "it never ends"


@pytest.mark.parametrize(
    ("twin", "words"),
    [
        ("cubic_beta", "rtt 100 ms, buffer 4 BDP, short other at 30 %"),
        ("cubic_start", "rtt 28 ms, buffer 1 BDP, short candidate at 10 %"),
    ],
)
def test_six_rounds_decide_on_twins_in_the_cells_whose_times_scatter_most(
    twin: str, words: str, tmp_path: Path
) -> None:
    order = Order(candidate(str(TWINS / f"{twin}.c")), (), True, Simulator)
    settings = [*settings_of(order, SHORT, Cell(words, {}, {})), "rounds=6"]
    results = results_of(Job(study_of(SHORT), Simulator, settings, reduced=True, out=tmp_path / "out"))
    subject = subject_of(order, SHORT)
    found = judge(SHORT, Tables(results, {order.candidate.value: subject}), subject)
    assert [one.verdict for one in found.measures if one.cells] == [Verdict.PASS] * 2

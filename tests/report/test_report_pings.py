# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Pings in a report: the tail of their round trips, and those without an answer."""

from pathlib import Path

import numpy as np
import polars as pl

from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.groups.looks import Look
from perigee.places import find_study
from perigee.report.charts.cumulative import Curve, tail
from perigee.report.context import Context
from perigee.report.model import Plot, Table
from perigee.report.sections.exchanges import bursts_of, section
from perigee.report.style import styled
from perigee.store.results import Results

STUDY = """
name = "lossy"
title = "Pings over a link that loses some"
nodes = ["a", "b"]

[[links]]
name = "l"
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "10 ms"
# Numbers 10, and 20 to 22, of those that leave.
down.loss = { kind = "counted", drops = [{ packet = 10 }, { packet = 20 }, { packet = 21 }, { packet = 22 }] }

[[flows]]
name = "p"
kind = "ping"
from = "a"
to = "b"
interval = "100 ms"
packet = "48 B"
repeat = 50
"""


def test_an_event_is_a_run_of_pings_without_an_answer_of_one_flow_of_one_run() -> None:
    answers = {(0, "p"): "a--a-", (0, "q"): "-aa", (1, "p"): "aaa---"}
    rows = [
        (run, flow, number, None if one == "-" else 600.0)
        for (run, flow), all_of_it in answers.items()
        for number, one in enumerate(all_of_it)
    ]
    shuffled = pl.DataFrame(rows[::-1], schema=["run", "flow", "number", "duration_ms"], orient="row")
    assert bursts_of(shuffled).tolist() == [2, 1, 1, 3], "the end of one flow and the begin of the next are two"
    assert bursts_of(shuffled.filter(pl.col("duration_ms").is_not_null())).tolist() == []


def test_a_tail_reaches_down_to_a_single_value_however_many_there_are() -> None:
    for count in (2, 3, 10, 100_000):
        values = np.arange(count, dtype=float)
        curve = Curve("", Look("k", "-", "o", ""), values, np.arange(1, count + 1) / count)
        above = tail(curve)[1]
        assert len(above) <= 2000
        assert np.isclose(above[-1], 1 / count), "above the last but one there is one"
        assert (np.diff(above) < 0).all()
        assert (above > 0).all(), "a logarithm has no zero"


def test_a_report_of_pings_has_their_tail_and_their_losses(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    carry_out(Job(find_study(str(path)), Simulator, out=tmp_path / "results", workers=1))
    with styled():
        made = section(Context(Results(tmp_path / "results")))
    assert made is not None
    blocks = {block.name: block for block in made.blocks if isinstance(block, Table | Plot)}
    assert list(blocks) == ["exchanges", "unanswered", "pings-distribution", "pings-tail"]
    losses = blocks["unanswered"]
    assert isinstance(losses, Table)
    assert losses.data is not None
    row = losses.data.row(0, named=True)
    assert {key: row[key] for key in row if key != "group"} == {
        "pings": 50, "unanswered": 4, "unanswered_percent": 8.0, "single_percent": 25.0, "events_of_several": 1,
        "longest": 3,
    }  # fmt: skip
    tail_plot = blocks["pings-tail"]
    assert isinstance(tail_plot, Plot)
    (axes,) = tail_plot.figure.axes
    tail_plot.figure.draw_without_rendering()
    assert axes.get_yscale() == "log"
    assert [label.get_text() for label in axes.get_yticklabels() if label.get_text()][:2] == ["10 %", "100 %"]

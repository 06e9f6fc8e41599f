# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A cell fails if its interval lies beyond the threshold, and is undecided about it."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from judged_cells import around, judged, table
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import Measure
from perigee.evaluation.deciding import LEVEL, Distance, Outcome, distance
from perigee.evaluation.judging import Finding, judge_measure, together
from perigee.evaluation.rules import Rule, Verdict
from perigee.evaluation.summary import key_figure


def test_a_figure_fails_beyond_both_bounds_only() -> None:
    rule = Rule("at most 2 %, or twice CUBIC's", limit=2, of_cubic=2)
    assert judged(rule, mine=around(1.9), cubic=around(0.1)).verdict is Verdict.PASS
    assert judged(rule, mine=around(5.5), cubic=around(3.0)).verdict is Verdict.PASS
    assert judged(rule, mine=around(6.5), cubic=around(3.0)).verdict is Verdict.FAIL
    least = Rule("at least 0.8, or as much as beside CUBIC", limit=0.8, of_cubic=1)
    assert judged(least, mine=around(0.7), cubic=around(0.6)).verdict is Verdict.PASS
    assert judged(least, mine=around(0.7), cubic=around(0.9)).verdict is Verdict.FAIL


def test_only_an_interval_beyond_the_threshold_fails_and_one_about_it_is_undecided() -> None:
    rule = Rule("at most 2 %", limit=2)
    scattered = judged(rule, mine=[1.0, 5.0, 2.0, 4.0, 1.5, 3.0])
    assert scattered.verdict is Verdict.UNDECIDED
    assert scattered.worst
    far = scattered.worst.distance
    assert far
    assert far.half_width
    assert far.mean - far.half_width < 0 < far.mean
    assert 6 < far.rounds_to_decide < 100
    found = judged(rule, mine=[4.0, 5.0, 4.5, 4.0, 4.5, 5.0]).cells[0].distance
    assert found
    assert found.half_width
    assert found.outcome is Outcome.BEYOND
    assert found.mean - found.half_width > 0


def test_the_worst_cell_has_the_largest_mean_and_the_surest_one_decides() -> None:
    rule = Rule("at most 2 %", limit=2)
    rows = {"sure": around(3.0), "far": [1.0, 20.0, 3.0], "within": around(1.0)}
    values = pl.concat([table(mine=each).with_columns(cell=pl.lit(name)) for name, each in rows.items()])
    (found,) = together([judge_measure(Measure("Loss", "%", lambda _tables: values, rule), values, "mine")])
    assert found.worst
    assert found.deciding
    assert (found.worst.words, found.deciding.words) == ("far", "sure")
    assert found.times == pytest.approx(4.0)
    # The table of cells marks as many as are counted.
    marked = sum(cell.times_beyond["mine"] > 1 for cell in found.cells)
    assert (found.beyond, found.beyond_by_mean) == (1, marked - 1) == (1, 1)
    said = key_figure(Finding(CRITERIA[2], Verdict.FAIL, "", [found]))
    assert said == (
        "Loss: 3.00 ± 0.06 %; allowed: at most 2.0 %; surest of 3 figures: sure, 6 rounds, P < 0.001; "
        "worst mean, of 3 rounds only: 8.0 (1.0 to 20.0) %; allowed: at most 2.0 %, far"
    )
    # The figure that decides is the mildest here: in brief, too, the worst stands beside it.
    assert said == f"{key_figure(Finding(CRITERIA[2], Verdict.FAIL, '', [found]), is_brief=True)}, far"


def test_rounds_that_are_said_to_decide_do_so_in_four_of_five_repetitions() -> None:
    rule, random = Rule("at most 2 %", limit=2), np.random.default_rng(7)
    rounds = Distance(0.5, 2.0, 24, 0.1).rounds_to_decide
    found = [judged(rule, mine=random.normal(2.5, 2.0, int(rounds)).tolist()).verdict for _ in range(100)]
    assert 70 <= found.count(Verdict.FAIL) <= 90


def test_three_rounds_fail_nothing_but_what_does_not_vary() -> None:
    rule = Rule("at most 2 %", limit=2)
    assert judged(rule, mine=[9.0, 9.01, 9.02]).verdict is Verdict.UNDECIDED
    assert judged(rule, mine=[9.0, 9.0, 9.0]).verdict is Verdict.FAIL
    assert judged(rule, mine=[9.0]).verdict is Verdict.UNDECIDED
    assert judged(rule, mine=[1.0, 1.1, 0.9]).verdict is Verdict.PASS


def test_a_figure_that_is_missing_is_beyond_and_a_reference_without_one_is_no_bound() -> None:
    rule = Rule("at most 1.25 times CUBIC's", of_cubic=1.25)
    nothing = dict.fromkeys(range(6), math.nan)
    some = dict.fromkeys(range(6), 3.0)
    assert (found := distance(rule, nothing, [some]))
    assert found.outcome is Outcome.BEYOND
    assert (found := distance(rule, some, [nothing]))
    assert found.outcome is Outcome.WITHIN
    assert distance(rule, some, []) is None


def test_cells_are_corrected_for_their_number() -> None:
    values = pl.concat([table(mine=around(2.06)).with_columns(cell=pl.lit(f"c{number}")) for number in range(50)])
    measure = Measure("Loss", "%", lambda _tables: values, Rule("at most 2 %", limit=2))
    alone, many = (judge_measure(measure, part, "mine") for part in (values.filter(pl.col("cell") == "c0"), values))
    (first,), (all_of_them,) = together([alone]), together([many])
    assert first.cells[0].distance
    assert first.cells[0].distance.p
    assert first.cells[0].distance.p < LEVEL, "alone it is beyond"
    assert first.verdict is Verdict.FAIL
    assert all_of_them.verdict is Verdict.UNDECIDED, "one of fifty is as far by chance"


def test_a_figure_of_a_reference_scatters_as_well() -> None:
    rule = Rule("at least 0.8 times CUBIC's", of_cubic=0.8)
    by_round = [1.0, 3.0, 5.0, 7.0, 2.0, 4.0]
    assert judged(rule, mine=[value * 0.95 for value in by_round], cubic=by_round).verdict is Verdict.PASS
    assert judged(rule, mine=[value * 0.7 for value in by_round], cubic=by_round).verdict is not Verdict.PASS
    assert judged(rule, mine=list(reversed(by_round)), cubic=by_round).verdict is Verdict.UNDECIDED

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A reduced study is a part of the whole one, and what passes on a part is left open.

So that no verdict of one size is opposite to that of the other, which `tools/verdicts.py sizes` compares.
"""

from __future__ import annotations

import pytest

from perigee.engines.sim.engine import Simulator
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.judging import Finding
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import left_open
from perigee.evaluation.studies import Candidate, Order, fingerprints
from perigee.evaluation.summary import CLOSED_BY, key_figure, left_words, summarize

PARTS = {"5.1.3", "5.2.1", "6.3"}
"""The criteria whose reduced studies leave out cells."""
MINE = Candidate("mine", "A test", "mine")
QUICK, WHOLE = (Order(MINE, (), quick, Simulator) for quick in (True, False))


@pytest.mark.parametrize("criterion", [one for one in CRITERIA if one.study], ids=lambda one: one.id)
def test_the_reduced_size_has_runs_of_the_whole_one_and_lacks_cells_of_few(criterion: Criterion) -> None:
    part, whole = (fingerprints(criterion, quick=quick) for quick in (True, False))
    assert part <= whole, "what fails at the reduced size is run at the whole one"
    assert (part < whole) == (criterion.id in PARTS)


@pytest.mark.parametrize("criterion", [one for one in CRITERIA if one.study], ids=lambda one: one.id)
def test_only_what_passes_on_a_part_of_the_cells_is_left_open(criterion: Criterion) -> None:
    for verdict in Verdict:
        found = Finding(criterion, verdict, "")
        small = left_open(QUICK, found)
        is_open = criterion.id in PARTS and verdict is Verdict.PASS
        assert small.verdict is (Verdict.UNDECIDED if is_open else verdict)
        assert bool(small.left_open) == is_open
        assert left_open(WHOLE, found) == found


def test_the_summary_says_what_the_reduced_size_leaves_open() -> None:
    passed = [Finding(one, Verdict.PASS, "") for one in CRITERIA]
    small = [left_open(QUICK, one) if one.criterion.study else one for one in passed]
    said = summarize(MINE, small)
    assert said.answer == "Not decided at the reduced size. mine fails none of its cells."
    left = f"Left open, since the reduced size has a part of the cells: 5.1.3, 5.2.1, 6.3. {CLOSED_BY}"
    assert (said.missing, left_words(small)) == (f"Nothing. {left}", left)
    assert left_words(passed) == ""
    assert (
        key_figure(small[2]) == "left open: the reduced size has 3 % of the cells, none beyond; the whole size decides"
    )
    assert summarize(MINE, passed).answer.startswith("mine fails no criterion")

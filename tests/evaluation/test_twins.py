# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Twins of CUBIC and Reno, which differ by a constant of no meaning, pass what CUBIC and Reno pass."""

from __future__ import annotations

import contextlib

import pytest

from conftest import ROOT
from perigee.engines.sim.engine import Simulator
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import evaluate
from perigee.evaluation.studies import Order, candidate

TWINS = {path.stem: path for path in sorted((ROOT / "tests" / "planted_cc" / "twins").glob("*.c"))}
NEAR = ("5.1.4", "5.1.5", "5.2", "5.2.1", "5.2.3", "6.4", "7.3", "7.6")
"""The criteria with cells in which a twin is within 20 % of a threshold."""
SEEDS = range(1, 41)
PASSING_SHARE = 0.95


def verdicts(what: str, sections: tuple[str, ...], seed: int = 1) -> dict[str, Verdict]:
    """The verdicts of a quick evaluation by some criteria."""
    order = Order(candidate(what), sections, True, Simulator, seed=seed)
    found = evaluate(order, lambda _title: contextlib.nullcontext(lambda *_, **__: None), lambda _note: None)
    return {one.criterion.id: one.verdict for one in found if one.criterion.id in sections}


def test_there_are_five_twins() -> None:
    assert len(TWINS) == 5


@pytest.mark.parametrize("name", ["cubic_beta", "reno_beta"])
def test_a_twin_passes_beside_others(name: str) -> None:
    assert verdicts(str(TWINS[name]), ("5.2.1",)) == {"5.2.1": Verdict.PASS}


@pytest.mark.long
@pytest.mark.parametrize("name", TWINS)
def test_a_twin_passes_in_nearly_all_of_forty_seeds(name: str) -> None:
    passed = 0
    for seed in SEEDS:
        standard = verdicts(name.partition("_")[0], NEAR, seed)
        twin = verdicts(str(TWINS[name]), NEAR, seed)
        passed += all(twin[one] is Verdict.PASS for one in NEAR if standard[one] is Verdict.PASS)
    assert passed >= PASSING_SHARE * len(SEEDS)

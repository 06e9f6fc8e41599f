# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Twins of CUBIC and Reno, which differ by the least step of a constant, pass what CUBIC and Reno pass.

`tools/verdicts.py near` has all of them in forty seeds.
"""

from __future__ import annotations

from pathlib import Path

from conftest import ROOT
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.rules import Verdict
from perigee.evaluation.several import Several

TWINS = {path.stem: path for path in sorted((ROOT / "tests" / "planted_cc" / "twins").glob("*.c"))}


def test_there_are_five_twins() -> None:
    assert len(TWINS) == 5


def test_twins_pass_beside_others(tmp_path: Path) -> None:
    names = [str(TWINS[name]) for name in ("cubic_beta", "reno_beta")]
    beside = next(one for one in CRITERIA if one.id == "5.2.1")
    for order, found in Several(names, tmp_path, quick=True).findings(beside):
        verdicts = [one.verdict for one in found.measures]
        assert verdicts == [Verdict.PASS], order.candidate.name

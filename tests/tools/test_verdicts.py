# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`tools/verdicts.py`: which cells are near a threshold, and when a twin misses what its original passes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from conftest import ROOT, program
from judged_cells import around, judged
from perigee.evaluation.rules import Rule, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

TIMES = Rule("at most 1.25 times CUBIC's", of_cubic=1.25)
LIMIT = Rule("at most 2 %", limit=2)
SCATTERED = [1.0, 9.0, 2.0, 1.0, 1.5, 1.0]


@pytest.fixture(scope="module")
def verdicts() -> ModuleType:
    return program(ROOT / "tools" / "verdicts.py")


@pytest.mark.parametrize(
    ("rule", "values", "near"),
    [
        (TIMES, {"mine": around(2.0, rounds=3), "cubic": around(2.0, rounds=3)}, False),
        (TIMES, {"mine": around(2.1, rounds=3), "cubic": around(2.0, rounds=3)}, True),
        (TIMES, {"mine": [1.0, 2.0, 3.0], "cubic": [3.0, 1.0, 2.0]}, True),
        (LIMIT, {"mine": around(1.5, rounds=3)}, False),
        (LIMIT, {"mine": around(1.7, rounds=3)}, True),
        (LIMIT, {"mine": around(1.5, rounds=6)}, True),
        (LIMIT, {"mine": SCATTERED[:3]}, True),
        (LIMIT, {"mine": [9.0] * 3}, False),
    ],
    ids=["as CUBIC", "worse than CUBIC", "as CUBIC, scattered", "far", "within 20 %", "more rounds", "open", "beyond"],
)
def test_a_cell_is_near_where_another_seed_could_decide_otherwise(
    verdicts: ModuleType, rule: Rule, values: dict[str, list[float]], near: bool
) -> None:
    found = judged(rule, **values)
    assert verdicts.is_near(found, found.cells[0]) is near


def rows(twin: Sequence[str]) -> list[dict[str, Any]]:
    names = {"reno": ["pass"] * len(twin), "reno_beta": list(twin)}
    return [{"cell": "delay doubled", "verdicts": names, "times": {name: [0.9] * len(twin) for name in names}}]


def test_the_page_tells_seeds_that_all_cells_have_from_those_of_one_and_why_a_twin_misses(
    verdicts: ModuleType,
) -> None:
    missed = rows([Verdict.PASS] * 2 + [Verdict.UNDECIDED])
    near = {"date": "today", "rows": {"7.3": missed, "7.4": [], "7.5": rows([Verdict.PASS] * 2)}}
    page = verdicts.page({"sizes": None, "near": near, "whole": None}, ["7.3", "7.4", "7.5", "7.6"])
    assert (
        "passes all that its original passes: reno_beta 2 of 2. The rule asks for 95 %: too few seeds to tell." in page
    )
    assert "below that share: reno_beta in 7.3, *delay doubled*, 2 of 3." in page
    assert "its figure is 0.900 of the threshold" in page
    assert "No cell is near in 7.4." in page
    assert "Not measured: 7.6." in page
    assert "| 7.3 | delay doubled | 3 (0.90) | 2, 1 undecided (0.90) |" in page


def test_what_no_twin_misses_any_more_is_not_explained(verdicts: ModuleType) -> None:
    near = {"date": "today", "rows": {"7.3": rows([Verdict.PASS] * 40)}}
    page = verdicts.page({"sizes": None, "near": near, "whole": None}, ["7.3"])
    assert "`reno_beta` in" not in page


def test_only_criteria_whose_reduced_size_lacks_cells_are_pairs(verdicts: ModuleType) -> None:
    of_one = {"5.1.3": ["undecided", "pass"], "7.3": ["pass", "pass"]}
    of_other = {"5.1.3": ["pass", "fail"], "7.3": ["fail", "fail"]}
    sizes = {
        "date": "today",
        "parts": ["5.1.3"],
        "titles": {"5.1.3": "High packet loss", "7.3": "Varying delay"},
        "verdicts": {"bbr": of_one, "bic": of_other},
    }
    page = verdicts.page({"sizes": sizes, "near": None, "whole": None}, ["5.1.3", "7.3"])
    assert "1 of 2 pairs of verdicts" in page
    assert "In 1 of them `--quick` is undecided: whole studies pass 1 of these, miss 0" in page


@pytest.mark.parametrize(("verdict", "said"), [("undecided", True), ("pass", False)])
def test_figures_of_one_seed_are_printed_while_that_seed_misses(
    verdicts: ModuleType, verdict: str, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = tmp_path / "traced.toml"
    miss = {
        "part": "whole",
        "criterion": "5.2.3",
        "twin": "cubic_beta",
        "seed": 1,
        "why": "By seed 1, one cell is open.",
    }
    traced.write_text("[[miss]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in miss.items()))
    monkeypatch.setattr(verdicts, "TRACED", traced)
    row = {"verdicts": {"cubic": ["pass"] * 2, "cubic_beta": [verdict, "undecided"]}, "days": ["Monday", "Tuesday"]}
    whole = {"date": "today", "rows": {"5.2.3": [row]}}
    page = verdicts.page({"sizes": None, "near": None, "whole": whole}, ["5.2.3"])
    assert ("By seed 1, one cell is open." in page) is said
    assert ("it was not traced" in page) is not said
    assert "Monday to Tuesday, `tools" in page
    assert "today" not in page


def test_a_multiple_of_nothing_is_said_to_be_no_distance(verdicts: ModuleType) -> None:
    made = rows([Verdict.PASS] * 20)
    made[0]["times"] = {name: [0.0] * 20 for name in made[0]["times"]}
    page = verdicts.page({"sizes": None, "near": {"date": "", "rows": {"5.2.2": made}}, "whole": None}, ["5.2.2"])
    assert "threshold is 0: 5.2.2, *delay doubled*." in page
    assert "The rule asks for 95 %: met by all." in page

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of answers have the studies that they name, and the numbers of today's code."""

from __future__ import annotations

import pytest

from conftest import tool

ANSWERS = tool("answers")
QUICK = ("haproxy-or-a-pep", "emulate-15-s-slots")


def page(name: str) -> str:
    return str((ANSWERS.PAGES / f"{name}.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ANSWERS.ANSWERS)
def test_a_page_has_its_study_and_its_picture(name: str) -> None:
    assert ANSWERS.with_study(page(name), name) == page(name), "run tools/answers.py"
    assert f"perigee run studies/answers/{name}.toml" in page(name)
    assert (ANSWERS.PICTURES / f"answer-{name}.svg").is_file()


def test_each_study_has_a_page() -> None:
    assert {path.stem for path in ANSWERS.STUDIES.glob("*.toml")} == set(ANSWERS.ANSWERS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in ANSWERS.ANSWERS]
)
def test_the_numbers_of_a_page_are_those_of_its_study(name: str) -> None:
    answer = ANSWERS.carried_out(name)
    assert ANSWERS.with_answer(page(name), answer) == page(name), "run tools/answers.py"

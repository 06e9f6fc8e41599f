# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The scoreboard that is kept: its pages and tables are its content's, and that is of the files beside studies."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, tool
from perigee.report.scored_study import scored_study

CONTENT = json.loads((ROOT / "docs" / "scoreboard" / "scoreboard.json").read_text(encoding="utf-8"))


def test_the_pages_are_those_of_the_scoreboard() -> None:
    for path, make in tool("scoreboard").PAGES.items():
        text = path.read_text(encoding="utf-8")
        assert make(text, CONTENT) == text, f"{path}: run .venv/bin/python tools/scoreboard.py --pages"


def test_a_page_without_its_place_or_with_two_is_refused() -> None:
    for path, make in tool("scoreboard").PAGES.items():
        text = path.read_text(encoding="utf-8")
        for wrong, count in (("nothing here", 0), (text + text, 2)):
            with pytest.raises(ValueError, match=f"the page has {count} places"):
                make(wrong, CONTENT)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("claypool-2021", "must be STUDY=RESULTS"),
        ("claypool=results", "claypool: is no study with a publication; there are caini-2009"),
    ],
)
def test_a_wrong_argument_is_refused(argument: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        tool("scoreboard").folders([argument])


def test_every_publication_is_on_it_as_its_files_are_now() -> None:
    board = tool("scoreboard")
    assert [one["study"] for one in CONTENT["studies"]] == board.published(), "run make scoreboard"
    for one in CONTENT["studies"]:
        folder = ROOT / "studies" / one["study"]
        for name in ("published", "registered"):
            assert one[f"{name}_sha256"] == board.sum_of(folder / f"{name}.toml"), (
                f"{one['study']}: run make scoreboard"
            )


@pytest.mark.parametrize("one", CONTENT["studies"], ids=lambda one: one["study"])
def test_what_was_registered_scores_as_it_did(
    one: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where there are no results
    found = scored_study(str(ROOT / "studies" / one["study"]))
    assert found.counts_as_dicts()["registered"] == one["counts"]["registered"]
    for kind, rows in (("numbers", found.numbers()), ("claims", found.claims())):
        ours = [(row["place"], row["registered_result"]) for row in rows]
        assert ours == [(row["place"], row["registered_result"]) for row in one[kind]]


def test_its_tables_have_every_number_and_claim_with_versions() -> None:
    for kind in ("numbers", "claims"):
        with (ROOT / "docs" / "scoreboard" / f"{kind}.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        wanted = [(one["study"], row["today_result"] or "") for one in CONTENT["studies"] for row in one[kind]]
        assert [(row["study"], row["today_result"]) for row in rows] == wanted
        assert all(row["perigee"] and (row["registered_version"] or row["today_version"]) for row in rows)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee cc standing`: what is done is kept, tables for programs and people, and studies that open in the tab."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from conftest import KERNEL
from perigee.cc import kernel
from perigee.core import native
from perigee.engines.run.crew import Watch
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.rules import Verdict
from perigee.evaluation.studies import Order
from perigee.places import data_roots, headers
from perigee.standing import running
from perigee.standing.markdown import annex
from perigee.standing.satellites import CANDIDATE, PROFILES, study

NAMES = ("reno", "hybla")
CHOSEN = ("6.3",)


def silent(_title: str) -> AbstractContextManager[Watch]:
    """A progress bar for nobody."""
    return nullcontext(lambda *_arguments, **_words: None)


def measured(folder: Path, **settings: Any) -> dict[str, Any]:
    """Measure one criterion of two congestion controls."""
    asked = running.Standing(list(NAMES), folder, Simulator, chosen=CHOSEN, workers=2, **settings)
    return running.measure(asked, silent, pytest.fail)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose kernel cannot be tried."""
    monkeypatch.setattr(running, "in_kernel", lambda _name: None)


@pytest.mark.usefixtures("no_kernel")
def test_a_standing_has_verdicts_and_links_and_is_kept_by_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measured(tmp_path)
    assert [one["name"] for one in first["algorithms"]] == list(NAMES)
    for one in first["algorithms"]:
        assert [verdict["id"] for verdict in one["verdicts"]] == list(CHOSEN)
        assert [row["profile"] for row in one["satellites"]] == list(PROFILES)
        assert all(row["goodput_mbps"]["mean"] > 0 for row in one["satellites"])
        assert one["kernel"] is None
    assert first["command"] == f"perigee cc standing --only reno --only hybla --criterion 6.3 --out {tmp_path}"
    kept = sorted(path.name for path in tmp_path.rglob("*.json"))
    assert kept == ["hybla.json", "reno.json"]
    assert not list(tmp_path.rglob("*.studies"))
    # Resumed: what was done is not measured again, what was not is.
    next(tmp_path.rglob("hybla.json")).unlink()
    asked: list[str] = []
    row = running._row

    def noted(order: Order, *rest: Any) -> dict[str, Any]:
        asked.append(order.candidate.name)
        return row(order, *rest)

    monkeypatch.setattr(running, "_row", noted)
    assert measured(tmp_path) == first
    assert asked == ["hybla"]
    monkeypatch.setattr(running, "__version__", "another")
    measured(tmp_path)
    assert asked == ["hybla", *NAMES]


@pytest.mark.skipif(os.geteuid() != 0 or not KERNEL.exists(), reason="needs root, and the kernel's types")
def test_what_a_killed_standing_left_in_the_kernel_is_taken_out() -> None:
    kernel.load("reno", [], name=running.IN_KERNEL)
    found = running.in_kernel("cubic")
    assert found is not None
    assert found["loads"], found["said"]
    assert running.IN_KERNEL not in [one["name"] for one in kernel.status()["loaded"]]


@pytest.mark.usefixtures("no_kernel")
def test_the_annex_has_a_row_for_each_criterion_and_link(tmp_path: Path) -> None:
    found = measured(tmp_path)
    found["algorithms"][1]["kernel"] = {"release": "6.18", "loads": False, "said": "a | b"}
    text = annex(found)
    assert "| 6.3 Wired paths | described as the baseline | " in text
    assert all(f"| {profile} | {name} | " in text for profile in PROFILES for name in NAMES)
    assert "no, 6.18: a \\| b" in text
    assert "| Link | Algorithm | Goodput, Mbit/s | Mean round trip, ms | Packets sent again, % |" in text
    for row in found["algorithms"]:
        (verdict,) = row["verdicts"]
        if verdict["verdict"] == Verdict.DOCUMENT:
            assert f"- {row['name']}, 6.3: {verdict['figure']}. `{verdict['again']}`" in text
    assert "`?` of" not in text
    found["algorithms"][1]["verdicts"][0] |= {"verdict": "undecided", "left_open": "left open"}
    assert "`?` of 6.3: the quick size" in annex(found)
    widths = {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("| 6.3")}
    assert widths == {len(NAMES) + 3}


@pytest.mark.parametrize("criterion", [one for one in CRITERIA if one.study], ids=lambda one: one.id)
def test_the_study_of_each_cell_is_one_that_the_tab_reads(criterion: Criterion) -> None:
    text = running.live_study(criterion)
    assert text is not None
    filled = text.replace(CANDIDATE, "hybla").replace(running.BESIDE, "cubic")
    assert filled.count("hybla") == 1
    # Without a folder to search: a tab has no files.
    plan = native.Plan(filled, "study.toml", [], "[reduced" in filled, [], str(headers()))
    assert plan.laid_out()["points"]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_study_of_each_link_is_read(profile: str) -> None:
    text = study(profile).replace(CANDIDATE, "hybla")
    native.Plan(text, "study.toml", [], False, [str(root) for root in data_roots()], str(headers()))


def test_a_damaged_standing_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert running.kept_in(tmp_path) is None
    (tmp_path / "standing").mkdir()
    for text in ("{", json.dumps({"format": 0})):
        (tmp_path / "standing" / "standing.json").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="make it again"):
            running.kept_in(tmp_path)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="cubik"):
        running.choose(["cubik"])
    assert running.choose(["reno", "reno"]) == ["reno"]
    assert "bbr3" in running.choose([])

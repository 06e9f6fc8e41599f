# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The list of results is kept between pages: what comes, goes, ends and is labelled is seen all the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perigee.laboratory import catalogue
from perigee.laboratory.catalogue import Catalogue
from perigee.store.manifest import read_manifest, write_manifest


def write(folder: Path, **changed: Any) -> None:
    """A results folder with a manifest like that of finished results, but for what is changed."""
    folder.mkdir(exist_ok=True)
    manifest = read_manifest(folder.parent.parent / "finished")
    write_manifest(folder / "manifest.json", {**manifest, "started": "2026-01-01T00:00:00+00:00", **changed})


@pytest.fixture
def shown(results: Path, tmp_path: Path) -> Catalogue:
    results.rename(tmp_path / "finished")
    (tmp_path / "results").mkdir()
    write(tmp_path / "results/first", state="running")
    write(tmp_path / "results/second", started="2026-01-02T00:00:00+00:00")
    return Catalogue(tmp_path / "results", tmp_path / "labels.db")


def names(found: Catalogue) -> list[str]:
    return [one.name for one in found.all()]


def test_folders_that_come_and_go_are_seen_at_once(shown: Catalogue, tmp_path: Path) -> None:
    assert names(shown) == ["second", "first"]
    (tmp_path / "results/third").mkdir()
    assert names(shown) == ["second", "first"]
    write(tmp_path / "results/third", started="2026-01-03T00:00:00+00:00")
    assert names(shown) == ["third", "second", "first"]
    shutil.rmtree(tmp_path / "results/second")
    assert names(shown) == ["third", "first"]


def test_a_run_that_ends_is_seen_at_once(shown: Catalogue, tmp_path: Path) -> None:
    assert [one.state for one in shown.all()] == ["complete", "running"]
    write(tmp_path / "results/first", state="complete", runs=13)
    assert [(one.state, one.runs) for one in shown.all()] == [("complete", 12), ("complete", 13)]


def test_manifests_of_complete_folders_are_looked_at_now_and_then(
    shown: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.all()
    before = os.stat(tmp_path / "results").st_mtime_ns  # noqa: PTH116 - in nanoseconds
    write(tmp_path / "results/second", runs=99, started="2026-01-02T00:00:00+00:00")
    assert os.stat(tmp_path / "results").st_mtime_ns == before  # noqa: PTH116
    monkeypatch.setattr(catalogue, "LOOKED_THROUGH_S", 0.0)
    assert [one.runs for one in shown.all()] == [99, 12]


def test_tags_are_found_whoever_wrote_them(shown: Catalogue, tmp_path: Path) -> None:
    assert not shown.search("geo")
    shown.label("first", ["geo"], "a note")
    assert [one.name for one in shown.search("geo note")] == ["first"]
    with contextlib.closing(sqlite3.connect(tmp_path / "labels.db")) as other:
        other.execute("UPDATE labels SET tags = '[\"leo\"]'")
        other.commit()
    assert [one.name for one in shown.search("LEO")] == ["first"]
    assert not shown.search("geo")

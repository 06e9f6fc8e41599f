# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The record of instructions: what a nightly benchmark adds to it, and when it fails."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from conftest import ROOT, program


def test_a_nights_figures_are_added_beside_those_on_record_and_growth_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = program(ROOT / "benches/record.py")
    file, earlier = tmp_path / "recorded.json", tmp_path / "earlier.json"
    file.write_text('{"clean": {"instructions": 1000, "of": "then"}, "lost": {"instructions": 2000, "of": "then"}}')
    earlier.write_text('{"clean": {"instructions": 1, "of": "before", "later": [["2026-11-28", 1020]]}}')
    monkeypatch.setattr(record, "FILE", file)
    tonight = record.Record()
    tonight.note("clean", 1029.6)
    tonight.note("lost", 2061.0)
    assert tonight.grown(0.03) == ["lost: 2,061 instructions, +3.0% to those on record (2,000)"]
    tonight.append(earlier)
    today = str(date.today())
    assert json.loads(file.read_text()) == {
        "clean": {"instructions": 1000, "of": "then", "later": [["2026-11-28", 1020], [today, 1030]]},
        "lost": {"instructions": 2000, "of": "then", "later": [[today, 2061]]},
    }

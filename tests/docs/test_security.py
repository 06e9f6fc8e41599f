# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page on security: each promise names files that enforce it, and they are there."""

from __future__ import annotations

import re

from conftest import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`((?:crates|fuzz|packaging|python|tests)/[^`]+)`")


def promises() -> list[str]:
    """Return the rows of tables that have a column of what enforces them."""
    rows: list[str] = []
    is_promised = False
    for line in PAGE.splitlines():
        is_promised = line.startswith("|") and (is_promised or "enforced by" in line)
        if is_promised and "enforced by" not in line and not line.startswith("|---"):
            rows.append(line)
    return rows


def test_each_promise_names_what_enforces_it() -> None:
    found = promises()
    assert len(found) > 20
    assert [row for row in found if not PLACE.search(row.rpartition("| ")[2] or row.split("|")[-2])] == []


def test_what_enforces_a_promise_is_there() -> None:
    places = PLACE.findall(PAGE)
    assert len(places) > 40
    assert [place for place in places if not (ROOT / place).exists()] == []

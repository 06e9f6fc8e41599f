# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Each study that comes with perigee has a report at its reduced size, in which no figure misleads."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT
from figure_rules import misleading, over_100_percent
from perigee.report.assemble import assemble
from perigee.report.style import styled
from perigee.store.results import Results

EVERY_TIME = ("atlas", "caini-2009", "claypool-2021", "evening", "page-loads", "split-gallery", "two-orbits")
"""Maps, chapters, transfers, calls, groups that are alike, many groups; other studies have tests of their own, or wait
for `make torture`."""
STUDIES = sorted(path.parent.name for path in (ROOT / "studies").glob("*/study.toml"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EVERY_TIME else [pytest.mark.long]) for name in STUDIES]
)
@pytest.mark.drawn
def test_the_reduced_results_of_a_study_have_its_report(name: str, reduced: Callable[[str], Path]) -> None:
    results = Results(reduced(name))
    with styled():
        report = assemble(results)
    shown = report.sections or [section for chapter in report.chapters for section in chapter.sections]
    assert shown
    assert [line for plot in report.plots() for line in misleading(plot)] == []
    assert over_100_percent(report.tables()) == []
    assert not [line for line in report.answers if re.search(r"\b[1-9]\d\d+(\.\d+)? percentage points", line)]
    if name == "caini-2009":
        lengths = next(chapter for chapter in report.chapters if chapter.name == "lengths")
        assert [plot for plot in report.plots() if plot.name.startswith("lengths-bars")]
        assert not [block for section in lengths.sections for block in section.blocks if "left out (" in str(block)]

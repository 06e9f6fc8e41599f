# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of the study `handover-queues`, at its reduced size."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import tool
from perigee.api.study import Study


@pytest.mark.parametrize(
    "chosen", [("cubic",), pytest.param(("bbr", "cubic", "hybla"), marks=pytest.mark.long)], ids=["one", "all"]
)
def test_a_queue_that_moves_to_a_longer_path_costs_nothing_and_a_lost_one_what_waited(
    chosen: tuple[str, ...], tmp_path: Path
) -> None:
    Study.load("handover-queues").vary("flow.cc", chosen).run(out=tmp_path / "out", reduced=True)
    handovers = tool("handovers")
    found = handovers.costs(tmp_path / "out")
    assert found.height == 2 * 2 * 3 * len(chosen)
    there = found.filter(pl.col("change") == "to it")
    assert there.filter(pl.col("waiting") == "moved")["again"].to_list() == [0.0] * 2 * len(chosen)
    assert min(there.filter(pl.col("waiting") == "lost")["again"]) > 0
    lines = handovers.table(found).splitlines()
    assert lines[0] == "| other path | change | | kept | moved | lost |"
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        [f"| {other}", change, cc] for other in ("geo", "leo") for change in ("back", "to it") for cc in chosen
    ]

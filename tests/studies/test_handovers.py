# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of the study `handover-queues`, at its reduced size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from conftest import tool

CC = ("bbr", "cubic", "hybla")


def test_a_queue_that_moves_to_a_longer_path_costs_nothing_and_a_lost_one_what_waited(
    reduced: Callable[[str], Path],
) -> None:
    handovers = tool("handovers")
    found = handovers.costs(reduced("handover-queues"))
    assert found.height == 2 * 2 * 3 * 3
    there = found.filter(pl.col("change") == "to it")
    assert there.filter(pl.col("waiting") == "moved")["again"].to_list() == [0.0] * 2 * len(CC)
    assert min(there.filter(pl.col("waiting") == "lost")["again"]) > 0
    lines = handovers.table(found).splitlines()
    assert lines[0] == "| other path | change | | kept | moved | lost |"
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        [f"| {other}", change, cc] for other in ("geo", "leo") for change in ("back", "to it") for cc in CC
    ]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cells near a bistable point are judged by the modes of the simulated neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from conftest import ROOT, Perigee, program


@pytest.fixture(scope="module")
def comparison() -> ModuleType:
    return program(ROOT / "validation" / "modes" / "modes.py")


def test_values_are_split_where_one_is_far_above_the_one_before(comparison: ModuleType) -> None:
    _, round_trip, retransmitted = comparison.QUANTITIES
    split = comparison.modes([68.0, 64.5, 64.7, 68.1], round_trip)
    assert split == [[64.5, 64.7], [68.0, 68.1]]
    assert comparison.describe(split, round_trip) == "two modes: 64.5 to 64.7 (2), 68.0 to 68.1 (2)"
    assert comparison.describe([[64.51, 64.52]], round_trip) == "64.5 (2)"
    assert not comparison.outside(69.9, split, round_trip)
    assert comparison.outside(72.0, split, round_trip)
    assert comparison.modes([2, 12, 40], retransmitted) == [[2, 12], [40]], "a few retransmissions are no difference"


def test_a_cell_is_simulated_with_its_neighbours_and_every_round_of_the_kernel_is_judged(
    comparison: ModuleType, perigee: Perigee, tmp_path: Path
) -> None:
    def run(arguments: Sequence[str]) -> None:
        done = perigee(*arguments, "--set", "flows.download.duration=4 s")
        assert done.returncode == 0, done.stderr

    cells = {cell["name"]: cell for cell in comparison.toml(comparison.STUDY)["experiments"]}
    flows = comparison.simulated(run, cells["codel-ecn"], tmp_path / "sim")
    assert flows.height == 3 * len(comparison.LONGER_MS)
    table = comparison.rows(cells["codel-ecn"], flows, flows.head(2))
    assert any("two modes: " in row for row in table)
    assert all(row.endswith("| none |\n") for row in table)
    slow = flows.head(1).with_columns(pl.lit(0.5).alias("goodput_mbps"))
    assert comparison.rows(cells["codel-ecn"], flows, slow)[0].endswith("| 0.50 | 0.50 |\n")

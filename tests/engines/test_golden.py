# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The release build gives, on one worker and on two, the tables that the debug build gives."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT
from perigee.commands.line import command_line

GOLDEN = ROOT / "crates/perigee-sim/tests/golden"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Results of one reduced study, carried out by one worker and by two."""
    folders = []
    for workers in ("1", "2"):
        out = tmp_path_factory.mktemp("golden") / workers
        arguments = ["run", "claypool-2021", "--reduced", "--set", "rounds=1", "--jobs", workers, "--out", str(out)]
        command_line("run").main(arguments, standalone_mode=False)
        folders.append(out)
    return folders


def test_one_worker_and_two_write_the_same_bytes(results: list[Path]) -> None:
    one, two = results
    names = sorted(path.name for path in one.glob("*.parquet"))
    assert names == sorted(path.name for path in two.glob("*.parquet"))
    assert "flows.parquet" in names
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


@pytest.mark.parametrize("table", ["flows", "series"])
def test_the_release_build_gives_the_tables_of_the_debug_build(results: list[Path], table: str) -> None:
    with (GOLDEN / f"{table}.csv").open(newline="") as file:
        golden = list(csv.DictReader(file, delimiter=";", quoting=csv.QUOTE_NONE))
    here = pl.read_parquet(results[0] / f"{table}.parquet").to_dicts()
    assert len(here) == len(golden)
    for row, expected in zip(here, golden, strict=True):
        for column, text in expected.items():
            value = row[column]
            if value is None:
                assert text == "", column
            elif isinstance(value, bool):
                assert text == str(value).lower(), column
            elif isinstance(value, float):
                assert float(text) == value, column
            else:
                assert text == str(value), column

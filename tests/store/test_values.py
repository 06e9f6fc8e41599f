# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The sums of values: the same for every writer of a table, another for every other value; tables without rows."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import ROOT, Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.files import sha256_of
from perigee.places import find_study
from perigee.store.manifest import read_manifest, write_manifest
from perigee.store.results import Results
from perigee.store.schema import empty_table
from perigee.store.values import sum_of_sums, table_sum
from study_text import flow, link

STUDY = (
    'name = "two"\nnodes = ["a", "b"]\n'
    + link("l", "a b", rate="10 Mbit/s", delay="20 ms")
    + flow("f", "a b", size="300 kB")
)
TABLE = pl.DataFrame(
    {
        "run": pl.Series([0, 1, 2, 3], dtype=pl.UInt32),
        "flow": ["a", "", None, "été"],
        "completed": [True, False, None, True],
        "bytes": pl.Series([2**63, 0, None, 7], dtype=pl.UInt64),
        "rtt_ms": [1.5, float("nan"), None, -0.0],
    }
)
BY_PYARROW = ROOT / "tests/data/pyarrow-26.parquet"
"""`TABLE` as Perigee 0.1.0 would write it."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a small study."""
    folder = tmp_path_factory.mktemp("values")
    (folder / "study.toml").write_text(STUDY)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "out"))
    return folder / "out"


def _sum(folder: Path, table: pl.DataFrame, **how: Any) -> str:
    path = folder / "t.parquet"
    table.write_parquet(path, **how)
    return table_sum(path, "t")


def test_the_sum_is_that_of_the_values_whatever_wrote_them(tmp_path: Path) -> None:
    known = _sum(tmp_path, TABLE)
    first = sha256_of(tmp_path / "t.parquet")
    ways: list[dict[str, object]] = [{"compression": "lz4"}, {"row_group_size": 1}, {"metadata": {"writer": "another"}}]
    for how in ways:
        assert _sum(tmp_path, TABLE, **how) == known, how
        assert sha256_of(tmp_path / "t.parquet") != first, how
    # Another library, which wrote the results of older versions.
    assert table_sum(BY_PYARROW, "t") == known
    # The form is part of the promise: it may not change without a new first line.
    assert known == KNOWN


KNOWN = "e9b489720dd6c3277d077bb8e566e96676467fe7713f68d9a5622b6ec7ae8c44"


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("run", pl.Series([0, 1, 2, 4], dtype=pl.UInt32)),
        ("run", pl.Series([0, 1, 2, 3], dtype=pl.UInt64)),
        ("flow", pl.Series(["a", None, "", "été"])),
        ("flow", pl.Series(["", "a", None, "été"])),
        ("completed", pl.Series([True, False, False, True])),
        ("rtt_ms", pl.Series([1.5, float("nan"), None, 0.0])),
    ],
)
def test_another_value_type_name_or_order_has_another_sum(tmp_path: Path, column: str, cells: pl.Series) -> None:
    known = _sum(tmp_path, TABLE)
    assert _sum(tmp_path, TABLE.with_columns(cells.alias(column))) != known
    assert _sum(tmp_path, TABLE.rename(lambda name: f"{name}2")) != known
    assert _sum(tmp_path, TABLE.select(TABLE.columns[::-1])) != known
    assert _sum(tmp_path, TABLE.slice(0, 3)) != known


def test_a_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="column x is of type Date"):
        _sum(tmp_path, pl.DataFrame({"x": [date(2026, 1, 1)]}))
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read as a table"):
        table_sum(tmp_path / "t.parquet", "t")


def test_only_tables_with_rows_are_written_and_the_others_are_read_as_empty(made: Path) -> None:
    results = Results(made)
    assert sorted(path.stem for path in made.glob("*.parquet")) == sorted(results.manifest["tables"])
    assert all(about["rows"] for about in results.manifest["tables"].values())
    assert "gaps" not in results.manifest["tables"]
    assert results.table("gaps").columns == ["run", "record", "of", "missing"]
    assert not results.has("events")


def test_older_results_with_files_of_empty_tables_have_the_same_sums(
    made: Path, tmp_path: Path, perigee: Perigee
) -> None:
    older = shutil.copytree(made, tmp_path / "older")
    manifest = read_manifest(older)
    manifest["versions"]["pyarrow"] = manifest["versions"].pop("polars")
    for name in ("gaps", "events"):
        path = older / f"{name}.parquet"
        empty_table(name).write_parquet(path)
        manifest["tables"][name] = {"rows": 0, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
    write_manifest(older / "manifest.json", manifest)
    assert Results(older).value_sums() == Results(made).value_sums()
    compared = perigee("compare", made, older)
    assert compared.returncode == 0, compared.stderr
    for folder in (made, older):
        assert perigee("report", folder, "--out", tmp_path / "r.html").returncode == 0


def test_the_command_prints_sums_and_compares_them(made: Path, perigee: Perigee) -> None:
    sums = Results(made).value_sums()
    whole = sum_of_sums(sums)
    printed = perigee("verify", made)
    assert printed.stdout.splitlines() == [*(f"{sums[name]}  {name}" for name in sums), f"{whole}  all values"]
    same = perigee("verify", made, "--sum", whole, "--sum", f"flows={sums['flows']}")
    assert (same.returncode, same.stdout) == (0, "all values: the same\ntable flows: the same\n")
    differs = perigee("verify", made, "--sum", "0" * 64)
    assert (differs.returncode, differs.stderr) == (1, f"all values: differs, {whole} here\n")
    for given, said in (("12", "is no SHA-256"), (f"gaps={whole}", "the results have no such table")):
        wrong = perigee("verify", made, "--sum", given)
        assert wrong.returncode == 2
        assert said in wrong.stderr

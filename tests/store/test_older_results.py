# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results that an earlier perigee wrote, without the columns that were added since: read, reported and compared."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Perigee
from perigee.comparison.cells import as_frame, compare
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.files import sha256_of
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.store.manifest import read_manifest, write_manifest
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "older"
nodes = ["server", "dish"]
[measure]
events = true
"""
    + link("sat", "server dish", rate="4 Mbit/s", delay="30 ms")
    + flow("download", "server dish", size="300 kB")
    + flow("browser", "server dish", kind="pages", duration="3 s", responses=["20 kB", "5 kB", "5 kB"])
)

RELEASED = ROOT / "tests/older/0.1.0"
"""Results that release 0.1.0 wrote, of a download and page loads."""

ADDED = {"events": ("clamp_packets", "snd_nxt_bytes", "rtt_ms", "rttvar_ms")}
"""Columns that tables got after the first event logs and before the first release."""


def without(results: Path, columns: Mapping[str, Sequence[str]], tables: Sequence[str], out: Path) -> Path:
    """Copy results as a perigee without these columns and tables would have written them."""
    shutil.copytree(results, out)
    manifest = read_manifest(out)
    for name in tables:
        (out / f"{name}.parquet").unlink()
        del manifest["tables"][name]
    for name, dropped in columns.items():
        path = out / f"{name}.parquet"
        pl.read_parquet(path).drop(dropped).write_parquet(path)
        manifest["tables"][name] |= {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    write_manifest(out / "manifest.json", manifest)
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Results of today, and the same as of before the columns and the table of page loads."""
    folder = tmp_path_factory.mktemp("older")
    (folder / "study.toml").write_text(STUDY)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "today"))
    return folder / "today", without(folder / "today", ADDED, ["pages"], folder / "then")


def test_the_report_of_older_results_has_the_sections_that_their_tables_allow(made: tuple[Path, Path]) -> None:
    today, then = ([section.name for section in assemble(Results(path)).sections] for path in made)
    assert "time_sequence" in then
    assert then == [name for name in today if name != "pages"] != today


def test_older_results_compare_with_todays_in_the_columns_of_both(made: tuple[Path, Path]) -> None:
    for order in (made, made[::-1]):
        results = [Results(path) for path in order]
        frame = as_frame(results, compare(*results))
        assert frame.height > 0
        assert frame.filter(pl.col("a") != pl.col("b")).is_empty()
        assert "page_load_ms" not in frame["quantity"].to_list()


def test_the_commands_take_older_results_beside_those_of_today(made: tuple[Path, Path], perigee: Perigee) -> None:
    today, then = map(str, made)
    for command in (["report", then], ["compare", then, today]):
        done = perigee(*command)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_results_of_another_format_are_refused_with_what_to_do(
    made: tuple[Path, Path], tmp_path: Path, perigee: Perigee
) -> None:
    older = shutil.copytree(made[0], tmp_path / "older")
    manifest = json.loads((older / "manifest.json").read_text())
    write_manifest(older / "manifest.json", manifest | {"version": manifest["version"] - 1})
    done = perigee("report", str(older))
    assert done.returncode == 2
    assert "run the study again, or use the perigee that made it" in done.stderr


def test_results_of_the_first_release_are_verified_reported_and_compared_with_those_of_its_study_today(
    tmp_path: Path, perigee: Perigee
) -> None:
    then, today = str(shutil.copytree(RELEASED, tmp_path / "then")), str(tmp_path / "today")
    assert "busy_s" not in Results(Path(then)).table("flows").columns
    for command in (
        ["verify", then],
        ["report", then],
        ["run", f"{then}/study/study.toml", "--out", today],
        ["compare", then, today],
    ):
        done = perigee(*command)
        assert done.returncode == 0, done.stderr
    assert re.search(r"^ *perigee +0\.1\.0 +\d", done.stdout, re.MULTILINE)


def test_results_of_the_first_release_are_not_continued(tmp_path: Path, perigee: Perigee) -> None:
    then = shutil.copytree(RELEASED, tmp_path / "then")
    done = perigee("run", str(RELEASED / "study/study.toml"), "--out", str(then))
    assert done.returncode == 2
    assert "give --fresh to replace them" in done.stderr


@pytest.mark.parametrize("algorithm", ["cubic", "sicc"])
def test_what_the_first_release_called_otherwise_is_refused_with_its_name(
    algorithm: str, tmp_path: Path, perigee: Perigee
) -> None:
    study = (RELEASED / "study/study.toml").read_text(encoding="utf-8")
    older = study.replace('cc = "cubic"', f'cc = {{ name = "{algorithm}", hystart = "off" }}').partition("[vary]")[0]
    (tmp_path / "study.toml").write_text(older, encoding="utf-8")
    done = perigee("run", str(tmp_path / "study.toml"), "--dry-run")
    assert done.returncode == 2
    assert "slow_start" in done.stderr

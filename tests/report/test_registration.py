# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Predictions of a report are registered once, whole, and with what identifies the runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl
import pytest

from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.groups.looks import name_of
from perigee.places import find_study
from perigee.report.writer import write_report
from perigee.store.results import Results
from perigee.store.values import sum_of_sums
from study_text import flow, link

STUDY = (
    'name = "two"\nrounds = 3\nnodes = ["a", "b"]\n[vary]\n"flows.download.cc" = ["cubic", "hybla"]\n'
    + link("first", "a b", rate="10 Mbit/s", delay="20 ms", queue="100 kB", loss="0.1 %")
    + flow("download", "a b", cc="cubic", duration="10 s")
    + flow("speech", "a b", kind="voice", duration="10 s")
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two algorithms in three rounds."""
    folder = tmp_path_factory.mktemp("registered")
    path = folder / "two" / "study.toml"
    path.parent.mkdir()
    path.write_text(STUDY)
    carry_out(Job(find_study(str(path)), Simulator, out=folder / "results", workers=1))
    return folder / "results"


def test_a_registered_file_has_each_quantity_with_its_cells_and_order(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "registered.toml"
    assert file in write_report(results, tmp_path / "report.html", ["csv"], register=file)
    found = tomllib.loads(file.read_text())
    stored = Results(results)
    assert found["registered"]["values_sha256"] == sum_of_sums(stored.value_sums())
    assert (found["registered"]["rounds"], found["registered"]["runs"]) == (3, 6)

    (goodput,) = (one for one in found["quantity"] if one["metric"] == "goodput_mbps")
    rows = [dict(zip(goodput["cells_columns"], row, strict=True)) for row in goodput["cells"]]
    cells = {row["factors"]["cc"].split()[0]: row for row in rows if row["factors"]["flow"] == "download"}
    flows = stored.table("flows").filter(pl.col("flow") == "download")
    for cc, cell in cells.items():
        values = flows.filter(flows["cc"] == cc)["goodput_mbps"]
        assert cell["mean"] == pytest.approx(values.mean(), rel=1e-5)
        assert cell["sd"] == pytest.approx(values.std(), rel=1e-4)
        assert cell["flows"] == 3
        assert cell["percentiles_0_10_25_50_75_90_100"][3] == pytest.approx(values.median(), rel=1e-5)
        assert (cell["zero_percent"], cell["factors"]["cc"]) == (0, f"{cc} {{}}")
    by_mean = sorted(cells, key=lambda cc: -float(cells[cc]["mean"]))
    assert goodput["highest_first"][0][1] == [name_of(cc) for cc in by_mean]
    (delay,) = (one for one in found["quantity"] if one["metric"] == "voice_delay_ms")
    assert {row[-1]["flow"] for row in delay["cells"]} == {"speech"}
    assert {one["name"] for one in found["table"]} >= {"summary"}


def test_what_is_registered_is_never_replaced(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "registered.toml"
    file.write_text("as it was")
    with pytest.raises(InputError, match="exists, and what is registered never changes"):
        write_report(results, tmp_path / "report.html", ["csv"], register=file)
    assert file.read_text() == "as it was"


@pytest.mark.parametrize(
    ("about", "reason"), [({"reduced": True}, "reduced size"), ({"settings": ["rounds=2"]}, "with rounds=2")]
)
def test_only_a_whole_study_as_it_stands_is_registered(tmp_path: Path, about: dict[str, object], reason: str) -> None:
    path = tmp_path / "two" / "study.toml"
    path.parent.mkdir()
    path.write_text(STUDY.replace("[vary]", "[reduced]\nset = { rounds = 1 }\n[vary]"))
    study = find_study(str(path))
    carry_out(Job(study, Simulator, out=tmp_path / "results", workers=1, **about))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=reason):
        write_report(tmp_path / "results", tmp_path / "report.html", ["csv"], register=tmp_path / "registered.toml")
    assert not (tmp_path / "registered.toml").exists()

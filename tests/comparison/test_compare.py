# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Comparison of results: changes are named, and each cell appears once, with its flows."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest
from rich.console import Console

from conftest import ROOT, Perigee, environment
from perigee.commands.compare import tables
from perigee.comparison import cells as cells_module
from perigee.comparison import summary
from perigee.comparison.cells import Difference, as_frame, compare, remarks
from perigee.comparison.changes import Change, changes, letters
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.places import find_study
from perigee.statistics.metrics import metric
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "held"
rounds = 3
nodes = ["server", "dish", "desk"]
"""
    + link("sat", "server dish", rate="4 Mbit/s", delay="30 ms", queue="30 kB", loss="0.3 %")
    + link("wire", "server desk", rate="4 Mbit/s", delay="5 ms", queue="30 kB")
    + flow("sat", "server dish", duration="3 s")
    + flow("wire", "server desk", duration="3 s")
    + """
[vary]
"flow.cc" = ["cubic", "reno"]
[reduced]
set = { rounds = 2 }
"""
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The study, the study with another loss, and the reduced study with a third loss."""
    folder = tmp_path_factory.mktemp("held")
    (folder / "study.toml").write_text(STUDY)
    study, found = find_study(str(folder)), []
    for name, settings, reduced in (
        ("plain", (), False),
        ("lossy", ("links.sat.loss=3 %",), False),
        ("small", ("links.sat.loss=1 %",), True),
    ):
        found.append(folder / name)
        carry_out(Job(study, Simulator, settings, reduced, out=found[-1], workers=1))
    return found


COMPARED = """
import sys
import perigee
from perigee.__main__ import main

a, b = sys.argv[2:4]
assert not perigee.load(a).compare(perigee.load(b)).cells.is_empty()
try:
    main()
finally:
    assert "matplotlib" not in sys.modules
"""


def test_results_are_compared_without_the_library_of_figures(made: list[Path], tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPARED, "compare", *map(str, made[:2]), "--csv", str(tmp_path / "cells.csv")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cells.csv").exists()


def read(paths: list[Path]) -> list[Results]:
    return [Results(path) for path in paths]


def test_what_was_changed_is_said_of_each_of_the_results(made: list[Path]) -> None:
    assert changes(read(made)) == [
        Change("links.sat.loss", ("as in the study", "3 %", "1 %")),
        Change("size", ("whole", "whole", "reduced")),
        Change("rounds", ("3", "3", "2")),
    ]
    assert changes(read([made[0], made[0]])) == []


def test_rounds_that_were_set_are_named_once(made: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "one"
    carry_out(Job(find_study(str(made[0].parent)), Simulator, ("rounds=1", "flow.duration=1 s"), out=out, workers=1))
    found = changes(read([made[0], out]))
    assert [one.what for one in found if "round" in one.what] == ["rounds"]
    # Results with few rounds in common have no pairs, and A's number comes first.
    cells = compare(*(Results(path) for path in (made[0], out)))
    assert {cell.size for cell in cells} <= {"1 pair", "3 and 1"}
    assert {cell.size for cell in compare(*(Results(path) for path in (out, made[0])))} <= {"1 pair", "1 and 3"}
    assert {cell.size for cell in cells} & {"3 and 1"}


def test_means_with_late_runs_are_marked_and_their_number_is_in_the_remarks(
    made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = read(made[:2])
    monkeypatch.setattr(cells_module, "late_runs", lambda results: {0} if results is b else set())
    cells = compare(a, b)
    marked = [cell for cell in cells if any(cell.late)]
    assert 0 < len(marked) < len(cells)
    for cell in cells:
        assert [mean.endswith(" †") for mean in cell.means] == [False, cell in marked]
    assert any("† a mean with late runs" in one and "B has 1 run" in one for one in remarks([a, b], cells))
    of_late = as_frame([a, b], cells).filter(pl.col("remark").str.contains("1 late in B"))
    assert of_late.height == len(marked)


def test_an_algorithm_that_was_changed_in_between_is_a_change(made: list[Path], tmp_path: Path) -> None:
    folder = made[0].parent
    source = (ROOT / "algorithms" / "reno.c").read_text()
    out = []
    for name, text in (("one", source), ("two", source + "/* faster */\n")):
        (folder / "mine.c").write_text(text)
        out.append(tmp_path / name)
        own = (f"flow.cc={folder / 'mine.c'}", "rounds=1", "flow.duration=1 s")
        carry_out(Job(find_study(str(folder)), Simulator, own, out=out[-1], workers=1))
    (found,) = changes(read(out))
    assert found.what.endswith("mine.c")
    assert found.values[0] != found.values[1]


def test_several_results_are_held_against_the_first_and_each_cell_stands_once(made: list[Path]) -> None:
    results = read(made)
    frame = as_frame(results, compare(*results))
    identity = frame.select("group", "quantity", "other")
    assert identity.is_unique().all()
    assert frame["other"].unique().sort().to_list() == ["B", "C"]
    assert frame["group"].n_unique() == 4
    # In the order of the groups; of a quantity B's cell and C's follow each other.
    assert frame["other"].to_list()[:4] == ["B", "C", "B", "C"]
    assert frame["results_b"].unique().sort().to_list() == ["lossy", "small"]
    assert frame.filter(other="C")["made_b"].unique().to_list() == ["sim; reduced; links.sat.loss=1 %"]
    for row in frame.iter_rows(named=True):
        assert (row["flows_a"], row["flows_b"]) == ((3, 3) if row["other"] == "B" else (2, 2)), row


def test_the_means_are_those_of_the_tables(made: list[Path]) -> None:
    results = read(made)
    frame = as_frame(results, compare(*results))
    for other, one in (("B", results[1]), ("C", results[2])):
        flows = one.with_points("flows").filter(flow="sat", **{"point.cc": "cubic"})
        (row,) = frame.filter(other=other, group="sat, cubic", quantity="goodput_mbps").rows(named=True)
        assert row["b"] == pytest.approx(float(flows.select(pl.mean("goodput_mbps")).item()))


def test_a_duration_that_the_study_sets_is_no_quantity(made: list[Path], tmp_path: Path) -> None:
    results = read(made)
    assert "duration_s" not in {cell.metric.name for cell in compare(*results)}
    (tmp_path / "study.toml").write_text(STUDY.replace('duration = "3 s"', 'size = "200 kB"'))
    carry_out(Job(find_study(str(tmp_path)), Simulator, ("rounds=1",), out=tmp_path / "sized", workers=1))
    sized = Results(tmp_path / "sized")
    assert "duration_s" in {cell.metric.name for cell in compare(sized, sized)}


def test_cells_that_are_the_same_are_named_once_and_not_listed(made: list[Path], perigee: Perigee) -> None:
    # A loss on the satellite link changes nothing on the wire.
    results = read(made[:2])
    cells = compare(*results)
    assert {cell.is_same for cell in cells if cell.groups[0].name.startswith("wire")} == {True}
    (said,) = (one for one in remarks(results, cells) if one.startswith("The same"))
    assert said == "The same in A and B, flow by flow. wire, Cubic: all quantities; wire, Reno: all quantities."
    done = perigee("compare", *made[:2])
    assert done.returncode == 0, done.stderr
    listed = done.stdout.partition("What differs")[2]
    assert listed.count("wire, Cubic") == 1
    assert listed.count("sat, Cubic") == 1


def test_results_that_are_the_same_are_told_in_a_line(made: list[Path]) -> None:
    results = read([made[0], made[0]])
    cells = compare(*results)
    assert f"The same in A and B, flow by flow: all {len(cells)} cells." in remarks(results, cells)


def test_the_command_writes_text_csv_and_a_page_of_three_results(
    made: list[Path], perigee: Perigee, tmp_path: Path
) -> None:
    csv, page = tmp_path / "cells.csv", tmp_path / "page.html"
    done = perigee("compare", *made, "--csv", csv, "--out", page)
    assert done.returncode == 0, done.stderr
    differs = done.stdout[: done.stdout.index("Quantity")]
    for said in ("links.sat.loss", "as in the study", "3 %", "1 %", "reduced"):
        assert said in differs
    assert "3 pairs" in done.stdout
    frame = pl.read_csv(csv)
    assert {"other", "flows_a", "flows_b", "made_a", "made_b"} <= set(frame.columns)
    assert frame.height == len(compare(*read(made)))
    html = page.read_text()
    for said in ("What differs", "links.sat.loss", "as in the study", "C: small (simulated)"):
        assert said in html, said


def test_without_a_test_there_are_no_columns_for_one(made: list[Path], perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    out: list[Path] = []
    for loss in ("0 %", "1 %"):
        out.append(tmp_path / f"out{len(out)}")
        one = ("rounds=1", f"links.sat.loss={loss}")
        carry_out(Job(find_study(str(tmp_path)), Simulator, one, out=out[-1], workers=1))
    done = perigee("compare", *out)
    assert done.returncode == 0, done.stderr
    assert "Wilcoxon" not in done.stdout.partition("No test")[0]
    assert done.stdout.count("fewer than two of them") == 1
    assert "p (Wilcoxon)" in perigee("compare", *made[:2]).stdout


def test_one_folder_is_nothing_to_compare_and_27_are_too_many(made: list[Path], perigee: Perigee) -> None:
    done = perigee("compare", made[0])
    assert done.returncode == 2
    assert "there is nothing to compare it with; give two" in done.stderr.replace("\n", " ")
    with pytest.raises(InputError, match="27 results are too many"):
        letters(27)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_narrow_table_goes_without_columns_and_cuts_none(made: list[Path], width: int) -> None:
    found = read(made[:2])
    page = io.StringIO()
    for table in tables(found, compare(*found), width):
        Console(file=page, width=width).print(table)
    assert "…" not in page.getvalue()
    assert max(map(len, page.getvalue().splitlines())) <= width
    assert ("without p (Wilcoxon)" in page.getvalue()) == (width < 120)


def test_a_comparison_begins_with_one_sentence_and_says_that_sizes_cannot_be_compared(
    made: list[Path], perigee: Perigee, tmp_path: Path
) -> None:
    lossy = read(made[:2])
    (sentence,) = summary.said(lossy, compare(*lossy))
    assert re.match(
        r"A and B differ in links\.sat\.loss; overall throughput of sat, (Cubic|Reno) is \d+ % lower in B "
        r"\([\d.]+ to [\d.]+ Mbit/s\); \d+ of \d+ means differ\.",
        sentence,
    )
    small = read([made[0], made[2]])
    sentence, warning = summary.said(small, compare(*small))
    assert sentence == "A and B differ in links.sat.loss, size and rounds."
    assert warning.startswith("A is the whole study and B its reduced size, ")
    same = read([made[0], made[0]])
    assert summary.said(same, compare(*same)) == [
        f"A and B were made alike; all {len(compare(*same))} means are the same."
    ]

    file = tmp_path / "held.json"
    done = perigee("compare", *made[:2], "--json", file)
    assert done.stdout.startswith(summary.said(lossy, compare(*lossy))[0])
    found = json.loads(file.read_text())
    assert found["said"] == summary.said(lossy, compare(*lossy))
    assert found["changes"] == [{"what": "links.sat.loss", "values": ["as in the study", "3 %"]}]
    assert [one["is_same"] for one in found["cells"]] == [cell.is_same for cell in compare(*lossy)]


def test_one_of_several_flows_is_named_with_its_number() -> None:
    group = SimpleNamespace(factors={"flow": "download.4", "queue": "1.5 MB"}, label="download.4, Cubic, queue 1.5 MB")
    cell = SimpleNamespace(
        groups=(group, group), label=group.label, metric=metric("goodput_mbps"), percent=-56.0, is_same=False,
        comparison=SimpleNamespace(contrast=None), means=("8.3", "3.7"), other=1,
    )  # fmt: skip
    assert "of download no. 4, Cubic, queue 1.5 MB is 56 % lower" in summary._came_out([cast(Difference, cell)], "B")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The matrix of QUIC stacks, with a stack of a few lines over a fast link."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Perigee
from namespaces import wait_until
from perigee.api.study import Study
from perigee.errors import InputError
from perigee.matrix import running
from perigee.matrix.cells import Cell, small, whole
from perigee.matrix.figures import compared, differences, ranked
from perigee.matrix.links import BY_NAME, LINKS, Link
from perigee.matrix.parties import Party
from perigee.matrix.studies import study
from perigee.report.pages.quic_matrix import headline, written
from perigee.stacks.table import Command, Stack

FAKE = Path(__file__).with_name("fake.py")
PYTHON = "/usr/bin/python3"
FAST = Link("geo", "a fast link", "leo", {"link.delay": "5 ms"}, size=200_000, limit_s=10.0)


def _stack() -> Stack:
    words = (PYTHON, "{folder}/fake.py")
    return Stack(
        name="fake", title="Fake", version="1", source="", licence="MIT", kind="go", checksum="",
        programs=("fake.py",), http3=False, controls=("fast", "slow", "broken"), default="fast", best="slow",
        server=Command((*words, "serve", "{address}", "{port}", "{root}", "{control}")),
        client=Command((*words, "fetch", "{url}", "{out}")), mebibytes=1, notes="",
    )  # fmt: skip


def _cell(control: str) -> Cell:
    stack = _stack()
    party = Party("fake", "Fake", stack.controls, "fast", "slow", "fake", has_windows=False, stack=stack)
    return Cell(party, party, FAST, control)


@pytest.fixture
def order(tmp_path: Path) -> running.Order:
    """An order with the stack installed, below the folder of the results; it needs what the command needs."""
    try:
        running.check()
    except InputError as error:
        pytest.skip(f"the matrix cannot be measured here: {error}")
    if not Path(PYTHON).exists():
        pytest.skip(f"no {PYTHON}")
    stacks = tmp_path / "out/stacks"
    place = stacks / _stack().place
    place.mkdir(parents=True)
    shutil.copy(FAKE, place)
    return running.Order(tmp_path / "out", stacks)


@pytest.mark.drawn
def test_cells_are_measured_once_and_the_page_says_which_is_best_and_what_is_broken(order: running.Order) -> None:
    cells = [_cell(control) for control in ("slow", "fast", "broken")]
    made = [running.measure(cell, order) for cell in running.remaining(cells, order)]
    assert running.remaining(cells, order) == []
    assert running.remaining(cells, running.Order(order.folder, order.stacks, 2)) == cells[:2], "a fault stays one"
    slow, fast, broken = made
    for one in (slow, fast):
        (download,) = one["rounds"]
        assert download["completed"]
        assert download["handshake_ms"] == pytest.approx(10, abs=8)
        assert download["goodput_mbps"] == pytest.approx(1.6 / download["completion_s"])
    assert slow["rounds"][0]["completion_s"] > 0.9 > fast["rounds"][0]["completion_s"]
    assert broken["rounds"] == []
    assert broken["fault"]["fault"] == "the server ended with exit code 1 during the download"
    assert "broken on purpose" in broken["fault"]["said"]
    where = f"--stacks {order.stacks} --out {order.folder}"
    assert broken["again"] == f"perigee quic matrix --cell fake/fake/geo/broken --again {where}"
    assert str(order.folder / running.CELLS) not in json.dumps(broken["commands"]), "its files ended with it"
    texts = written(running.records(order.folder), 3, 3, "perigee quic matrix")
    assert "1 stack measured over a geostationary satellite: no comparison. fake with fast: " in texts["report.md"]
    assert broken["again"] in texts["report.html"]
    row = next(line for line in texts["matrix.csv"].splitlines() if "broken" in line)
    assert "ended with exit code 1" in row
    assert json.loads(texts["matrix.json"])["cells"] == running.records(order.folder)


def test_a_kill_leaves_no_process_no_mount_and_no_half_of_a_cell(order: running.Order) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom perigee.matrix import running\nfrom matrix.test_matrix import _cell\n"
        "running.measure(_cell('slow'), running.Order(Path(sys.argv[2]), Path(sys.argv[3])))"
    )
    words = [sys.executable, "-c", code, str(FAKE.parents[1]), str(order.folder), str(order.stacks)]
    process = subprocess.Popen(words, start_new_session=True)

    def programs() -> set[int]:
        ours = (one for one in Path("/proc").iterdir() if one.name.isdigit())
        return {int(one.name) for one in ours if str(order.stacks.parent) in _words(one)} - {process.pid}

    wait_until(lambda: any("fetch" in _words(Path("/proc", str(one))) for one in programs()))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not programs(), 20)
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert list((order.folder / running.CELLS).iterdir()) == []


def test_a_late_round_is_measured_up_to_three_times_and_the_least_late_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    late = iter((3e3, 1.2e3, 2e3, 4e3, 50.0))
    monkeypatch.setattr(running, "_carried_out", lambda *_: {"late_p99_us": next(late)})
    rounds = [running._on_time(_cell("fast"), running.Order(tmp_path, tmp_path), 1) for _ in range(2)]
    assert [(one["late_p99_us"], one["tries"]) for one in rounds] == [(1.2e3, 3), (50.0, 2)]


def _words(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_the_small_matrix_is_part_of_the_whole_which_has_twelve_links() -> None:
    names = [cell.name for cell in whole()]
    assert len(names) == len(set(names))
    assert {cell.name for cell in small()} <= set(names)
    assert len(LINKS) == 12
    assert {cell.link.name for cell in whole()} == set(BY_NAME)
    party = _cell("fast").server
    assert len({running.inputs(Cell(party, party, link, "fast")) for link in LINKS}) == len(LINKS)


def test_flows_of_ours_go_over_all_links() -> None:
    beside = [cell for cell in whole() if cell.server.stack is None]
    assert {cell.link.name for cell in beside} == set(BY_NAME)
    for cell in beside:
        assert Study.from_toml(study(cell, 1, running.WINDOW)).points().height == 1, cell.name


def _record(cell: str, mbps: float | None) -> dict[str, Any]:
    server, client, link, control = cell.split("/")
    download = {
        "completed": True, "completion_s": 80 / mbps if mbps else None, "goodput_mbps": mbps, "throughput_mbps": mbps,
        "handshake_ms": 600.0, "retransmitted_percent": None, "lost_percent": 0.0, "late_p99_us": 50.0,
        "load_before": 0.5,
    }  # fmt: skip
    rest = {"server": server, "client": client, "link": link, "control": control, "is_tuned": False}
    rest |= {"size_bytes": 10_000_000, "limit_s": 20, "date": "2026-11-30", "versions": {"kernel": "6", "perigee": "1"}}
    rest |= {"took_s": 20.0, "cores": 2, "again": "", "inputs": "", "format": running.FORMAT}
    fault = None if mbps else {"fault": "the server ended", "said": ""}
    return {"cell": cell, **rest, "rounds": [download] if mbps else [], "fault": fault}


def _cut(cell: str, mbps: float) -> dict[str, Any]:
    record = _record(cell, 8.0)
    cut = {"completed": False, "completion_s": None, "goodput_mbps": None, "throughput_mbps": mbps}
    record["rounds"][0] |= cut
    return record


def test_cells_of_two_runs_are_alike_within_5_percent_and_faults_only_with_faults() -> None:
    names = ("a/a/geo/x", "b/b/geo/x", "c/c/geo/x", "d/d/geo/x")
    nothing = _cut("e/e/geo/x", 0.0)
    ours = [_record(name, mbps) for name, mbps in zip(names, (10.0, 10.0, 10.0, None), strict=True)]
    theirs = [_record(name, mbps) for name, mbps in zip(names, (10.4, 11.0, None, None), strict=True)]
    found = {one.cell[0]: one.repeats for one in differences([*ours, nothing], [*theirs, nothing])}
    assert found == {"a": True, "b": False, "c": False, "d": True, "e": True}
    theirs[1]["rounds"][0]["socket_drops"] = 3
    assert [one.cell[0] for one in differences(ours, theirs) if one.is_full] == ["b"]


def test_a_stack_that_fails_over_one_of_both_geo_links_is_not_the_best() -> None:
    cells = [_record("a/a/geo/x", 15.0), _record("a/a/geo-loss/x", None)]
    cells += [_record("b/b/geo/x", 8.0), _record("b/b/geo-loss/x", 5.0)]
    cells += [_record("c/c/geo/x", 7.0), _record("c/c/geo-loss/x", 5.0)]
    assert [rank.cells[0]["server"] for rank in compared(ranked(cells))] == ["b", "c"]


def test_a_comparison_needs_two_stacks_and_all_rows_stay() -> None:
    cells = [_record("quinn/quinn/geo/cubic", 8.0), _record("ngtcp2/ngtcp2/geo-loss/bbr2", 7.0)]
    assert headline(cells).startswith("1 stack measured over a geostationary satellite: no comparison. quinn")
    rows = [line for line in _page(cells).split("## GEO")[0].splitlines() if line.startswith("| ")][2:]
    assert [row[:9] for row in rows] == ["| quinn |", "| ngtcp2 "]
    assert "| quinn | cubic | 10.0 | – |" in rows[0]
    assert "| – | 11.4 |" in rows[1]
    cells += [_record("quinn/quinn/geo-loss/cubic", 4.0)]
    assert "with 1 % loss" in headline(cells)
    assert "the fastest of the 2 stacks measured (of 7) is ngtcp2 with bbr2" in headline(cells)


def test_the_headline_names_ties_and_a_busy_machine() -> None:
    cells = [_record("quinn/quinn/geo/cubic", 8.0), _record("noq/noq/geo/cubic", 7.8)]
    assert "2 stacks measured (of 7) are a tie within 5 %: quinn with cubic" in headline(cells)
    assert "noq with cubic" in headline(cells)
    assert "busy" not in headline(cells)
    cells[1] = _record("noq/noq/geo/cubic", 7.0)
    cells[1]["rounds"][0]["load_before"] = 2.5
    assert "tie" not in headline(cells)
    assert headline(cells).endswith("Measured on a busy machine: 1 of 2 cells.")


def test_a_cut_download_has_only_its_limit_and_stands_after_those_that_finished() -> None:
    names = ("noq", "quinn", "ngtcp2")
    cells = [_cut("noq/noq/geo/cubic", 1.0), _cut("quinn/quinn/geo/cubic", 3.9), _record("ngtcp2/ngtcp2/geo/x", 4.1)]
    page = _page(cells)
    assert [rank.cells[0]["server"] for rank in compared(ranked(cells))] == [*reversed(names)]
    assert "| > 20 | – | 3.90 | 600 |" in page
    assert "≥" not in page
    assert headline(cells[:2]).startswith("Over a geostationary satellite, none of the 2 stacks")


def test_what_was_cut_is_no_percentage_and_a_slow_handshake_is_the_clients() -> None:
    tuned = _record("quiche/quiche/geo/cubic+window", 5.0) | {"is_tuned": True}
    cells = [_cut("quiche/quiche/geo/cubic", 2.0), tuned, _record("tquic/tquic/geo/BBR", 8.0)]
    for one in cells[:2]:
        one["rounds"][0]["handshake_ms"] = 1830.0
    page = _page(cells)
    assert "changes the time of: quiche with cubic+window (in 16.0 s, not within 20 s without)." in page
    assert "The handshake of quiche's client takes 1\u202f830 ms over GEO" in page
    assert "handshake of TQUIC" not in page


def _page(cells: list[dict[str, Any]]) -> str:
    return written(cells, len(cells), len(cells), "perigee quic matrix")["report.md"]


@pytest.mark.parametrize("damage", [{"rounds": 5}, {"rounds": [5]}, {"rounds": [{}]}, {"fault": "x"}])
def test_a_cell_of_other_kinds_of_values_is_damaged(damage: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / running.CELLS / "one.json"
    path.parent.mkdir()
    path.write_text(json.dumps(_record("tcp/tcp/geo/cubic", 8.0)))
    assert running.damaged(tmp_path) == []
    path.write_text(json.dumps(_record("tcp/tcp/geo/cubic", 8.0) | damage))
    assert running.damaged(tmp_path) == [path]


def test_a_comparison_says_what_it_leaves_out_and_a_damaged_cell_remains(perigee: Perigee, tmp_path: Path) -> None:
    for run, links in (("one", ("geo", "geo-loss")), ("two", ("geo", "outage", "meo"))):
        (tmp_path / run / running.CELLS).mkdir(parents=True)
        for link in links:
            text = json.dumps(_record(f"tcp/tcp/{link}/cubic", 8.0))
            (tmp_path / run / running.CELLS / f"{link}.json").write_text(text)
    wrong = tmp_path / "two" / running.CELLS / "meo.json"
    wrong.write_text('{"format": 1')
    words = ("quic", "matrix", "--out", str(tmp_path / "one"), "--compare")
    done = perigee(*words, str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr
    assert "1 of 1 cell within 5 %" in done.stdout
    assert done.stdout.count("not compared: 1 cell of ") == 2
    assert "its cell remains" in " ".join(done.stderr.split())
    listed = perigee("quic", "matrix", "--out", str(tmp_path / "two"), "--cell", "tcp/tcp/meo/cubic", "--list")
    assert "its cell remains" in " ".join(listed.stderr.split())
    assert "of 1 cell 1 remains" in listed.stderr
    assert perigee(*words, str(tmp_path / "one")).returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cell", "tcp/tcp/geo"), "it takes four names"),
        (("--cell", "tcp/perigee/geo/cubic"), "does not speak with"),
        (("--cell", "tcp/tcp/ge/cubic"), "did you mean `geo`?"),
        (("--cell", "tcp/tcp/geo/cubic+window"), "cannot be set"),
        (("--only", "ngtcp"), "did you mean `ngtcp2`?"),
        (("--only", "tcp", "--cell", "tcp/tcp/geo/cubic"), "they exclude each other"),
        (("--compare", "nowhere"), "no cells of a matrix"),
    ],
)
def test_a_wrong_name_is_bad_input(perigee: Perigee, words: tuple[str, ...], said: str) -> None:
    done = perigee("quic", "matrix", *words, "--out", "nothing")
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())

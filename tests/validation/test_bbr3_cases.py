# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The cases of draft-ietf-ccwg-bbr: bbr3 meets them on the reduced grid, and the judge sees what it should see."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT
from perigee import Study

FOLDER = ROOT / "validation" / "bbr3"

# The names under which the processes that carry cases out import them.
sys.path.append(str(FOLDER))

import case as cases_of  # noqa: E402
import grid  # noqa: E402
import judge  # noqa: E402
import mutants  # noqa: E402
import qlog  # noqa: E402
import states  # noqa: E402
from scenario import carry_out, from_results  # noqa: E402
from words import WordsError, instant  # noqa: E402


@pytest.fixture
def log() -> states.Log:
    """Startup of four rows, Drain of two, DOWN of two."""
    codes = [0, 0, 0, 0, 1, 1, 2, 2]
    columns = {
        "t": np.arange(8) * 0.1,
        "state": np.array(codes, dtype=float),
        "bw": np.array([10.0, 20, 40, 41, 41, 41, 40, 40]),
        "round": np.arange(8.0),
    }
    return states.Log(columns, 1000, {"cut": 0.45})


@pytest.mark.parametrize("cells", [cases_of.QUICK[:1], pytest.param(cases_of.QUICK, marks=pytest.mark.long)])
def test_bbr3_meets_the_cases_on_the_reduced_grid(cells: list[cases_of.Cell]) -> None:
    jobs = grid.laid_out(grid.chosen([]), cells)
    done = list(grid.outcomes(jobs))
    assert len({one.case for one in done}) >= 29, "a variant at least of each case is carried out"
    known = [miss for miss in grid.known_misses() if miss.cell in map(str, cells)]
    assert grid.surprises(done, known) == []


def test_each_case_of_the_draft_has_a_file_and_each_exception_a_reason() -> None:
    every = cases_of.cases()
    assert sorted({case.number for case in every}) == list(range(1, 23))
    for case in every:
        left_out = [case.exception(cell) for cell in cases_of.GRID]
        assert all(reason is None or len(reason) > 20 for reason in left_out), str(case)
        assert left_out.count(None) > 0, f"{case} is carried out nowhere"


def test_known_misses_are_of_cases_and_cells_that_are_carried_out() -> None:
    every = {str(case): case for case in cases_of.cases()}
    for miss in grid.known_misses():
        assert len(miss.reason) > 30, miss
        assert miss.of in ("draft", "bounds"), miss
        assert every[miss.case].exception(grid.cell(miss.cell)) is None, miss


def test_a_new_miss_and_a_miss_that_is_gone_are_surprises() -> None:
    missed = grid.Outcome("01-x", "20M/20ms", [judge.Verdict("It ends.", "missed", "")], 0)
    met = grid.Outcome("02-y", "20M/20ms", [judge.Verdict("It ends.", "met", "")], 0)
    known = [grid.Miss("02-y", "20M/20ms", "", "draft")]
    assert [line.split(":")[0] for line in grid.surprises([missed, met], known)] == ["01-x 20M/20ms", "02-y 20M/20ms"]
    assert grid.surprises([missed], [grid.Miss("01-x", "20M/20ms", "", "draft")]) == []


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ({"in": "drain", "holds": "all(bw == 41) and after(state) == DOWN"}, "met"),
        ({"in": "drain", "holds": "after(state) == CRUISE"}, "missed"),
        ({"in": "startup", "holds": "first_where(bw == last(bw), round) == 3"}, "met"),
        ({"in": "startup", "where": "bw > prev(bw)", "holds": "all(bw >= 1.25 * prev(bw))"}, "missed"),
        ({"in": "each drain", "holds": "before(round) == 3 and max(bw) - min(bw) == 0"}, "met"),
        ({"in": "each down", "holds": "all(bw > 0)"}, "missed"),
        ({"from": "enter drain", "to": "cut", "holds": "count(bw > 0) == 1"}, "met"),
        ({"from": "enter drain + 2 packet", "holds": "abs(AT_CUT - 0.45) < 1e-9"}, "met"),
        ({"in": "up", "holds": "all(bw > 0)"}, "missed"),
        ({"in": "up", "holds": "all(bw > 0)", "missing": "met"}, "met"),
        ({"holds": "all(cwnd > 0)"}, "not judged"),
        ({"holds": "all(state in (STARTUP, DRAIN, DOWN)) and not any(state == UP)"}, "met"),
        ({"from": "leave startup", "holds": "grown(t) > 0.29 and changes(state) == 1"}, "met"),
    ],
)
def test_the_judge_evaluates(log: states.Log, check: dict[str, str], outcome: str) -> None:
    verdict = judge.judged({"says": "x", **check}, grid.cell("20M/20ms"), log)
    assert verdict.outcome == outcome, verdict


@pytest.mark.parametrize(
    ("holds", "message"),
    [
        ("bw > 1", "has a value per row"),
        ("all(bw > 1", "is no expression"),
        ("every(bw)", "is no function"),
        ("all(bw % 2)", "arithmetic is"),
        ("all(bw.sum())", "is not understood"),
    ],
)
def test_an_expression_that_is_wrong_is_an_error(log: states.Log, holds: str, message: str) -> None:
    with pytest.raises(WordsError, match=message):
        judge.judged({"says": "x", "holds": holds}, grid.cell("20M/20ms"), log)


@pytest.mark.parametrize(
    ("name", "event", "at"),
    [
        ("04/cut-50", "cut", "enter drain"),
        ("09/cut-12", "cut", "enter down after shorter"),
        ("21", "losses", "enter up after shorter-2 + 1.1 round"),
    ],
)
def test_an_event_happens_at_the_instant_that_it_names(name: str, event: str, at: str) -> None:
    where = cases_of.Cell("20ms", "20M")
    log = carry_out(grid.chosen([name])[0], where)
    assert log.events[event] == pytest.approx(instant(at, log, where.units), abs=1e-9)


def test_a_case_that_is_kept_as_a_study_runs_by_itself(tmp_path: Path) -> None:
    assert grid.main(["--case", "21", "--cell", "20M/20ms", "--study", str(tmp_path / "case")]) == 0
    with Study.load(tmp_path / "case" / "study.toml").run(jobs=1) as results:
        alone = from_results(results.states, cases_of.Cell("20ms", "20M").smss)
    log = carry_out(grid.chosen(["21"])[0], cases_of.Cell("20ms", "20M"))
    for name in log.columns:
        np.testing.assert_array_equal(alone[name], log[name], err_msg=name)


def test_what_states_lost_is_what_the_log_lost(log: states.Log) -> None:
    log.columns |= {
        "lost": np.array([0.0, 0, 0, 2000, 2000, 3000, 4000, 4000]),
        "delivered": np.arange(8.0) * 1e4,
        "max_bw": np.array([1e5] * 8),
        "inflight_longterm": np.array([np.inf] * 8),
    }
    lines = list(judge.by_state(cases_of.Cell("20ms", "20M"), log, 0.0))
    assert [line.split()[0] for line in lines] == ["startup", "drain", "down"]
    assert "0.400 s" in lines[0]
    assert lines[0].endswith("4.8 % lost, 50 % of all losses")
    assert lines[1].endswith("9.1 % lost, 50 % of all losses")


@pytest.mark.parametrize("form", ["csv", "qlog"])
def test_a_log_that_is_written_is_read_as_it_was(form: str, tmp_path: Path) -> None:

    case, where = grid.chosen(["03"])[0], grid.cell("1M/100ms")
    log = carry_out(case, where)
    path = tmp_path / ("log." + form)
    (states.write_csv if form == "csv" else qlog.write_qlog)(log, path)
    again = (states.read_csv if form == "csv" else qlog.read_qlog)(path)
    for name in states.COLUMNS:
        np.testing.assert_allclose(again[name], log[name], rtol=1e-12, err_msg=name)
    assert again.smss == log.smss
    assert [str(v) for v in judge.judge(case, where, again)] == [str(v) for v in judge.judge(case, where, log)]


def test_a_foreign_log_is_judged_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"{i / 10},{'startup' if i < 5 else 'drain'},{20 - i},0.5\n" for i in range(10))
    path.write_text("# smss = 1448\n" + "t,state,inflight,pacing_gain\n" + rows + "1.0,down,5,0.9\n")
    assert grid.main(["--log", str(path), "--case", "03", "--cell", "20M/20ms"]) == 0
    said = capsys.readouterr().out
    assert "met: The pacing gain is 0.5." in said
    assert "not judged: It paces at half" in said
    path.write_text(path.read_text().replace("drain,15,0.5", "drain,15,0.35"))
    assert grid.main(["--log", str(path), "--case", "03", "--cell", "20M/20ms"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,state\n0,startup\n", "no `# smss"),
        ("# smss = 1000\nt,stat\n", ":2: unknown column `stat`"),
        ("# smss = 1000\nt,state\n0,going\n", ":3: `going` is no state"),
        ("# smss = 1000\nt,state\n1,startup\n0,startup\n", ":4: time goes back"),
        ("# smss = 1000\nt,state\n1\n", ":3: 1 values for 2 columns"),
        ("# begin\nt,state\n", ":1: write `# smss"),
    ],
)
def test_a_log_that_is_wrong_is_an_error_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    assert grid.main(["--log", str(path), "--case", "03", "--cell", "20M/20ms"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("number = 3", "number = 3\nnumbre = 4", "unknown key `numbre`"),
        ('holds = "all(pacing_gain == 0.5)"', "", "needs `says` and `holds`"),
        ('length = "2 s + 35 round"', "", "the key 'length' is missing"),
    ],
)
def test_a_case_that_is_wrong_is_an_error(tmp_path: Path, old: str, new: str, message: str) -> None:

    text = next((FOLDER / "cases").glob("03-*.toml")).read_text()
    assert text.count(old) == 1
    (tmp_path / "03.toml").write_text(text.replace(old, new))
    with pytest.raises(cases_of.CaseError, match=message):
        cases_of.cases(tmp_path)


def test_names_that_do_not_exist_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert grid.main(["--case", "23"]) == 2
    assert "no case is called `23`" in capsys.readouterr().err
    assert grid.main(["--cell", "2G/1ms"]) == 2
    assert "no cell is called `2G/1ms`" in capsys.readouterr().err


def test_mutants_fail_their_cases() -> None:
    assert all(failed for _, failed in mutants.failed_by(mutants.MUTANTS[::16]))


@pytest.mark.long
def test_each_mutant_fails_its_case() -> None:
    survivors = [mutant.name for mutant, failed in mutants.failed_by(mutants.MUTANTS) if not failed]
    assert survivors == []
    assert len(mutants.MUTANTS) >= 40


def test_the_algorithm_in_one_file_is_the_algorithm(tmp_path: Path) -> None:

    file = tmp_path / "bbr3.c"
    file.write_text(mutants.text_of())
    case, where = grid.chosen(["10"])[0], grid.cell("20M/20ms")
    one, other = carry_out(case, where), carry_out(case, where, str(file))
    for name in one.columns:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_a_mutant_that_fits_nowhere_is_an_error() -> None:
    with pytest.raises(ValueError, match="has `#define NOTHING 1` 0 times, not once"):
        mutants.text_of(mutants.Mutant("none", "#define NOTHING 1", "", "01"))

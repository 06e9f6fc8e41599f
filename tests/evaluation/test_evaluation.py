# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee cc evaluate`: planted algorithms fail what they should, and nothing else; the page and its figures."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from conftest import KERNEL, NARROW, ROOT, Once, Perigee, environment
from judged_cells import around, judged, table
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.engines.sim.own_runs import AGAIN
from perigee.errors import InterruptedRunError, PerigeeError, RunError
from perigee.evaluation.cells import settings_of
from perigee.evaluation.confirm import Repeated, shortened, worst_cells
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import TCP_ALONE, Criterion, Measure
from perigee.evaluation.form import QUESTIONS
from perigee.evaluation.further import HORIZON
from perigee.evaluation.judging import ONLY_PRINTED, Cell, Finding, judge, judge_measure, not_measured, together
from perigee.evaluation.proxied import LEFT_OUT, behind_proxy
from perigee.evaluation.rules import Rule, Verdict
from perigee.evaluation.running import NOT_CHOSEN, choose, evaluate
from perigee.evaluation.several import Several
from perigee.evaluation.studies import (
    Candidate,
    Order,
    candidate,
    conditions_of,
    experiments_of,
    key_of,
    study_of,
)
from perigee.evaluation.summary import as_json, key_figure, summarize
from perigee.evaluation.tables import CANDIDATES, Tables
from perigee.keeper.kept import results_folder
from perigee.report.pages.evaluation import page, report
from perigee.store.results import Results

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

STUDIES = ROOT / "studies" / "rfc9743"
PLANTED = ROOT / "tests" / "planted_cc"
AXE = ROOT / "tests" / "axe-core" / "axe.min.js"
WIDE = {"width": 1300, "height": 900, "deviceScaleFactor": 1, "mobile": False}

BROKEN_WORDS = r"""
return [...document.querySelectorAll("th, td, td *")].filter((element) => {
  const range = document.createRange();
  const isBroken = (node) => [...node.data.matchAll(/\w{1,20}/g)].some((word) => {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    return range.getClientRects().length > 1;
  });
  return [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && isBroken(node));
}).map((element) => element.outerHTML);
"""
"""Script that returns the cells of tables in which a word of up to twenty letters stands on two lines."""

ORDER = Order(Candidate("mine", "A test", "mine"), (), True, Simulator)

FAILS = {
    "constant_rate": "5.1.1 5.1.3 5.2 5.2.1 5.2.3 7.2 limited paths",
    "no_timeout": "5.1.1",
    "cubic_times_four": "5.1.3 5.2 5.2.1 5.2.3 7.1 7.2 paths",
    "deaf_to_ce": "6.2 7.1",
    "endless_start": "5.1.3 5.2 5.2.1 5.2.3 6.2 7.1 7.2 paths",
    "delay_shy": "",
    "bbr": "5.1.1 5.1.3 5.2 5.2.1 5.2.3 6.2 7.1 7.2 paths",
    "reno": "",
    "cubic": "",
}
"""The criteria that each fails at the reduced size; the names in `PLANTED` are planted for it."""
NOT_MET = {
    "constant_rate": "5.1.2 5.1.4 5.1.5 5.2.2 5.3.2 7.1 7.4 7.5 7.6 7.8 7.9 7.10 7.11",
    "no_timeout": "5.1.5 5.2 6.3 6.4 7.1 7.3 7.5 7.6",
    "cubic_times_four": "5.1.2 5.1.5 5.2.2 5.3.2 7.3 7.5",
    "deaf_to_ce": "5.1.5 5.2 6.3 6.4 7.3 7.5 7.6",
    "endless_start": "5.1.2 5.1.5 5.2.2 5.3.2 6.3 7.6 7.8 limited",
    "delay_shy": "5.1.2 5.1.4 5.1.5 5.2 6.3 6.4 7.1 7.3 7.4 7.5 7.6 7.7 7.8 7.10",
    "bbr": "5.1.4 5.1.5 5.2.2 5.3.2 6.3 7.6 7.8 7.11 limited",
    "reno": "5.1.5 5.2 6.3 6.4 7.1 7.3 7.5 7.6",
    "cubic": "5.2 7.5",
}
"""The criteria that each should document.

no_timeout and deaf_to_ce are Reno where nobody is silent or marks. Reno's slow start has no HyStart: in 5.1.5 every
transfer of 1 MB overflows the queue, and the long one halves its window, once, each 1.5 s. It has less than CUBIC with
a queue of two packets (6.3), through a policer over 200 ms (7.6), and over 600 ms with losses (6.4, 7.5), behind RED
(7.1) and once the delay has grown (7.3). Beside four flows of BBR it is starved, as CUBIC is (5.2).
"""


def evaluated(what: str, section: str, seed: int = 1) -> Finding:
    """The finding on one criterion at the reduced size, with the further rounds that it takes."""
    file = PLANTED / f"{what}.c"
    order = Order(candidate(str(file) if file.exists() else what), (section,), True, Simulator, seed=seed)
    found = evaluate(order, lambda _title: contextlib.nullcontext(lambda *_, **__: None), lambda _note: None)
    return next(one for one in found if one.criterion.id == section)


@pytest.fixture(scope="module")
def verdicts(once: Once) -> dict[str, dict[str, Verdict]]:
    """The verdict on each of `FAILS`, by criterion, at the reduced size."""
    names = [str(file) if (file := PLANTED / f"{name}.c").exists() else name for name in FAILS]
    measured = [criterion for criterion in CRITERIA if criterion.study and criterion.id != HORIZON]

    def judged_in(folder: Path) -> Iterator[tuple[str, str, Verdict]]:
        for criterion in measured:
            for name, (_, found) in zip(FAILS, Several(names, folder, quick=True).findings(criterion), strict=True):
                yield name, criterion.id, found.verdict

    folder = once("evaluated", lambda folder: list(judged_in(folder)))
    found: dict[str, dict[str, Verdict]] = {name: {} for name in FAILS}
    for name, section, verdict in judged_in(folder):
        found[name][section] = verdict
    return found


@pytest.mark.parametrize(
    ("planted", "section"),
    [
        ("no_timeout", "5.1.1"),
        ("cubic_times_four", "5.2.1"),
        ("deaf_to_ce", "7.1"),
        ("constant_rate", "7.2"),
        ("dctcp", "7.1"),
        ("scalable_on_ect0", "7.1"),
        ("unvalidated", "limited"),
        ("defector", "horizon"),
    ],
)
def test_what_is_planted_fails_where_it_was_planted(planted: str, section: str) -> None:
    assert evaluated(planted, section).verdict is Verdict.FAIL


@pytest.mark.long
@pytest.mark.parametrize("name", FAILS)
def test_each_fails_what_it_should_and_nothing_else(name: str, verdicts: dict[str, dict[str, Verdict]]) -> None:
    for verdict, expected in ((Verdict.FAIL, FAILS[name]), (Verdict.DOCUMENT, NOT_MET.get(name, ""))):
        assert " ".join(section for section, found in verdicts[name].items() if found is verdict) == expected


def test_ect1_is_for_those_that_answer_marks_as_scalable_ones_do(tmp_path: Path) -> None:
    deaf = str(PLANTED / "deaf_scalable.c")
    aqm = next(one for one in CRITERIA if one.scalable)
    settings = [f"experiments={aqm.scalable}", f"vary.{key_of(aqm)}=reno,dctcp,{deaf}", "rounds=6"]
    carry_out(Job(study_of(aqm), Simulator, settings, reduced=True, out=tmp_path / "out"))
    tables = Tables(Results(tmp_path / "out"), {deaf: "deaf"})
    found = {name: judge(aqm, tables, name) for name in ("reno", "dctcp", "deaf")}
    assert {name: one.verdict for name, one in found.items()} == {
        "reno": Verdict.DOCUMENT,
        "dctcp": Verdict.PASS,
        "deaf": Verdict.FAIL,
    }
    fails = [one.measure.title for one in found["deaf"].measures if one.verdict is Verdict.FAIL]
    assert fails == [
        "With ECT(1): mean wait alone in a queue that marks from 1 ms on",
        "With ECT(1): share of its fair share that a flow of CUBIC beside it has",
    ]


@pytest.mark.parametrize(("name", "chosen"), [("reno", ["experiments=queues,one-queue"]), ("dctcp", [])])
def test_only_a_congestion_control_that_needs_ecn_is_run_with_ect1(name: str, chosen: list[str]) -> None:
    aqm = next(one for one in CRITERIA if one.scalable)
    order = Order(candidate(name), (), True, Simulator)
    assert experiments_of(order, aqm) == chosen
    study = behind_proxy(aqm, study_of(aqm), key_of(aqm), [name])
    for run in Simulator(study, chosen, True).runs.points:
        assert (run["point"]["experiment"] == "scalable") <= (name == "dctcp")


@pytest.mark.parametrize(
    ("planted", "section", "titles"),
    [
        (
            "trusts_marks",
            "6.2",
            {"Packets sent again in the steady phase"},
        ),
        ("counts_acks", "7.6", {"Share that a receiver takes by cheating from a flow of CUBIC, beyond the fair one"}),
    ],
)
def test_what_is_planted_for_tunnels_and_cheats_fails_there(planted: str, section: str, titles: set[str]) -> None:
    found = evaluated(planted, section)
    # Once a criterion fails, nothing else of it is decided.
    assert {one.measure.title for one in found.measures if one.verdict is Verdict.FAIL} >= titles


def test_every_criterion_of_the_rfc_has_a_row_and_every_study_a_criterion() -> None:
    assert len({criterion.id for criterion in CRITERIA}) == len(CRITERIA) == 30
    named = {criterion.study for criterion in CRITERIA if criterion.study}
    assert named == {path.stem for path in STUDIES.glob("*.toml")}
    for criterion in CRITERIA:
        assert bool(criterion.measures) == bool(criterion.study)
        assert criterion.study or criterion.reason, f"{criterion.id} is not measured and says nothing of it"
        rules = [measure.rule for measure in criterion.measures if measure.rule]
        assert bool(rules) == bool(criterion.study), f"{criterion.id}: nothing of it is judged"
        assert all(rule.owner for rule in rules)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.stem)
def test_a_study_of_a_criterion_says_what_it_asks_and_has_a_small_size(path: Path) -> None:
    content = tomllib.loads(path.read_text())
    section = path.stem.partition("-")[0]
    is_further = not section[0].isdigit()
    assert content["name"] == f"rfc9743-{path.stem if is_further else section.replace('.', '-')}"
    assert content["title"].startswith("Beside RFC 9743: " if is_further else f"RFC 9743, {section}: ")
    key = next(key for key in CANDIDATES if key in content["vary"])
    assert content["vary"][key][:2] == ["reno", "cubic"]
    assert content["reduced"]["set"]["rounds"] == content["rounds"]
    assert content["rounds"] >= 3


def test_reno_does_not_meet_a_high_delay_with_losses() -> None:
    found = evaluated("reno", "7.5")
    assert found.verdict is Verdict.DOCUMENT
    # The transfer is that of the candidate, not of the flow that was there.
    beside = next(cell for cell in found.measures[0].cells if cell.words.startswith("beside-cubic"))
    assert beside.figures["reno"].mean > beside.figures["cubic"].mean > 1


def test_over_quic_what_is_about_tcp_says_so_and_all_else_can_be_run() -> None:
    order = dataclasses.replace(ORDER, candidate=dataclasses.replace(candidate("reno"), over_quic=True))
    for criterion in CRITERIA:
        if criterion.study and not criterion.only_tcp:
            settings = [*experiments_of(order, criterion), *conditions_of(order, criterion)]
            assert settings[-1].endswith("transport=quic")
            assert len(Simulator(study_of(criterion), settings, True).runs)
    found = evaluate(dataclasses.replace(order, chosen=("5.1.1",)), lambda _: pytest.fail("it runs"), lambda _: None)
    assert next(one.reason for one in found if one.criterion.id == "5.1.1") == TCP_ALONE


def test_a_scavenger_is_not_judged_by_what_it_gets_itself() -> None:
    own = evaluated("ledbat_pp", "7.11")
    assert (own.verdict, own.reason) == (Verdict.NOT_JUDGED, ONLY_PRINTED)
    said = summarize(candidate("ledbat_pp"), [own])
    assert "Measured and not judged, as a scavenger's own: 7.11." in said.missing
    assert "environment" not in said.where
    beside = evaluated("ledbat_pp", "5.2.1")
    assert {one.measure.scavenger: one.verdict for one in beside.measures} == dict.fromkeys((False, True), Verdict.PASS)


def findings(**verdicts: Verdict) -> list[Finding]:
    """A finding for each criterion: as given, by `s` and the section with underscores; others pass."""
    return [Finding(one, verdicts.get("s" + one.id.replace(".", "_"), Verdict.PASS), "") for one in CRITERIA]


def test_the_summary_says_what_fails_where_it_holds_and_what_is_missing() -> None:
    mine = Candidate("mine", "A test", "mine")
    assert summarize(mine, findings()).answer.startswith(
        "mine fails no criterion that is measured here. Nothing here is"
    )
    failed = summarize(mine, findings(s5_1_3=Verdict.FAIL, s7_5=Verdict.DOCUMENT))
    assert failed.answer == "mine fails 1 of 26 measured criteria of RFC 9743: 5.1.3."
    assert failed.where.endswith("to be documented: 7.5.")
    alone = [one if one.criterion.id == "7.5" else not_measured(one.criterion, NOT_CHOSEN) for one in findings()]
    assert summarize(mine, alone).answer == (
        "Not judged as a whole: of 30 criteria 1 was measured for mine: "
        "1 passed; 0 failed; 0 not met, to be documented; 0 undecided."
    )
    assert "5.1.1" in summarize(mine, alone).missing
    none = [not_measured(one.criterion, NOT_CHOSEN) for one in alone]
    assert "environment" not in summarize(mine, none).where
    over_quic = dataclasses.replace(mine, over_quic=True)
    assert summarize(over_quic, findings()).answer.startswith("mine over QUIC fails no criterion")
    shown = report(over_quic, findings(), {}, quick=True)
    assert shown.title == "mine over QUIC by RFC 9743"
    assert ("Transport", "QUIC; flows beside it use TCP") in shown.made


@pytest.mark.parametrize("keep", [None, "kept"])
def test_only_results_that_are_kept_are_said_to_be(tmp_path: Path, keep: str | None) -> None:
    folder = tmp_path / keep if keep else None
    with pytest.raises(PerigeeError) as stopped, results_folder(folder):
        raise InterruptedRunError("stopped: 1 of 2 runs are kept")
    assert stopped.value.exit_code == 130
    assert isinstance(stopped.value, InterruptedRunError) == bool(keep), "only that is said to be resumed"
    with pytest.raises(RunError) as crashed, results_folder(folder):
        raise RunError(f"it crashed\n{AGAIN}")
    assert ("finished runs are kept" in str(crashed.value)) == bool(keep)


def test_a_crash_is_no_verdict(perigee: Perigee, tmp_path: Path) -> None:
    head, _, body = (PLANTED / "endless_start.c").read_text().partition("ssthresh, struct sock *sk)\n{")
    crashing = f"{head}ssthresh, struct sock *sk)\n{{\n\t__builtin_trap();{body}"
    (tmp_path / "crashing.c").write_text(crashing)
    done = perigee("cc", "evaluate", "./crashing.c", "--quick", "--criterion", "7.11")
    assert done.returncode == 3, done.stderr
    assert "crashing.c:" in done.stderr


def test_one_worker_and_two_write_the_same_page_and_figures(perigee: Perigee, tmp_path: Path) -> None:
    chosen = ("--quick", "--criterion", "5.1.3", "--criterion", "7.11")
    pages = []
    for name, jobs in (("a", "1"), ("b", "2")):
        written = ("-o", f"{name}.html", "--json", f"{name}.json", "--jobs", jobs)
        done = perigee("cc", "evaluate", PLANTED / "endless_start.c", *chosen, *written)
        assert done.returncode == 1, done.stderr
        assert "endless_start fails 1 of 2 measured criteria of RFC 9743: 5.1.3." in done.stderr
        pages.append([(tmp_path / f"{name}.{ending}").read_bytes() for ending in ("html", "json")])
    assert pages[0] == pages[1]
    found = json.loads(pages[0][1])
    assert (found["longest_run_s"], found["transport"]) == (pytest.approx(60, abs=1), "tcp")
    counts = {"pass": 1, "fail": 1, "not met, document it": 0, "undecided": 0, "not judged": 0, "not measured": 28}
    assert found["verdicts"] == counts
    assert found["candidate"]["name"] == "endless_start"
    assert len(found["candidate"]["sha256"]) == 64
    high_loss = next(one for one in found["criteria"] if one["id"] == "5.1.3")
    assert {*high_loss["measures"][0]["cells"][0]["figures"]} == {"reno", "cubic", "bbr", "endless_start (own)"}
    assert str(tmp_path).encode() not in pages[0][0] + pages[0][1], "a path of this machine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json", "b.html", "b.json"]


def test_exit_code_zero_if_nothing_fails_and_kept_results_are_resumed(perigee: Perigee, tmp_path: Path) -> None:
    command = ("cc", "evaluate", "reno", "--quick", "--criterion", "7.5", "--keep", "kept")
    first = perigee(*command)
    assert (first.returncode, first.stdout.splitlines()[-1]) == (0, "evaluation-reno.html"), first.stderr
    manifest = (tmp_path / "kept" / "7.5" / "manifest.json").read_bytes()
    assert perigee(*command).returncode == 0
    assert (tmp_path / "kept" / "7.5" / "manifest.json").read_bytes() == manifest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nosuch",), "nosuch: there is no such congestion control"),
        (("nosuch.c",), "nosuch.c"),
        (("reno", "--criterion", "9.9"), "RFC 9743 has no such criterion"),
        (("reno", "--criterion", "8"), "it is not measured"),
        (("reno", "--fresh"), "give --keep"),
        (("reno", "--out", "nowhere/page.html"), "there is no folder nowhere"),
        (("reno", "--json", "."), "is a folder"),
        (("reno", "--transport", "sctp"), "use one of tcp, quic"),
        (("reno", "--transport", "quic", "--confirm"), "leave out --confirm"),
        (("reno", "--horizon", "5"), "not a time with a unit"),
        (("reno", "--horizon", "15min", "--criterion", "7.2"), "add --criterion horizon"),
        (("reno", "--answers", "wrong.toml"), "wrong.toml: the form has no `color`"),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(
    perigee: Perigee, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "wrong.toml").write_text('color = "blue"\n')
    done = perigee("cc", "evaluate", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.toml"]


def test_a_criterion_that_readers_judge_does_not_keep_others_from_being_measured() -> None:
    found = evaluate(
        dataclasses.replace(ORDER, candidate=candidate("reno"), chosen=choose(["8", "7.11"])),
        lambda _: contextlib.nullcontext(lambda *_, **__: None),
        lambda _: None,
    )
    of = {one.criterion.id: one for one in found}
    assert of["7.11"].verdict is Verdict.PASS
    assert "--answers" in of["8"].reason


def test_an_empty_form_is_written_and_its_answers_are_on_the_page(perigee: Perigee, tmp_path: Path) -> None:
    command = ("cc", "evaluate", "reno", "--quick", "--criterion", "7.5", "--answers", "form.toml", "--keep", "kept")
    assert "wrote an empty form" in perigee(*command).stderr
    form = (tmp_path / "form.toml").read_text()
    assert list(tomllib.loads(form)) == [question.key for question in QUESTIONS]
    assert (tmp_path / "evaluation-reno.html").read_text().count("Not answered.") == len(QUESTIONS)
    (tmp_path / "form.toml").write_text(form.replace('attacks = """\n', 'attacks = """\nAcknowledge <early>.\n'))
    assert perigee(*command).returncode == 0
    shown = (tmp_path / "evaluation-reno.html").read_text()
    assert "Acknowledge &lt;early&gt;." in shown
    assert shown.count("Not answered.") == len(QUESTIONS) - 1


def test_the_worst_cells_come_first_each_once() -> None:
    rule = Rule("at most 2 %", limit=2)
    values = pl.concat(
        [table(mine=[1.0]).with_columns(cell=pl.lit("a")), table(mine=[5.0]).with_columns(cell=pl.lit("b"))]
    )
    measure = judge_measure(Measure("Loss", "%", lambda _tables: values, rule), values, "mine")
    made = findings()
    made[2] = dataclasses.replace(made[2], measures=[measure, measure])
    assert [cell.words for _criterion, _judged, cell in worst_cells(made)] == ["b", "a"]


@pytest.mark.parametrize(
    ("section", "number", "words", "left"),
    [
        (
            "5.2.1",
            0,
            "other bbr, rate 10 Mbit/s, rtt 100 ms, buffer 1 BDP",
            ["vary.flows.candidate.cc=mine,cubic,reno,bbr", "vary.flows.other.cc=bbr"],
        ),
        ("7.1", 0, "rtt 50 ms, queue RED", ["vary.flows.candidate.cc=mine,cubic,reno", "vary.queue=RED"]),
        ("5.1.1", 1, "silence", ["vary.flows.candidate.cc=mine", "experiments=silence"]),
        (
            "5.1.4",
            0,
            "equal, count 8",
            ["vary.flow.cc=mine,cubic", "experiments=equal", "vary.flows.candidate.count=8"],
        ),
    ],
)
def test_a_cell_is_repeated_with_what_sets_its_threshold(
    section: str, number: int, words: str, left: list[str]
) -> None:
    criterion = next(one for one in CRITERIA if one.id == section)
    cell = Cell(words, {}, {})
    settings = settings_of(ORDER, criterion, cell, criterion.measures[number])
    assert set(left) <= set(settings)
    assert ("vary.ecn" in str(settings)) == (section != "7.1" and "ecn" in words), "both values of a comparison run"


def test_a_repeated_cell_agrees_within_a_tenth_or_says_by_how_much_it_differs() -> None:
    found = judged(Rule("at most 2 %", limit=2), mine=[1.0])

    def said(simulated: float, emulated: float) -> str:
        cells = [Cell("cell", {}, {"mine": times}) for times in (simulated, emulated)]
        return Repeated(CRITERIA[2], found, cells[0], cells[1], "6.18").sentence

    assert said(0.01, 0.09) == said(5.0, 5.4) == said(math.inf, math.inf) == "agrees"
    assert said(0.5, 0.7) == "differs: 0.70 times the threshold in the place of 0.50 times"
    assert said(1.2, 0.6).endswith("in the place of 1.20 times, and would have another verdict")
    assert Repeated(CRITERIA[2], found, found.cells[0], None, "6.18", "it crashed").sentence == "no figure: it crashed"


@pytest.mark.parametrize("criterion", [one for one in CRITERIA if one.study], ids=lambda one: one.id)
def test_behind_a_proxy_both_of_its_sides_use_the_candidate(criterion: Criterion) -> None:
    if criterion.id in LEFT_OUT:
        return
    study = behind_proxy(criterion, study_of(criterion), key_of(criterion), ["cubic", "vegas"])
    plan = Simulator(study, [], True)
    for run in plan.runs.points:
        sides = {
            key: value for key, value in run["point"].items() if re.fullmatch(r"proxies\.proxy\.sides\..*\.cc", key)
        }
        assert "proxies.proxy.sides.path.cc" in sides
        assert len(sides) >= 2
        assert {*sides.values()} == {run["point"][key_of(criterion)]}
        ecn = run["point"].get("ecn", {})
        assert ecn.get("proxies.proxy.sides.path.tcp.ecn") == ecn.get("flow.tcp.ecn")
    assert (
        len(plan.runs.points) * 3
        == len(Simulator(study_of(criterion), [f"vary.{key_of(criterion)}=cubic,bbr,reno"], True).runs.points) * 2
    )


def test_a_verdict_behind_a_proxy_stands_beside_the_direct_one(perigee: Perigee, tmp_path: Path) -> None:
    asked = ("--quick", "--criterion", "5.1.3", "--criterion", "7.11", "--behind-proxy", "--json", "found.json")
    done = perigee("cc", "evaluate", PLANTED / "endless_start.c", *asked, "-o", "page.html")
    assert done.returncode == 1, done.stderr
    found = {one["id"]: one for one in json.loads((tmp_path / "found.json").read_text())["criteria"]}
    assert found["7.11"]["behind_proxy"]["reason"] == LEFT_OUT["7.11"]
    assert found["6.3"]["behind_proxy"] is None
    behind = found["5.1.3"]["behind_proxy"]
    assert behind["verdict"] == "fail"
    direct, split = (one["measures"][0]["cells"] for one in (found["5.1.3"], behind))
    assert [cell["cell"] for cell in split] == [cell["cell"] for cell in direct]
    assert split != direct, "the proxy sends"
    for cell, other in zip(direct, split, strict=True):
        lost, other_lost = (one["figures"]["endless_start (own)"]["mean"] for one in (cell, other))
        assert other_lost == pytest.approx(lost, rel=0.5, abs=0.5)
    assert (tmp_path / "page.html").read_text().count("Behind a proxy") == 2


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists() or not KERNEL.exists(),
    reason="the emulator, and an author's code in the kernel, need root, /dev/net/tun and the kernel's types",
)
def test_the_worst_cells_are_repeated_on_the_emulator(perigee: Perigee, tmp_path: Path) -> None:
    asked = ("--quick", "--criterion", "7.11", "--confirm", "--json", "found.json", "-o", "page.html")
    done = perigee("cc", "evaluate", PLANTED / "delay_shy.c", *asked)
    assert done.returncode == 0, done.stderr
    repeated = json.loads((tmp_path / "found.json").read_text())["emulated"]
    assert [one["criterion"] for one in repeated] == ["7.11"] * 3
    assert {one["emulated"]["cell"] for one in repeated} == {"count 2", "count 8", "count 32"}
    for one in repeated:
        assert {*one["emulated"]["figures"]} == {"delay_shy (own)", "cubic"}
        # 1 MB takes at least 8 ms for each of the transfers at 1 Gbit/s, whoever carries them.
        least = 0.008 * int(one["emulated"]["cell"].removeprefix("count "))
        assert least <= one["emulated"]["figures"]["delay_shy (own)"]["mean"] < 10
        assert one["simulated"]["figures"]["delay_shy (own)"]["mean"] >= least
    shown = (tmp_path / "page.html").read_text()
    assert f"Repeated on Linux {os.uname().release}" in shown
    assert shown.count("7.11 count ") == 3


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv of util-linux")
def test_without_rights_nothing_is_simulated_for_confirm(tmp_path: Path) -> None:
    without = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
    asked = ["cc", "evaluate", "reno", "--quick", "--criterion", "7.11", "--confirm"]
    command = [*without, sys.executable, "-m", "perigee", *asked]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, []), done.stderr
    assert "--confirm: " in done.stderr
    assert "root" in done.stderr


def made() -> list[Finding]:
    """Findings of every verdict; two of them have two measures."""
    rule = Rule("at most 2 %", limit=2)
    values = table(mine=around(3.0), reno=around(1.0), cubic=around(0.5), bbr=around(30.0))
    measures = together(
        [
            judge_measure(Measure(title, "%", lambda _tables: values, each), values, "mine")
            for title, each in (("Loss", rule), ("Shown", None))
        ]
    )
    found = findings(s5_1_3=Verdict.FAIL, s7_5=Verdict.DOCUMENT, s8=Verdict.UNKNOWN)
    # Criteria have measures of one name.
    for number in (2, 3):
        found[number] = dataclasses.replace(found[number], measures=measures)
    return found


def a_page() -> str:
    """A page with every verdict and two measures, one of them repeated."""
    loss = made()[2].measures[0]
    cell = loss.cells[0]
    fault = shortened("the kernel refused it: " + "R1=0xffffffff_var_off=(0x0; 0xffffffff) " * 500, ORDER.candidate)
    repeated = [Repeated(CRITERIA[2], loss, cell, one, "6.18.5", fault) for one in (cell, None)]
    return page(Candidate("mine", "A test", "mine"), made(), {}, quick=True, repeated=repeated)


def test_the_page_begins_with_what_fails_and_its_figure_has_a_row_per_criterion() -> None:
    shown = report(Candidate("mine", "A test", "mine"), made(), {}, quick=True)
    titles = [section.title for section in shown.sections]
    assert titles[:4] == [
        "5.1.3 High packet loss: fails",
        "Not met, to be documented: 1",
        "Passed: 27",
        "Without a verdict: 1",
    ]
    assert shown.short.lines[0] == (
        "5.1.3 High packet loss, fail: Loss: 3.00 ± 0.06 %; allowed: at most 2.0 %; worst of 1 figure: cell, 6 rounds, "
        "P < 0.001."
    )
    (figure,) = shown.plots()
    # The furthest beyond its threshold stands first; of equal ones the first of the RFC.
    assert figure.data is not None
    assert figure.data["criterion"].to_list() == ["5.1.3 High packet loss", "5.1.4 Fairness within"]
    assert figure.alt.startswith("mine is beyond the threshold of 2 of 2 criteria: 5.1.3 High packet loss 1.50 times")


def test_a_figure_that_passes_stands_beside_what_is_allowed_there() -> None:
    rule = Rule("at most 10 %, or 1.25 times CUBIC's", limit=10, of_cubic=1.25)
    found = dataclasses.replace(findings()[0], measures=[judged(rule, mine=[74.2], cubic=[64.8])])
    assert key_figure(found) == "Loss: 74.2 %; allowed: at most 81.0 % (cubic: 64.8)"
    tiny = dataclasses.replace(findings()[0], measures=[judged(rule, mine=[2.7e-5], cubic=[0.0])])
    assert key_figure(tiny) == "Loss: <0.0001 %; allowed: at most 10.0 %"


def test_the_json_has_no_number_that_json_has_not() -> None:
    rule = Rule("at most twice CUBIC's", of_cubic=2)
    values = table(mine=[1.0], cubic=[0.0])
    made = findings()
    made[2] = dataclasses.replace(
        made[2], measures=[judge_measure(Measure("Loss", "%", lambda _t: values, rule), values, "mine")]
    )
    text = json.dumps(as_json(Candidate("mine", "A test", "mine"), made, quick=True), allow_nan=False)
    assert '"times_threshold": {"mine": null' in text


def test_the_page_is_accessible_and_nothing_is_cut_wide_and_narrow(chrome: Chrome, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(a_page())
    for size, scheme in ((NARROW, "light"), (WIDE, "dark")):
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        chrome.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        chrome.get((tmp_path / "page.html").as_uri())
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= size["width"]
        answer = chrome.execute_script('return document.querySelector(".answer").getBoundingClientRect().bottom')
        assert answer < 500, "the answer is on the first screen"
        assert chrome.execute_script(BROKEN_WORDS) == [], "words are broken"
        # The page's policy lets no script in but by the debugger.
        chrome.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
        found = chrome.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']})"
            ".then((found) => done(found.violations.map((one) => `${one.id}: ${one.nodes[0].html}`)));"
        )
        assert found == []

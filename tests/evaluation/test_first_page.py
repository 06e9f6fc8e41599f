# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A reader can check the first page: what fails, in which cell, how surely, and by one command."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import shlex
from pathlib import Path

import pytest

from conftest import Perigee
from judged_cells import around, judged
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.evaluation.cells import again, settings_of
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.judging import Cell, Finding
from perigee.evaluation.rules import Rule, Verdict
from perigee.evaluation.running import evaluate
from perigee.evaluation.studies import Candidate, Order, candidate
from perigee.evaluation.summary import by_construction, foremost, key_figure, not_shown, summarize

OF = {one.id: one for one in CRITERIA}
MINE = Candidate("mine", "A test", "/home/me/my cc/mine.c", "0" * 64, written="my cc/mine.c")
LIMIT = Rule("at most 2 %", limit=2)


def failing(*sections: str) -> list[Finding]:
    """A finding for each criterion, of which some fail."""
    return [Finding(one, Verdict.FAIL if one.id in sections else Verdict.PASS, "") for one in CRITERIA]


def test_what_follows_and_what_is_not_of_the_rfc_is_not_counted_as_its_criteria() -> None:
    said = summarize(MINE, failing("5.1.3", "6.1", "7.2", "paths"))
    assert said.answer == (
        "mine fails 2 of 26 measured criteria of RFC 9743: 5.1.3, 7.2, and so 6.1, and paths beside the RFC."
    )
    assert said.where.startswith("In special cases (7.2) the community MAY let it progress nonetheless")
    assert summarize(MINE, failing("paths")).answer == "mine fails paths beside the RFC."
    assert "special" not in summarize(MINE, failing("5.1.3")).where


def test_nobody_is_told_what_may_be_deployed() -> None:
    for one in (MINE, candidate("reno"), candidate("dctcp"), candidate("ledbat_pp")):
        for found in (failing(), failing("7.1")):
            assert "deploy" not in summarize(one, found).answer
    assert summarize(candidate("dctcp"), failing("7.1")).answer.startswith("It needs ECN, and networks made for it")
    assert "evidence" not in summarize(candidate("reno"), failing()).answer


def test_only_an_open_figure_that_would_fail_is_near_a_threshold_of_safety() -> None:
    scattered = [1.0, 5.0, 2.0, 4.0, 1.5, 3.0]
    for missed, said in ((Verdict.FAIL, "Undecided: mine"), (Verdict.DOCUMENT, "mine fails no criterion")):
        found = failing()
        one = judged(Rule("at most 2 %", limit=2, missed=missed), mine=scattered)
        found[2] = dataclasses.replace(found[2], verdict=Verdict.UNDECIDED, measures=[one])
        assert summarize(MINE, found).answer.startswith(said)
        assert "about a threshold: 5.1.3" in summarize(MINE, found).missing


def test_where_nothing_fails_what_is_open_or_documented_is_looked_at_first() -> None:
    made = {one: judged(Rule("at most 2 %", limit=2, missed=one), mine=around(3.0)) for one in Verdict}
    found = failing()
    for place, verdict in ((25, Verdict.DOCUMENT), (2, Verdict.DOCUMENT), (3, Verdict.UNDECIDED)):
        found[place] = dataclasses.replace(found[place], verdict=verdict, measures=[made[Verdict.DOCUMENT]])
    assert [one.criterion.id for one in foremost(found)] == ["5.1.4"]
    found[3] = dataclasses.replace(found[3], left_open="left open: the reduced size has a part of the cells")
    assert [one.criterion.id for one in foremost(found)] == ["5.1.3", found[25].criterion.id]
    found[25] = dataclasses.replace(found[25], verdict=Verdict.FAIL, measures=[made[Verdict.FAIL]])
    assert [one.criterion.id for one in foremost(found)] == [found[25].criterion.id]


def test_the_first_screen_says_which_fails_it_shows_and_which_it_leaves_out() -> None:
    found = failing()
    for place, mean in enumerate((3.0, 5.0, 4.0, 9.0, 2.5)):
        one = judged(Rule("at most 2 %", limit=2), mine=around(mean))
        found[place] = dataclasses.replace(found[place], verdict=Verdict.FAIL, measures=[one])
    shown = [one.criterion.id for one in foremost(found)]
    assert shown == [found[place].criterion.id for place in (3, 1, 2)]
    left = [found[place].criterion.id for place in (0, 4)]
    assert not_shown(found).startswith("Shown are the first 3 of 5: those of the RFC, the furthest beyond")
    assert f"{', '.join(left)}: each with its command" in not_shown(found)
    assert not_shown(found[3:]) == ""


def test_a_reference_is_told_that_it_is_held_against_itself() -> None:
    rules = (LIMIT, Rule("at most twice CUBIC's", of_cubic=2))
    measures = [judged(rule, mine=around(1.0), cubic=around(1.0), reno=around(1.0)) for rule in rules]
    found = [Finding(CRITERIA[2], Verdict.PASS, "", measures)]
    assert by_construction(candidate("cubic"), found).startswith("1 of 2 figures are held against its own")
    own = dataclasses.replace(measures[1], subject="cubic")
    assert "(its own figure sets that)" in key_figure(Finding(CRITERIA[2], Verdict.PASS, "", [own]))
    assert by_construction(candidate("reno"), found) == by_construction(MINE, found) == ""


def test_a_figure_whose_interval_has_the_threshold_in_it_is_said_to_be_decided_by_the_paired_one() -> None:
    by_round = [10.0, 30.0, 50.0, 20.0, 40.0, 60.0]
    one = judged(Rule("at least 0.8 times CUBIC's", of_cubic=0.8), mine=by_round, cubic=by_round)
    said = key_figure(Finding(CRITERIA[2], Verdict.PASS, "", [one]))
    assert said == (
        "Loss: 35.0 ± 19.6 %; allowed: at least 28.0 % (cubic: 35.0 ± 19.6); worst of 1 figure: cell, 6 rounds, "
        "tested distance 7.0 ± 3.1 % within"
    )
    clear = judged(LIMIT, mine=around(1.0))
    assert "tested distance" not in key_figure(Finding(CRITERIA[2], Verdict.PASS, "", [clear]))


def test_the_command_for_a_cell_has_what_the_evaluation_had_and_the_file_as_it_was_named() -> None:
    limits = {"--cc-stall": "60 s"}
    order = Order(dataclasses.replace(MINE, over_quic=True, scavenger=True), (), True, Simulator, seed=7, limits=limits)
    words = shlex.split(again(order, OF["7.2"], "rate 10 Mbit/s, count 16", 48))
    assert words == [
        *("perigee", "cc", "evaluate", "my cc/mine.c", "--criterion", "7.2", "--cell", "rate 10 Mbit/s, count 16"),
        *("--rounds", "48", "--seed", "7", "--transport", "quic", "--cc-stall", "60 s", "--scavenger"),
    ]
    known = Order(candidate("ledbat_pp"), (), True, Simulator, horizon_s=900.0)
    assert again(known, OF["horizon"], "rtt 28 ms").endswith("--cell 'rtt 28 ms' --horizon 900s")


@pytest.mark.parametrize(
    ("words", "said"),
    [("rtt 28 ms", "several cells of these words: buffer"), ("rtt 1 ms", "no cell of these words; it has buffer")],
)
def test_words_that_name_no_cell_or_several_are_refused_with_some_that_do(words: str, said: str) -> None:
    with pytest.raises(InputError, match=f"5.2.1 has {said} 0.25 BDP, other reno, rate 10 .* more"):
        settings_of(Order(MINE, (), False, Simulator), OF["5.2.1"], Cell(words, {}, {}))


def test_a_cell_alone_has_the_same_rounds_and_is_no_pass(perigee: Perigee, tmp_path: Path) -> None:
    order = Order(candidate("vegas"), ("7.3",), True, Simulator)
    whole = evaluate(order, lambda _: contextlib.nullcontext(lambda *_, **__: None), lambda _: None)
    found = next(one for one in whole if one.criterion.id == "7.3")
    assert found.verdict is Verdict.DOCUMENT
    command = shlex.split(found.again)
    # As a page has it, with a no-break space before a unit.
    command = [word.replace(" ms", "\N{NO-BREAK SPACE}ms") for word in command]
    done = perigee(*command[1:], "--json", "cell.json")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "P is not corrected" in said
    assert "Holm" not in said
    assert "cell again" not in said
    shown = json.loads((tmp_path / "cell.json").read_text())
    one = next(each for each in shown["criteria"] if each["id"] == "7.3")
    (cell,) = one["measures"][0]["cells"]
    assert found.nearest
    assert (decides := found.nearest.deciding)
    assert cell["cell"] == decides.words
    assert cell["figures"]["vegas"]["mean"] == pytest.approx(decides.figures["vegas"].mean)
    assert (one["verdict"], one["again"]) == ("not met, document it", None)
    assert (shown["size"], shown["cell"], shown["rounds"]) == ("cell", decides.words, None)
    assert (tmp_path / "evaluation-vegas-cell.html").exists()
    within = next(each for each in found.measures[0].cells if each.times_beyond["cubic"] <= 1)
    passed = perigee("cc", "evaluate", "cubic", "--criterion", "7.3", "--cell", within.words, "--rounds", "4")
    assert "undecided" in passed.stdout
    assert "one cell alone" in " ".join(passed.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cell", "rtt 28 ms"), "give one --criterion"),
        (("--cell", "rtt 28 ms", "--criterion", "7.3", "--criterion", "7.2"), "give one --criterion"),
        (("--cell", "nowhere", "--criterion", "7.3"), "7.3 has no cell of these words; it has delay"),
        (("--cell", "", "--criterion", "7.3"), "--cell: is empty"),
        (("--cell", "  "), "--cell: is empty"),
        (("--rounds", "6"), "give --cell"),
    ],
)
def test_a_cell_that_cannot_be_measured_is_refused(perigee: Perigee, arguments: tuple[str, ...], said: str) -> None:
    done = perigee("cc", "evaluate", "reno", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in " ".join(done.stderr.split())


def test_rounds_that_would_decide_are_those_of_the_command() -> None:
    from perigee.evaluation.running import _repeatable

    scattered = judged(LIMIT, mine=[1.0, 5.0, 2.0, 4.0, 1.5, 3.0])
    assert scattered.worst
    assert scattered.worst.distance
    rounds = scattered.worst.distance.rounds_to_decide
    assert math.isfinite(rounds)
    open_ = Finding(OF["7.2"], Verdict.UNDECIDED, "", [scattered])
    found = _repeatable(Order(MINE, (), True, Simulator), open_)
    assert found.again.endswith(f"--cell cell --rounds {rounds}")

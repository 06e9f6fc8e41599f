# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee cc attack`: planted weaknesses are found and shrunk, and a search repeats to the byte."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import KERNEL, ROOT, Perigee, environment, next_line, running
from perigee.attack.around import Around
from perigee.attack.bench import Bench, Result
from perigee.attack.confirm import confirm
from perigee.attack.figures import GOALS, Figures
from perigee.attack.finding import Finding
from perigee.attack.running import Order, attack
from perigee.attack.search import AT_ONCE, POPULATION, Archive, again
from perigee.attack.space import AXES, Space
from perigee.attack.trial import Trial, study
from perigee.cc.child import Child
from perigee.cc.limits import CodeLimits
from perigee.core import native
from perigee.engines.emu.obstacle import obstacle
from perigee.evaluation.studies import candidate
from perigee.keeper import runs as runs_module
from perigee.places import headers
from perigee.report.pages.attack import page

PLANTED = ROOT / "tests" / "planted_cc"
RENO = """
#include "tcp.h"
#define PARAMETERS(P)
CC_PARAMETERS(PARAMETERS)
CC_CALLBACK(u32, twin_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}
CC_CALLBACK(void, twin_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	CRASH
	tcp_reno_cong_avoid(sk, ack, acked);
}
CC_CALLBACK(u32, twin_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}
CC_REGISTER(twin, "Reno again", PARAMETERS,
	.ssthresh = OP(twin_ssthresh), .cong_avoid = OP(twin_cong_avoid), .undo_cwnd = OP(twin_undo_cwnd))
"""


@contextlib.contextmanager
def silent(_name: str) -> Iterator[Callable[[float], None]]:
    """A progress bar for nobody."""
    yield lambda _share: None


def findings(what: str, goal: str, trials: int, where: str = "any", references: tuple[str, ...] = ()) -> list[Finding]:
    """Return the findings of a search, on a plain link and with complications."""
    found: list[Finding] = []
    subject = candidate(what)
    order = Order(subject, [goal], where, references or ("reno", "cubic"), trials=trials, workers=2)
    assert attack(order, silent, found.append)
    return found


@pytest.mark.long
def test_the_first_bbr_loses_packets_in_queues_below_a_bandwidth_delay_product_and_a_half() -> None:
    plain = findings("bbr", "loss", 60)[0]
    assert plain.result
    assert plain.is_one
    assert plain.result.trial.complications == []
    assert plain.result.trial.queue_kb / plain.result.trial.bdp_kb < 1.5
    assert plain.result.mean(GOALS["loss"]) > 0.05
    assert plain.edges
    assert plain.edges.queue_bdp[1] < 1.5
    # A queue that is too small is no accident of one point.
    assert plain.around
    assert plain.around.least > 1 / 2
    assert "depends on detail" not in plain.around.sentence
    assert plain.edges.sentence.startswith("It is at least half as bad for round trips from ")


@pytest.mark.long
def test_a_planted_cliff_at_610_ms_is_found_where_it_is() -> None:
    plain = findings(str(PLANTED / "cliff_at_610_ms.c"), "utilisation", 120)[0]
    assert plain.result
    assert plain.is_one
    assert 610 < plain.result.trial.rtt_ms < 1000
    assert plain.edges
    assert 610 < plain.edges.rtt_ms[0] < 610 * 1.02
    assert plain.result.trial.complications == []
    assert "cliff_610_ms uses " in plain.sentence


@pytest.mark.long
def test_a_planted_stall_is_found() -> None:
    worst = findings(str(PLANTED / "stops_after_outage.c"), "stall", 60, "leo")[-1]
    assert worst.result
    assert worst.is_one
    assert worst.result.mean(GOALS["stall"]) > 20
    assert worst.before
    assert len(worst.result.trial.complications) <= len(worst.before.trial.complications)


def test_a_twin_of_the_reference_has_no_finding_whatever_the_links_are(tmp_path: Path) -> None:
    twin = tmp_path / "twin.c"
    twin.write_text(RENO.replace("CRASH", ""))
    for goal in ("utilisation", "starvation"):
        for one in findings(str(twin), goal, 12, references=("reno",)):
            assert one.result
            assert one.result.excess(one.goal) == 0
            assert not one.is_one


def test_a_twin_that_rounds_otherwise_is_worse_somewhere_by_chance_and_has_no_finding(tmp_path: Path) -> None:
    twin = tmp_path / "twin.c"
    half = "u32 cwnd = tcp_sk(sk)->snd_cwnd;\n\n\treturn max32(cwnd - cwnd / 2, 2);"
    twin.write_text(RENO.replace("CRASH", "").replace("return tcp_reno_ssthresh(sk);", half))
    found = findings(str(twin), "utilisation", 16)
    by_chance = [one for one in found if one.result and one.result.excess(one.goal) >= one.goal.least]
    assert by_chance, "or else this test proves nothing"
    assert not any(one.is_one for one in found)
    shown = page(Order(found[0].candidate, ["utilisation"]), found, tmp_path)
    assert "which links like it do not repeat" in shown


def test_a_window_that_never_changes_is_found(tmp_path: Path) -> None:
    constant = tmp_path / "constant.c"
    text = RENO.replace("tcp_reno_cong_avoid(sk, ack, acked)", "tcp_sk(sk)->snd_cwnd = 100").replace("CRASH", "")
    constant.write_text(text.replace("return tcp_reno_ssthresh(sk)", "return 100"))
    plain = findings(str(constant), "loss", 16)[0]
    assert plain.is_one
    assert plain.result
    assert plain.result.mean(plain.goal) > 0.3


@pytest.mark.parametrize("standard", ["reno", "cubic"])
def test_a_standard_has_no_finding_and_what_it_shares_stands_apart(standard: str) -> None:
    found = findings(standard, "loss", 24)
    assert not any(one.is_one for one in found)
    for one in found:
        assert one.result
        assert one.result.excess(one.goal) <= 0
        assert one.shared is None or standard in one.shared.like(one.goal)


def test_what_another_standard_does_as_badly_is_shared_and_no_finding() -> None:
    good, bad = Figures(9.0, 0.9, 0.1, 0.01, 0, 0), Figures(3.46, 0.346, 0.1, 0.01, 0, 0)
    goal = GOALS["utilisation"]
    result = Result(Trial(10, 600, 375, 40), (bad,), {"reno": (bad,), "cubic": (good,)})
    one = Finding(candidate("bbr"), goal, result, result, trials=1, rounds=1, shared=result)
    assert not one.is_one
    assert one.shared_words() == "bbr uses 34.6 % of its share of the path, as reno; cubic 90.0 %"
    assert one.content()["shared"]["with"] == ["reno"]
    shown = page(Order(one.candidate, ["utilisation"]), [one], Path()).replace("\u00a0", " ")
    assert "Shared with a standard" in shown


def test_code_that_crashes_is_a_finding_with_its_callback(tmp_path: Path) -> None:
    twin = tmp_path / "crashes.c"
    crash = "volatile u32 above = tcp_sk(sk)->snd_cwnd > 30; tcp_sk(sk)->snd_cwnd += 1 / (1 - above);"
    twin.write_text(RENO.replace("CRASH", crash))
    plain = findings(str(twin), "loss", 30)[0]
    assert plain.result
    assert plain.is_one
    assert "fails: `cong_avoid` at " in plain.sentence
    assert "divided by zero" in plain.sentence
    assert plain.content()["fault"]


@pytest.mark.parametrize(
    ("what", "trials", "files"),
    [
        ("cubic", 4, {"report.html"}),
        pytest.param("bbr", 16, {"report.html", "starvation.toml"}, marks=pytest.mark.long),
    ],
)
def test_the_same_search_gives_the_same_bytes_on_any_number_of_workers(
    perigee: Perigee, tmp_path: Path, what: str, trials: int, files: set[str]
) -> None:
    written = []
    for jobs in (1, 2):
        options = ("--trials", trials, "--seed", 3, "--goal", "starvation", "--where", "leo")
        done = perigee("cc", "attack", what, *options, "--json", f"{jobs}.json", "--out", str(jobs), "--jobs", jobs)
        assert done.returncode == 0, done.stderr
        found = {path.name: path.read_bytes() for path in sorted((tmp_path / str(jobs)).iterdir())}
        written.append((found, (tmp_path / f"{jobs}.json").read_bytes()))
    assert written[0] == written[1]
    assert files <= set(written[0][0])


def test_a_finding_is_a_study_that_repeats_its_figures(perigee: Perigee, tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text((PLANTED / "cliff_at_610_ms.c").read_text())
    search = ("cc", "attack", "mine.c", "--trials", 16, "--goal", "utilisation", "--where", "geo")
    done = perigee(*search, "--json", "found.json", "--out", "found", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "found.json").read_text())
    one = next(one for one in content["findings"] if one["plain"])
    assert one["found"]
    path = tmp_path / "found" / one["study"]
    assert len(path.read_text().splitlines()) <= 10
    done = perigee("run", path, "--out", "again")
    assert done.returncode == 0, done.stderr
    flows = pl.read_parquet(tmp_path / "again" / "flows.parquet").filter(pl.col("cc").str.starts_with("cliff"))
    figures = one["figures"]["cliff_610_ms (own)"]
    assert flows.height == len(figures) == 3
    for bytes_, figure in zip(flows.sort("run")["received_bytes"], figures, strict=True):
        assert bytes_ * 8e-6 / one["trial"]["duration_s"] == pytest.approx(figure["goodput_mbps"], rel=1e-9)
    said = one["sentence"].replace("cubic", "Cubic").replace("reno", "Reno")
    assert said in (tmp_path / "found" / "report.html").read_text().replace("\u00a0", " ")


def test_the_page_shows_what_its_columns_say_and_the_study_has_a_short_title(tmp_path: Path) -> None:
    own, other = Figures(3.46, 0.346, 0.1, 0.01, 0, 0), Figures(9.0, 0.9, 0.1, 0.01, 0, 0)
    result = Result(Trial(10, 600, 375, 40, loss_percent=1, others=2, outage_s=3), (own,), {"reno": (other,)})
    near = Around(0.9, 1.1, holds=True)
    one = Finding(candidate("bbr"), GOALS["utilisation"], result, result, trials=1, rounds=1, around=near)
    title = tomllib.loads(one.study(tmp_path))["title"]
    assert title == "bbr uses 34.6 % of its share of the path, reno 90.0 %"
    shown = page(Order(one.candidate, ["utilisation"], references=["reno"]), [one], tmp_path)
    said = title.replace("bbr", "BBR").replace("reno", "Reno")
    assert f"In 1 of 1 searches BBR is worse than Reno; most of all, {said}." in shown.replace("\u00a0", " ")
    worse = replace(result, references={**result.references, "cubic": (other,)})
    both = Order(one.candidate, ["utilisation"], references=["reno", "cubic"])
    shown = page(both, [replace(one, result=worse)], tmp_path).replace("\u00a0", " ")
    assert shown.count("worse than both Reno and Cubic") == 2
    assert re.search(r'"col">Used of its share \(%\)</th>', shown)
    assert ">34.60<" in shown
    assert ">0.65<" not in shown
    assert shown.count("<svg") == 1


def test_what_is_carried_out_again_ends_with_the_time() -> None:
    bench = Bench("cubic", ["reno"], 1)
    try:
        trials = [Trial(10, 100 + 10 * k, 125, 1) for k in range(6)]
        archive = Archive([()] * 6, bench.measure(trials))
        assert len(again(bench, GOALS["delay"], archive, 0, 2, lambda: True)) == AT_ONCE
    finally:
        bench.close()
    assert bench.trials == 6 + AT_ONCE


@pytest.mark.parametrize("where", ["geo", "leo", "any"])
def test_every_trial_is_a_study_of_at_most_ten_lines(where: str) -> None:
    random = np.random.default_rng(5)
    seen = set()
    for _ in range(150):
        trial = Space(where).trial(random.random(len(AXES)).tolist())
        text = study(trial, ["bbr", "reno", "cubic"], title=trial.words, rounds=3)
        assert len(text.splitlines()) <= 10
        assert native.Plan(text, "trial.toml", [], False, [], str(headers())).laid_out()["rounds"] == 3
        seen |= set(tomllib.loads(text)["links"][0]["down"])
        instants = (trial.change_s, trial.outage_at_s, trial.other_at_s)
        assert all(0 <= instant < trial.duration_s for instant in instants)
    assert seen == {"rate", "delay", "queue", "loss", "timeline"}


def test_the_figures_of_a_trial_follow_from_its_link() -> None:
    bench = Bench("cubic", ["reno"], 1)
    try:
        plain, out, request = bench.measure(
            [
                Trial(10, 100, 125, 40),
                Trial(10, 100, 125, 40, outage_s=4, outage_at_s=20),
                Trial(10, 100, 125, 40, object_kb=100, pause_s=2),
            ]
        )
    finally:
        bench.close()
    figures = plain.candidate[0]
    assert 0.9 < figures.utilisation <= 1
    # A queue of one bandwidth-delay product, filled to between a third and all of it by CUBIC.
    assert 0.3 < figures.wait_rtts < 1
    assert (figures.taken, figures.stall_rtos) == (0, 0)
    # Neither the outage, with the time until the sender tries again, nor a pause of the application is a stall.
    assert out.candidate[0].stall_rtos < 3
    assert request.candidate[0].stall_rtos < 3
    assert request.candidate[0].utilisation < 0.1


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists() or not KERNEL.exists(),
    reason="the emulator, and an author's code in the kernel, need root, /dev/net/tun and the kernel's types",
)
def test_a_finding_is_replayed_on_the_emulator(tmp_path: Path) -> None:
    subject, goal = candidate(str(PLANTED / "cliff_at_610_ms.c")), GOALS["utilisation"]
    bench = Bench(subject.value, ["reno"], 1)
    try:
        result = bench.measure([Trial(5, 640, 400, 8)])[0]
    finally:
        bench.close()
    near = Around(0.9, 1.1, holds=True)
    one = Finding(subject, goal, result, result, trials=1, rounds=1, around=near, is_plain=True)
    assert obstacle(["cubic"]) == ""
    replayed = confirm(one)
    assert replayed.candidate.utilisation < 0.05 < replayed.other.utilisation
    text = page(Order(subject, ["utilisation"]), [one], tmp_path, {one.name: replayed})
    assert "Confirmed: on the emulator, cliff_610_ms uses " in text


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv of util-linux")
def test_without_rights_the_reason_is_said_and_the_search_goes_on(tmp_path: Path) -> None:
    search = ["cc", "attack", "reno", "--confirm", "--trials", "4", "--goal", "loss"]
    without = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
    command = [*without, sys.executable, "-m", "perigee", *search]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "findings are simulated only" in done.stderr
    assert "Nothing was replayed on the emulator: " in (tmp_path / "attack-reno" / "report.html").read_text()


def test_processes_of_authors_code_are_replaced_before_they_run_out_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "RENEWED_AFTER", 2)
    started: list[Child] = []

    class Noted(Child):
        """Notes each process."""

        def __init__(self, limits: CodeLimits) -> None:
            super().__init__(limits)
            started.append(self)

    monkeypatch.setattr(runs_module, "Child", Noted)
    bench = Bench(str(PLANTED / "cliff_at_610_ms.c"), ["reno"], 1)
    try:
        results = bench.measure([Trial(10, 100 + 10 * k, 125, 1) for k in range(5)])
    finally:
        bench.close()
    assert len(started) == 3
    assert all(result.candidate and result.references["reno"] for result in results)


def test_each_goal_is_tried_even_if_the_time_is_over() -> None:
    found: list[Finding] = []
    order = Order(candidate("bbr"), ["loss", "stall"], "leo", ["reno"], budget_s=0.01, workers=2)
    assert attack(order, silent, found.append)
    assert [one.name for one in found] == ["loss-plain", "loss", "stall-plain", "stall"]
    # Later searches begin with the same generation, which costs nothing more.
    assert all(one.result for one in found)
    assert found[0].trials >= POPULATION


def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perigee", "cc", "attack", "bbr", "--trials", "200", "--json", "a.json"]
    with running([*command, "--goal", "loss"], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE) as process:
        assert next_line(process.stderr).startswith("loss-plain: bbr retransmits")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert "The search was interrupted" in (tmp_path / "attack-bbr" / "report.html").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["findings"][0]["found"]
    assert (tmp_path / "attack-bbr" / "loss-plain.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bbr", "--goal", "los"), "did you mean `loss`?"),
        (("bbr", "--where", "gso"), "did you mean `geo`?"),
        (("bbr", "--reference", "bbr"), "that is the candidate itself"),
        (("bbr", "--budget", "5"), "not a time with a unit"),
        (("bbrr",), "there is no such congestion control"),
    ],
)
def test_wrong_input_is_named_with_its_fix(perigee: Perigee, arguments: tuple[str, ...], said: str) -> None:
    done = perigee("cc", "attack", *arguments)
    assert done.returncode == 2
    assert said in done.stderr

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee cc score`: scores that repeat, harm that shows in a small study, and candidates that break."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import written

from conftest import ROOT, Once, Perigee
from perigee import numbers
from perigee.api.study import Study
from perigee.cc.limits import CodeLimits
from perigee.fitness import references as kept_module
from perigee.fitness.cells import CELLS
from perigee.fitness.content import content
from perigee.fitness.figures import NAMES
from perigee.fitness.marks import REFERENCES, as_good, counted
from perigee.fitness.running import scores
from perigee.fitness.trying import LIMITS
from perigee.keeper.kept import read

PLANTED = ROOT / "tests" / "planted_cc"
PAGE = ROOT / "docs" / "reference" / "score.md"
FAILS = {
    "reno": [],
    "cubic": [],
    "bbr": ["5.1.3", "5.2.1", "5.2.3", "7.1"],
    "cubic_times_four.c": ["5.1.3", "5.2.1", "7.1"],
    "deaf_to_ce.c": ["7.1"],
    "no_timeout.c": ["5.1.1"],
    "unvalidated.c": ["limited"],
    "delay_shy.c": [],
}
"""The criteria that each fails; the names with an ending are planted for them."""
LEAST_PER_HOUR = 1000
BROKEN = {
    "loop.c": ("hung", written.FAULTS["loop"], "loop without end"),
    "null.c": ("crashed", written.FAULTS["null"], "SIGSEGV"),
    "division.c": ("crashed", written.FAULTS["division"], "divided by zero"),
    "field.c": ("does not compile", written.FAULTS["unknown field"], "snd_cwmd"),
    "memory.c": ("crashed", "extern void *malloc(unsigned long); u8 *room = malloc(1UL << 36); room[ack] = 1;", ""),
    "slow.c": ("out of time", 'for (u32 i = 0; i < 50000; i++) __asm__ volatile("");', "3 s of processor time"),
}
"""Files by name: the status that each gets, the statement that breaks it, and what is said."""


@pytest.fixture
def kept(once: Once, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, with the references in it."""

    def make(out: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(out))
        kept_module.references()

    folder = once("score-references", make)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def scored(*what: Path | str, limits: CodeLimits = LIMITS) -> dict[str, dict[str, Any]]:
    """Return scores by the name of their file."""
    return {Path(one.file).name: content(one) for one in scores([str(each) for each in what], limits, 2)}


@pytest.mark.usefixtures("kept")
def test_references_and_planted_algorithms_fail_what_they_should() -> None:
    found = scored(*(PLANTED / name if name.endswith(".c") else name for name in FAILS))
    assert {name: one["fails"] for name, one in found.items()} == FAILS
    assert {one["status"] for one in found.values()} == {"scored"}


@pytest.mark.usefixtures("kept")
def test_twins_of_the_standards_fail_nothing_and_have_nearly_their_scores() -> None:
    twins = sorted((PLANTED / "twins").glob("*.c"))
    assert len(twins) == 5
    found = scored(*twins, "reno", "cubic")
    assert [one["fails"] for one in found.values()] == [[]] * 7
    for twin in twins:
        assert abs(found[twin.name]["score"] - found[twin.name.split("_")[0]]["score"]) < 0.05


@pytest.mark.usefixtures("kept")
def test_a_file_has_the_score_of_its_text_wherever_it_lies(tmp_path: Path) -> None:
    text = written.text("twin", "additive")
    for folder in ("a", "another folder"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twin.c").write_text(text, encoding="utf-8")
    first, again = (next(iter(scored(tmp_path / folder / "twin.c").values())) for folder in ("a", "another folder"))
    assert {**first, "file": ""} == {**again, "file": ""}
    # It does what Reno does.
    assert first["criteria"] == next(iter(scored("reno").values()))["criteria"]


@pytest.mark.usefixtures("kept")
def test_what_breaks_is_ended_and_reported_with_its_line_and_others_go_on(tmp_path: Path, perigee: Perigee) -> None:
    for name, (_, statement, _) in BROKEN.items():
        (tmp_path / name).write_text(written.text(name[:-2], "additive", first=statement), encoding="utf-8")
    (tmp_path / "good.c").write_text(written.text("good", "additive"), encoding="utf-8")
    command = perigee("cc", "score", *BROKEN, "good.c", "--json", "--limit", "3 s", "--cc-stall", "1 s", "--jobs", "2")
    assert command.returncode == 1, command.stderr
    found = {one["file"]: one for one in map(json.loads, command.stdout.splitlines())}
    assert list(found) == [*BROKEN, "good.c"]
    assert {name: one["status"] for name, one in found.items()} == {
        **{name: status for name, (status, _, _) in BROKEN.items()},
        "good.c": "scored",
    }
    for name, (status, statement, said) in BROKEN.items():
        one = found[name]
        assert said in one["error"]
        assert one["score"] is None
        line = (tmp_path / name).read_text(encoding="utf-8").split(statement)[0].count("\n") + 1
        if status != "out of time":
            assert one["place"] == f"{name}:{line}"
    first = found["field.c"]["messages"][0]
    assert (first["target"], first["file"], first["severity"]) == ("simulator", "field.c", "error")
    assert found["field.c"]["place"] == f"field.c:{first['line']}"
    assert f"{len(BROKEN)} of {len(found)} could not be scored" in command.stderr


@pytest.mark.usefixtures("kept")
def test_time_is_used_up_where_the_kernel_says_so_and_not_where_what_it_reports_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = os.wait4

    def less(pid: int, options: int) -> tuple[int, int, object]:
        """Ticks that the limit counts may be more than the time that is reported."""
        _, status, usage = wait(pid, options)
        return pid, status, SimpleNamespace(ru_utime=0.5, ru_stime=0.0, ru_maxrss=usage.ru_maxrss)

    monkeypatch.setattr(os, "wait4", less)
    _, statement, said = BROKEN["slow.c"]
    (tmp_path / "slow.c").write_text(written.text("slow", "additive", first=statement), encoding="utf-8")
    found = scored(tmp_path / "slow.c", limits=replace(LIMITS, processor_s=1))["slow.c"]
    assert found["status"] == "out of time", found["error"]
    assert said.replace("3 s", "1 s") in found["error"]


@pytest.mark.usefixtures("kept")
def test_a_file_that_reads_a_clock_is_told_and_is_not_for_the_kernel(tmp_path: Path) -> None:
    reads = "extern long time(long *); if (time(0) == 1) return;"
    (tmp_path / "timing.c").write_text(written.text("timing", "additive", first=reads), encoding="utf-8")
    found = scored(tmp_path / "timing.c")["timing.c"]
    assert found["status"] == "scored"
    # Without a compiler for the kernel it is not known.
    assert not found["compiles_for_kernel"]
    said = [(one["target"], one["severity"]) for one in found["messages"] if "it uses `time`" in one["text"]]
    assert said[0] == ("simulator", "warning")
    assert found["compiles_for_kernel"] is None or said[1:] == [("kernel", "error")]


@pytest.mark.usefixtures("kept")
def test_a_pipe_is_not_read_and_others_go_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.c")
    found = scored(tmp_path / "pipe.c", "reno")
    assert [one["status"] for one in found.values()] == ["cannot be read", "scored"]
    assert "it is a pipe" in found["pipe.c"]["error"]


@pytest.mark.usefixtures("kept")
def test_code_that_sleeps_is_ended_though_it_takes_no_processor_time(tmp_path: Path) -> None:
    sleeps = "extern int usleep(unsigned); usleep(20000);"
    (tmp_path / "sleepy.c").write_text(written.text("sleepy", "additive", first=sleeps), encoding="utf-8")
    limits = CodeLimits(stall_s=30.0, memory_bytes=1 << 30, processor_s=1)
    found = scored(tmp_path / "sleepy.c", limits=limits)["sleepy.c"]
    assert found["status"] == "hung"
    assert "had waited for 10 s in all" in found["error"]


@pytest.mark.usefixtures("kept")
def test_what_cannot_be_read_or_registers_nothing_has_a_line_and_others_go_on(tmp_path: Path, perigee: Perigee) -> None:
    (tmp_path / "empty.c").write_text("", encoding="utf-8")
    command = perigee("cc", "score", "reno", "missing.c", "empty.c", "--json")
    assert command.returncode == 1, command.stderr
    found = {one["file"]: one for one in map(json.loads, command.stdout.splitlines())}
    assert {name: one["status"] for name, one in found.items()} == {
        "reno": "scored",
        "missing.c": "cannot be read",
        "empty.c": "refused",
    }
    assert found["missing.c"]["error"].startswith("missing.c: ")
    assert found["missing.c"]["sha256"] is None
    assert "registers no algorithm" in found["empty.c"]["error"]


def test_an_unknown_name_is_refused_before_anything_runs(perigee: Perigee) -> None:
    refused = perigee("cc", "score", "cubic", "cubik", "--json")
    assert refused.returncode == 2
    assert "cubic" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", ["cubic_times_four.c", "no_timeout.c", "deaf_to_ce.c", "unvalidated.c"])
def test_the_study_of_a_harm_shows_it(name: str, tmp_path: Path) -> None:
    # It is read from another folder than the file was named from.
    harm = scored(os.path.relpath(PLANTED / name))[name]["harm"]
    assert len(harm["study"].splitlines()) <= 10
    file = tmp_path / "harm.toml"
    file.write_text(harm["study"], encoding="utf-8")
    results = Study.load(str(file)).run(out=tmp_path / "out")
    assert results.flows["completed"].all(), "no flow lasts longer than its run"
    cell = next(one for one in CELLS if one.name == harm["cell"])
    mark = next(one for one in cell.marks if one.name == harm["figure"])
    values = []
    assert len(results.flows["run"].unique()) == 1 + max(len(mark.rule.references), 1)
    for run in results.flows["run"].unique().sort():
        tables = {table: results[table].filter(results[table]["run"] == run) for table in NAMES}
        values.append(mark.figure(tables, harm["length_s"]))
    own, *others = values
    assert mark.rule.times_of(own, mark.rule.bound(others if mark.rule.references else [])) > 1
    # Its title has the figure of this run, not of all rounds.
    assert f": {numbers.number(own, 0 if abs(own) >= 100 else 2)}" in harm["study"].splitlines()[1]


@pytest.mark.usefixtures("kept")
def test_a_score_is_the_logarithm_of_the_ratio_to_the_median_of_the_references() -> None:
    found = scored("hybla", *REFERENCES)
    for criterion, *of_references in zip(*(found[name]["criteria"] for name in ("hybla", *REFERENCES)), strict=True):
        for number, figure in enumerate(criterion["figures"]):
            cell = next(one for one in CELLS if one.name == figure["cell"])
            mark = next(one for one in cell.marks if one.name == figure["name"])
            means = [figure["mean"], *(one["figures"][number]["mean"] for one in of_references)]
            own, *others = (counted(mark.rule, mean, figure["bound"]) for mean in means)
            expected = math.log2(as_good(mark, own, sorted(others)[1]))
            assert figure["score"] == pytest.approx(min(max(expected, -4), 4), abs=1e-3)
            assert (figure["margin"] < 0.5) == (figure["verdict"] != "pass") or figure["verdict"] == "undecided"


def test_references_are_computed_once_and_again_where_the_file_is_damaged(kept: Path) -> None:
    file = kept_module.kept_file()
    assert file.is_relative_to(kept)
    before = file.stat().st_mtime_ns
    whole = kept_module.references()
    assert file.stat().st_mtime_ns == before
    text = file.read_text(encoding="utf-8")
    damaged = kept / "perigee" / "damaged.json"
    damaged.write_text(text[: len(text) // 2], encoding="utf-8")
    assert read(damaged) is None
    assert read(file) == whole


@pytest.mark.usefixtures("kept")
def test_the_reference_names_every_key() -> None:
    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            own = set() if set(value) == set(REFERENCES) else set(value)
            return own.union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    found = scored("bbr")["bbr"]
    line, cells = PAGE.read_text(encoding="utf-8").split("## The cells")
    documented = set(re.findall(r"^\| `([a-z_0-9]+)`", line, re.M))
    assert keys(found) | {"target", "file", "line", "column", "severity", "text"} == documented
    assert all(f"`{cell.name}`" in cells for cell in CELLS)


@pytest.mark.long
@pytest.mark.timeout(7200)  # Five minutes of two cores: of processor time, which is what counts on a busy machine too.
@pytest.mark.usefixtures("kept")
def test_a_core_scores_a_thousand_candidates_an_hour(tmp_path: Path) -> None:
    files = written.write(tmp_path, 200)
    before, begun = os.times(), time.monotonic()
    found = list(scores([str(file) for file in files]))
    used_s = sum(os.times()[:4]) - sum(before[:4])
    assert Counter(one.status for one in found)["scored"] > 150
    rate = 3600 * len(files) / used_s
    print(f"{rate:.0f} candidates an hour and core; {time.monotonic() - begun:.0f} s")
    assert rate > LEAST_PER_HOUR

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command line as a user meets it: what it prints, where, and its exit code; never a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import SMALL_STUDY, Perigee, environment
from perigee.store.results import Results


def said(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The error stream of a failed command: one line and no traceback."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return done.stderr


def test_run_prints_the_folder_and_says_what_comes_next(perigee: Perigee, study: Path, tmp_path: Path) -> None:
    done = perigee("run", study, synthetic=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "results/invented\n"
    assert "12 runs; next: perigee report results/invented" in done.stderr
    again = perigee("run", study, synthetic=True)
    assert "all 12 runs are there already" in again.stderr
    assert (tmp_path / "results" / "invented" / "flows.parquet").exists()


def test_reduced_results_have_a_folder_of_their_own(perigee: Perigee, study: Path) -> None:
    assert perigee("run", study.parent, "--reduced", synthetic=True).stdout == "results/invented-reduced\n"


def test_report_and_compare_work_on_what_run_made(perigee: Perigee, results: Path, tmp_path: Path) -> None:
    done = perigee("report", results, "--format", "csv", "--format", "latex", "--out", tmp_path / "a.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/a-files\n"
    assert {path.suffix for path in (tmp_path / "a-files").iterdir()} >= {".csv", ".tex"}
    done = perigee("compare", results, results, "--csv", tmp_path / "cells.csv")
    assert done.returncode == 0, done.stderr
    assert "flow by flow: all 28 cells" in done.stdout
    assert (tmp_path / "cells.csv").read_text().startswith("group,quantity,unit,other,a,b,difference")


@pytest.mark.parametrize("command", [(), ("run",), ("report",), ("compare",), ("cc",), ("probe",), ("fit",)])
def test_help_teaches_with_examples(perigee: Perigee, command: tuple[str, ...]) -> None:
    done = perigee(*command, "--help")
    assert done.returncode == 0
    if command != ("cc",):
        assert f"perigee {' '.join(command)}" in done.stdout.split("Example", 1)[1]


def test_help_shows_defaults_in_words(perigee: Perigee) -> None:
    assert "[default: one per core]" in perigee("run", "--help").stdout


def test_the_version_is_printed(perigee: Perigee) -> None:
    assert perigee("--version").stdout.startswith("perigee ")


def test_commands_work_where_their_streams_are_closed(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SMALL_STUDY)

    def closed(*words: str) -> int:
        command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "perigee", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment(), check=False, timeout=100).returncode

    assert closed("run", "s.toml", "--out", "out") == 0
    assert Results(tmp_path / "out").table("flows").height > 0
    assert closed("run", "no-such-study") == 2


def test_a_study_that_is_not_there_is_bad_input(perigee: Perigee) -> None:
    error = said(perigee("run", "claypol-2021"), 2)
    assert error == (
        "error: claypol-2021: no such study file, and no study of that name; did you mean `claypool-2021`?\n"
    )


def test_a_name_that_is_like_no_other_is_answered_with_all_of_them(perigee: Perigee) -> None:
    assert said(perigee("exec", "--link", "moon", "--", "true"), 2).startswith(
        "error: moon: no profile of that name; use one of geo, geo-"
    )


def test_a_misspelt_congestion_control_is_named(perigee: Perigee) -> None:
    error = said(perigee("cc", "show", "bbrv3"), 2)
    assert error == "error: bbrv3: there is no such congestion control; did you mean `bbr3`?\n"


def test_a_misspelt_profile_of_a_study_is_named(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(SMALL_STUDY.replace('rate = "10 Mbit/s"\ndelay = "1 ms"', 'profile = "goe"'))
    error = said(perigee("run", study, "--dry-run"), 2)
    assert "the profile `goe` cannot be read: there is no such file" in error
    assert error.endswith("; did you mean `geo`?\n")


def test_a_quantity_in_the_units_of_others_is_answered_with_ours(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(SMALL_STUDY.replace("10 Mbit/s", "20 Mbps"))
    assert "did you mean `20 Mbit/s`?" in said(perigee("run", study, "--dry-run"), 2)
    study.write_text(SMALL_STUDY.replace('"1 ms"', "290"))
    assert '`290` has no unit; write "290 ms"' in said(perigee("run", study, "--dry-run"), 2)


def test_a_dry_run_lists_the_runs_and_runs_none(perigee: Perigee, tmp_path: Path) -> None:
    done = perigee("run", "claypool-2021", "--reduced", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "round 1, flow.cc = hybla" in done.stdout
    assert re.search(
        r"^8 runs: 4 points in 2 rounds; .*; results up to about [\d.]+ MiB .*; nothing was run$",
        done.stderr,
        re.MULTILINE,
    )
    assert list(tmp_path.glob("results*")) == []


def test_a_setting_without_effect_is_noted_before_the_runs(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(SMALL_STUDY.replace('size = "10 kB"', 'size = "10 kB"\ntcp = { impatient_newreno = true }'))
    note = "note: `impatient_newreno` of hosts is without effect: those that have it have SACK; add sack = false\n"
    assert note in perigee("run", study, "--dry-run").stderr
    assert "note" not in perigee("run", study, "--dry-run", "--set", "flow.tcp.sack=false").stderr


def test_a_report_toml_that_is_wrong_is_found_before_the_runs(perigee: Perigee, study: Path, tmp_path: Path) -> None:
    (study.parent / "report.toml").write_text("titel = 'x'\n")
    error = said(perigee("run", study, synthetic=True), 2)
    assert error.startswith(f"error: {study.parent}/report.toml:1: ")
    assert "did you mean" in error
    assert not (tmp_path / "results").exists()


def test_a_time_limit_below_a_duration_is_said_before_the_runs(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(
        SMALL_STUDY.replace('size = "10 kB"', 'duration = "3 s"').replace('"small"', '"small"\ntime_limit = "2 s"')
    )
    warned = "warning: in every run flow `f` ends at 3 s, after time_limit = 2 s: it does not complete; "
    for mode in ([], ["--dry-run"]):
        assert warned in perigee("run", study, *mode).stderr
    said = perigee("run", study, "--dry-run", "--set", "time_limit=1500 ms").stderr
    assert "ends at 3 s, after time_limit = 1.5 s: " in said
    assert 'raise time_limit (--set time_limit="5 s")' in said
    late = perigee("run", study, "--dry-run", "--set", "flow.start=7 s").stderr
    assert "flow `f` would begin at 7 s, after time_limit = 2 s: nothing of it is carried out; raise" in late
    assert "warning" not in perigee("run", study, "--dry-run", "--set", "time_limit=4 s").stderr


def test_flows_of_one_table_are_warned_about_together(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    many = SMALL_STUDY.replace('size = "10 kB"', 'duration = "3 s"\ncount = 40')
    study.write_text(many.replace('"small"', '"small"\ntime_limit = "2 s"'))
    said = perigee("run", study, "--dry-run").stderr
    assert said.count("warning") == 1
    assert "in every run 40 flows `f` end, the last at 3 s, after time_limit = 2 s: they do not complete; " in said
    assert "or shorten their duration" in said
    more = "".join(f'[[flows]]\nname = "f{n}"\nfrom = "a"\nto = "b"\nduration = "{n} s"\n' for n in range(3, 7))
    study.write_text(many.replace('"small"', '"small"\ntime_limit = "2 s"') + more)
    said = perigee("run", study, "--dry-run").stderr
    assert said.count("warning") == 1
    assert "in every run 44 flows `f` to `f6` end, the last at 6 s, after time_limit = 2 s: they do not" in said


def test_a_single_run_is_no_runs(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(SMALL_STUDY)
    out = tmp_path / "out"
    assert perigee("run", study, "--out", out).stderr.startswith("1 run; next: ")
    assert perigee("run", study, "--out", out).stderr.startswith("the run is there already")


def test_a_dry_run_of_a_shard_lists_and_counts_its_own_runs(perigee: Perigee) -> None:
    command = ("run", "claypool-2021", "--reduced", "--dry-run")
    whole, part = perigee(*command), perigee(*command, "--shard", "2/4")
    runs = [[int(row) for row in re.findall(r"^ +(\d+) +round", done.stdout, re.MULTILINE)] for done in (whole, part)]
    assert runs == [list(range(8)), [1, 5]]
    assert "2 of 8 runs: 4 points in 2 rounds" in part.stderr
    size = [float(found[1]) for done in (whole, part) if (found := re.search(r"up to about ([\d.]+) MiB", done.stderr))]
    assert size[1] == pytest.approx(size[0] / 4, abs=0.1)


def test_a_dry_run_of_many_runs_shows_some_and_sums_them_up(perigee: Perigee) -> None:
    done = perigee("run", "claypool-2021", "--dry-run")
    assert len([line for line in done.stdout.splitlines() if re.match(r"  +[0-9]+ ", line)]) == 13
    summed = r"^320 runs: 4 points in 80 rounds; about [\w ]+ on \d+ cores?, a rough estimate; results up to about"
    assert re.search(summed, done.stderr, re.MULTILINE)


def test_a_dry_run_says_what_memory_logs_and_captures_take(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    for measured, said in (("events = true", "events"), ('pcap = ["a"]', "captures"), ('series = "1 s"', "")):
        study.write_text(f"{SMALL_STUDY}[measure]\n{measured}\n")
        line = " ".join(perigee("run", study, "--dry-run").stderr.split())
        found = re.search(rf", and {said} of a run at most [\d.]+ \w+ of memory, or a sixth", line)
        assert bool(found) == bool(said), line


def test_a_flow_that_takes_no_time_has_no_throughput_in_reports_and_comparisons(
    perigee: Perigee, tmp_path: Path
) -> None:
    study = tmp_path / "s.toml"
    link = '[[links]]\nname = "l"\nbetween = ["a", "b"]\nrate = "unlimited"\ndelay = "0 s"\n'
    flow = '[[flows]]\nname = "f"\nfrom = "a"\nto = "b"\nsize = "1 kB"\ncount = 2\n'
    study.write_text(f'name = "free"\nnodes = ["a", "b"]\nmeasure.series = "off"\n{link}{flow}')
    outs = [tmp_path / name for name in ("one", "other")]
    for out in outs:
        assert perigee("run", study, "--out", out).returncode == 0
    for command in (("report", outs[0], "--format", "csv"), ("compare", *outs)):
        done = perigee(*command)
        assert done.returncode == 0, done.stderr
    assert pl.read_parquet(outs[0] / "flows.parquet")["goodput_mbps"].to_list() == [None, None]


def test_an_engine_that_is_none_is_answered_with_those_that_are(perigee: Perigee, study: Path) -> None:
    error = said(perigee("run", study, "--engine", "lab"), 2)
    assert error == "error: --engine lab: there is no such engine; the engines are: sim, emu, live\n"


def test_an_engine_that_does_not_exist_is_bad_input(perigee: Perigee, study: Path) -> None:
    assert "there is no such engine" in said(perigee("run", study, "--engine", "ns-3"), 2)


def test_a_study_that_is_not_text_is_bad_input(perigee: Perigee, study: Path) -> None:
    study.write_bytes(b"\x7fELF\x00\xff")
    assert "not a text file" in said(perigee("run", study), 2)


def test_an_unknown_option_or_number_of_jobs_is_bad_input(perigee: Perigee, study: Path) -> None:
    assert "--job" in said(perigee("run", study, "--jobz", "3"), 2)
    assert "--jobs" in said(perigee("run", study, "--jobs", "0"), 2)


def test_reporting_what_is_not_there_is_bad_input(perigee: Perigee, tmp_path: Path) -> None:
    assert "no such results folder" in said(perigee("report", "nothing"), 2)
    assert "no manifest.json" in said(perigee("report", tmp_path), 2)


def test_an_unknown_format_is_bad_input(perigee: Perigee, results: Path) -> None:
    assert "--format docx: there is no such format" in said(perigee("report", results, "--format", "docx"), 2)


def test_a_report_that_cannot_be_written_is_a_clear_error(perigee: Perigee, results: Path) -> None:
    assert said(perigee("report", results, "--out", "/proc/none/report.html", "--format", "html"), 1)


def test_python_m_perigee_is_the_command(perigee: Perigee) -> None:
    assert "perigee run" in perigee("--help").stdout


def test_a_name_alone_is_shown(perigee: Perigee) -> None:
    for words in (("studies", "claypool-2021"), ("profiles", "viasat2"), ("hosts", "linux-4.15")):
        assert perigee(*words).stdout == perigee(words[0], "show", words[1]).stdout != ""
    assert "did you mean 'draw'" in perigee("profiles", "darw", "geo").stderr.lower()


def test_what_is_clear_needs_no_more_words(perigee: Perigee) -> None:
    assert perigee("profiles", "draw", "geo", "--for", "1 s").stdout == "geo.png\n"
    for name in ("mine", "mystudy"):
        assert perigee("new", name).stdout == f"{name}\n"
    assert "12 runs" in perigee("run", "claypool-2021", "--rounds", "3", "--dry-run").stderr


def test_lists_of_runs_and_studies_have_values_in_words(perigee: Perigee) -> None:
    assert "{" not in perigee("run", "claypool-2021", "--dry-run").stdout
    assert "studies/findings/NAME.toml" in perigee("studies").stdout

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An author's own congestion control, from its C file to results, with the installed command."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee, environment
from forked import Forked
from perigee.places import headers
from perigee.report.assemble import assemble
from perigee.report.style import styled
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "own"
time_limit = "1 min"
nodes = ["server", "client"]

"""
    + link("link", "server client", rate="10 Mbit/s", delay="20 ms", queue="50 kB")
    + flow("download", "server client", duration="10 s")
    + '[vary]\n"flow.cc" = ["cubic", "cc/half.c", { name = "cc/half.c", keep = "90 %" }]\n'
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A study that names an author's file in a folder beside it; the file is the one of algorithms/README.md."""
    page = (headers() / "README.md").read_text(encoding="utf-8")
    source = page.split("```c\n")[1].split("```")[0]
    folder = tmp_path / "work"
    (folder / "cc").mkdir(parents=True)
    (folder / "cc" / "half.c").write_text(source, encoding="utf-8")
    (folder / "own.toml").write_text(STUDY, encoding="utf-8")
    return folder


def flows(results: Path) -> list[tuple[str, str]]:
    """Name and parameters of each flow's congestion control."""
    return pl.read_parquet(results / "flows.parquet").sort("run").select("cc", "cc_params").rows()


def test_a_study_names_a_file_relative_to_its_own_folder(perigee: Perigee, own: Path, tmp_path: Path) -> None:
    done = perigee("run", "work/own.toml", "--out", "results")
    assert done.returncode == 0, done.stderr
    assert flows(tmp_path / "results") == [("cubic", "{}"), ("half", "{}"), ("half", '{"keep":"90 %"}')]
    assert (tmp_path / "results" / "study" / "half.c").read_bytes() == (own / "cc" / "half.c").read_bytes()
    assert perigee("report", "results").returncode == 0
    assert "half_cong_avoid" in (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
    keep = pl.read_parquet(tmp_path / "results" / "series.parquet").group_by("run").agg(pl.col("cwnd_packets").mean())
    windows = dict(keep.rows())
    assert windows[1] < windows[2], "who keeps more of the window has more of it"


def test_a_setting_names_a_file_relative_to_the_working_directory(perigee: Perigee, own: Path) -> None:
    done = perigee("run", "../own.toml", "--set", "flow.cc=./half.c", "--out", "../results", cwd=own / "cc")
    assert done.returncode == 0, done.stderr
    assert flows(own / "results") == [("half", "{}")]


def test_results_of_a_file_are_not_continued_with_another(perigee: Perigee, own: Path) -> None:
    assert perigee("run", "own.toml", "--out", "results", cwd=own).returncode == 0
    assert "are there already" in perigee("run", "own.toml", "--out", "results", cwd=own).stderr
    path = own / "cc" / "half.c"
    path.write_text(path.read_text(encoding="utf-8").replace(", 2)", ", 4)"), encoding="utf-8")
    done = perigee("run", "own.toml", "--out", "results", cwd=own)
    assert done.returncode == 2
    assert "holds other results (the study, a profile, a trace or an algorithm was changed since)" in done.stderr


def test_a_mistake_is_shown_at_the_authors_line(perigee: Perigee, own: Path) -> None:
    path = own / "cc" / "half.c"
    path.write_text(path.read_text(encoding="utf-8").replace("snd_cwnd", "snd_cwmd"), encoding="utf-8")
    line = next(n for n, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if "snd_cwmd" in text)
    for command in [("run", "own.toml"), ("cc", "show", "cc/half.c")]:
        done = perigee(*command, cwd=own)
        assert done.returncode == 2
        assert f"cc/half.c:{line}:" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (own / "results").exists()


def test_a_file_that_is_no_algorithm_is_bad_input(perigee: Perigee, own: Path) -> None:
    (own / "cc" / "half.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    done = perigee("run", "own.toml", cwd=own)
    assert done.returncode == 2
    assert "`cc/half.c` cannot be run: it registers no algorithm; end it with CC_REGISTER" in done.stderr
    (own / "cc" / "half.c").unlink()
    done = perigee("run", "own.toml", cwd=own)
    assert done.returncode == 2
    assert "cannot be read: No such file or directory" in done.stderr


def test_a_host_without_a_compiler_is_told_what_to_install(
    perigee: Perigee, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(own / "nothing"))
    monkeypatch.delenv("CC", raising=False)
    assert "CC" not in environment()
    done = perigee("run", "own.toml", cwd=own)
    assert done.returncode == 2
    assert "no C compiler is installed (looked for cc, gcc, clang); install the package `gcc`" in done.stderr


def test_show_describes_an_authors_file(perigee: Perigee, own: Path) -> None:
    done = perigee("cc", "show", "./half.c", cwd=own / "cc")
    assert done.returncode == 0, done.stderr
    assert "half: Reno with a settable reduction" in done.stdout
    assert "window kept on a loss" in done.stdout


def test_a_new_algorithm_passes_its_own_tests_and_fails_them_when_it_is_wrong(
    perigee: Perigee, forked: Forked, tmp_path: Path
) -> None:
    done = perigee("cc", "new", "halver")
    assert (done.returncode, done.stdout) == (0, "halver\n"), done.stderr
    assert not [path for path in (tmp_path / "halver").iterdir() if "mycc" in path.read_text().lower()]
    own_tests = ["halver/test_halver.py"]
    tried = forked.run(own_tests, tmp_path, environment(), timeout=300)
    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.count(": ok\n") == 4
    source = tmp_path / "halver" / "halver.c"
    right = source.read_text(encoding="utf-8")
    for old, new in [
        ("acked = tcp_slow", "acked = 0; tcp_slow"),
        (">> 10", ">> 9"),
        ("tp->snd_cwnd, acked", "9, acked"),
    ]:
        assert old in right
        source.write_text(right.replace(old, new), encoding="utf-8")
        tried = forked.run(own_tests, tmp_path, environment(), timeout=300)
        assert (tried.returncode, ": FAILED: " in tried.stdout) == (1, True), (new, tried.stdout)


def test_a_new_algorithms_study_runs_beside_cubic(perigee: Perigee, tmp_path: Path) -> None:
    assert perigee("cc", "new", "m9", "--dir", tmp_path).returncode == 0
    shorter = ("--set", "flow.duration=20 s", "--set", "rounds=2")
    done = perigee("run", "m9/study.toml", *shorter, "--out", "results")
    assert done.returncode == 0, done.stderr
    assert {cc for cc, _ in flows(tmp_path / "results")} == {"cubic", "m9"}
    with styled():
        report = assemble(Results(tmp_path / "results"))
    over = pl.read_parquet(tmp_path / "results" / "flows.parquet").filter(pl.col("flow") == "satellite")
    retransmitted = 100 * pl.col("retransmitted_packets") / pl.col("sent_packets")
    own, reference = (over.filter(cc=cc).select(retransmitted.mean()).item() for cc in ("m9", "cubic"))
    assert f"{own - reference:+.2f} pp retransmissions" in report.short.answer.replace("\N{MINUS SIGN}", "-")
    assert re.fullmatch(r"m9 against Cubic: .*throughput.*delay.* over GEO; .* over a wire\.", report.short.answer)
    (window,) = report.short.plots
    assert window.name == "window-1"
    assert all(len(axes.lines) == 2 for axes in window.figure.axes[:2]), "it and its reference have the same axes"


def test_new_overwrites_no_file_and_refuses_wrong_names(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    for name, why in {
        "kept": "exists already",
        "cubic": "is the name of a built-in algorithm",
        "sock": "means something else in C",
        "while": "means something else in C",
        "a234567890123456": "use 1 to 15 of a-z",
        "Mine": "use 1 to 15 of a-z",
        "../up": "use 1 to 15 of a-z",
    }.items():
        done = perigee("cc", "new", name)
        assert done.returncode == 2
        assert why in done.stderr
    assert perigee("cc", "new", "fine", "--dir", "nowhere").returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_check_reports_what_is_right_and_what_is_wrong(perigee: Perigee, own: Path) -> None:
    done = perigee("cc", "check", "cc/half.c", cwd=own)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "half: Reno with a settable reduction",
        "ok: it compiles for the simulator",
        "ok: its state takes 0 bytes of a socket's private area",
    ]
    assert "ok: 2000 random sequences of events break no window" in done.stdout
    path = own / "cc" / "half.c"
    right = path.read_text(encoding="utf-8")
    path.write_text(right.replace("return max32(", "return min32("), encoding="utf-8")
    done = perigee("cc", "check", "cc/half.c", cwd=own)
    assert done.returncode == 1
    assert "cc/half.c: a threshold of 1 packets, after a handshake of " in done.stderr
    assert re.search(
        r"sequence \d+,\n  \d+: Loss\n  \d+: Timeout\nrepeat it: perigee cc check cc/half.c --seq", done.stderr
    )
    path.write_text(right.replace("->snd_cwnd", "->snd_cwmd"), encoding="utf-8")
    assert perigee("cc", "check", "cc/half.c", cwd=own).returncode == 2


def test_an_algorithm_named_like_a_built_in_one_is_distinguished_from_it(perigee: Perigee, own: Path) -> None:
    for part in [*headers().glob("cubic*"), *headers().glob("*.h")]:
        (shutil.copytree if part.is_dir() else shutil.copy)(part, own / "cc" / part.name)
    done = perigee("run", "own.toml", "--set", 'flow.cc="cc/cubic.c"', "--out", "results", cwd=own)
    assert done.returncode == 0, done.stderr
    assert flows(own / "results") == [("cubic (cc/cubic.c)", "{}")]


def test_growth_of_an_unused_window_is_found_in_congestion_avoidance_too(perigee: Perigee, tmp_path: Path) -> None:
    planted = Path(__file__).parents[1] / "planted_cc" / "unvalidated.c"
    text = planted.read_text(encoding="utf-8")
    growth = "tcp_slow_start(tp, acked) : acked;"
    assert growth in text
    validated = "(tcp_is_cwnd_limited(sk) ? tcp_slow_start(tp, acked) : 0) : {};"
    for after, code in (("acked", 1), ("(tcp_is_cwnd_limited(sk) ? acked : 0)", 0)):
        (tmp_path / "own.c").write_text(text.replace(growth, validated.format(after)), encoding="utf-8")
        done = perigee("cc", "check", "own.c", "--sequences", "1")
        assert done.returncode == code, done.stderr
        grown = re.search(r"the window grows to (\d+), after a loss to (\d+)", done.stdout + done.stderr)
        assert grown
        assert int(grown[1]) < 70
        assert (int(grown[2]) > 70) == bool(code)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Font, width and labels of figures are those of the command line; figures for LaTeX have their caption."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import perigee
from conftest import Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.groups.settings import Choice
from perigee.places import find_study
from perigee.report.choice import plots_of
from perigee.report.context import Context
from perigee.report.legends import width_of
from perigee.report.style import Form, styled, width_of_figures
from perigee.report.writer import write_report
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    'name = "formed"\nrounds = 2\nnodes = ["a", "b"]\n'
    + link("l", "a b", rate="2 Mbit/s", delay="10 ms", queue="20 kB")
    + flow("f", "a b", duration="1 s")
    + '[vary]\n"links.l.loss" = ["0 %", "1 %"]\n"flow.cc" = ["cubic", "reno"]\n'
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formed")
    (folder / "study.toml").write_text(STUDY)
    (folder / "report.toml").write_text("sections = ['summary', 'sweep']\n")
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results", workers=1))
    return folder / "results"


def test_figures_for_papers_have_the_width_and_font_that_are_asked_for(results: Path, tmp_path: Path) -> None:
    form = Form("DejaVu Serif", width_of_figures("88 mm"))
    _, files = write_report(results, tmp_path / "r.html", ("html", "pdf", "latex"), form=form)
    pdfs = sorted(files.glob("*.pdf"))
    assert pdfs
    assert not [path for path in pdfs if path.stem.endswith("-column")]
    for path in pdfs:
        content = path.read_bytes()
        (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", content)
        assert float(box) == pytest.approx(88 / 25.4 * 72, abs=0.1)
        assert b"DejaVuSerif" in content
    snippet = (files / "lines-figure.tex").read_text()
    assert r"\includegraphics[width=\linewidth]{lines.pdf}" in snippet
    assert r"with 95 \% confidence intervals" in snippet.split(r"\caption{")[1]
    assert r"\label{fig:lines}" in snippet


def test_the_caption_of_bars_names_intervals_only_where_there_are_any(results: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("rounds = 2", "rounds = 1"))
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "once", workers=1))
    with styled():
        once, twice = (
            plots_of(Context(Results(one)), Choice("bars", ("rtt_mean_ms",)))[0].caption
            for one in (tmp_path / "once", results)
        )
    assert twice == once.replace("over the rounds", "over the rounds, with 95 % confidence intervals") != once


def test_the_room_of_a_text_is_that_of_the_font() -> None:
    with styled():
        usual = width_of("Throughput (Mbit/s)", 9)
    with styled("DejaVu Sans Mono"):
        assert width_of("Throughput (Mbit/s)", 9) > usual


def test_labels_of_the_command_line_replace_names_of_algorithms_keys_and_values(
    results: Path, tmp_path: Path, perigee: Perigee
) -> None:
    out = tmp_path / "r.html"
    labels = ("cubic=CUBIC", "loss=Loss of the sky", "links.l.loss = 0 %=no loss at all")
    options = [part for label in labels for part in ("--label", label)]
    done = perigee("report", results, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    page = out.read_text()
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert "CUBIC" in heads or re.search(r">CUBIC</t[hd]>", page)
    assert "Loss of the sky" in heads
    assert "no loss at all" in page
    assert ">cubic<" not in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--font", "Deja Vu Sanz"), "--font Deja Vu Sanz: there is no such font on this machine; did you mean DejaVu"),
        (("--figure-width", "9"), "--figure-width 9: is no width; write it with its unit, such as 252pt or 88mm"),
        (("--figure-width", "9 mm"), "--figure-width 9 mm: must be from 2 to 15 inches"),
        (("--out", "r.pdf"), "r.pdf: --out names the HTML file, such as r.html; --format chooses what else there is"),
        (("--label", "cubic"), "--label cubic: write KEY=TEXT, such as cubic=CUBIC"),
    ],
)
def test_a_wrong_form_is_refused_in_one_line(
    results: Path, tmp_path: Path, perigee: Perigee, options: tuple[str, ...], message: str
) -> None:
    done = perigee("report", results, "--out", tmp_path / "r.html", *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_a_file_without_a_suffix_is_an_html_file(results: Path, tmp_path: Path) -> None:
    (written,) = write_report(results, tmp_path / "viasat2", figures=[Choice("bars")])
    assert written == tmp_path / "viasat2.html"
    assert written.read_text().startswith("<!doctype html>")


def test_a_heat_map_has_two_axes_and_a_window_is_drawn_over_time(results: Path) -> None:
    stored = perigee.load(results)
    both = stored.plot(kind="heatmap", x=["loss", "cc"]).axes[0]
    assert (both.get_xlabel(), both.get_ylabel()) == ("Loss of l (%)", "Congestion control")
    over_time = stored.plot(y="cwnd_packets")
    assert [axes.get_ylabel() for axes in over_time.axes if axes.get_ylabel()] == ["Window\n(packets)"]
    assert {axes.get_title("left") for axes in over_time.axes} >= {"Cubic, loss 0 %"}
    with pytest.raises(InputError, match="is a quantity over time"):
        stored.plot(y="cwnd_packets", x="loss")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of a report: its permissions, anchors, data for its script, and its head."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest
from test_report_claims import report_of

from conftest import ROOT
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.groups.looks import name_of
from perigee.laboratory.findings import read_findings
from perigee.places import find_study
from perigee.report.answers import answers
from perigee.report.claims import claims
from perigee.report.context import Context
from perigee.report.html import render, write
from perigee.report.model import Cell, Fact, Plot, Report, Section, Table
from perigee.report.provenance import AUTHORS, TITLE, citations
from perigee.report.style import figure, styled
from perigee.store.identity import REDUCED
from perigee.store.results import Results
from synthetic import SyntheticEngine


def page_of(*blocks: Plot | Table) -> tuple[Report, str]:
    """A report of one section, and its page."""
    report = Report("A report", "", [Fact("1", "run")], [Section("one", "One", list(blocks))])
    with styled():
        return report, render(report)


def line(name: str = "line", data: pl.DataFrame | None = None, *, log: bool = False) -> Plot:
    """A figure of two lines, each with its entry in the legend."""
    with styled():
        drawing = figure(2)
        axes = drawing.subplots()
        axes.plot([1, 10, 100], [0, 5, 10], color="#0072B2", label="bbr")
        axes.plot([1, 10, 100], [10, 5, 2], color="#D55E00", ls="--", label="cubic")
        axes.set_xscale("log" if log else "linear")
        axes.set_xlabel("Size (MB)")
        axes.set_ylabel("Time (s)")
        drawing.legend(*axes.get_legend_handles_labels(), loc="outside upper center")
    return Plot(name, "Two lines.", "two lines", drawing, data=data)


def table(name: str = "numbers", text: str = "1.0") -> Table:
    """A table of one row."""
    return Table(name, "A number", ["", "Rate (Mbit/s)"], [[Cell("bbr"), Cell(text)]], pl.DataFrame({"rate": [1.0]}))


def test_the_page_may_run_its_own_script_only_and_fetch_nothing() -> None:
    _, page = page_of(line(), table())
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert page.count("<script") == 1
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert html.unescape(policy).split("; ") == [
        "default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", f"script-src 'sha256-{digest}'",
        "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
    assert not re.search(r"<link|<iframe|@import|url\(http| on[a-z]+=", page)


def test_tables_and_figures_have_numbers_and_places_that_can_be_referred_to() -> None:
    report, page = page_of(table("a"), line("b"), table("c"), line("d"))
    blocks: list[Plot | Table] = [*report.tables(), *report.plots()]
    for block, number, place in zip(
        blocks, ["Table 1", "Table 2", "Figure 1", "Figure 2"],
        ["table-a", "table-c", "figure-b", "figure-d"], strict=True,
    ):  # fmt: skip
        assert report.number(block) == number
        assert page.count(f'id="{place}"') == 1
        assert f'<a class="number" href="#{place}">{number}</a>' in page


def test_the_data_of_a_table_or_figure_are_a_link_that_needs_no_script() -> None:
    curves = pl.DataFrame({"flow": ["bbr", "=1+1"], "rate": [1.5, 2.000_000_000_1]})
    _, page = page_of(table(), line(data=curves))
    links = re.findall(r'<a class="download" href="data:text/csv;charset=utf-8,([^"]*)" download="([^"]*)"', page)
    files = {name: unquote(html.unescape(content)) for content, name in links}
    assert pl.read_csv(io.StringIO(files["numbers.csv"])).rows() == [(1.0,)]
    assert files["line-curves.csv"] == "flow,rate\nbbr,1.5\n'=1+1,2.0\n"
    _, page = page_of(line(data=pl.DataFrame({"rate": [0.5] * 100_000})))
    assert 'class="download"' not in page


def scales_of(page: str) -> dict[str, Any]:
    """The data that a page gives its script for its only figure."""
    (scales,) = re.findall(r'data-scales="([^"]*)"', page)
    found: dict[str, Any] = json.loads(html.unescape(scales))
    return found


@pytest.mark.drawn
@pytest.mark.parametrize("log", [False, True])
def test_the_script_finds_the_values_of_points_from_the_scales_of_the_axes(log: bool) -> None:
    _, page = page_of(line(log=log))
    (axes,) = scales_of(page)["axes"]
    drawn = re.search(r'<g class="series" data-entry="0".*?<path d="(.*?)"', page, re.DOTALL)
    assert drawn is not None
    points = [(float(x), float(y)) for x, y in re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", drawn[1])]

    def value(axis: dict[str, Any], place: float) -> float:
        share = (place - axis["from"]) / (axis["to"] - axis["from"])
        low, high = axis["low"], axis["high"]
        return float(low * (high / low) ** share if axis["scale"] == "log" else low + share * (high - low))

    found = [(value(axes["x"], x), value(axes["y"], y)) for x, y in points]
    assert len(found) == 3
    for seen, expected in zip(found, [(1, 0), (10, 5), (100, 10)], strict=True):
        assert seen == pytest.approx(expected, rel=0.01, abs=0.05)
    assert axes["x"]["label"] == "Size (MB)"
    assert axes["x"]["scale"] == ("log" if log else "linear")


@pytest.mark.drawn
def test_the_parts_of_an_entry_of_a_legend_are_marked() -> None:
    _, page = page_of(line())
    assert scales_of(page)["names"] == ["bbr", "cubic"]
    for entry in "01":
        assert page.count(f'<g class="series" data-entry="{entry}"') == 1
        # The stroke and the text of the legend.
        assert page.count(f'<g class="entry" data-entry="{entry}"') == 2
    assert not re.search(r'id="[^"]*(series|entry)-\d', page)


@pytest.mark.drawn
def test_names_in_figures_and_tables_are_text_for_the_page_and_its_script() -> None:
    evil = '"></svg><script>alert(1)</script>'
    with styled():
        drawing = figure(2)
        axes = drawing.subplots()
        axes.plot([0, 1], [0, 1], label=evil)
        axes.set_xlabel(evil)
        drawing.legend(*axes.get_legend_handles_labels())
    _, page = page_of(Plot("x", evil, evil, drawing), table(text=evil))
    assert page.count("<script") == 1
    assert scales_of(page)["names"] == [evil]


def synthetic(folder: Path, engine: SyntheticEngine, **companions: str) -> Results:
    """Results of the synthetic engine, with files beside the study."""
    path = folder / "invented" / "study.toml"
    path.parent.mkdir(parents=True)
    path.write_text('name = "invented"\ntitle = "A title"\nabout = """What is\nasked."""\n')
    for name, text in companions.items():
        path.with_name(f"{name}.toml").write_text(text)
    carry_out(Job(find_study(str(path)), engine, out=folder / "results"))
    return Results(folder / "results")


def test_the_head_has_the_studys_description_and_how_the_report_was_made(tmp_path: Path) -> None:
    results = synthetic(tmp_path, SyntheticEngine(3), report="sections = ['summary']")
    results.manifest["versions"]["perigee"] = "9.9"
    report = report_of(results)
    assert (report.title, report.question) == ("A title", "What is asked.")
    made = dict(report.made)
    assert made["Command"] == "perigee run invented"
    assert made["Seeds"] == "3 from 1000, one per round"
    assert made["Date"].endswith("UTC")
    (program,) = report.citations
    assert program.bibtex.startswith("@software{perigee,\n")
    assert "version 9.9." in program.text and made["Versions"].startswith("perigee 9.9,")
    page = render(report)
    assert all(html.escape(text) in page for text in (program.text, made["Command"], made["Versions"]))


def test_the_first_screen_has_answer_caveats_and_figure_1_before_the_sections(tmp_path: Path) -> None:
    toml = 'answer = "Hybla & BBR."\ncaveats = ["The link is invented.", "One place."]\n'
    toml += 'sections = ["setup", "throughput", "power"]\n'
    report = report_of(synthetic(tmp_path, SyntheticEngine(3), report=toml))
    (first, *others) = report.plots()
    assert report.short.plots == [first]
    assert others
    page = render(report)
    order = ("What is asked.", "Hybla &amp; BBR.", ">In short<", ">Figure 1<", "The link is invented.", "One place.")
    places = [page.index(text) for text in (*order, 'id="setup"', ">Figure 2<")]
    assert places == sorted(places)
    assert page.count(">Figure 1<") == 1


def test_an_answer_of_other_runs_than_these_says_so(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('name = "other"\n')
    path.with_name("report.toml").write_text('answer = "Hybla."\n')
    carry_out(Job(find_study(str(path)), SyntheticEngine(5), ["rounds=2"], out=tmp_path / "results"))
    assert report_of(Results(tmp_path / "results")).short.caveats == [
        "The answer was written for the study as it stands; these runs are with rounds=2."
    ]


def test_results_of_the_reduced_size_are_held_against_nothing(tmp_path: Path) -> None:
    path = tmp_path / "viasat" / "study.toml"
    path.parent.mkdir()
    path.write_text('name = "viasat"\n')
    shutil.copy(ROOT / "studies" / "claypool-2021" / "published.toml", path.parent)
    path.with_name("report.toml").write_text(
        'sections = ["claims", "published"]\nquestion = "Which?"\nanswer = "Hybla."\ncaveats = ["It is one place."]'
    )
    shown = ("Hybla.", "It is one place.", "Claims:", "What is not met", "✗", "grey: published", "calibrated")
    for is_reduced in (False, True):
        out = tmp_path / f"results-{is_reduced}"
        carry_out(Job(find_study(str(path)), SyntheticEngine(2), reduced=is_reduced, out=out))
        report, results = report_of(Results(out)), Results(out)
        write(report, out / "report.html")
        page, claimed = (out / "report.html").read_text(), claims(results, report)
        assert [text in page for text in shown] == [not is_reduced] * len(shown)
        assert ("| yes |" in claimed, "Hybla." in claimed, " order | " in claimed) == (not is_reduced,) * 3
        assert page.partition("<h1>")[0].count(REDUCED) == claimed.count(REDUCED) == int(is_reduced)
        assert (read_findings(out).sentences == ()) is is_reduced
        assert "Claypool" in page, "the publication is cited in both"


def test_the_command_names_the_file_that_was_given_and_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "my study.toml"
    path.write_text('name = "other"\n')
    job = Job(find_study(str(path)), SyntheticEngine(5), ["rounds=2"], reduced=True, out=tmp_path / "results")
    carry_out(job)
    (command,) = (text for name, text in report_of(Results(tmp_path / "results")).made if name == "Command")
    assert command == "perigee run 'my study.toml' --reduced --set rounds=2"


def test_the_answer_is_that_of_the_table_and_of_its_tests(tmp_path: Path) -> None:
    results = synthetic(tmp_path, SyntheticEngine(40), report="sections = ['summary']")
    said = answers(Context(results))
    assert "±" not in " ".join(said.lines)
    flows = results.table("flows")
    means = {str(cc): float(part["rtt_mean_ms"].mean()) for (cc,), part in flows.group_by("cc")}  # type: ignore[arg-type]
    first, second = sorted(means, key=lambda cc: means[cc])[:2]
    (sentence,) = (one for one in said.lines if "round-trip" in one)
    lowest = f"{name_of(first)} has the lowest mean round-trip time, {means[first]:.0f} ms"
    assert sentence.startswith(f"{lowest}; {name_of(second)} +")
    assert "not significant" not in sentence
    assert "comparisons of this page together (Holm)" in said.method
    summary = next(one for one in report_of(results).tables() if one.name == "summary")
    best = summary.data.filter("best")
    assert best.filter(pl.col("quantity") == "rtt_mean_ms")["group"].to_list() == [first]
    assert "p < 0.05" in summary.notes[0]


def test_groups_that_do_not_differ_significantly_have_no_star(tmp_path: Path) -> None:
    def alike(row: dict[str, Any]) -> None:
        row["goodput_mbps"] = 50.0 + (row["seed"] * 7 + len(row["cc"]) * row["round"]) % 5

    results = synthetic(tmp_path, SyntheticEngine(6, edit=alike), report="summary = ['goodput_mbps']")
    report = report_of(results)
    summary = next(one for one in report.tables() if one.name == "summary")
    assert not summary.data["best"].any()
    assert "★" not in "".join(cell.text for row in summary.rows for cell in row)
    intervals = re.findall(r"\[(.*?), (.*?)\]", report.answers[0])
    assert report.answers[0].count("not significant") == len(intervals) > 0
    for ends in intervals:
        low, high = (float(end.replace("−", "-")) for end in ends)
        assert low < 0 < high


def test_single_flows_are_compared_without_a_test(tmp_path: Path) -> None:
    report = report_of(synthetic(tmp_path, SyntheticEngine(1), report="sections = ['summary']"))
    assert len(report.answers) == 3
    assert not any(word in " ".join(report.answers) for word in ("significant", "[", "±"))
    assert report.short.method == "One round: no intervals, no tests."
    (summary,) = report.tables()
    assert summary.caption == "Single flows"
    assert "flows" not in summary.head
    assert "±" not in "".join(cell.text for row in summary.rows for cell in row)


PUBLISHED = """
source = "Ten downloads of each"
title = "Fast & far"
authors = ["Ann Lee"]
venue = "PAM 2021"
year = 2021
doi = "10.1234/56"
calibration = "The link was fitted to the throughput."
[[table]]
name = "throughput"
caption = "Throughput"
place = "Table 1"
form = "table"
role = "fitted"
[[table.value]]
metric = "goodput_mbps"
columns = ["cc", "value"]
rows = [["bbr", 95.8]]
within = 0.15
"""


def test_a_page_says_on_which_published_numbers_the_link_was_calibrated(tmp_path: Path) -> None:
    report = report_of(synthetic(tmp_path, SyntheticEngine(2), published=PUBLISHED, report="sections = ['published']"))
    assert report.answers[0].startswith("Fitted: ")
    assert report.tables()[0].caption == "Throughput (Table 1); a link of the study was calibrated on these numbers"
    page = render(report)
    assert "Calibration: The link was fitted to the throughput." in page
    assert "Ann Lee: Fast &amp; far. PAM 2021." in page
    assert 'href="https://doi.org/10.1234/56"' in page
    assert "title = {{Fast \\&amp; far}}," in page


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('role = "fitted"\n', "", "`calibration` is of no number"),
        ('calibration = "The link was fitted to the throughput."\n', "", "say which link was fitted to it"),
        ('doi = "10.1234/56"', 'doi = "https://doi.org/10.1234/56"', '`doi` must be as "10.1000/182"'),
        ("year = 2021", "year = 21", "`year` must be from 1900 to 2200, not 21"),
        ("year = 2021", "year = true", "`year` must be a number"),
        ('title = "Fast & far"\n', "", "the publication has no `title`"),
        ('role = "fitted"', 'role = "fit"', "`fit` is no `role`; there are predicted, fitted, input"),
    ],
)
def test_a_publication_that_is_not_whole_is_an_error_with_its_place(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in PUBLISHED
    results = synthetic(tmp_path, SyntheticEngine(1), published=PUBLISHED.replace(old, new))
    with pytest.raises(InputError, match=r"published\.toml") as error:
        report_of(results)
    assert said in str(error.value)


def test_the_citation_file_is_that_of_the_page_and_of_the_last_release() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    # The subset of YAML that the file uses: keys with quoted texts, and lists of them; and one folded text.
    found: dict[str, str] = {}
    for row in re.sub(r"^abstract: >-\n(  .*\n)+", "", text, flags=re.MULTILINE).splitlines():
        if row.startswith("#") or not row:
            continue
        fitting = re.fullmatch(r'(?:  )?(?:- )?([a-z-]+):(?: "([^"\\]*)")?|  - "([^"\\]*)"', row)
        assert fitting, row
        found |= {fitting[1]: fitting[2]} if fitting[1] else {}
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.findall(r"^## \[([0-9.]+)\] - (.*)$", changes, re.MULTILINE)[0]
    assert (found["version"], found["date-released"]) == (version, date)
    assert (found["title"], found["name"]) == (TITLE, AUTHORS)
    assert found["cff-version"] == "1.2.0"
    (program,) = citations(None, version)
    assert f"version = {{{version}}}" in program.bibtex


def test_the_publication_of_a_study_of_this_repository_is_named(tmp_path: Path) -> None:
    results = synthetic(tmp_path, SyntheticEngine(1))
    shutil.copy(ROOT / "studies" / "claypool-2021" / "published.toml", results.path / "study")
    (_, work) = report_of(Results(results.path)).citations
    assert work.url == "https://doi.org/10.1007/978-3-030-72582-2_29"
    assert work.text.startswith("Saahil Claypool, Jae Chung, Mark Claypool: Comparison of TCP Congestion Control")

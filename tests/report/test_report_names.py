# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Names in a report are data: shown unchanged, they select no file and merge no flows."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import polars as pl
import pytest
from matplotlib.text import Text

from conftest import ROOT, Perigee
from perigee.analysis.recordings import analyze, keep
from perigee.engines.choice import engine
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.groups.kinds import SECTION_OF
from perigee.groups.names import LONGEST, file_names, slug
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.sections import BY_DEFAULT, SECTIONS
from perigee.report.style import styled
from perigee.report.writer import write_report
from perigee.store.origins import ENGINES, ORIGINS
from perigee.store.outcomes import FAILED, INCOMPLETE
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    'name = "names"\nnodes = ["a", "b"]\n'
    + link("l", "a b", rate="1 Mbit/s", delay="20 ms")
    + flow("f", "a b", duration="2 s")
)

HOSTILE = 'a $\\frac{1$ & [b] _c_ 100 % \\input{x} ../"<b>'
"""A label that must not be taken for mathematics, LaTeX, HTML or a path."""


def simulated(study: str, folder: Path) -> Path:
    """Results of the simulator."""
    path = folder / "names.toml"
    path.write_text(study)
    carry_out(Job(find_study(str(path)), Simulator, out=folder / "results", workers=1))
    return folder / "results"


def test_two_captures_of_the_same_name_are_two_groups(tmp_path: Path) -> None:
    run = simulated(STUDY + '[measure]\npcap = ["b"]\n', tmp_path)
    paths = [tmp_path / day / "x.pcapng" for day in ("monday", "tuesday")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes((run / "captures" / "run-000000-b.pcapng").read_bytes())
    found = analyze(paths)
    assert found is not None
    keep(found, paths, tmp_path / "kept")
    context = Context(Results(tmp_path / "kept"))
    assert context.meetings == [], "nothing says which links the flows of captures took"
    groups = context.groups
    assert [group.flows.height for group in groups] == [1, 1]
    assert [group.label.split(", ")[1] for group in groups] == ["monday/x.pcapng", "tuesday/x.pcapng"]
    write_report(tmp_path / "kept", formats=["csv"])
    summary = pl.read_csv(tmp_path / "kept" / "report-files" / "summary.csv")
    assert set(summary["flows"]) == {1}
    assert summary["group"].n_unique() == 2


def test_groups_of_the_same_words_are_kept_apart_by_a_number(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    run = simulated(STUDY + '[measure]\npcap = ["b"]\n', tmp_path)
    path.write_bytes((run / "captures" / "run-000000-b.pcapng").read_bytes())
    found = analyze([path, path])
    assert found is not None
    keep(found, [path, path], tmp_path / "kept")
    first, second = Context(Results(tmp_path / "kept")).groups
    assert second.name == f"{first.name} (2)"


@pytest.mark.drawn
def test_a_dollar_sign_in_a_label_is_a_dollar_sign(results: Path) -> None:
    settings = f"sections = ['throughput', 'links']\ntitle = '{HOSTILE}'\n"
    settings += f"[labels]\ncubic = '{HOSTILE}'\nbbr = '$x$'\nhybla = '_hidden'\n"
    (results / "study" / "report.toml").write_text(settings)
    with styled():
        made = assemble(Results(results))
        texts = [text for plot in made.plots() for text in plot.figure.findobj(Text)]
    assert {"$x$", HOSTILE, " _hidden"} <= {text.get_text() for text in texts}
    assert not any(text.get_parse_math() for text in texts)
    write_report(results, formats=["html", "pdf", "latex"])


@pytest.mark.drawn
def test_numbers_of_axes_need_no_mathematics(results: Path) -> None:
    with styled():
        made = assemble(Results(results))
        for plot in made.plots():
            plot.figure.draw_without_rendering()
    texts = [text.get_text() for plot in made.plots() for text in plot.figure.findobj(Text)]
    assert not [text for text in texts if "$" in text or "mathdefault" in text]


def test_values_that_vary_make_names_that_every_file_system_takes(tmp_path: Path) -> None:
    study = STUDY + '[vary]\n"links.l.rate" = ["1 Mbit/s", "2 Mbit/s"]\n"links.l.loss" = ["0 %", "0.1 %"]\n'
    out = simulated(study, tmp_path)
    (out / "study" / "report.toml").write_text('sections = ["timeline"]\n')
    write_report(out, formats=["pdf"])
    names = sorted(path.name for path in (out / "report-files").iterdir())
    assert len(names) == 4
    assert "timeline-rate-1-Mbit-s.pdf" in names


@pytest.mark.drawn
def test_a_legend_of_long_names_is_not_wider_than_its_figure(tmp_path: Path) -> None:
    varied = '[vary]\n"links.l.rate" = ["1 Mbit/s", "2 Mbit/s"]\n"links.l.loss" = ["0 %", "1 %"]\n'
    with styled():
        made = assemble(Results(simulated(STUDY + varied, tmp_path)))
        assert len(made.plots()) > 3
        for plot in made.plots():
            plot.figure.draw_without_rendering()
            for legend in plot.figure.legends:
                assert legend.get_window_extent().width <= plot.figure.bbox.width, plot.name


def test_a_link_in_the_place_of_the_folder_of_figures_is_refused(results: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "page-files").symlink_to(outside)
    with pytest.raises(InputError, match=r"page-files: is a symbolic link, .*; remove it, or give --out"):
        write_report(results, tmp_path / "page.html", ["csv"])
    assert not list(outside.iterdir())


def test_nothing_is_written_outside_the_folder_of_the_report(results: Path, tmp_path: Path) -> None:
    published = "source = 'x'\n"
    for name in ("x/../../../../pwned", "x-pwned", "", "Ä" * 300):
        published += f"[[table]]\nname = '{name}'\ncaption = '{HOSTILE}'\nplace = '{HOSTILE}'\nform = 'text'\n"
        published += "[[table.value]]\nmetric = 'goodput_mbps'\ncolumns = ['cc', 'value', 'sd']\n"
        published += "rows = [['cubic', 1.0, 0.1]]\n"
    (results / "study" / "published.toml").write_text(published)
    (results / "study" / "report.toml").write_text("sections = ['published', 'summary']\n")
    out = tmp_path / "a" / "b" / "c" / "d" / "e"
    out.mkdir(parents=True)
    (out / "report-files" / "published-x").mkdir(parents=True)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    write_report(results, out / "report.html", ["html", "pdf", "csv", "latex"])
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path.parent for path in written} == {out, out / "report-files"}
    assert all(re.fullmatch(r"[A-Za-z0-9.-]+", path.name) for path in written)
    assert len([path for path in written if path.suffix == ".csv"]) == 5
    places = re.findall(r' id="(published-[^"]*)"', (out / "report.html").read_text())
    assert len(places) == len(set(places)) == 4
    for path in written:
        if path.suffix == ".tex":
            assert re.search(r"\\label\{(?:tab|fig):[A-Za-z0-9.-]+\}", path.read_text())


@pytest.mark.parametrize("text", ["../../x", "/etc/passwd", "..", "", "a\0b", "x" * 300, "CON/..", "日本", "a\nb"])
def test_any_text_becomes_a_name_of_one_file(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", slug(text))
    assert len(slug(text)) <= LONGEST
    assert len({name.lower() for name in file_names([text, text.upper(), text])}) == 3


def test_latex_sets_any_text_as_it_is(results: Path, tmp_path: Path) -> None:
    labels = "[labels]\ncubic = \"*[x]\\n\\n{\\\\y} $ & % # _ ^ ~\"\nbbr = '[2mm]'\n"
    (results / "study" / "report.toml").write_text("sections = ['summary']\n" + labels)
    write_report(results, tmp_path / "r.html", ["latex"])
    lines = (tmp_path / "r-files" / "summary.tex").read_text().splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    assert not [row for row in rows if row.startswith(("[", "*"))]
    text = r"{}*[x]  \{\textbackslash{}y\} \$ \& \% \# \_ \textasciicircum{} \textasciitilde{} & "
    assert [row for row in rows if row.startswith(text)]
    assert [row for row in rows if row.startswith("{}[2mm] & ")]


def test_no_text_of_a_csv_file_is_a_formula(tmp_path: Path, perigee: Perigee) -> None:
    run = simulated(STUDY + '[measure]\npcap = ["b"]\n', tmp_path)
    path = tmp_path / "=cmd|x!A1.pcapng"
    path.write_bytes((run / "captures" / "run-000000-b.pcapng").read_bytes())
    found = analyze([path])
    assert found is not None
    keep(found, [path], tmp_path / "kept")
    write_report(tmp_path / "kept", formats=["csv"])
    compared = tmp_path / "cells.csv"
    assert perigee("compare", tmp_path / "kept", tmp_path / "kept", "--csv", compared).returncode == 0
    files = [*(tmp_path / "kept" / "report-files").glob("*.csv"), compared]
    tables = [pl.read_csv(file, infer_schema=False) for file in files]
    assert "'=cmd|x!A1.pcapng" in {value for table in tables for column in table for value in column}
    for table in tables:
        for value in (value for column in table for value in column if value):
            assert not value.startswith(("=", "+", "@")), value
            assert not value.startswith("-") or float(value) < 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("report.toml", b"title = '\xff'\n", "report.toml: not a text file"),
        ("published.toml", b"\xff\xfe", "published.toml: not a text file"),
        ("report.toml", b"a = " + b"[" * 5000, "report.toml: .*correct the TOML there"),
        ("report.toml", b"sizes_mb = ['one']\n", "report.toml:1: `sizes_mb` must be a number"),
        ("report.toml", b"sizes_mb = [1, nan]\n", "report.toml:1: `sizes_mb` must be a finite number"),
        ("report.toml", b"sizes_mb = [-1]\n", "report.toml:1: `sizes_mb` must be sizes"),
        ("report.toml", b"[labels]\ncubic = 5\n", "report.toml:1: `labels.cubic` must be a text"),
        ("report.toml", b"order = [['cubic']]\n", "report.toml:1: `order` must be a list of texts"),
        ("report.toml", b"sections = ['power', 'power']\n", "report.toml:1: `sections` names `power` twice"),
        ("report.toml", b"tests = ['power']\n", "report.toml:1: `power` is a ratio of means"),
        (
            "published.toml",
            b"source = 'x'\n[[table]]\nname = 'a'\ncaption = 'b'\nplace = 'c'\nform = 'text'\n[[table.value]]\n"
            b"metric = 'power'\ncolumns = ['cc', 'value']\nrows = [['cubic', inf]]\n",
            "published.toml:10: `rows.1.value` must be a finite number",
        ),
        (
            "published.toml",
            b"source = 'x'\n[[claim]]\nclaim = 'a'\nplace = 'b'\n[[claim.test]]\nmetric = 'power'\ntest = 'order'\n"
            b"highest_first = [['bbr'], []]\n",
            "published.toml:8: `highest_first` must be two or more lists",
        ),
    ],
)
def test_a_damaged_file_beside_the_study_is_an_error_that_says_where(
    results: Path, name: str, content: bytes, message: str
) -> None:
    (results / "study" / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        write_report(results)
    assert not (results / "report.html").exists()


@pytest.mark.parametrize("name", ["report.toml", "published.toml"])
def test_no_damage_to_a_file_beside_the_study_is_a_traceback(results: Path, name: str) -> None:
    """A report can be made of every damaged file that is accepted."""
    whole = (ROOT / "studies" / "claypool-2021" / name).read_bytes()
    chance = random.Random(5)  # noqa: S311 - the same damage each time
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.choice((0, 1, 4, 40))] = chance.choice(
                (b"", b"[", b"'", b"-1", b"nan", b"true", b"\xff", b"\n", b'""', b"1e999", b"{}", b"[[]]")
            )
        (results / "study" / name).write_bytes(damaged)
        try:
            context = Context(Results(results))
            assert context.groups
        except InputError as error:
            assert name in str(error)


def test_reports_have_words_for_every_outcome_and_every_engine_of_the_tables() -> None:
    tables = json.loads((ROOT / "schema" / "results.json").read_text())["tables"]
    flows = next(table for table in tables if table["name"] == "flows")
    meaning = {column["name"]: column["meaning"] for column in flows["columns"]}
    assert set(re.findall("`([a-z_]+)`", meaning["outcome"])) == {"completed", *FAILED, *INCOMPLETE}
    assert set(re.findall("`([a-z_]+)`", meaning["engine"])) == set(ORIGINS)


def test_each_engine_of_the_list_is_offered() -> None:
    assert all(callable(engine(name)) for name in ENGINES)


def test_each_kind_of_flow_but_bulk_has_a_section_that_is_shown_unless_a_study_chooses() -> None:
    flow = json.loads((ROOT / "schema" / "study.json").read_text())["properties"]["flows"]["items"]
    assert set(flow["properties"]["kind"]["enum"]) == {"bulk", *SECTION_OF}
    assert set(SECTION_OF.values()) <= set(SECTIONS) & set(BY_DEFAULT)

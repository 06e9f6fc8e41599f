# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A study of several experiments: the runs, the results of each, and the chapter of each in the report."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee
from perigee import Study, load
from perigee.errors import InputError
from perigee.groups.looks import look, number_of
from perigee.groups.settings import Choice
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.style import styled
from perigee.report.writer import write_report
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "questions"
title = "Two questions"
rounds = 2
time_limit = "1 min"
nodes = ["server", "client"]
"""
    + link("sat", "server client", rate="10 Mbit/s", delay="100 ms", queue="250 kB", loss="0.1 %")
    + flow("download", "server client", size="500 kB")
    + flow("spike", "server client", kind="udp", rate="5 Mbit/s", packet="1500 B", duration="1 s")
    + """
[vary]
"flows.download.cc" = ["cubic", "hybla"]
[[experiments]]
name = "alone"
title = "One download alone"
about = "How fast is it?"
set = { "flows.spike.count" = 0 }
vary = { "flows.download.size" = ["500 kB", "1 MB"] }
[[experiments]]
name = "spike"
vary = { "flows.spike.rate" = ["5 Mbit/s", "9 Mbit/s", "12 Mbit/s"] }
"""
)

PUBLISHED = """source = "a book"
[[table]]
name = "goodput"
caption = "Goodput"
place = "Table 1"
form = "table"
[[table.value]]
metric = "goodput_mbps"
cell = { experiment = "spice" }
columns = ["cc", "size", "value"]
rows = [["cubic", "1 MB", 3.0], ["hybla", "500 kB", 3.0]]
"""

VARIANTS = """
way = [
  { name = "Cubic", "flows.download.cc" = "cubic" },
  { name = "Cubic, large window", "flows.download.cc" = "cubic", "flows.download.tcp.initial_window" = 30 },
]
"""

REPORT = """
title = "A report"
sections = ["summary", "sweep"]
order = ["hybla"]
[labels]
hybla = "HYBLA"
[experiments.spike]
title = "A download and a spike"
sections = ["datagrams", "summary"]
summary = ["goodput_mbps"]
"""


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    (folder / "study.toml").write_text(STUDY)
    (folder / "report.toml").write_text(REPORT)
    Study.load(folder / "study.toml").run(out=folder / "results")
    return folder


def test_each_experiment_s_results_are_those_of_a_study_of_its_own(carried_out: Path) -> None:
    whole = Results(carried_out / "results")
    assert whole.experiments == ("alone", "spike")
    assert whole.manifest["runs"] == 2 * (2 * 2 + 2 * 3)
    alone, spike = (whole.of_experiment(name) for name in whole.experiments)
    assert (alone.manifest["runs"], spike.manifest["runs"]) == (8, 12)
    assert (alone.title, alone.about, spike.title) == ("One download alone", "How fast is it?", "")
    assert set(alone.table("flows")["flow"]) == {"download"}
    assert set(spike.table("flows")["flow"]) == {"download", "spike"}
    assert [column.key for column in spike.points.columns] == ["flows.download.cc", "flows.spike.rate"]
    for name in ("flows", "series", "links"):
        rows = pl.concat([part.table(name).drop("point", strict=False) for part in (alone, spike)])
        everything = whole.table(name).drop("point", strict=False)
        assert rows.sort(rows.columns).equals(everything.sort(everything.columns)), name
    (network,) = spike.setup()["networks"]
    assert set(network["paths"]) == {"download", "spike"}
    with pytest.raises(InputError, match=r"no experiment `spice`; the experiments are: alone, spike"):
        whole.of_experiment("spice")


def test_the_report_has_a_chapter_for_each_with_its_own_settings(carried_out: Path) -> None:
    with styled():
        report = assemble(Results(carried_out / "results"))
    assert (report.title, [chapter.title for chapter in report.chapters]) == (
        "A report",
        ["One download alone", "A download and a spike"],
    )
    names = [[section.name for section in chapter.sections] for chapter in report.chapters]
    assert names == [["alone-summary"], ["spike-datagrams", "spike-summary"]]
    # The first figure of a chapter stands at the head of the page.
    assert [len(report.short.plots), *(len(part.short.plots) for part in report.chapters)] == [1, 0, 0]
    assert report.short.plots[0].caption.startswith("One download alone: ")
    assert report.sections == []
    assert all(chapter.answers for chapter in report.chapters)
    for blocks in ([plot.name for plot in report.plots()], [table.name for table in report.tables()]):
        assert len(set(blocks)) == len(blocks)
    heads = {table.name: len(table.head) for table in report.tables()}
    assert heads["spike-summary"] < heads["alone-summary"]
    assert "experiment" not in str([row[0].text for table in report.tables() for row in table.rows])


def test_the_page_has_headings_in_order_and_its_contents_lead_to_them(carried_out: Path) -> None:
    out = carried_out / "report.html"
    assert write_report(carried_out / "results", out, ["html", "csv"]) == [out, carried_out / "report-files"]
    page = out.read_text()
    levels = [int(level) for level in re.findall(r"<h(\d)[ >]", page)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    anchors = re.findall(r'id="([^"]+)"', page)
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)
    assert (carried_out / "report-files" / "alone-summary.csv").exists()


def test_one_experiment_is_run_reported_on_and_drawn_by_name(carried_out: Path, perigee: Perigee) -> None:
    done = perigee("run", "./study.toml", "--experiment", "spike", "--out", "one", "--set", "rounds=1", cwd=carried_out)
    assert (done.returncode, "6 runs" in done.stdout + done.stderr) == (0, True), done.stderr
    assert Results(carried_out / "one").experiments == ("spike",)
    done = perigee("run", "./study.toml", "--experiment", "spice", "--out", "none", cwd=carried_out)
    assert done.returncode == 2
    assert "--experiment spice: the study has no such experiment; did you mean `spike`?" in done.stderr
    assert not (carried_out / "none").exists()
    with styled():
        report = assemble(Results(carried_out / "results"), [Choice("lines", x=("rate",))], ["spike"])
    assert [chapter.name for chapter in report.chapters] == ["spike"]
    (plot,) = report.plots()
    assert plot.name.startswith("spike-")
    figure = load(carried_out / "results").plot(x="size", experiment="alone")
    assert "Size of download" in str([axes.get_xlabel() for axes in figure.axes])


def test_a_mistake_in_the_settings_of_a_chapter_is_named(carried_out: Path) -> None:
    kept = carried_out / "results" / "study" / "report.toml"
    before = kept.read_text()
    try:
        for text, said in (
            ("[experiments.alone]\nsection = []\n", r"report.toml:2: unknown key `section`; did you mean `sections`\?"),
            ("experiments = 3\n", "`experiments` must be a table"),
            ("[experiments]\nalone = 3\n", r"`experiments.alone` must be a table, begun with \[experiments.alone\]"),
            ("[experiments.spice]\n", "report.toml:1: the study has no experiment `spice`; it has alone, spike"),
            ("[experiments.alone]\nsummary = ['nonsense']\n", "nonsense"),
        ):
            kept.write_text(text)
            with pytest.raises(InputError, match=said):
                assemble(Results(carried_out / "results"))
    finally:
        kept.write_text(before)
    published = carried_out / "results" / "study" / "published.toml"
    published.write_text(PUBLISHED.replace("spice", "alone"))
    with styled():
        chapters = assemble(Results(carried_out / "results")).chapters
    assert ["alone-published" in [section.name for section in chapter.sections] for chapter in chapters] == [
        True,
        False,
    ]
    assert chapters[0].answers[0].startswith("Published numbers: ")
    published.write_text(PUBLISHED)
    try:
        with pytest.raises(
            InputError,
            match=r"published\.toml:9: the study has no experiment `spice`; the experiments are alone, spike",
        ):
            assemble(Results(carried_out / "results"))
    finally:
        published.unlink()


def test_variants_stand_for_the_algorithms_of_their_flow_and_vary_for_others(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace('"flows.download.cc" = ["cubic", "hybla"]', VARIANTS))
    names = ["Cubic", "Cubic, large window"]
    results = Study.load(study).run(out=tmp_path / "results")
    assert results.points["point.way"].unique().sort().to_list() == names
    spike = Context(Results(results.folder).of_experiment("spike"))
    downloads = [group.name for group in spike.groups if "5 Mbit/s" in group.name]
    assert downloads == [f"{name}, spike rate = 5 Mbit/s" for name in names]
    assert {group.cc for group in spike.groups} == set(names)
    looks = {group.cc: group.look for group in spike.groups}
    assert {one.color for one in looks.values()} == {look(number_of("cubic")).color}
    assert len({one.dash for one in looks.values()}) == len({one.marker for one in looks.values()}) == 2
    datagrams = spike.groups_of("udp")
    assert {group.levels["way"] for group in datagrams} == set(names)
    (hue,) = (one for one in spike.factors(datagrams) if one.is_algorithm)
    assert spike.looks(hue) == looks
    assert spike.varied["way"] == names


def test_what_is_wrong_beside_a_study_of_experiments_is_named_before_a_run(tmp_path: Path, perigee: Perigee) -> None:
    study, report, published = (tmp_path / name for name in ("study.toml", "report.toml", "published.toml"))
    for text, beside, content, said in (
        (STUDY, report, "[experiments.spice]\n", "report.toml:1: the study has no experiment `spice`; it has alone"),
        (STUDY, published, PUBLISHED, "published.toml:9: the study has no experiment `spice`"),
        ("name = \n", report, "[experiments.alone]\n", "study.toml: "),
        ('experiments = ["x"]\n', report, "[experiments.alone]\n", "no experiment `alone`; it has none"),
    ):
        study.write_text(text)
        beside.write_text(content)
        done = perigee("run", ".", "--out", "results")
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "results").exists()
        beside.unlink()


def test_a_figure_that_an_experiment_cannot_have_is_refused_with_its_name(carried_out: Path) -> None:
    with pytest.raises(InputError, match=r"experiment `alone`: .*; --experiment chooses those that are drawn"):
        assemble(Results(carried_out / "results"), [Choice("lines", x=("rate",))])


def test_the_campaign_over_skyplex_has_its_link_and_its_experiments_at_reduced_size(
    reduced: Callable[[str], Path],
) -> None:
    results = Results(reduced("caini-2009"))
    assert results.experiments == (
        "ping", "capacity", "startup", "lengths", "spike", "cross-traffic", "red", "links", "freebsd", "again",
    )  # fmt: skip
    assert set(results.of_experiment("startup").table("events")["event"]) >= {"sent", "ack"}
    proxied = results.of_experiment("cross-traffic").legs("flows")
    assert proxied["flow"].unique().to_list() == ["connection"]
    with styled():
        report = assemble(results, experiments=["ping", "capacity", "spike"])
    assert [chapter.name for chapter in report.chapters] == ["ping", "capacity", "spike"]
    senders = ["SACK", "BIC", "Vegas", "Hybla", "Westwood+", "Westwood", "PEPsal"]
    summary = next(table for table in report.tables() if table.name == "spike-summary")
    assert summary.head[:2] == ["Spike", "Algorithm"]
    assert [row[1].text for row in summary.rows if row[0].text == "with the spike"] == senders
    lost = next(table for table in report.tables() if table.name == "capacity-datagrams")
    assert lost.data["lost_percent"].to_list()[:2] == [0.0, 0.0]

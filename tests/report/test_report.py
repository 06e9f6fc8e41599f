# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The numbers, judgements and figures of a report are those of the tables; its settings are read strictly."""

from __future__ import annotations

import html.parser
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import ROOT
from perigee.cc.catalog import algorithms
from perigee.comparison.cells import as_frame, compare
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.groups import keys
from perigee.groups.keys import Key
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.claims import claims
from perigee.report.context import Context
from perigee.report.html import render
from perigee.report.model import Report
from perigee.report.overlay import means_over_time, write_overlay
from perigee.report.sections import SECTIONS
from perigee.report.style import styled
from perigee.report.writer import write_report
from perigee.scoring import keys as published
from perigee.statistics.metrics import METRICS, download_times, group_value, metric, with_metric
from perigee.store.results import Results
from perigee.store.values import sum_of_sums
from synthetic import SyntheticEngine


def of_study(name: str, folder: Path, engine: SyntheticEngine) -> Path:
    """Results of the synthetic engine, with the report settings of a study of this repository."""
    study = folder / name
    study.mkdir()
    for companion in ("published.toml", "report.toml"):
        if (source := ROOT / "studies" / name / companion).exists():
            shutil.copy(source, study)
    # The report needs only the names of the experiments.
    declared = re.findall(r'\[\[experiments\]\]\nname = ".*"', (ROOT / "studies" / name / "study.toml").read_text())
    (study / "study.toml").write_text("\n".join([f'name = "{name}"', *declared]))
    out = folder / "results"
    carry_out(Job(find_study(str(study)), engine, out=out))
    return out


@pytest.fixture(scope="module")
def viasat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_study("claypool-2021", tmp_path_factory.mktemp("viasat"), SyntheticEngine(5))


@pytest.fixture
def small(results: Path) -> Path:
    """Results whose report has two sections only, which is quick."""
    shutil.copy(ROOT / "studies" / "claypool-2021" / "published.toml", results / "study")
    (results / "study" / "report.toml").write_text("sections = ['published', 'power']\n")
    return results


@pytest.fixture(scope="module")
def report(viasat: Path) -> Report:
    with styled():
        return assemble(Results(viasat))


def table(report: Report, name: str) -> pl.DataFrame:
    return next(one.data for one in report.tables() if one.name == name)


class Page(html.parser.HTMLParser):
    """The parts of a page that a browser refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []
        self.pictures = 0
        self.pictures_with_text = 0
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note ids, links and pictures."""
        values = {key: value or "" for key, value in attrs}
        self.ids += [values["id"]] if "id" in values else []
        for key in ("href", "src", "xlink:href"):
            if key in values:
                target = values[key]
                (self.links if target.startswith("#") else self.outside).append(target)
        if tag == "svg":
            self.pictures += 1
            self.pictures_with_text += bool(values.get("aria-label"))
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that tags close in order."""
        assert self.open.pop() == tag


@pytest.mark.drawn
def test_the_page_is_one_valid_file_that_needs_nothing_else(viasat: Path, tmp_path: Path) -> None:
    (path,) = write_report(viasat, tmp_path / "report.html")
    text = path.read_text()
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    # A page links to the publication, and fetches nothing.
    assert {target for target in page.outside if not target.startswith("data:")} == {
        "https://doi.org/10.1007/978-3-030-72582-2_29"
    }
    assert page.pictures == page.pictures_with_text >= 9
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL).lower().split()


@pytest.mark.drawn
def test_the_same_results_give_the_same_page(small: Path, tmp_path: Path) -> None:
    pages = [write_report(small, tmp_path / name)[0] for name in ("one.html", "two.html")]
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_every_format_is_written_beside_the_page(small: Path, tmp_path: Path) -> None:
    written = write_report(small, tmp_path / "r.html", ["html", "pdf", "png", "csv", "latex"])
    assert [path.name for path in written] == ["r.html", "r-files"]
    names = {path.name for path in (tmp_path / "r-files").iterdir()}
    stem = "published-throughput"
    assert {f"{stem}.pdf", f"{stem}.png", f"{stem}.csv", f"{stem}.tex"} <= names
    assert {"bars-power.pdf", "bars-power-curves.csv"} <= names
    assert (tmp_path / "r-files" / "bars-power.pdf").read_bytes().startswith(b"%PDF")
    means = pl.read_csv(tmp_path / "r-files" / "published-throughput.csv")
    assert means.columns[:5] == ["cell", "quantity", "statistic", "unit", "published"]


def test_published_and_simulated_means_stand_side_by_side_with_their_error(report: Report, viasat: Path) -> None:
    flows = pl.read_parquet(viasat / "flows.parquet").filter(pl.col("cc") == "hybla")
    row = table(report, "published-throughput").row(
        by_predicate=(pl.col("cell") == "cc = hybla") & (pl.col("quantity") == "capture_goodput_mbps"), named=True
    )
    mean = flows["capture_goodput_mbps"].to_numpy().mean()
    assert row["published"] == 112.1
    assert row["published_sd"] == 11.2
    assert row["simulated"] == pytest.approx(mean)
    assert row["error_percent"] == pytest.approx(100 * (mean / 112.1 - 1))
    assert row["met"] == (112.05 * 0.85 <= mean <= 112.15 * 1.15)


def trues(column: pl.Series) -> int:
    return column.to_list().count(True)


def test_published_numbers_are_judged_those_that_the_link_was_fitted_to_apart(report: Report) -> None:
    fitted = table(report, "published-throughput")
    assert table(report, "published-delay").filter(pl.col("within_percent") == 15).height == fitted.height == 12
    numbers = pl.concat(
        [one.data for one in report.tables() if one.name.startswith("published-")], how="vertical_relaxed"
    ).filter(pl.col("met").is_not_null())
    parts = [numbers.filter(pl.col("role") == role)["met"] for role in ("fitted", "predicted")]
    met = [f"{trues(part)} of {part.len()} within 15 %." for part in parts]
    judged = table(report, "claims")["result"]
    judged = judged.filter(judged.is_in(["hit", "part", "miss"]))
    hits, parts_of_claims = judged == "hit", trues(judged == "part")
    partly = f", {parts_of_claims} in part" if parts_of_claims else ""
    said = f"{hits.sum()} of {judged.len()}{partly}."
    assert report.answers[0] == f"Fitted: {met[0]} Not fitted: {met[1]} Claims: {said}"
    assert len(report.short.misses) == trues(~numbers["met"]) + trues(~hits)


def test_each_published_number_has_a_mark_with_a_word_and_each_miss_leads_to_its_cell(report: Report) -> None:
    cells = [cell for one in report.tables() for row in one.rows for cell in row]
    marked = [cell for cell in cells if cell.text.endswith((" ✓", " ✗"))]
    assert len(marked) >= 50
    assert {(cell.text[-1], cell.spoken) for cell in marked} == {("✓", "within the bound"), ("✗", "outside the bound")}
    anchors = [cell.anchor for cell in cells if cell.anchor]
    assert len(set(anchors)) == len(anchors)
    assert {miss.anchor for miss in report.short.misses} <= set(anchors)
    page = render(report)
    for miss in report.short.misses:
        assert page.count(f'href="#{miss.anchor}"') == page.count(f'id="{miss.anchor}"') == 1


def test_the_claims_are_those_of_the_report_with_what_makes_and_checks_them(report: Report, viasat: Path) -> None:
    results = Results(viasat)
    page = claims(results, report)
    rows = [row.split(" | ") for row in page.partition("## How")[0].splitlines() if row.startswith("| ")][1:]
    numbers = pl.concat(
        [one.data for one in report.tables() if one.name.startswith("published-")], how="vertical_relaxed"
    ).filter(pl.col("met").is_not_null())
    assert len(rows) == numbers.height + table(report, "claims").height
    verdicts = [row[-2] in ("within", "hit") for row in rows]
    assert sum(verdicts) == trues(numbers["met"]) + trues(table(report, "claims")["result"] == "hit")
    assert all(row[2] == "Table 1" for row in rows[-14:])
    assert "perigee run" in page
    sums = results.value_sums()
    assert all(f"`{digest}`" in page for digest in sums.values())
    assert f"--sum {sum_of_sums(sums)}`" in page


def test_the_format_claims_writes_its_page_beside_the_report(results: Path, tmp_path: Path) -> None:
    (folder,) = write_report(results, tmp_path / "r.html", ["claims"])
    assert [file.name for file in folder.iterdir()] == ["CLAIMS.md"]
    page = (folder / "CLAIMS.md").read_text(encoding="utf-8")
    assert "so nothing is compared here" in page
    assert "withheld until predictions are registered" in page


def test_an_order_holds_exactly_when_every_pair_of_means_is_so(report: Report, viasat: Path) -> None:
    results = table(report, "claims")
    verdicts = dict(results.select("claim", "result").iter_rows())
    context = Context(Results(viasat))
    published = context.published
    assert published is not None
    seen = []
    for claim in published.claims:
        (test, *others) = claim.tests or (None,)
        if others or test is None or (test.kind, test.statistic, test.factor, test.other) != ("order", "mean", 1, None):
            continue
        if test.quantity is None or not test.quantity.metric:
            continue
        means = {group.name: context.value(group, metric(test.name)) for group in context.groups}
        pairs = [
            (a, b) for i, upper in enumerate(test.tiers) for lower in test.tiers[i + 1 :] for a in upper for b in lower
        ]
        seen.append(all(means[str(a)] > means[str(b)] for a, b in pairs))
        assert (verdicts[claim.claim] == "hit") == seen[-1], claim.claim
    assert 0 < sum(seen) < len(seen) > 14


def test_power_is_mean_throughput_over_mean_delay() -> None:
    flows = pl.DataFrame({"goodput_mbps": [90.0, 110.0], "rtt_mean_ms": [400.0, 600.0]})
    assert group_value(flows, METRICS["power"]) == pytest.approx(200)


def test_download_times_come_from_milestones_or_otherwise_from_the_series(viasat: Path) -> None:
    results = Results(viasat)
    flows = results.table("flows")
    sizes = [5_000_000, 30_000_000]
    exact = download_times(flows, sizes, results)
    milestones = results.table("milestones")
    assert exact.height == 2 * flows.height
    assert set(exact["t_s"]) <= set(milestones["t_s"])
    between = download_times(flows, [5_500_000], results)
    low, high = (milestones.filter(pl.col("bytes") == size) for size in (5_000_000, 6_000_000))
    # The synthetic milestones have 0.6 s more than its series: the handshake.
    assert (between["t_s"] + 0.6 >= low["t_s"]).all()
    assert (between["t_s"] + 0.6 <= high["t_s"]).all()


def test_the_time_to_a_rate_is_that_of_the_first_interval_with_it(viasat: Path) -> None:
    results = Results(viasat)
    flows = with_metric(results.table("flows"), "time_to_50_mbps_s", results)
    series = results.table("series")
    for row in flows.iter_rows(named=True):
        own = series.filter((pl.col("run") == row["run"]) & (pl.col("goodput_mbps") >= 50)).sort("t_s")
        assert row["time_to_50_mbps_s"] == (own["t_s"][0] if len(own) else None)


def test_an_unknown_metric_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="`speed` is no metric; there are goodput_mbps"):
        metric("speed")


def test_pairs_and_lone_flows_are_told_apart(tmp_path: Path) -> None:
    out = of_study("starlink-replay", tmp_path, SyntheticEngine(2, pairs=True))
    with styled():
        made = assemble(Results(out))
    alone, shared = table(made, "timeline"), table(made, "sharing")
    assert alone["group"].to_list() == ["cubic", "bbr", "hybla", "vivace"]
    assert (alone["flows"] == 2).all()
    assert shared.height == 12
    assert shared.group_by("together").agg(pl.col("share_percent").sum())["share_percent"].to_list() == pytest.approx(
        [100] * 6
    )
    for row in shared.group_by("together").agg(pl.col("goodput_mbps"), pl.col("jain").first()).iter_rows(named=True):
        assert 0.5 <= row["jain"] <= 1


def test_a_study_without_settings_gets_a_report_of_its_tables(results: Path) -> None:
    with styled():
        made = assemble(Results(results))
    assert [plot.name for plot in made.short.plots] == ["tradeoff"]
    names = [section.name for section in made.sections]
    assert names == [
        "summary",
        "throughput",
        "delay",
        "retransmissions",
        "limits",
        "representative",
        "links",
        "setup",
    ]


def declared_keys() -> Iterator[tuple[str, str, str, str]]:
    """Each declared key: its file, what stands above its table, the other keys that the table must have, its name."""
    table = "source = 'x'\n[[table]]\n"
    value = f"{table}name = 'a'\ncaption = 'b'\nplace = 'c'\nform = 'text'\n[[table.value]]\n"
    places: list[tuple[str, str, dict[str, str], tuple[Key, ...]]] = [
        ("report.toml", "", {}, keys.REPORT),
        ("report.toml", "[[figure]]\n", {"figure": "'lines'"}, keys.FIGURE),
        ("published.toml", "", {"source": "'x'"}, published.PUBLISHED),
        ("published.toml", table, {"name": "'a'", "caption": "'b'", "place": "'c'", "form": "'text'"}, published.TABLE),
        ("published.toml", value, {"columns": "['value']", "rows": "[[1]]"}, published.VALUE),
        (
            "published.toml",
            "source = 'x'\n[[claim]]\n",
            {"claim": "'a'", "place": "'b'"},
            published.CLAIM,
        ),
        (
            "published.toml",
            "source = 'x'\n[[claim]]\nclaim = 'a'\nplace = 'b'\n[[claim.test]]\n",
            {"test": "'order'"},
            published.TEST,
        ),
    ]
    for file, above, required, declared in places:
        assert [key.name for key in declared if key.default == "required"] == list(required)
        for key in declared:
            others = "".join(f"{name} = {text}\n" for name, text in required.items() if name != key.name)
            yield file, above, others, key.name


def test_the_reader_asks_for_each_declared_key(results: Path) -> None:
    for file, above, others, key in declared_keys():
        (results / "study" / file).write_text(f"{above}{others}{key} = 1979-05-27\n")
        with pytest.raises(InputError, match=rf"{file}:\d+: `{key}` must be "):
            _ = Context(Results(results)).published
        (results / "study" / file).unlink()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("report.toml", "titel = 'x'\n", r"report.toml:1: unknown key `titel`; did you mean `title`\?"),
        ("report.toml", "\ntitle = 5\n", r"report.toml:2: `title` must be a text"),
        ("report.toml", "title = \n", r"report.toml: .*line 1"),
        ("report.toml", "sections = ['abstract']\n", r"`abstract` is no section; there are claims"),
        ("report.toml", "\n\ntests = ['speed']\n", r"report.toml:3: `speed` is no metric"),
        ("published.toml", "notes = []\n", r"published.toml: the file has no `source`"),
        ("published.toml", "source = 'x'\n[[table]]\nname = 'a'\n", r"table 1 has no `caption`"),
        (
            "published.toml",
            "source = 'x'\n[[claim]]\nclaim = 'a'\nplace = 'b'\n[[claim.test]]\nmetric = 'power'\ntest = 'order'\n"
            "highest_first = ['bbr']\n",
            r"published.toml:8: `highest_first` must be two or more lists",
        ),
    ],
)
def test_a_wrong_file_beside_the_study_is_named_with_its_line(
    results: Path, name: str, text: str, message: str
) -> None:
    (results / "study" / name).write_text(text)
    with pytest.raises(InputError, match=message):
        write_report(results)
    assert not (results / "report.html").exists()


def test_the_files_beside_the_studies_of_this_repository_are_right(tmp_path: Path) -> None:
    names = [path.name for path in (ROOT / "studies").iterdir() if (path / "report.toml").exists()]
    assert {"claypool-2021", "starlink-replay"} <= set(names)
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        # Variants have readable names.
        senders = re.findall(r'\{ name = "([^"]+)", "flows?\b', (ROOT / "studies" / name / "study.toml").read_text())
        context = Context(Results(of_study(name, folder, SyntheticEngine(1))))
        assert not context.settings.title, "a study has one title"
        for settings in (context.settings, *context.settings.experiments.values()):
            assert set(settings.sections) <= set(SECTIONS)
            assert set(settings.order) <= {*settings.labels, *senders, *(one.name for one in algorithms())}


def test_comparing_results_with_themselves_shows_no_difference(results: Path) -> None:
    cells = compare(Results(results), Results(results))
    assert {cell.groups[0].name for cell in cells} == {"bbr", "cubic", "hybla", "vivace"}
    assert all(cell.difference == 0 for cell in cells)
    assert all(cell.p in (None, 1.0) for cell in cells)


def test_a_comparison_is_the_difference_of_the_means_with_its_interval(results: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    out = of_study("claypool-2021", tmp_path / "other", SyntheticEngine(6, first_seed=2000))
    frame = as_frame([Results(results), Results(out)], compare(Results(results), Results(out)))
    row = frame.row(by_predicate=(pl.col("group") == "bbr") & (pl.col("quantity") == "goodput_mbps"), named=True)
    a, b = (
        pl.read_parquet(folder / "flows.parquet").filter(pl.col("cc") == "bbr")["goodput_mbps"].to_numpy()
        for folder in (results, out)
    )
    assert row["difference"] == pytest.approx(b.mean() - a.mean())
    assert row["half_width_95"] > 0
    assert np.isfinite(row["p"])


def test_two_results_are_laid_over_each_other_on_one_page(results: Path, tmp_path: Path) -> None:
    a, out = Results(results), tmp_path / "overlay.html"
    write_overlay([a, a], compare(a, a), out)
    page = out.read_text()
    groups = Context(a).groups
    assert page.count("<svg ") == len(groups)
    assert all(f"</a> {group.label}: " in page for group in groups)
    assert "B - A" in page


def test_the_curve_of_a_group_over_time_is_the_mean_of_its_flows_between_the_least_and_the_largest(
    results: Path,
) -> None:
    context = Context(Results(results))
    group = context.groups[0]
    seen = means_over_time(context, group)
    assert seen["t_s"].is_sorted()
    assert (seen["goodput_mbps_low"] <= seen["goodput_mbps"] + 1e-9).all()
    assert (seen["goodput_mbps"] <= seen["goodput_mbps_high"] + 1e-9).all()
    alone = [context.series(run, flow) for run, flow in group.flows.select("run", "flow").iter_rows()]
    at = float(alone[0]["t_s"][3])
    values = [float(part["goodput_mbps"][3]) for part in alone if abs(float(part["t_s"][3]) - at) < 1e-6]
    row = seen.row(by_predicate=(pl.col("t_s") - at).abs() < 1e-6, named=True)
    assert row["goodput_mbps_low"] == pytest.approx(min(values))
    assert row["goodput_mbps_high"] == pytest.approx(max(values))


def test_an_overlay_never_replaces_a_folder(results: Path, tmp_path: Path) -> None:
    a = Results(results)
    with pytest.raises(InputError, match="is a folder"):
        write_overlay([a, a], [], tmp_path)

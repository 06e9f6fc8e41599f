# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""In short: which quantities, against what, in matrices, and in one family of tests with the tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from test_report_claims import report_of, synthetic, table
from test_report_sweeps import STUDY, swept

from conftest import Perigee
from figure_rules import misleading
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.groups.factors import Level, factor
from perigee.groups.group import Group
from perigee.groups.looks import name_of
from perigee.groups.settings import Choice
from perigee.places import find_study
from perigee.report.answers import _where, answers
from perigee.report.assemble import assemble
from perigee.report.choice import plots_of
from perigee.report.context import Context
from perigee.report.family import family
from perigee.report.html import render
from perigee.report.latex import latex
from perigee.report.model import Text
from perigee.report.style import styled
from perigee.statistics.metrics import metric
from perigee.store.limits import held_back
from perigee.store.results import Results
from synthetic import SyntheticEngine

SWEEP = ('"links.l.loss" = ["0 %", "1 %"]', '"links.l.delay" = ["20 ms", "10 ms"]')


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two algorithms at four settings."""
    return swept(tmp_path_factory.mktemp("sweep"), *SWEEP, report="sections = ['summary']\n")


def test_the_matrix_of_a_sweep_has_the_means_and_its_marks_are_those_of_the_summary(sweep: Results) -> None:
    report = report_of(sweep)
    matrix = report.short.tables[0]
    assert list(matrix.head) == ["Loss", "Delay", "Cubic", "Reno"]
    assert (len(matrix.rows), matrix.lead) == (4, 2)
    flows = sweep.points.join(sweep.table("flows"))
    means = flows.group_by("point.delay", "point.loss", "cc").agg(pl.col("goodput_mbps").mean())
    assert matrix.data.height == 8
    for row in matrix.data.iter_rows(named=True):
        delay, loss = (float(row[f"links.l.{key}"].split()[0]) for key in ("delay", "loss"))
        own = means.filter(
            (pl.col("point.delay") == delay) & (pl.col("point.loss") == loss) & (pl.col("cc") == row["cc"].lower())
        )
        assert row["mean"] == pytest.approx(own["goodput_mbps"].item())
    marks = sum(cell.mark == "best" for row in matrix.rows for cell in row)
    best = table(report, "summary").data.filter((pl.col("quantity") == "goodput_mbps") & pl.col("best"))
    assert marks == best.height


def test_the_cells_of_a_matrix_are_shaded_on_the_page_and_plain_in_latex(sweep: Results) -> None:
    report = report_of(sweep)
    shades = [cell.shade for one in report.short.tables for row in one.rows for cell in row if cell.shade is not None]
    assert {0.0, 1.0} <= set(shades)
    assert render(report).count('style="--shade: ') == len(shades)
    assert "higher is better; darker is better within a row" in report.short.tables[0].caption
    assert "shade" not in latex(report.short.tables[0])


def test_a_reference_is_what_all_others_are_compared_with_and_nothing_else(
    sweep: Results, perigee: Perigee, tmp_path: Path
) -> None:
    alone, chosen = Context(sweep), Context(sweep, reference="reno")
    assert {one.against for _, found in family(chosen).found for one in found} == {"reference"}
    assert {one.against for _, found in family(alone).found for one in found} == {"best"}
    out = tmp_path / "reno.html"
    done = perigee("report", sweep.path, "--reference", "reno", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "Throughput against Reno in 4 settings" in out.read_text()
    done = perigee("report", sweep.path, "--reference", "ren", "--out", out)
    assert done.returncode == 2
    assert "--reference ren: is not in these results; they have cubic, reno" in done.stderr.replace("\n", " ")


def test_a_sentence_has_the_p_of_the_table(tmp_path: Path) -> None:
    toml = 'reference = "cubic"\ntests = ["goodput_mbps", "startup_goodput_mbps"]\n'
    results = synthetic(tmp_path, SyntheticEngine(6), toml)
    report, made = report_of(results), family(Context(results))
    rows = table(report, "t-tests").data.filter(pl.col("quantity") == "goodput_mbps")
    of_table: dict[str, float] = dict(rows.select("group", "p_holm").iter_rows())
    (found,) = next(found for asked, found in made.found if asked.metric.name == "goodput_mbps")
    assert {rival.group.name: rival.p for rival in found.rivals} == pytest.approx(of_table)
    clauses = report.answers[0].rstrip(".").partition(": ")[2].split("; ")
    for name, p in of_table.items():
        (clause,) = (part for part in clauses if part.startswith(name_of(name)))
        assert ("not significant" in clause) == (p >= 0.05)


def test_a_difference_below_a_percent_is_practically_equal_however_small_p_is(tmp_path: Path) -> None:
    def nearly(row: dict[str, Any]) -> None:
        row["goodput_mbps"] = 50.0 + {"bbr": 0.0, "cubic": 0.3, "hybla": -20.0, "vivace": -30.0}[row["cc"]]
        row["goodput_mbps"] += 0.01 * (row["round"] * len(row["cc"]) % 4)

    results = synthetic(tmp_path, SyntheticEngine(8, edit=nearly), 'reference = "cubic"\ntests = ["goodput_mbps"]\n')
    report = report_of(results)
    assert "BBR practically equal" in report.answers[0]
    row = next(row for row in table(report, "t-tests").rows if row[1].text == "BBR")
    assert "practically equal" in [cell.text for cell in row]
    p = table(report, "t-tests").data.filter(pl.col("group") == "bbr")["p_holm"].item()
    assert p < 0.05


def test_practically_equal_means_are_a_sentence_and_stand_beside_each_other_in_a_figure(tmp_path: Path) -> None:
    def nearly(row: dict[str, Any]) -> None:
        row["goodput_mbps"] = 48.1964 + 0.0001 * len(row["cc"])
        row["rtt_p95_ms"] = 39.66 + 0.01 * len(row["cc"])

    results = synthetic(tmp_path, SyntheticEngine(3, edit=nearly), "sections = ['tradeoff']")
    report = report_of(results)
    (sentence,) = (block.text for section in report.sections for block in section.blocks if isinstance(block, Text))
    assert report.plots() == []
    assert sentence.startswith("Practically equal in all 4 groups, and so without a figure: 95th percentile of")
    with styled():
        (plot,) = plots_of(Context(results), Choice("scatter"))
    (axes,) = plot.figure.axes
    assert misleading(plot) == ["tradeoff: all groups are practically equal in rtt_p95_ms, goodput_mbps"]
    for low, high in (sorted(axes.get_xlim()), sorted(axes.get_ylim())):
        assert high - low == pytest.approx(0.05 * (low + high) / 2, rel=0.01)


CALL = """
[[flows]]
name = "call"
kind = "call"
from = "a"
to = "b"
rate = "0.5 Mbit/s"
duration = "2 s"
[[flows]]
name = "datagrams"
kind = "udp"
from = "a"
to = "b"
rate = "1 Mbit/s"
packet = "1200 B"
duration = "2 s"
"""


def test_what_users_feel_comes_before_the_download_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("[vary]", CALL + "\n[vary]").replace('"flow.cc"', '"flows.f.cc"'))
    carry_out(Job(find_study(str(path)), Simulator, out=tmp_path / "results", workers=1))
    results = Results(tmp_path / "results")
    names = [asked.metric.name for asked, _ in family(Context(results)).found]
    assert names == ["on_time_percent", "goodput_mbps", "rtt_mean_ms", "retransmitted_percent"]
    chosen = results.path / "study" / "report.toml"
    chosen.write_text('headline = ["lost_percent of datagrams"]\n')
    (line,) = answers(Context(results)).lines
    assert line.startswith("Datagrams lost")
    chosen.write_text('headline = ["lost_percent of datagram"]\n')
    with pytest.raises(InputError, match="flows = datagram: there is no such flow"):
        answers(Context(results))
    chosen.write_text('headline = ["lost_percnt of datagrams"]\n')
    with pytest.raises(InputError, match="`lost_percnt` is no metric"):
        Context(results)


def test_chosen_figures_have_no_first_screen(sweep: Results) -> None:
    with styled():
        made = assemble(sweep, [Choice("lines", x=("loss",))])
    assert (list(made.short.lines), list(made.short.blocks)) == ([], [])


SMALL_BUFFER = """
name = "first"
time_limit = "1 min"
nodes = ["server", "client"]
[[links]]
name = "satellite"
between = ["server", "client"]
profile = "geo"
[[flows]]
name = "download"
from = "server"
to = "client"
duration = "20 s"
[vary]
"flow.cc" = ["cubic", "reno"]
"""
AMPLE = ['hosts.wmem=["4096 B", "16384 B", "60 MB"]', 'hosts.rmem=["4096 B", "131072 B", "60 MB"]']


def test_a_buffer_that_held_flows_back_is_the_first_caveat_below_what_was_found_with_its_setting(
    perigee: Perigee, tmp_path: Path
) -> None:
    study, out = tmp_path / "first.toml", tmp_path / "results"
    study.write_text(SMALL_BUFFER)
    said = "the send buffer held back Cubic and Reno for "
    needs = "note: wmem of server ends at 4.2 MB, and flow `download` needs 15 MB to fill its path (100 Mbit/s x 600 ms"
    listed = perigee("run", study, "--dry-run")
    assert needs in listed.stderr and listed.stderr.count("--set hosts.wmem=") == 1, listed.stderr
    done = perigee("run", study, "--out", out)
    assert needs in done.stderr and said in done.stderr, done.stderr
    assert perigee("report", out).returncode == 0
    page = (out / "report.html").read_text()
    # Answer and first figure stand on the first screen; what limits them follows.
    assert page.index("In short") < page.index('class="plot') < page.index(said)
    assert "larger sizes of hosts.wmem lift this" in report_of(Results(out)).short.caveats[0]
    # The proposed setting lifts the limit.
    assert all(setting.partition("=")[2] in listed.stderr for setting in AMPLE)
    settings = [part for setting in AMPLE for part in ("--set", setting)]
    ample = perigee("run", study, "--out", tmp_path / "ample", *settings)
    assert ample.returncode == 0 and "wmem" not in ample.stderr and "held back" not in ample.stderr, ample.stderr
    assert not report_of(Results(tmp_path / "ample")).short.caveats


def test_an_interval_wider_than_the_values_is_not_shown(tmp_path: Path) -> None:
    def noisy(row: dict[str, Any]) -> None:
        row["goodput_mbps"] = {"bbr": 50.0, "cubic": 20.0}.get(row["cc"], 10.0) + 9 * (
            row["round"] * len(row["cc"]) % 4
        )

    report = "headline = ['goodput_mbps']\nreference = 'cubic'\nsections = ['summary']\n"
    few, many = (
        report_of(synthetic(tmp_path / str(rounds), SyntheticEngine(rounds, edit=noisy), report)).short
        for rounds in (2, 40)
    )
    assert "[" not in "".join(few.lines)
    assert few.method == "Intervals wider than the values are not shown; more rounds narrow them."
    assert "[" in "".join(many.lines)


def test_the_settings_at_an_end_of_a_range_all_have_its_value() -> None:
    rates = {"cubic": {"low": 219.0, "high": 40.0}, "bbr": {"low": 212.7, "high": 38.0}}
    factors = [
        factor("cc", "cc", [Level(name) for name in rates]),
        factor("point.path", "path", [Level("low"), Level("high")]),
    ]
    known = [
        (cast(Group, SimpleNamespace(levels={"cc": cc, "path": path}, label=cc)), value)
        for cc, paths in rates.items()
        for path, value in paths.items()
    ]
    assert _where(metric("goodput_mbps"), factors, known, known[0][0]) == "cubic, path low"
    known[2] = known[2][0], 218.5
    assert _where(metric("goodput_mbps"), factors, known, known[0][0]) == "path low"


def test_settings_that_held_flows_back_are_counted_once_and_flows_are_called_flows() -> None:
    rows = pl.DataFrame(
        {"point": [0, 0, 1], "flow": ["first", "second", "first"], "cc": ["cubic"] * 3, "duration_s": [10.0] * 3}
    ).with_columns(rwnd_limited_s=pl.Series([5.0, 0.0, 0.0]), sndbuf_limited_s=pl.lit(0.0))
    results = SimpleNamespace(
        is_analysis=False, table=lambda _: rows, legs=lambda _: rows.clear().with_columns(run=0, leg=0)
    )
    said = held_back(cast(Results, results))
    assert "held back the flow first for 50 % of the time, in 1 of 2 settings;" in said
    assert "held back the download for" in held_back(cast(Results, results), {"first": "the download"}.__getitem__)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Scores of a study against a publication: numbers, claims, registered and today's results, and what neither has."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.places import find_study
from perigee.report.report_tables import ReportTables
from perigee.report.scored_study import scored_study
from perigee.report.writer import write_report
from perigee.scoring.study import ScoredStudy
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    'name = "two"\nrounds = 3\nnodes = ["a", "b"]\n[reduced]\nset = { rounds = 1 }\n'
    + link("first", "a b", rate="10 Mbit/s", delay="20 ms", queue="100 kB", loss="0.1 %")
    + flow("download", "a b", cc="cubic", duration="5 s")
    + flow("other", "a b", cc="reno", start="6 s", duration="2 s")
    + '[[experiments]]\nname = "loss"\n[experiments.vary]\n"flow.cc" = ["cubic", "hybla"]\n'
    + '"links.first.loss" = ["0.1 %", "1 %"]\n'
)

HEAD = 'source = "a book"\n[[table]]\nname = "t"\ncaption = "T"\nplace = "Table 1"\nform = "table"\n'
VALUE = '[[table.value]]\nmetric = "goodput_mbps"\ncell = { experiment = "loss", flow = "download" }\n'
CLAIM = (
    '[[claim]]\nclaim = "c"\nplace = "Section 2"\n[[claim.test]]\nmetric = "goodput_mbps"\n'
    'cell = { experiment = "loss", flow = "download" }\n'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two algorithms and two losses, its results, and what was registered of them."""
    folder = tmp_path_factory.mktemp("scored") / "two"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    figure = '[[figure]]\nfigure = "lines"\nmetric = ["download_2_mb_s", "rtt_mean_ms"]\nx = ["links.first.loss"]\n'
    (folder / "report.toml").write_text(f"sections = ['summary', 'links', 'figures', 'window']\n{figure}")
    carry_out(Job(find_study(str(folder)), Simulator, out=folder / "results", workers=1))
    write_report(folder / "results", folder / "report.html", ["csv"], register=folder / "registered.toml")
    return folder


def scored(folder: Path, published: str) -> ScoredStudy:
    """The study scored against a publication."""
    (folder / "published.toml").write_text(published)
    return scored_study(str(folder), folder / "results")


def goodput(folder: Path, cc: str, loss: str) -> float:
    """The mean goodput of the downloads of a cell."""
    flows = Results(folder / "results").with_points("flows")
    rows = [
        row["goodput_mbps"]
        for row in flows.iter_rows(named=True)
        if (row["flow"], row["cc"], json.loads(row["point"])["links.first.loss"]) == ("download", cc, loss)
    ]
    assert len(rows) == 3
    return float(sum(rows)) / 3


def sides(one: ScoredStudy, key: str = "result") -> list[tuple[object, object]]:
    """The results of the registered file and of today, a pair for each number and claim."""
    return [(row[f"registered_{key}"], row[f"today_{key}"]) for row in [*one.numbers(), *one.claims()]]


def test_a_number_is_looked_up_by_its_factors_in_both_sources(folder: Path) -> None:
    mean = goodput(folder, "hybla", "1 %")
    rows = f'columns = ["cc", "loss", "value", "sd"]\nrows = [["hybla", "1 %", {mean * 1.1:.3f}, {mean * 0.2:.3f}]]\n'
    (row,) = scored(folder, HEAD + VALUE + rows).numbers()
    assert (row["registered"], row["today"]) == (pytest.approx(mean, rel=1e-5), pytest.approx(mean))
    assert (row["registered_result"], row["today_result"], row["today_in_spread"]) == ("within", "within", True)
    assert row["today_error_percent"] == pytest.approx(100 / 1.1 - 100, abs=0.1)
    assert row["today_flows"] == row["registered_flows"] == 3


def test_a_number_is_met_from_the_nearest_that_the_printed_one_may_stand_for(folder: Path) -> None:
    mean = goodput(folder, "cubic", "0.1 %")
    for rounding, value, is_met in (
        (0, mean / 1.149, True), (0, mean / 1.151, False),
        (0.2 * mean, mean / 1.15 - 0.099 * mean, True), (0.2 * mean, mean / 1.15 - 0.101 * mean, False),
    ):  # fmt: skip
        rows = f'rounding = {rounding}\ncolumns = ["cc", "loss", "value"]\nrows = [["cubic", "0.1 %", {value}]]\n'
        (row,) = scored(folder, HEAD + VALUE + rows).numbers()
        assert row["today_result"] == ("within" if is_met else "outside"), (rounding, value)
    # Without `rounding` the last digit that is written counts: 0.50 is 0.495 to 0.505.
    (row,) = scored(
        folder, HEAD + VALUE + 'columns = ["cc", "loss", "value"]\nrows = [["cubic", "1 %", 0.50]]\n'
    ).numbers()
    assert (row["rounding"], row["least"], row["most"]) == (
        0.01,
        pytest.approx(0.495 * 0.85),
        pytest.approx(0.505 * 1.15),
    )


def test_differences_ratios_and_effects_are_of_two_cells(folder: Path) -> None:
    values = "".join(
        f'{VALUE}statistic = "{statistic}"\n{key} = {{ loss = "1 %" }}\n'
        'columns = ["cc", "loss", "value"]\nrows = [["cubic", "0.1 %", 1.0]]\n'
        for statistic, key in (("mean", "minus"), ("mean", "over"), ("glass_delta", "minus"))
    )
    rows = scored(folder, HEAD + values).numbers()
    first, second = goodput(folder, "cubic", "0.1 %"), goodput(folder, "cubic", "1 %")
    flows = Results(folder / "results").with_points("flows")
    spread = flows.filter((flows["flow"] == "download") & (flows["cc"] == "cubic") & (flows["point.loss"] == 1.0))
    expected = [first - second, first / second, (first - second) / float(spread["goodput_mbps"].to_numpy().std(ddof=1))]
    assert [row["today"] for row in rows] == pytest.approx(expected)
    assert [row["registered"] for row in rows] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("test", "result"),
    [
        (
            'each = { cc = ["cubic", "hybla"], loss = ["0.1 %"] }\nover = { loss = "1 %" }\ntest = "bound"\nleast = 1',
            "hit",
        ),
        ('each = { loss = ["0.1 %", "1 %"], cc = ["cubic"] }\ntest = "bound"\nmost = MIDDLE', "part"),
        ('cell.cc = "cubic"\nalong = "loss"\ntest = "order"\nhighest_first = [["1 %"], ["0.1 %"]]', "miss"),
        ('cell.cc = "cubic"\nalong = "loss"\ntest = "falls"\nvalues = ["0.1 %", "1 %"]', "hit"),
        ('cell.cc = "cubic"\nalong = "loss"\ntest = "rises"\nvalues = ["0.1 %", "1 %"]\nslack = 0.9', "miss"),
        ('cell.cc = "cubic"\nalong = "loss"\ntest = "peak"\nvalues = ["0.1 %", "1 %"]\nwhere = ["0.1 %"]', "hit"),
        ('cell.cc = "cubic"\nalong = "loss"\ntest = "trough"\nvalues = ["0.1 %", "1 %"]\nwhere = ["0.1 %"]', "miss"),
        ('cell.cc = "cubic"\nalong = "loss"\ntest = "alike"\nvalues = ["0.1 %", "1 %"]\nslack = 0.01', "miss"),
        ('each = { loss = ["0.1 %", "2 %"], cc = ["cubic"] }\ntest = "bound"\nleast = 0', "not predicted"),
    ],
)
def test_a_claim_is_a_hit_a_part_or_a_miss_by_its_test(folder: Path, test: str, result: str) -> None:
    middle = (goodput(folder, "cubic", "0.1 %") + goodput(folder, "cubic", "1 %")) / 2
    cell = CLAIM.replace('flow = "download" }', 'flow = "download", cc = "cubic" }') if "cell.cc" in test else CLAIM
    text = test.replace('cell.cc = "cubic"\n', "").replace("MIDDLE", f"{middle:.4f}")
    assert sides(scored(folder, f'source = "x"\n{cell}{text}\n')) == [(result, result)]


def claimed(tests: str, cell: str = 'flow = "download"') -> str:
    """A publication with one claim, whose tests follow."""
    head = 'source = "x"\n[[claim]]\nid = "one"\nclaim = "c"\nplace = "Section 2"\n'
    return f'{head}cell = {{ experiment = "loss", {cell} }}\n{tests}'


def order(highest_first: str, more: str = "") -> str:
    """A test of goodputs of Cubic by the loss."""
    test = 'metric = "goodput_mbps"\ncell = { cc = "cubic" }\nalong = "loss"\ntest = "order"\n'
    return f"[[claim.test]]\n{test}highest_first = {highest_first}\n{more}\n"


def test_a_claim_of_several_tests_holds_fully_weakly_or_not_and_counts_once(folder: Path) -> None:
    ratio = goodput(folder, "cubic", "0.1 %") / goodput(folder, "cubic", "1 %")
    right, wrong = '[["0.1 %"], ["1 %"]]', '[["1 %"], ["0.1 %"]]'
    fully, weakly = f"much = {0.99 * ratio:.4f}", f"much = {1.01 * ratio:.4f}"
    for tests, expected in (
        (order(right, fully) + order(right), ("hit", 2, 0)),
        (order(right, weakly), ("part", 0, 1)),
        (order(right, fully) + order(wrong), ("part", 1, 0)),
        (order(wrong) + order(right, f"factor = {1.01 * ratio:.4f}"), ("miss", 0, 0)),
        (order(wrong, f"factor = {0.99 / ratio:.4f}\nmuch = 0.99"), ("part", 0, 1)),
    ):
        one = scored(folder, claimed(tests))
        assert sides(one) == [(expected[0], expected[0])], tests
        (row,) = one.claims()
        assert (row["id"], row["today_holding"], row["today_weakly"]) == ("one", *expected[1:])
        assert one.counts()["today"]["predicted"].claims == 1
    bounds = '[[claim.test]]\nmetric = "goodput_mbps"\ncell = { cc = "cubic" }\nover = { loss = "0.1 %" }\n'
    bounds += f'test = "bound"\neach = {{ loss = ["1 %"] }}\nmost = {1.01 / ratio:.4f}\nmuch = {0.99 / ratio:.4f}\n'
    assert sides(scored(folder, claimed(bounds))) == [("part", "part")]


def test_mostly_and_sometimes_are_of_all_comparisons(folder: Path) -> None:
    means = {(cc, loss): goodput(folder, cc, loss) for cc in ("cubic", "hybla") for loss in ("0.1 %", "1 %")}
    test = '[[claim.test]]\nmetric = "goodput_mbps"\ntest = "bound"\n'
    test += 'each = { cc = ["cubic", "hybla"], loss = ["0.1 %", "1 %"] }\n'
    by_size = sorted(means.values())
    for holding, holds, expected in (
        (1, "some", "hit"), (2, "most", "miss"), (3, "most", "hit"), (0, "some", "miss"), (1, "some_each", "part"),
    ):  # fmt: skip
        least = (by_size[-holding] if holding else by_size[-1]) + (-0.001 if holding else 0.001)
        one = scored(folder, claimed(f'{test}least = {least:.6f}\nholds = "{holds}"\n'))
        assert sides(one) == [(expected, expected)], (holding, holds)
    # In an order the pairs count: that of a value with itself is wrong, and the other one right.
    first = max(("cubic", "hybla"), key=lambda cc: means[cc, "1 %"])
    second = "hybla" if first == "cubic" else "cubic"
    pair = '[[claim.test]]\nmetric = "goodput_mbps"\ntest = "order"\neach = { loss = ["1 %"] }\n'
    for highest, holds, expected in (
        (f'[["{second}"], ["{first}", "{second}"]]', "all", "miss"),
        (f'[["{first}"], ["{first}", "{second}"]]', "some_each", "hit"),
    ):
        one = scored(folder, claimed(f'{pair}highest_first = {highest}\nholds = "{holds}"\n'))
        assert sides(one) == [(expected, expected)]


@pytest.mark.parametrize(
    ("tests", "result"),
    [
        ('test = "rank"\nvalues = ["0.1 %", "1 %"]\nleast = 0.5\nmuch = 0.9', "hit"),
        ('test = "rank"\nvalues = ["1 %", "0.1 %"]\nleast = 0.5', "miss"),
        ('test = "rank"\nvalues = ["1 %", "0.1 %"]\nleast = 0.9\nlike = { metric = "goodput_mbps" }', "hit"),
        ('test = "rank"\nvalues = ["1 %", "0.1 %"]\nleast = 0.9\nlike = { metric = "retransmitted_percent" }', "miss"),
        (
            'test = "rank"\nvalues = ["1 %", "0.1 %"]\nleast = 0.9\n'
            'like = { table = "lines", column = "mean", cell = { quantity = "link_utilisation_percent" } }',
            "hit",
        ),
        (
            'test = "rank"\nvalues = ["1 %", "0.1 %"]\nleast = 0.9\n'
            'like = { table = "links-main", column = "dropped_percent", cell = { link = "none" } }',
            "not predicted",
        ),
    ],
)
def test_a_rank_is_that_published_or_that_by_another_quantity(folder: Path, tests: str, result: str) -> None:
    test = f'[[claim.test]]\nmetric = "goodput_mbps"\nalong = "loss"\ncell = {{ flow = "download" }}\n{tests}\n'
    one = scored(folder, claimed(test, 'cc = "cubic"'))
    assert sides(one) == [(result, result)]


def test_never_is_of_a_cell_that_is_there(folder: Path) -> None:
    """The shorter flow never has two megabytes; a cell that no flow has proves nothing."""
    for flow_, cc, result in (
        ("other", "cubic", "hit"),
        ("download", "cubic", "miss"),
        ("other", "vegas", "not predicted"),
    ):
        cell = f'flow = "{flow_}", cc = "{cc}", loss = "1 %"'
        one = scored(folder, claimed('[[claim.test]]\nmetric = "download_2_mb_s"\ntest = "never"\n', cell))
        assert sides(one) == [(result, result)], flow_


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ("", "the claim has no `[[claim.test]]`; add one, or say why in `not_measured`"),
        (order('[["0.1 %"], ["1 %"]]', "much = 0.9"), "`much` must be stricter than the other bound, not 0.9"),
        (order('[["0.1 %"], ["1 %"]]', "least = 0.9"), "the test `order` takes no `least`; take it out"),
        (order('[["0.1 %"], ["1 %"]]', 'holds = "often"'), "`often` is no `holds`; there are all, most, some"),
        (order('[["0.1 %"], ["1 %"]]') + '[[claim]]\nid = "one"\nclaim = "d"\nplace = "p"\nnot_measured = "x"\n',
         "two claims have the `id` `one`; change one"),
        ('not_measured = "x"\n' + order('[["0.1 %"], ["1 %"]]'), "that is not measured has no `[[claim.test]]`; keep"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_claim_is_named(folder: Path, tests: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        scored(folder, claimed(tests))
    assert said in str(error.value)


def test_tables_of_the_report_are_looked_up_too(folder: Path) -> None:
    value = (
        '[[table.value]]\ntable = "links-main"\ncolumn = "rate_mean_mbps"\ntitle = "Rate"\n'
        'cell = { experiment = "loss", flow = "download", link = "first.down" }\ncolumns = ["cc", "loss", "value"]\n'
        'rows = [["hybla", "1 %", 10]]\n'
    )
    (row,) = scored(folder, HEAD + value).numbers()
    assert (row["registered"], row["today"]) == (pytest.approx(10), pytest.approx(10))


def test_a_link_is_read_over_time_at_a_place_over_a_range_and_relative_to_another(folder: Path) -> None:
    read = '[[claim.test]]\nlink = "first.down"\ncolumn = "offered_bytes"\ntest = "bound"\nleast = 0\n'
    cell = 'cell = { experiment = "loss", flow = "download", cc = "cubic", loss = "1 %" }\n'
    places = (
        "at = { t_s = 2 }",
        "at = { t_s = [1, 2] }",
        'at = { t_s = [1, 2] }\nstatistic = "max"\nover_at = { t_s = 2 }',
    )
    claims = "".join(f'[[claim]]\nclaim = "c"\nplace = "1"\n{cell}{read}{place}\n' for place in places)
    results = Results(folder / "results")
    flows = results.with_points("flows")
    runs = flows.filter((flows["flow"] == "download") & (flows["cc"] == "cubic") & (flows["point.loss"] == 1.0))["run"]
    links = results.table("links")
    links = links.filter((links["link"] == "first.down") & links["run"].is_in(runs.to_list()))
    of = {t: float(np.mean(rows["offered_bytes"].to_numpy())) for (t,), rows in links.group_by("t_s")}
    seconds = [value for t, value in of.items() if 1 <= t <= 2]
    rows = scored(folder, HEAD.partition("[[table]]")[0] + claims).claims()
    seen = [float(row["today_seen"].replace("\u202f", "")) for row in rows]
    expected = [of[2.0], sum(seconds) / len(seconds), max(seconds) / of[2.0]]
    assert seen == pytest.approx(expected, abs=0.01)
    assert [row["registered_result"] for row in rows] == ["not predicted"] * 3


def test_cells_without_a_factor_and_relative_deviations_are_looked_up(folder: Path) -> None:
    value = f'{VALUE}statistic = "sd_percent"\ncolumns = ["cc", "loss", "queue", "value"]\n'
    (row,) = scored(folder, HEAD + value + 'rows = [["cubic", "1 %", "", 1]]\n').numbers()
    flows = Results(folder / "results").with_points("flows")
    seen = flows.filter((flows["flow"] == "download") & (flows["cc"] == "cubic") & (flows["point.loss"] == 1.0))
    goodputs = seen["goodput_mbps"].to_numpy()
    expected = 100 * float(goodputs.std(ddof=1) / goodputs.mean())
    assert (row["registered"], row["today"]) == (pytest.approx(expected, rel=1e-4), pytest.approx(expected))


def test_a_stretch_of_a_curve_has_a_mean_in_both_sources_and_its_extremes_in_results_only(folder: Path) -> None:
    value = (
        '[[table.value]]\ntable = "window-1"\ncolumn = "cwnd_packets"\ntitle = "Window"\nat = { t_s = [1.5, 3] }\n'
        'cell = { experiment = "loss", flow = "download", cc = "hybla", loss = "0.1 %" }\n'
        'columns = ["value"]\nrows = [[1]]\n'
    )
    text = HEAD + "".join(f'{value}statistic = "{one}"\n' for one in ("mean", "min", "least_at", "most_at"))
    text += value.replace('"cwnd_packets"', '"cwnd_packets - t_s"') + "over_at = { t_s = [4, 5] }\n"
    rows = scored(folder, text).numbers()
    curves = ReportTables(Results(folder / "results"))("loss", "window-1", frozenset(["cwnd_packets"]))
    assert curves is not None
    own = curves.filter(pl.col("group").str.contains("hybla.* 0.1 %")).sort("t_s")
    own = own.filter(pl.col("t_s").is_in([2.0, 3.0, 4.0, 5.0]))
    (two, three, four, five), times = own["cwnd_packets"], [2.0, 3.0]
    mean, ratio = (two + three) / 2, (two + three - 5) / (four + five - 9)
    places = sorted(times, reverse=two > three)
    assert [row["today"] for row in rows] == pytest.approx([mean, min(two, three), *places, ratio])
    assert [row["registered"] for row in rows] == pytest.approx([mean, *[None] * 3, ratio])


def test_what_a_source_lacks_is_not_predicted_and_what_the_study_cannot_have_says_why(folder: Path) -> None:
    rows = 'columns = ["cc", "loss", "value"]\nrows = [["vegas", "1 %", 1], ["cubic", "1 %", 1]]\n'
    text = HEAD + VALUE + rows + '[[table.value]]\ntitle = "Mood"\nnot_measured = "nobody asked"\n'
    text += 'columns = ["value"]\nrows = [[7]]\n[[table]]\nname = "u"\ncaption = "U"\nplace = "Figure 3"\n'
    text += 'form = "figure"\nnot_measured = "no weather"\n'
    claim = CLAIM.replace("goodput_mbps", "mos").replace("}", ', cc = "cubic", loss = "1 %" }')
    one = scored(folder, text + claim + 'test = "bound"\nleast = 0\n')
    assert [row["today_result"] for row in one.numbers()][::2] == ["not predicted", "not measured"]
    assert sides(one)[-1] == ("not predicted", "not predicted")
    counts = one.counts()["today"]["predicted"]
    assert (counts.numbers, counts.not_predicted, counts.not_measured) == (1, 2, 2)


def test_fitted_numbers_and_claims_of_the_same_metric_count_apart(folder: Path) -> None:
    rows = 'columns = ["cc", "loss", "value"]\nrows = [["cubic", "1 %", 1000]]\n'
    text = 'calibration = "to all"\n' + HEAD + 'role = "fitted"\n' + VALUE + rows
    one = scored(folder, text + CLAIM + 'across = "mean"\ntest = "order"\nhighest_first = [["hybla"], ["cubic"]]\n')
    counts = one.counts()["today"]
    assert (counts["fitted"].outside, counts["predicted"].numbers) == (1, 0)
    assert [row["role"] for row in one.claims()] == ["fitted"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[table.value]]", "[[table.valeu]]", "unknown key `valeu`; did you mean `value`?"),
        ('"goodput_mbps"', '"goodput"', "published.toml:8: `goodput` is no metric"),
        ('experiment = "loss"', 'experiment = "los"', "published.toml:9: the study has no experiment `los`"),
        ('experiment = "loss", ', "", "table 1 value 1 names no `experiment` in its `cell`; the experiments are loss"),
        ('"value"]', '"valu"]', "`columns` has no `value`"),
        ("0.5]]", "0.5, 1]]", "row 1 of `rows` must be a list of 2: cc, value"),
        ('[["cubic", 0.5]]', '[["cubic", ""]]', "row 1 of `rows` has no number as `value`"),
        ('form = "table"', 'form = "graph"', "`graph` is no `form`; there are table, text, figure"),
        ('columns', 'statistic = "t"\ncolumns', "`t` compares two cells; say in `minus`"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_file_is_named_with_its_line(folder: Path, old: str, new: str, said: str) -> None:
    text = HEAD + VALUE + 'columns = ["cc", "value"]\nrows = [["cubic", 0.5]]\n'
    assert old in text
    with pytest.raises(InputError) as error:
        scored(folder, text.replace(old, new, 1))
    assert said in str(error.value)


def test_a_cell_of_several_kinds_of_flows_is_refused_unless_it_says_how_to_take_them(folder: Path) -> None:
    text = HEAD + VALUE + 'columns = ["cc", "value"]\nrows = [["cubic", 5]]\n'
    with pytest.raises(InputError, match=r"is of 2 kinds of flows .*; add what tells them apart, or `across"):
        scored(folder, text)
    (row,) = scored(folder, text.replace("columns", 'across = "mean"\ncolumns')).numbers()
    assert row["today"] == pytest.approx((goodput(folder, "cubic", "0.1 %") + goodput(folder, "cubic", "1 %")) / 2)


def test_the_command_shows_and_writes_the_score_with_versions(folder: Path, tmp_path: Path, perigee: Perigee) -> None:
    rows = 'columns = ["cc", "loss", "value"]\nrows = [["cubic", "1 %", 1000], ["hybla", "1 %", 0.01]]\n'
    figure = '[[table]]\nname = "u"\ncaption = "Weather"\nplace = "Figure 9"\nform = "figure"\n'
    figure += 'not_measured = "nobody asked"\n'
    claim = CLAIM + 'each = { loss = ["1 %"] }\ntest = "order"\nhighest_first = [["hybla"], ["cubic"]]\n'
    between = (goodput(folder, "cubic", "1 %") + goodput(folder, "hybla", "1 %")) / 2
    claim += CLAIM + 'each = { loss = ["1 %"], cc = ["cubic", "hybla"] }\ntest = "bound"\n' + f"most = {between:.4f}\n"
    scored(folder, HEAD + VALUE + rows + figure + claim)
    done = perigee("score", folder, "--results", folder / "results", "--format", "text,csv,json", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "✗ outside" in done.stdout
    assert "part 1 of 2" in done.stdout
    assert "predicted: 0 of 2 numbers within their bounds" in done.stdout
    assert "Figure 9, Weather: not measured. nobody asked" in done.stdout
    content = json.loads((tmp_path / "two-score.json").read_text())
    version = tomllib.loads((folder / "registered.toml").read_text())["registered"]["version"]
    assert content["made"]["registered"]["version"] == version
    with (tmp_path / "two-numbers.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [row["today_result"] for row in written] == ["outside", "outside"]
    assert {row["registered_version"] for row in written} == {version}

    for arguments, said in (
        (("score", "claypool-2021", "--results", folder / "results"), "are results of the study two, not of claypool"),
        (("score", folder, "--format", "xml"), "there is no such format; the formats are: text, csv, json"),
        (("score", "gallery"), "has no published.toml"),
        (("score", "claypool-2021", "--results", tmp_path / "none"), "none"),
    ):
        refused = perigee(*arguments)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


def test_figures_of_one_name_in_several_sections_are_looked_up_together(folder: Path) -> None:
    value = (
        '[[table.value]]\ntable = "lines"\ncolumn = "mean"\ntitle = "Utilisation"\n'
        'cell = { experiment = "loss", quantity = "link_utilisation_percent" }\ncolumns = ["cc", "loss", "value"]\n'
        'rows = [["hybla", "1 %", 50]]\n'
    )
    (row,) = scored(folder, HEAD + value).numbers()
    assert row["today"] is not None

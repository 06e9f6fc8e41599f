# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A report claims no more than its data show: spreads, tests, pairs, shares, link use and failures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from conftest import Perigee
from perigee.comparison.cells import as_frame, compare, pairs, remarks
from perigee.comparison.changes import Change, changes
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.html import render
from perigee.report.model import Report, Table
from perigee.report.style import styled
from perigee.report.utilisation import Span, utilisation
from perigee.report.writer import write_report
from perigee.statistics.estimates import holm, jain
from perigee.statistics.metrics import with_metric
from perigee.statistics.pairing import compare_groups
from perigee.store.results import Results
from study_text import flow, link
from synthetic import Edit, SyntheticEngine

ONE_LINK = """
name = "claims"
rounds = 3
nodes = ["a", "b"]
""" + link("first", "a b", rate="10 Mbit/s", delay="20 ms", queue="100 kB")

TWO_LINKS = ONE_LINK.replace('nodes = ["a", "b"]', 'nodes = ["a", "b", "c"]') + link(
    "second", "a c", rate="1 Mbit/s", delay="20 ms", queue="20 kB"
)


def transfer(name: str, to: str = "b", start_s: int = 0, duration_s: int = 10, cc: str = "cubic") -> str:
    """A bulk flow from `a`."""
    return flow(name, f"a {to}", cc=cc, start=f"{start_s} s", duration=f"{duration_s} s")


def simulated(study: str, folder: Path, report: str = "") -> Results:
    """Results of the simulator, reported as `report` says."""
    path = folder / "claims" / "study.toml"
    path.parent.mkdir()
    path.write_text(study)
    path.with_name("report.toml").write_text(report)
    out = folder / "results"
    carry_out(Job(find_study(str(path)), Simulator, out=out, workers=1))
    return Results(out)


def synthetic(folder: Path, engine: SyntheticEngine, report: str = "sections = ['summary']") -> Results:
    """Results of the synthetic engine, reported as `report` says."""
    path = folder / "invented" / "study.toml"
    path.parent.mkdir(parents=True)
    path.write_text('name = "invented"\n')
    path.with_name("report.toml").write_text(report)
    carry_out(Job(find_study(str(path)), engine, out=folder / "results"))
    return Results(folder / "results")


def report_of(results: Results) -> Report:
    with styled():
        return assemble(results)


def table(report: Report, name: str) -> Table:
    return next(one for one in report.tables() if one.name == name)


def of(results: Results, cc: str, column: str) -> np.ndarray[Any, Any]:
    """A column of an algorithm's flows, in the order of the rounds."""
    return results.table("flows").filter(pl.col("cc") == cc).sort("round")[column].to_numpy()


def test_a_study_in_which_nothing_is_random_has_no_spread_and_no_test(tmp_path: Path) -> None:
    study = ONE_LINK + transfer("f", duration_s=5) + '[vary]\n"flow.cc" = ["cubic", "reno", "vegas"]\n'
    results = simulated(study, tmp_path, 'reference = "cubic"\nsections = ["summary", "tests"]\n')
    made = report_of(results)
    assert table(made, "summary").data["sd"].null_count() == table(made, "summary").data.height
    tests = table(made, "t-tests")
    assert tests.data["p"].null_count() == tests.data.height > 0
    assert tests.data["effect"].unique().to_list() == ["no variation"]
    page = render(made)
    assert page.count("nothing random came to bear") == 1
    assert "±" not in "".join(cell.text for row in table(made, "summary").rows for cell in row)
    assert "significant" not in "".join(cell.text for row in tests.rows for cell in row)
    said = remarks([results, results], compare(results, results))
    assert [one[:2] for one in said if "one sample" in one] == ["A:", "B:"]


def interval(expected: Any, level: float, p: float, every: Sequence[float]) -> float:
    """The upper end of SciPy's interval at the level at which Holm's procedure tests one of several differences."""
    alpha, ordered = 1 - level, sorted(every)
    stop = next((rank for rank, one in enumerate(ordered) if one >= alpha / (len(every) - rank)), len(every) - 1)
    own = 1 - alpha / (len(every) - min(ordered.index(p), stop))
    return float(expected.confidence_interval(own).high)


def test_groups_of_a_study_are_tested_in_pairs_by_round_and_corrected_for_the_page(tmp_path: Path) -> None:
    settings = "reference = 'cubic'\nsections = ['tests']\ntests = ['goodput_mbps', 'rtt_mean_ms']\n"
    results = synthetic(tmp_path, SyntheticEngine(8), settings)
    tests = table(report_of(results), "t-tests")
    assert tests.data.height == 6
    # In short has the retransmitted share beside these two quantities.
    shares = {
        str(cc): (100 * part["retransmitted_packets"] / part["sent_packets"]).to_numpy()
        for (cc,), part in results.table("flows").sort("round").group_by("cc")
    }
    others = [(shares[cc], shares["cubic"]) for cc in ("bbr", "hybla", "vivace")]
    p = [*tests.data["p"], *(stats.ttest_rel(*pair).pvalue for pair in others)]
    ranks = [*tests.data["p_wilcoxon"], *(stats.wilcoxon(*pair).pvalue for pair in others)]
    assert tests.data["p_holm"].to_list() == pytest.approx(holm(p)[:6])
    assert tests.data["p_wilcoxon_holm"].to_list() == pytest.approx(holm(ranks)[:6])
    for row in tests.data.iter_rows(named=True):
        ours, theirs = of(results, row["group"], row["quantity"]), of(results, "cubic", row["quantity"])
        expected = stats.ttest_rel(ours, theirs)
        assert row["paired"]
        assert (row["t"], row["p"]) == pytest.approx((expected.statistic, expected.pvalue))
        assert row["half_width_95"] == pytest.approx(interval(expected, 0.95, row["p"], p) - row["difference"])
        assert (abs(row["difference"]) > row["half_width_95"]) == (row["p_holm"] < 0.05) == row["significant"]
        assert row["p_wilcoxon"] == pytest.approx(stats.wilcoxon(ours, theirs).pvalue)
        assert row["effect_size"] == pytest.approx((ours - theirs).mean() / (ours - theirs).std(ddof=1))
        assert row["effect_low_95"] < row["effect_size"] < row["effect_high_95"]
    assert "paired by round" in tests.notes[0]
    assert "9 comparisons on this page (Holm)" in tests.notes[0]
    assert tests.data["effect_measure"].unique().to_list() == ["d_z"]


def test_intervals_have_the_level_of_the_report_or_of_the_command_line(tmp_path: Path) -> None:
    settings = "reference = 'cubic'\nsections = ['tests']\ntests = ['goodput_mbps']\nconfidence = 0.90\n"
    results = synthetic(tmp_path, SyntheticEngine(8), settings)
    with styled():
        chosen = assemble(results, confidence=0.8)
    for report, level in ((report_of(results), 0.9), (chosen, 0.8)):
        tests = table(report, "t-tests")
        # In short tests the round trip and the retransmitted share too, which these intervals allow for.
        for row in tests.data.iter_rows(named=True):
            own = of(results, row["group"], row["quantity"]), of(results, "cubic", row["quantity"])
            alone = stats.ttest_rel(*own).confidence_interval(level).high - row["difference"]
            widest = stats.ttest_rel(*own).confidence_interval(1 - (1 - level) / 9).high - row["difference"]
            assert alone <= row[f"half_width_{100 * level:g}"] <= widest + 1e-9
            assert (abs(row["difference"]) > row[f"half_width_{100 * level:g}"]) == row["significant"]
        assert f"{100 * level:g} % confidence" in tests.caption
        assert f"effect [{100 * level:g} % interval]" in tests.head
        said = " ".join([tests.caption, *tests.notes, *report.answers, report.short.method])
        assert f"at α = {1 - level:g}" in tests.caption
        assert f"{100 * level:g} % interval" in report.short.method
        assert "95 %" not in said
        assert "0.05" not in said
    with pytest.raises(InputError, match="not 90; write"):
        assemble(results, confidence=90)


def test_a_comparison_has_the_level_of_the_first_results_or_of_the_command_line(
    tmp_path: Path, perigee: Perigee
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a = synthetic(tmp_path / "a", SyntheticEngine(4), "confidence = 0.90\n")
    b = synthetic(tmp_path / "b", SyntheticEngine(4, first_seed=1001))
    for chosen, level in ((None, 90), (0.8, 80)):
        cells = compare(a, b, confidence=chosen)
        first, second = (of(results, "cubic", "goodput_mbps") for results in (a, b))
        assert {cell.confidence for cell in cells} == {level / 100}
        frame = as_frame([a, b], cells)
        (row,) = frame.filter((pl.col("group") == "cubic") & (pl.col("quantity") == "goodput_mbps")).to_dicts()
        expected = stats.ttest_ind(second, first, equal_var=False)
        every = frame["p"].drop_nulls().to_list()
        upper = interval(expected, level / 100, row["p"], every)
        assert row[f"half_width_{level}"] == pytest.approx(upper - row["difference"])
    said = perigee("compare", a.path, b.path, "--confidence", "0.8", "--out", tmp_path / "page.html").stdout
    assert "80 % interval" in said
    page = (tmp_path / "page.html").read_text()
    assert "with its 80 % confidence interval" in page
    assert "95 % confidence" not in page


def test_each_group_is_compared_with_the_reference_that_is_otherwise_the_same(tmp_path: Path) -> None:
    study = ONE_LINK + transfer("f", duration_s=3)
    study += '[vary]\n"flow.cc" = ["cubic", "reno"]\n"links.first.delay" = ["20 ms", "40 ms"]\n'
    report = 'sections = ["tests"]\ntests = ["goodput_mbps"]\nreference = '
    results = simulated(study, tmp_path, report + '"cubic"')
    data = table(report_of(results), "t-tests").data
    assert data.select("group", "reference").rows() == [
        (f"reno, first delay = {delay}", f"cubic, first delay = {delay}") for delay in ("20 ms", "40 ms")
    ]
    (results.path / "study" / "report.toml").write_text(report + '"cubic, first delay = 40 ms"')
    data = table(report_of(results), "t-tests").data
    assert set(data["group"]) == {"cubic, first delay = 20 ms", "reno, first delay = 40 ms"}


def test_two_results_of_the_same_seeds_are_compared_in_pairs_and_others_are_not(tmp_path: Path) -> None:
    def faster(row: dict[str, Any]) -> None:
        row["goodput_mbps"] += 1 + 0.1 * (row["round"] % 3)

    a = synthetic(tmp_path / "a", SyntheticEngine(6))
    same_seeds = synthetic(tmp_path / "b", SyntheticEngine(6, edit=faster))
    other_seeds = synthetic(tmp_path / "c", SyntheticEngine(6, first_seed=5000, edit=faster))
    for b, is_paired in ((same_seeds, True), (other_seeds, False)):
        cells = as_frame([a, b], compare(a, b))
        row = cells.row(by_predicate=(pl.col("group") == "bbr") & (pl.col("quantity") == "goodput_mbps"), named=True)
        ours, theirs = of(b, "bbr", "goodput_mbps"), of(a, "bbr", "goodput_mbps")
        expected: Any = stats.ttest_rel(ours, theirs) if is_paired else stats.ttest_ind(ours, theirs, equal_var=False)
        assert row["paired"] == is_paired
        assert row["p"] == pytest.approx(expected.pvalue)
        known = cells.filter(pl.col("p").is_not_null())
        upper = interval(expected, 0.95, row["p"], known["p"].to_list())
        assert row["half_width_95"] == pytest.approx(upper - row["difference"])
        assert known["p_holm"].to_list() == pytest.approx(holm(known["p"].to_list()))
        method = remarks([a, b], compare(a, b))[-1]
        assert ("paired by round" in method, "Welch" in method) == (is_paired, not is_paired)


def test_a_comparison_names_both_algorithms_and_the_settings_that_differ(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(ONE_LINK + transfer("f", duration_s=2))
    study = find_study(str(path))
    carry_out(Job(study, Simulator, out=tmp_path / "a", workers=1))
    carry_out(Job(study, Simulator, settings=("flow.cc=reno",), out=tmp_path / "b", workers=1))
    a, b = Results(tmp_path / "a"), Results(tmp_path / "b")
    cells = compare(a, b)
    assert {cell.label for cell in cells} == {"Cubic in A, Reno in B"}
    assert as_frame([a, b], cells).select("group", "group_b").unique().row(0) == ("cubic", "reno")
    assert changes([a, b]) == [Change("flow.cc", ("as in the study", "reno"))]


def test_pairs_are_of_the_rounds_that_both_have_unless_these_are_few() -> None:
    def values(rounds: range) -> pl.DataFrame:
        rows = [{"round": number, "seed": 7 * number, "x": float(number**2 % 11)} for number in rounds]
        return pl.DataFrame(rows, schema={"round": pl.UInt32, "seed": pl.UInt64, "x": pl.Float64})

    most = compare_groups(values(range(10)), values(range(3, 12)), "x", shared_draws=True)
    few = compare_groups(values(range(10)), values(range(8, 18)), "x", shared_draws=True)
    assert most is not None
    assert few is not None
    assert (most.is_paired, most.size) == (True, "7 pairs")
    assert most.first.tolist() == most.second.tolist()
    assert (few.is_paired, few.size) == (False, "10 and 10")


def test_flows_over_different_links_or_at_different_times_share_nothing(tmp_path: Path) -> None:
    apart = {
        "links": TWO_LINKS + transfer("x") + transfer("y", to="c"),
        "times": ONE_LINK + transfer("x") + transfer("y", start_s=15),
    }
    for name, study in apart.items():
        (tmp_path / name).mkdir()
        results = simulated(study, tmp_path / name)
        made = report_of(results)
        assert "sharing" not in [section.name for section in made.sections]
        assert [group.name for group in Context(results).groups] == ["x, cubic", "y, cubic"]


def test_links_are_shown_for_the_groups_whose_flows_take_them(tmp_path: Path) -> None:
    study = TWO_LINKS + transfer("x") + transfer("y", to="c")
    made = report_of(simulated(study, tmp_path, 'sections = ["links"]\n'))
    rows = [(row["link"], row["group"]) for one in made.tables() for row in one.data.iter_rows(named=True)]
    assert sorted(rows) == [
        ("first.down", "x, cubic"), ("first.up", "x, cubic"), ("second.down", "y, cubic"), ("second.up", "y, cubic"),
    ]  # fmt: skip
    queue = next(plot for plot in made.plots() if plot.name == "queue")
    assert queue.data is not None
    assert queue.data["group"].unique().to_list() == ["y, cubic"]
    assert "y, Cubic" in queue.caption


def test_a_reference_or_link_that_the_results_lack_is_reported(tmp_path: Path) -> None:
    study = ONE_LINK + transfer("f", duration_s=2) + '[vary]\n"flow.cc" = ["cubic", "reno"]\n'
    made = report_of(simulated(study, tmp_path, 'reference = "cubc"\nlink = "frist.down"\n'))
    assert made.asides[:2] == [
        "the reference of report.toml, cubc, is not in these results (they have cubic, reno): no tests",
        "the link of report.toml, frist.down, is not in these results; they have first.down, first.up",
    ]
    assert "report.toml" not in render(made)


def test_the_setup_names_what_varies(tmp_path: Path) -> None:
    study = 'title = "Rates & losses"\n' + ONE_LINK + transfer("f", duration_s=2)
    study += '[vary]\n"flow.cc" = ["cubic", "reno"]\n"links.first.rate" = ["1 Mbit/s", "2 Mbit/s"]\n'
    made = report_of(simulated(study, tmp_path, 'sections = ["setup"]\n'))
    assert made.title == "Rates & losses"
    rows = [[cell.text for cell in row] for row in table(made, "setup-varied").rows]
    assert rows == [["flow.cc", "cubic; reno"], ["links.first.rate", "1 Mbit/s; 2 Mbit/s"]]
    links = {row[0].text: row[1].text for row in table(made, "setup-links").rows}
    assert links["rate"] == "1, 2 Mbit/s (varied)"


def test_a_difference_that_a_test_finds_is_no_zero_in_the_table(tmp_path: Path) -> None:
    slow = ONE_LINK.replace('"10 Mbit/s"', '"1 Mbit/s"').replace('"20 ms"', '"50 ms"').replace('"100 kB"', '"10 kB"')
    study = slow + transfer("f").replace('duration = "10 s"', 'size = "1 MB"')
    study += '[vary]\n"flow.cc" = ["cubic", "bbr"]\n'
    results = simulated(study, tmp_path, 'reference = "cubic"\nsections = ["summary", "tests"]\n')
    tests = table(report_of(results), "t-tests")
    fact = tests.data.row(0, named=True)
    assert 0 < abs(fact["difference"]) < 0.05
    shown = tests.rows[0][2].text
    assert shown.startswith("−" if fact["difference"] < 0 else "+")
    assert any(digit in "123456789" for digit in shown)
    difference = next(one for one in compare(results, results) if one.metric.name == "goodput_mbps")
    assert difference.digits == 2


def test_shares_are_those_of_the_time_that_flows_have_in_common(tmp_path: Path) -> None:
    study = TWO_LINKS + transfer("x", duration_s=40) + transfer("y", start_s=10, duration_s=20, cc="reno")
    results = simulated(study + transfer("z", to="c"), tmp_path, 'sections = ["sharing", "summary"]')
    made = report_of(results)
    shared = table(made, "sharing").data
    assert shared["flow"].to_list() == ["x", "y"]
    assert shared["link"].unique().to_list() == ["first.down"]
    series = results.table("series").filter((pl.col("run") == 0) & pl.col("t_s").is_between(10.5, 30.5))
    expected = [float(np.mean(series.filter(pl.col("flow") == name)["goodput_mbps"].to_numpy())) for name in "xy"]
    assert shared["goodput_mbps"].to_list() == pytest.approx(expected, rel=0.01)
    assert shared["share_percent"].sum() == pytest.approx(100)
    assert shared["jain"][0] == pytest.approx(jain(expected), rel=0.01)
    assert 90 < shared["utilisation_percent"][0] < 100.5
    assert table(made, "summary").data["group"].unique().to_list() == ["cubic"], "z shares nothing, so it is alone"


def test_each_pair_that_meets_on_a_link_is_a_combination_of_its_own(tmp_path: Path) -> None:
    study = ONE_LINK + transfer("x", duration_s=8) + transfer("y", start_s=5, duration_s=10) + transfer("z", start_s=10)
    found = Context(simulated(study, tmp_path)).meetings
    assert [meeting.flows for meeting in found if meeting.run == 0] == [("x", "y"), ("y", "z")]
    assert [one.from_s for one in found[:2]] == pytest.approx([5, 10])
    assert [one.until_s for one in found[:2]] == pytest.approx([8, 15], abs=0.3)


def test_the_sharing_figure_and_its_table_are_of_the_same_rounds(tmp_path: Path) -> None:
    made = report_of(synthetic(tmp_path, SyntheticEngine(5, pairs=True), "sections = ['sharing']"))
    shared = table(made, "sharing")
    assert shared.data["rounds"].unique().to_list() == [5]
    assert shared.data["share_sd_percent"].null_count() == 0
    assert "±" in shared.rows[0][3].text
    (plot,) = made.plots()
    assert "nearest to its medians" in plot.caption
    panels = [axes for axes in plot.figure.axes if axes.lines]
    assert len(panels) == 6
    for axes in panels:
        for line in axes.lines:
            assert float(np.max(line.get_ydata())) <= axes.get_ylim()[1]
            assert float(np.max(line.get_xdata())) <= axes.get_xlim()[1]


UDP = flow("u", "a b", kind="udp", rate="20 Mbit/s", packet="1000 B", duration="10 s")


@pytest.mark.parametrize("extra", ["", 'overhead = "500 B"', 'loss = "10 %"', 'overhead = "38 B"\nloss = "1 %"'])
def test_a_saturated_link_is_fully_used(tmp_path: Path, extra: str) -> None:
    context = Context(simulated(ONE_LINK + extra + "\n" + UDP, tmp_path))
    used = utilisation(context, "first.down", [(0, 1.0, 9.0)])
    assert used.to_list() == pytest.approx([100], abs=0.3)


@pytest.mark.parametrize(
    ("queue", "spans"),
    [
        ('"5 MB"', [(0, 0.25, 0.75), (0, 3.25, 3.75), (0, 0.5, 3.5)]),
        # The queue drops what waits.
        ('{ bytes = "5 MB", aqm = { kind = "fq-codel" } }', [(0, 0.25, 0.75), (0, 1.25, 1.75)]),
        ('{ kind = "drop-front", bytes = "500 kB" }', [(0, 0.25, 0.75), (0, 1.25, 1.75)]),
    ],
)
def test_a_link_is_as_used_while_its_queue_grows_or_drains_within_an_interval(
    tmp_path: Path, queue: str, spans: list[Span]
) -> None:
    study = ONE_LINK.replace('"100 kB"', queue).replace("rounds = 3", "rounds = 1")
    context = Context(simulated(study + UDP.replace("10 s", "2 s"), tmp_path))
    used = utilisation(context, "first.down", [*spans, (0, 10.5, 11.5)]).to_list()
    assert used == [*(pytest.approx(100, abs=0.5) for _ in spans), None]


def test_a_full_gigabit_wire_is_fully_used(tmp_path: Path) -> None:
    wire = '[[links]]\nname = "wire"\nbetween = ["a", "b"]\nprofile = "gigabit"\n'
    study = 'name = "claims"\nnodes = ["a", "b"]\n' + wire + UDP.replace("20 Mbit/s", "2 Gbit/s").replace("10 s", "2 s")
    context = Context(simulated(study, tmp_path))
    assert utilisation(context, "wire.down", [(0, 1.0, 2.0)]).to_list() == pytest.approx([100], abs=0.3)


def test_overhead_that_varies_is_that_of_each_point(tmp_path: Path) -> None:
    study = ONE_LINK.replace("rounds = 3", "rounds = 1") + UDP
    results = simulated(study + '[vary]\n"links.first.overhead" = ["0 B", "500 B", "200 B"]\n', tmp_path)
    used = utilisation(Context(results), "first.down", [(run, 1.0, 9.0) for run in range(3)])
    assert used.to_list() == pytest.approx([100, 100, 100], abs=0.3)


def test_the_retransmitted_share_is_one_quantity_everywhere(tmp_path: Path) -> None:
    settings = "reference = 'cubic'\nlink = 'satellite.down'\n"
    settings += "sections = ['summary', 'tests', 'retransmissions', 'timeline']\ntests = ['retransmitted_percent']\n"
    results = synthetic(tmp_path, SyntheticEngine(7), settings)
    flows = with_metric(results.table("flows"), "retransmitted_percent", results).filter(pl.col("cc") == "bbr")
    shares = 100 * flows["retransmitted_packets"] / flows["sent_packets"]
    made, mean = report_of(results), float(np.mean(shares.to_numpy()))
    for name, column in (
        ("summary", "mean"), ("retransmissions", "mean"), ("timeline", "retransmitted_percent"),
    ):  # fmt: skip
        data = table(made, name).data.filter(pl.col("group") == "bbr")
        own = data.filter(pl.col("quantity") == "retransmitted_percent") if "quantity" in data.columns else data
        assert own[column].to_list() == pytest.approx([mean]), name
    summary = table(made, "summary").data.filter(
        (pl.col("group") == "bbr") & (pl.col("quantity") == "retransmitted_percent")
    )
    assert summary["sd"][0] == pytest.approx(float(shares.std()))  # type: ignore[arg-type]
    cells = as_frame([results, results], compare(results, results)).filter(
        (pl.col("group") == "bbr") & (pl.col("quantity") == "retransmitted_percent")
    )
    assert cells["a"].to_list() == pytest.approx([mean])
    tests = table(made, "t-tests").data.filter(pl.col("group") == "bbr")
    assert tests["difference"][0] == pytest.approx(
        mean - table(made, "summary").data.filter(
            (pl.col("group") == "cubic") & (pl.col("quantity") == "retransmitted_percent")
        )["mean"][0]
    )  # fmt: skip


def ending(of_round: dict[int, str], cc: str = "cubic") -> Edit:
    """Give the flows of an algorithm another outcome in some rounds."""

    def edit(row: dict[str, Any]) -> None:
        if row["cc"] == cc and (outcome := of_round.get(row["round"])):
            row |= {"outcome": outcome, "completed": False, "goodput_mbps": 0.0}

    return edit


def test_failed_flows_are_reported_and_in_no_mean(tmp_path: Path) -> None:
    failing = SyntheticEngine(10, edit=ending({2: "timed_out", 5: "timed_out", 7: "timed_out", 8: "time_limit"}))
    results = synthetic(tmp_path / "b", failing)
    made = report_of(results)
    assert made.sections[0].name == "outcomes"
    told = {row[0].text: row[1].text for row in table(made, "outcomes").rows}
    assert told == {"Cubic": "Failed in 3 of 10 rounds (timed out), cut off by the time limit in 1 of 10 rounds"}
    assert "flows that did not fail" in table(made, "outcomes").caption
    assert {fact.label: fact.value for fact in made.facts}["flows failed"] == "3 of 40"
    summary = table(made, "summary")
    kept = [rate for number, rate in enumerate(of(results, "cubic", "goodput_mbps")) if number not in (2, 5, 7)]
    mean = summary.data.filter((pl.col("group") == "cubic") & (pl.col("quantity") == "goodput_mbps"))["mean"]
    assert mean.to_list() == pytest.approx([np.mean(kept)])
    assert next(row[1].text for row in summary.rows if row[0].text == "Cubic") == "7 of 10"
    assert summary.caption.endswith("flows that failed are left out")
    whole = synthetic(tmp_path / "a", SyntheticEngine(10))
    (said,) = (one for one in remarks([whole, results], compare(whole, results)) if one.startswith("Cubic"))
    assert "B failed in 3 of 10 rounds (timed out)" in said
    sizes = {(cell.label, cell.metric.name): cell.comparison.size for cell in compare(whole, results)}
    assert sizes["Cubic", "goodput_mbps"] == "7 pairs"
    assert sizes["BBR", "goodput_mbps"] == "10 pairs"


def test_many_groups_that_the_time_limit_ended_in_every_round_have_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit(row: dict[str, Any]) -> None:
        row |= {"outcome": "timed_out" if row["cc"] == "bbr" else "time_limit", "completed": False}

    made = report_of(results := synthetic(tmp_path, SyntheticEngine(2, edit=edit)))
    assert len(table(made, "outcomes").rows) == 4
    monkeypatch.setattr("perigee.report.sections.outcomes.MOST_CUT", 2)
    of_bbr, joined = table(report_of(results), "outcomes").rows
    assert of_bbr[1].text == "Failed in 2 of 2 rounds (timed out)"
    assert [cell.text for cell in joined] == [
        "3 groups of flows", "All 6 flows lasted until the time limit of their runs",
    ]  # fmt: skip


def test_flows_of_a_kind_that_no_section_shows_are_shown_as_bulk_transfers(tmp_path: Path) -> None:
    def edit(row: dict[str, Any]) -> None:
        if row["cc"] == "bbr":
            row |= {"kind": "unheard-of", "outcome": "refused" if row["round"] == 1 else "completed"}

    made = report_of(synthetic(tmp_path, SyntheticEngine(3, edit=edit)))
    assert "BBR" in [row[0].text for row in table(made, "summary").rows]
    assert [row[1].text for row in table(made, "outcomes").rows] == ["Failed in 1 of 3 rounds (refused)"]


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_group_of_which_every_flow_failed_is_reported_too(tmp_path: Path, everywhere: bool) -> None:
    def edit(row: dict[str, Any]) -> None:
        if everywhere or row["cc"] == "bbr":
            row |= {"outcome": "refused", "completed": False}

    settings = (
        "reference = 'cubic'\nsections = ['summary', 'throughput', 'delay', 'retransmissions', 'tests', 'power', "
    )
    settings += "'representative', 'timeline', 'sharing', 'links', 'download', 'setup']\nsizes_mb = [1]\n"
    results = synthetic(tmp_path, SyntheticEngine(2, edit=edit), settings)
    write_report(results.path, tmp_path / "r.html", ["html", "csv", "latex"])
    assert "Failed in 2 of 2 rounds (refused)" in (tmp_path / "r.html").read_text()


def test_a_comparison_shows_each_group_once(tmp_path: Path) -> None:
    study = TWO_LINKS + transfer("x") + transfer("y", to="c") + '[vary]\n"flow.cc" = ["cubic", "reno"]\n'
    results = simulated(study, tmp_path)
    labels = [ours.label for ours, _ in pairs(results, results)]
    assert labels == ["x, Cubic", "y, Cubic", "x, Reno", "y, Reno"]
    assert [ours.number for ours, _ in pairs(results, results)] == [
        theirs.number for _, theirs in pairs(results, results)
    ]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The study pawirotaroeno-2022 at its small size: its experiments, and what its report shows of each."""

from __future__ import annotations

import polars as pl
import pytest

from conftest import ROOT
from perigee.engines.job import Job
from perigee.engines.native import Simulator
from perigee.engines.runner import carry_out
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.model import Report, Table
from perigee.report.sections.bands import section as bands
from perigee.report.sections.sharing import combinations
from perigee.report.style import styled
from perigee.statistics.estimates import mean_interval
from perigee.store.results import Results

EXPERIMENTS = ("exploration", "campaign", "trace", "throughput", "fairness", "capacity")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The study at its small size."""
    out = tmp_path_factory.mktemp("pawirotaroeno") / "results"
    carry_out(Job(find_study(str(ROOT / "studies" / "pawirotaroeno-2022")), Simulator(), reduced=True, out=out))
    return Results(out)


@pytest.fixture(scope="module")
def report(results: Results) -> Report:
    """The chapters with the sections that campaigns need."""
    with styled():
        return assemble(results, experiments=["campaign", "trace", "throughput"])


def table(report: Report, name: str) -> Table:
    """Table of that name."""
    return next(one for one in report.tables() if one.name == name)


def test_every_experiment_carries_data_with_each_algorithm_it_names(results: Results) -> None:
    assert results.experiments == EXPERIMENTS
    wanted = {
        "exploration": {"reno", "cubic", "bbr"},
        "campaign": {"reno", "cubic", "bbr"},
        "trace": {"sicc", "cubic"},
        "throughput": {"sicc", "cubic", "bbr"},
        "fairness": {"sicc", "cubic", "bbr"},
        "capacity": {"cubic", ""},
    }
    for name, algorithms in wanted.items():
        flows = results.of_experiment(name).table("flows")
        assert set(flows["cc"]) == algorithms
        assert flows.filter(pl.col("goodput_mbps") <= 1.0).is_empty(), name


def test_several_transfers_and_datagrams_carry_more_than_one_and_no_more_than_the_link(results: Results) -> None:
    part = results.of_experiment("capacity")
    carried = part.table("flows").group_by("run", maintain_order=True).agg(pl.col("goodput_mbps").sum())
    one, four, eight, datagrams = carried["goodput_mbps"]
    assert one < four < eight
    assert one < datagrams
    rates = part.table("links").filter(pl.col("link") == "satellite.down").group_by("run", maintain_order=True)
    capacity = rates.agg(pl.col("rate_mbps").mean())["rate_mbps"]
    assert all(mbps < rate for mbps, rate in zip(carried["goodput_mbps"], capacity, strict=True))


def test_transfers_in_turn_are_compared_pair_by_pair(results: Results, report: Report) -> None:
    flows = results.of_experiment("throughput").table("flows").sort("run", "start_s")
    found = table(report, "throughput-in-turn").data
    assert found["pair"].to_list() == ["SICC, then Cubic", "SICC, then BBR"]
    for row, (_, run) in zip(found.iter_rows(named=True), flows.group_by("run", maintain_order=True), strict=True):
        first, second = run["goodput_mbps"].to_numpy()[::2], run["goodput_mbps"].to_numpy()[1::2]
        mean, half = mean_interval(first - second)
        assert row["pairs"] == 3
        assert (row["difference_mbps"], row["difference_half_width_95"]) == (pytest.approx(mean), pytest.approx(half))


def test_a_campaign_has_its_transfers_and_interpolates_between_them(results: Results, report: Report) -> None:
    found = table(report, "campaign-campaign").data
    assert found["transfers"].to_list() == [4, 4, 4]
    curve = next(plot for plot in report.plots() if plot.name == "campaign-campaign").data
    assert curve is not None
    of_reno = curve.filter(pl.col("campaign") == "Reno")
    assert of_reno["is_interpolated"].sum() == of_reno.height - 4
    goodput = results.of_experiment("campaign").table("flows").filter(pl.col("cc") == "reno")["goodput_mbps"]
    assert float(goodput.min()) <= float(of_reno["goodput_mbps"].min())  # type: ignore[arg-type]


def test_the_decisions_of_sicc_are_read_from_what_it_kept_of_its_window(report: Report) -> None:
    found = table(report, "trace-reductions").data
    counts = {(row["group"], row["kept"]): row["times"] for row in found.iter_rows(named=True)}
    assert counts["cubic", "congestion"] > 0
    assert counts["cubic", "periodic"] == counts["cubic", "random"] == 0
    assert all(counts["sicc", kind] > 0 for kind in ("periodic", "random", "congestion"))
    assert not any(name == "other" for _, name in counts)


def test_transfers_repeated_in_a_run_are_rounds_of_one_pairing_with_bands_over_time(results: Results) -> None:
    context = Context(results.of_experiment("fairness"))
    found = combinations(context)
    titles = ["Cubic and Cubic", "BBR and BBR", "Cubic and BBR", "SICC and Cubic", "SICC and BBR"]
    assert [one.title for one in found] == titles
    assert all(one.goodputs_mbps.shape == (3, 2) for one in found)
    with styled():
        section = bands(context)
    assert section is not None
    curves = section.blocks[-1].data  # type: ignore[union-attr]
    assert curves is not None
    for one in found:
        of_pair = curves.filter(pl.col("together") == one.title)
        means = dict(of_pair.group_by("flow").agg(pl.col("goodput_mbps").mean()).iter_rows())
        assert means["sum"] == pytest.approx(one.goodputs_mbps.sum(axis=1).mean(), rel=0.02)
        assert means["sum"] == pytest.approx(means["first"] + means["second"])

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The study pawirotaroeno-2022 at its reduced size: its experiments, and their chapters of the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Perigee, needs_tun
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.model import Report, Table
from perigee.report.sections.over_time import bands
from perigee.report.sections.periods import of_series
from perigee.report.sections.sharing import combinations
from perigee.report.style import styled
from perigee.statistics.estimates import mean_interval
from perigee.store.results import Results

EXPERIMENTS = (
    "exploration", "campaign", "trace", "decisions", "throughput", "fairness", "shaping", "sensitivity", "forms",
    "capacity", "orbit", "day",
)  # fmt: skip


@pytest.fixture(scope="module")
def results(reduced: Callable[[str], Path]) -> Results:
    """The study at its reduced size."""
    return Results(reduced("pawirotaroeno-2022"))


@pytest.fixture(scope="module")
def report(results: Results) -> Report:
    """The chapters with the sections that campaigns need."""
    with styled():
        return assemble(results, experiments=["campaign", "trace", "decisions", "throughput", "sensitivity"])


def table(report: Report, name: str) -> Table:
    """Table of that name."""
    return next(one for one in report.tables() if one.name == name)


def test_every_experiment_transfers_data_with_each_of_its_algorithms(results: Results) -> None:
    assert results.experiments == EXPERIMENTS
    wanted = {
        "exploration": {"reno", "cubic", "bbr"},
        "campaign": {"cubic", "bbr"},
        "trace": {"sicc", "cubic"},
        "decisions": {"sicc", "cubic"},
        "throughput": {"sicc", "cubic", "bbr"},
        "fairness": {"sicc", "cubic", "bbr"},
        "shaping": {"sicc", "cubic", "bbr"},
        "sensitivity": {"cubic", "bbr", "sicc"},
        "forms": {"sicc"},
        "capacity": {"cubic", ""},
        "orbit": {"reno", "cubic", "bbr", "sicc"},
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
        assert row["pairs"] == 2
        seconds = (
            results.of_experiment("throughput").table("series").join(run.select("run", "flow"), on=["run", "flow"])
        )
        first_second = seconds.filter(pl.col("flow").str.starts_with("first"))["goodput_mbps"]
        assert row["first_sample_sd"] == pytest.approx(first_second.std())
        assert (row["difference_mbps"], row["difference_half_width_95"]) == (pytest.approx(mean), pytest.approx(half))


def test_a_campaign_has_its_transfers_one_after_the_other(results: Results, report: Report) -> None:
    found = table(report, "campaign-campaign").data
    flows = results.of_experiment("campaign").table("flows")
    assert found["transfers"].to_list() == [3, 3]
    assert found["goodput_mbps"].to_list() == pytest.approx(
        [flows.filter(pl.col("cc") == cc)["goodput_mbps"].mean() for cc in ("bbr", "cubic")]
    )
    curve = next(plot for plot in report.plots() if plot.name == "campaign-campaign").data
    assert curve is not None
    assert curve["campaign"].unique(maintain_order=True).to_list() == ["BBR", "Cubic"]


def test_the_decisions_of_sicc_are_read_from_the_share_of_the_window_that_it_kept(report: Report) -> None:
    found = table(report, "decisions-reductions").data
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
    assert all(one.goodputs_mbps.shape == (2, 2) for one in found)
    with styled():
        (plot,) = bands(context)
    curves = plot.data
    assert curves is not None
    for one in found:
        of_pair = curves.filter(pl.col("together") == one.title)
        means = dict(of_pair.group_by("flow").agg(pl.col("goodput_mbps").mean()).iter_rows())
        assert means["sum"] == pytest.approx(one.goodputs_mbps.sum(axis=1).mean(), rel=0.02)
        assert means["sum"] == pytest.approx(means["first"] + means["second"])


def test_the_window_is_in_bytes_and_the_correlation_reaches_as_far_as_the_run(results: Results, report: Report) -> None:
    window = next(plot for plot in report.plots() if plot.name == "trace-window-1").data
    assert window is not None
    payload = (window["cwnd_bytes"] / window["cwnd_packets"]).drop_nulls()
    # The largest segment less timestamps; what is in flight at the end was sent, and not acknowledged.
    assert 1430 < float(payload.min()) <= float(payload.max()) < 1449  # type: ignore[arg-type]
    series = results.of_experiment("trace").table("series")
    found = of_series(series.filter(pl.col("run") == series["run"].min()))
    assert found is not None
    assert found.lags_s[-1] > 50 > 20 >= found.searched_s


def test_what_the_random_loss_and_the_queue_decide_is_a_figure_of_the_report(report: Report) -> None:
    drawn = next(plot for plot in report.plots() if plot.name == "sensitivity-lines-goodput-mbps").data
    assert drawn is not None
    assert drawn["point.queue"].unique(maintain_order=True).to_list() == ["780 kB", "2.5 MB"]
    cubic = drawn.filter(pl.col("cc") == "Cubic", pl.col("point.queue") == "780 kB").sort("point.loss_number")
    assert cubic["point.loss_number"].to_list() == [0.0003, 0.001, 0.003, 0.01, 0.03]
    assert cubic["mean"][0] > 2 * cubic["mean"][-1]


def test_pings_and_downloads_cross_the_computed_orbits(results: Results) -> None:
    day = results.of_experiment("day")
    pings = day.table("exchanges").filter(pl.col("flow") == "ping")["duration_ms"].drop_nulls()
    assert pings.len() > 40
    # Propagation alone: to a satellite at 540 km or higher and on to the ground, both ways.
    assert float(pings.min()) > 4 * 540 / 299.792458  # type: ignore[arg-type]
    outcomes = day.table("flows").filter(pl.col("flow").str.starts_with("download"))["outcome"]
    assert outcomes.to_list() == ["completed"] * 4


def test_sicc_from_its_file_runs_in_this_kernel_over_the_same_link(perigee: Perigee, tmp_path: Path) -> None:
    needs_tun()
    out = tmp_path / "emu"
    study = ROOT / "studies" / "pawirotaroeno-2022"
    # The kernel of this machine, not that of the study.
    varied = ("--set", "hosts.like=linux-6.18", "--set", "flows.first.cc=sicc", "--set", "flows.first.duration=3 s")
    done = perigee("run", study, "--reduced", "--experiment", "trace", "--engine", "emu", "--out", out, *varied)
    if done.returncode == 2 and "BPF" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    flows = Results(out).of_experiment("trace").table("flows")
    assert flows.select("cc", "outcome").rows() == [("sicc", "completed")]
    assert flows["received_bytes"][0] > 0

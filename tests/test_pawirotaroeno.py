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
from perigee.store.results import Results

EXPERIMENTS = ("exploration", "campaign", "trace", "throughput", "fairness", "capacity")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The study at its small size."""
    out = tmp_path_factory.mktemp("pawirotaroeno") / "results"
    carry_out(Job(find_study(str(ROOT / "studies" / "pawirotaroeno-2022")), Simulator(), reduced=True, out=out))
    return Results(out)


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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A model is scored on what a campaign measured: the one that made it holds, a wrong one does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from conftest import Once, Perigee
from perigee.campaigns.campaign import make
from perigee.campaigns.manifest import read_manifest
from perigee.campaigns.model_score import Coverage, Score, _cell, score
from perigee.campaigns.plan import plan
from perigee.campaigns.prediction import predict, transfers
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.places import find_profile, find_study
from perigee.store.results import Results
from study_text import flow, link

ROUNDS = 6
PROFILE = (
    'name = "roof"\ntitle = "roof"\nsource = "planted"\n'
    '[down]\nrate = "{rate}"\ndelay = "40 ms"\nloss = "0.3 %"\nqueue = "100 kB"\n'
    '[up]\nrate = "5 Mbit/s"\ndelay = "40 ms"\n'
)


@pytest.fixture(scope="module")
def campaign(once: Once) -> Path:
    """The results of a campaign of Cubic and BBR over a planted link, by captures at the sender."""

    def made(folder: Path) -> None:
        folder.mkdir()
        (folder / "roof.toml").write_text(PROFILE.format(rate="20 Mbit/s"))
        (folder / "study.toml").write_text(
            f'name = "planted"\nseed = 7\nrounds = {ROUNDS}\nnodes = ["server", "client"]\n'
            '[measure]\npcap = ["server"]\n'
            + link("roof", "server client", profile="./roof.toml")
            + flow("transfer", "server client", size="2 MB")
            + '[vary]\n"flow.cc" = ["cubic", "bbr"]\n'
        )
        carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "planted"))
        recordings = folder / "recordings"
        recordings.mkdir()
        for row in Results(folder / "planted").table("flows").iter_rows(named=True):
            capture = folder / "planted" / "captures" / f"run-{row['run']:06d}-server.pcapng"
            shutil.copyfile(capture, recordings / f"{row['round'] + 1}-{row['cc']}.pcapng")
        (recordings / "campaign.toml").write_text('name = "roof"\n[[recordings]]\nfiles = "{round}-{cc}.pcapng"\n')
        make(plan(recordings, read_manifest(recordings / "campaign.toml")), folder / "results", 2)

    return once("campaign of a planted link", made)


def scored(campaign: Path, rate: str, folder: Path, rounds: range = range(1, ROUNDS + 1)) -> Score:
    (folder / "model.toml").write_text(PROFILE.format(rate=rate))
    results = Results(campaign / "results")
    wanted, notes = transfers(results, [rounds])
    predicted = predict(find_profile(str(folder / "model.toml")), results, wanted, folder / "out", rounds=10)
    return score(results, wanted, predicted, notes)


def test_the_model_that_made_a_campaign_holds(campaign: Path, tmp_path: Path) -> None:
    found = scored(campaign, "20 Mbit/s", tmp_path)
    throughput = [cell for cell in found.cells if cell.metric.name == "goodput_mbps"]
    assert [cell.label for cell in throughput] == ["BBR", "Cubic"]
    assert all(cell.is_met and cell.runs == ROUNDS for cell in throughput)
    higher = [(order.higher, order.is_predicted) for order in found.orders if order.metric.name == "goodput_mbps"]
    assert higher == [("BBR", True)]
    assert all(one.p > 0.01 for one in found.coverage_by_metric.values()), found.coverage_by_metric
    assert found.frame()["inside"].drop_nulls().len() > 0
    assert any("Start-up" in note or "start-up" in note for note in found.notes)


def test_a_model_of_half_the_rate_does_not_hold(campaign: Path, tmp_path: Path) -> None:
    found = scored(campaign, "10 Mbit/s", tmp_path)
    bbr = next(cell for cell in found.cells if (cell.label, cell.metric.name) == ("BBR", "goodput_mbps"))
    assert bbr.error == pytest.approx(-0.4, abs=0.15)
    assert not bbr.is_met
    assert "too narrow" in found.coverage_by_metric["goodput_mbps"].sentence


def test_only_the_rounds_that_are_asked_for_are_scored(campaign: Path, tmp_path: Path) -> None:
    assert {cell.runs for cell in scored(campaign, "20 Mbit/s", tmp_path, range(5, 7)).cells} == {2}
    with pytest.raises(InputError, match="there is no transfer in these rounds"):
        transfers(Results(campaign / "results"), [range(50, 60)])


def test_the_command_scores_a_model_and_writes_what_made_both_sides(
    campaign: Path, tmp_path: Path, perigee: Perigee
) -> None:
    model = tmp_path / "model.toml"
    model.write_text(PROFILE.format(rate="20 Mbit/s"))
    given = (model, campaign / "results", "--simulated", "5", "--prediction", tmp_path / "out", "--out", tmp_path)
    done = perigee("score", *given, "--format", "text,csv,json")
    assert done.returncode == 0, done.stderr
    assert "measured values (" in done.stdout
    assert "Quantities of one run depend on each other" in done.stdout
    assert "BBR above Cubic" in done.stdout
    written = json.loads((tmp_path / "roof-by-model.json").read_text())
    assert written["model"] == "model.toml"
    assert len(written["cells"]) == len((tmp_path / "roof-by-model.csv").read_text().splitlines()) - 1
    for wrong, said in (
        (("score", model, campaign / "results", "--misses"), "--misses: is a study's"),
        (("score", "gallery", "--rounds", "1..2"), "--rounds: is a model's, before a campaign"),
        (("score", model, campaign / "planted"), "is no campaign"),
        (("score", *given[:2], "--out", model), "model.toml: is no folder"),
    ):
        failed = perigee(*wrong)
        assert failed.returncode == 2
        assert said in failed.stderr


def test_intervals_are_said_to_hold_by_how_often_they_do() -> None:
    assert Coverage(90, 100, 0.9).sentence.endswith("they hold as often as they say.")
    assert "too narrow" in Coverage(80, 100, 0.9).sentence
    assert "too wide" in Coverage(100, 100, 0.9).sentence
    # One of six tests is as rare by chance as this one.
    assert "too narrow" in Coverage(83, 100, 0.9).sentence
    assert "as often" in Coverage(83, 100, 0.9, tests=6).sentence
    assert "nothing random" in Coverage(0, 0, 0.9).sentence


def test_the_rounding_of_equal_values_is_no_spread() -> None:
    one = 12.345678
    simulated = pl.DataFrame({"goodput_mbps": [one, one * (1 + 4e-16), one]})
    cell = _cell("bbr", "goodput_mbps", pl.DataFrame({"goodput_mbps": [one, 13.0]}), simulated, 0.9)
    assert not cell.varies

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The findings on file: each study still shows what its claims say, with the congestion controls of today."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import ROOT
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study

FINDINGS = ROOT / "studies" / "findings"
CLAIMS: list[dict[str, Any]] = tomllib.loads((FINDINGS / "claims.toml").read_text(encoding="utf-8"))["finding"]


def candidates(flows: pl.DataFrame) -> pl.DataFrame:
    return flows.filter(pl.col("flow") == "candidate")


def goodput(flows: pl.DataFrame) -> float:
    return float(candidates(flows)["goodput_mbps"].sum()) / flows["run"].n_unique()


def retransmitted(flows: pl.DataFrame) -> float:
    mine = candidates(flows)
    return int(mine["retransmitted_packets"].sum()) / int(mine["sent_packets"].sum()) * 100


def waited(flows: pl.DataFrame) -> float:
    mine = candidates(flows)
    return float((mine["rtt_mean_ms"] - mine["rtt_min_ms"]).sum()) / mine.height


def other_goodput(flows: pl.DataFrame) -> float:
    others = flows.filter(pl.col("flow") != "candidate")
    return float(others["goodput_mbps"].min())  # type: ignore[arg-type]


FIGURES: Mapping[str, Callable[[pl.DataFrame], float]] = {
    "goodput_mbps": goodput,
    "retransmitted_percent": retransmitted,
    "wait_ms": waited,
    "other_mbps": other_goodput,
}
"""The figures of claims, each over all rounds, as the folder's README has them."""


def measured(path: Path, out: Path) -> Callable[[str, str], float]:
    """Carry a study out; the figure of a congestion control by both names."""
    carry_out(Job(find_study(str(path)), Simulator, out=out, workers=2))
    flows = pl.read_parquet(out / "flows.parquet")

    def figure(name: str, cc: str) -> float:
        params = pl.when(pl.col("cc_params") == "{}").then(pl.lit("")).otherwise(" " + pl.col("cc_params"))
        runs = flows.filter((pl.col("flow") == "candidate") & (pl.col("cc") + params == cc))["run"].unique()
        assert len(runs), f"{path.name} has no run of {cc}"
        return FIGURES[name](flows.filter(pl.col("run").is_in(runs.to_list())))

    return figure


@pytest.mark.parametrize("finding", CLAIMS, ids=lambda finding: finding["study"])
def test_a_finding_still_holds(finding: dict[str, Any], tmp_path: Path) -> None:
    figure = measured(FINDINGS / f"{finding['study']}.toml", tmp_path)
    for claim in finding["claims"]:
        value = figure(claim["figure"], claim["cc"])
        print(finding["study"], claim, round(value, 4))
        assert set(claim) - {"cc", "figure"} in ({"at_least"}, {"at_most"})
        assert value >= claim.get("at_least", value), claim
        assert value <= claim.get("at_most", value), claim


def test_every_finding_is_a_small_study_with_claims_about_two_senders_and_a_line_of_the_readme() -> None:
    studies = {path.stem: tomllib.loads(path.read_text()) for path in FINDINGS.glob("*.toml") if path.stem != "claims"}
    readme = (FINDINGS / "README.md").read_text()
    assert set(studies) == {finding["study"] for finding in CLAIMS}
    for finding in CLAIMS:
        content = studies[finding["study"]]
        assert content["name"] == f"finding-{finding['study']}"
        assert content["title"].endswith(".")
        assert len((FINDINGS / f"{finding['study']}.toml").read_text().splitlines()) <= 10
        assert f"| `{finding['study']}` | {content['title']} |" in readme
        # The behaviour of one sender is a finding beside that of another there.
        assert len({(claim["cc"], *sorted(claim)) for claim in finding["claims"]}) >= 2
        assert {"at_least", "at_most"} <= {key for claim in finding["claims"] for key in claim}

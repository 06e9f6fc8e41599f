# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A stop rule runs as many rounds as its means need, and its results are those of a study with that number."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import Done, carry_out
from perigee.engines.run.until import FIRST_ROUNDS, Until
from perigee.errors import InputError, InterruptedRunError
from perigee.places import find_study
from perigee.statistics.estimates import mean_interval
from perigee.store.results import Results
from synthetic import SyntheticEngine

MOST = 60


def done(
    study: Path, out: Path, *rules: str, settings: tuple[str, ...] = (), fresh: bool = False, most: int = MOST
) -> Done:
    until = [Until.read(rule) for rule in rules]
    engine = SyntheticEngine(most)
    return carry_out(Job(find_study(str(study)), engine, settings, out=out, workers=2, until=until, fresh=fresh))


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def widest(flows: pl.DataFrame, metric: str = "goodput_mbps") -> float:
    parts = [mean_interval(part[metric].to_numpy()) for _, part in flows.group_by("point", "flow")]
    return max(half_width / mean for mean, half_width in parts)


def test_every_mean_is_as_narrow_as_asked_and_was_not_at_the_check_before(study: Path, tmp_path: Path) -> None:
    done(study, tmp_path / "out", "5 %")
    results = Results(tmp_path / "out")
    rounds = results.manifest["rounds"]
    assert FIRST_ROUNDS < rounds < MOST
    flows = results.table("flows")
    assert flows["round"].n_unique() == rounds
    assert widest(flows) <= 0.05 < widest(flows.filter(pl.col("round") < FIRST_ROUNDS))


def test_the_results_of_a_rule_are_those_of_a_study_of_so_many_rounds(study: Path, tmp_path: Path) -> None:
    done(study, tmp_path / "out", "5 %")
    rounds = Results(tmp_path / "out").manifest["rounds"]
    done(study, tmp_path / "plain", settings=(f"rounds={rounds}",))
    assert tables(tmp_path / "out") == tables(tmp_path / "plain") != {}
    # This command finds them complete, and so does one with this number of rounds.
    for again in (done(study, tmp_path / "out", "5 %"), done(study, tmp_path / "out", settings=(f"rounds={rounds}",))):
        assert again.resumed == again.runs == 4 * rounds
    with pytest.raises(InputError, match="holds other results"):
        done(study, tmp_path / "out")


def test_the_study_s_rounds_are_the_maximum_and_the_strictest_rule_counts(study: Path, tmp_path: Path) -> None:
    few = FIRST_ROUNDS + 4
    assert done(study, tmp_path / "most", "0.01 %", most=few).runs == 4 * few
    rounds = [done(study, tmp_path / rule, rule).runs for rule in ("5 %", "rtt_mean_ms 5 %")]
    assert done(study, tmp_path / "both", "5 %", "rtt_mean_ms 5 %").runs == max(rounds) > min(rounds)
    assert done(study, tmp_path / "first", "90 %").runs == 4 * FIRST_ROUNDS


def test_an_interrupted_study_goes_on(study: Path, tmp_path: Path) -> None:
    def stop(so_far: float, _total: int, /, outlook: object = None) -> None:
        if so_far >= 6:
            raise KeyboardInterrupt

    job = Job(find_study(str(study)), SyntheticEngine(MOST), out=tmp_path / "out", workers=1, until=[Until(0.05)])
    with pytest.raises(InterruptedRunError):
        carry_out(job, stop)
    assert carry_out(job).resumed >= 6
    done(study, tmp_path / "at-once", "5 %")
    assert tables(tmp_path / "out") == tables(tmp_path / "at-once")


def test_an_impossible_rule_is_refused(study: Path, tmp_path: Path, perigee: Perigee) -> None:
    with pytest.raises(InputError, match=r"--until nonesuch: no column of numbers .* use one of .*goodput_mbps"):
        done(study, tmp_path / "out", "nonesuch 5 %")
    refused = perigee("run", "claypool-2021", "--until", "goodput_mbp 2 %", "--out", str(tmp_path / "none"))
    assert (refused.returncode, refused.stderr.count("did you mean `goodput_mbps`?")) == (2, 1)
    assert not (tmp_path / "none").exists()
    for rule in ("5", "0 %", "100 %", "goodput 5"):
        refused = perigee("run", "claypool-2021", "--until", rule)
        assert refused.returncode == 2
        assert f"--until {rule}: " in refused.stderr
    both = perigee("run", "claypool-2021", "--until", "5 %", "--shard", "1/2")
    assert both.returncode == 2
    assert "leave one of them out" in both.stderr

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The throughput over time of a run that is under way."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import SMALL_STUDY
from perigee.engines.run.curve import INTERVAL_S, MOST_SAMPLES, Curve
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study


def test_a_curve_of_any_length_has_a_bounded_number_of_samples_and_loses_no_byte() -> None:
    curve = Curve(3, ["a", "b"])
    for tick in range(1, 20_000):
        curve.add(tick * 0.05, [tick * 1000, tick * 500])
    drawn = curve.drawn()
    assert (drawn["run"], drawn["flows"]) == (3, ["a", "b"])
    assert MOST_SAMPLES / 2 <= len(drawn["t_s"]) < MOST_SAMPLES
    assert drawn["t_s"] == sorted(drawn["t_s"])
    assert drawn["t_s"][0] > INTERVAL_S
    for flow, bps in ((0, 160_000), (1, 80_000)):
        assert drawn["mbps"][flow] == pytest.approx([bps / 1e6] * len(drawn["t_s"]))


def test_a_simulated_run_is_followed_while_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(SMALL_STUDY.replace("10 Mbit/s", "200 Mbit/s").replace("10 kB", "20 GB"))
    seen = []
    job = Job(find_study(str(path)), Simulator, out=tmp_path / "out", workers=1)
    carry_out(job, follow=lambda curve: seen.append(curve.drawn()))
    assert len(seen) > 1, "the run is too short to be followed"
    ends = [drawn["t_s"][-1] for drawn in seen if drawn["t_s"]]
    assert ends == sorted(ends)
    assert ends[-1] > 5
    last = seen[-1]
    assert (last["run"], last["flows"]) == (0, ["f"])
    # Without its start the transfer has the link for itself: 1460 of 1500 bytes are payload, and timestamps take 12.
    assert last["mbps"][0][5:] == pytest.approx([200 * 1448 / 1500] * (len(last["t_s"]) - 5), rel=0.02)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whatever limits a simulated flow by construction is what its capture is said to show, for 95 % of the time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import ROOT
from perigee.analysis.recordings import analyze
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.places import find_study
from perigee.statistics import limits
from study_text import flow, link

RIGHT = 0.95
"""Least share of the time with the right cause."""
LEAST_OF_WHOLE = 0.9
"""Least share of a whole flow, whose beginning another cause limits."""
HEAD = 'name = "planted"\nnodes = ["a", "b", "c"]\n[measure]\npcap = ["a", "c"]\n'
FAST = {"rate": "1 Gbit/s", "delay": "0.2 ms"}
WIDE = {"rate": "10 Gbit/s", "delay": "0.2 ms", "queue": "10 MB"}
LEO = {"rate": "50 Mbit/s", "delay": "25 ms"}
SLOW = {"rate": "4 Mbit/s", "delay": "60 ms"}
GEO = {"rate": "20 Mbit/s", "delay": "300 ms"}
SMALL_WINDOW = '[hosts]\nrmem = ["4096 B", "131072 B", "262144 B"]\n'
SMALL_BUFFER = '[hosts]\nwmem = ["4096 B", "131072 B", "1000000 B"]\n'
PEP = """
[[proxies]]
name = "pep"
node = "b"
[proxies.sides.first]
cc = "cubic"
[proxies.sides.second]
cc = "cubic"
"""
PACED = {"name": str(ROOT / "tests/planted_cc/constant_rate.c"), "rate": "12 Mbit/s"}


def path(first: Mapping[str, object], second: Mapping[str, object], **keys: object) -> str:
    """A transfer from `a` over `b` to `c`, without its congestion control where none is given."""
    return (
        HEAD
        + link("first", "a b", **{"queue": {"bdp": 1}, **first})
        + link("second", "b c", **{"queue": {"bdp": 1}, **second})
        + flow("f", "a c", **keys)
    )


# Each with the cause, and the time from which it is the only one: the first loss where that is None.
PLANTED: dict[str, tuple[str, str, float | None]] = {
    "application": ("application", path(FAST, LEO, duration="20 s", offered="4 Mbit/s"), 0.2),
    "application-geo": ("application", path(FAST, GEO, duration="30 s", offered="6 Mbit/s"), 6.0),
    "receiver": ("receiver", path(FAST, GEO, duration="40 s") + SMALL_WINDOW, 4.0),
    "receiver-leo": ("receiver", path(FAST, LEO, duration="20 s") + SMALL_WINDOW, 1.0),
    "slow-start": ("slow_start", path(WIDE, {**FAST, "delay": "300 ms"}, size="8 MB", cc="reno"), 0.0),
    "loss": ("loss", path(FAST, {**LEO, "loss": "0.3 %"}, duration="30 s", cc="reno"), None),
    "loss-geo": ("loss", path(FAST, {**GEO, "loss": "0.3 %"}, duration="60 s", cc="cubic"), None),
    "pacing": ("pacing", path(FAST, LEO, duration="20 s", cc=PACED), 1.0),
    "queue": ("queue", path(FAST, {**LEO, "queue": {"bdp": 4}}, duration="20 s", cc="cubic"), 1.0),
    "queue-slow": ("queue", path(FAST, {**SLOW, "queue": {"bdp": 4}}, duration="30 s", cc="reno"), 4.0),
    "policer": (
        "policer", path(FAST, {**LEO, "rate": "10 Mbit/s", "burst": "100 kB", "queue": "3 kB"}, duration="30 s"), None
    ),
    "policer-bbr": (
        "policer",
        path(FAST, {**LEO, "rate": "10 Mbit/s", "burst": "100 kB", "queue": "3 kB"}, duration="30 s", cc="bbr"),
        None,
    ),
    "proxy": ("proxy", path(GEO, FAST, duration="30 s") + PEP, 3.0),
}  # fmt: skip


def causes_of(text: str, node: str, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The cause in each round of the capture at a node, and the losses."""
    from perigee.engines.sim.engine import Simulator

    (folder / "study.toml").write_text(text)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results"))
    found = analyze([folder / f"results/captures/run-000000-{node}.pcapng"])
    assert found is not None
    row, seen = (found.table(name).row(0, named=True) for name in ("flows", "connections"))
    losses = found.table("losses").sort("t_s")
    return limits.of_rounds(row, seen, found.table("rounds"), losses), losses


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_is_named_for_nearly_all_of_its_time(name: str, tmp_path: Path) -> None:
    cause, text, since_s = PLANTED[name]
    causes, losses = causes_of(text, "c" if name == "proxy" else "a", tmp_path)
    since_s = float(losses["t_s"][0]) if since_s is None else since_s
    then = causes.filter(pl.col("t_s") - pl.col("length_s") >= since_s)
    found = limits.shares(then)
    sys.stderr.write(f"{name}: {found}\n")
    assert found.get(cause, 0.0) >= RIGHT, found


AT_RECEIVER = {
    "buffer": (
        "window",
        path({**FAST, "queue": "9 MB"}, {**GEO, "queue": "3 MB"}, duration="40 s") + SMALL_BUFFER,
        6.0,
    ),
    "receiver": PLANTED["receiver"],
    "application": ("sender", *PLANTED["application"][1:]),
}


@pytest.mark.parametrize("name", AT_RECEIVER)
def test_the_receivers_capture_calls_no_buffer_an_application(name: str, tmp_path: Path) -> None:
    cause, text, since_s = AT_RECEIVER[name]
    causes, _ = causes_of(text, "c", tmp_path)
    found = limits.shares(causes.filter(pl.col("t_s") - pl.col("length_s") >= since_s))
    assert found.get(cause, 0.0) >= RIGHT, found


@pytest.mark.parametrize("name", ["application", "receiver-leo", "slow-start", "loss", "pacing", "queue"])
def test_results_of_a_simulation_have_the_same_words(name: str, tmp_path: Path) -> None:
    from perigee import load

    cause, text, _ = PLANTED[name]
    causes_of(text.replace("pcap =", 'series = "100 ms"\npcap ='), "a", tmp_path)
    found = load(tmp_path / "results").limits
    sys.stderr.write(f"{name}: {found.rows()}\n")
    assert found.filter(cause=cause)["share"].sum() >= LEAST_OF_WHOLE
    assert set(found["cause"]) <= set(limits.CAUSES)
    assert found["share"].sum() == pytest.approx(1.0)


def test_losses_are_of_the_kind_that_was_planted() -> None:
    chance = np.random.default_rng(1)
    at_random = np.sort(chance.uniform(0, 300, 60))
    every_4 = 4.2 * np.arange(60) + chance.normal(0, 0.05, 60)
    every_15 = np.repeat(15.0 * np.arange(1, 21), 3) + chance.uniform(0, 0.4, 60)
    planted = {"random": (at_random, 1), "burst": (at_random, 12), "periodic": (every_4, 1), "slot": (every_15, 2)}
    for kind, (at, packets) in planted.items():
        losses = pl.DataFrame({"t_s": np.sort(at), "packets": [packets] * len(at)})
        assert limits.kind_of_losses(losses) == kind
    assert limits.kind_of_losses(pl.DataFrame({"t_s": [1.0], "packets": [500]})) == ""

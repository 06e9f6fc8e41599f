# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How many of 100 intervals of a fit have the planted value: of pings over one link, and of ten probes of a rate.

`.venv/bin/python benches/intervals.py [LEVEL]` prints the table of `docs/guide/score-a-model.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from perigee.fitting.check import simulate_pings
from perigee.fitting.fit import Measured
from perigee.fitting.intervals import LEVEL, Interval, intervals, of_pings
from perigee.fitting.series import Pings
from perigee.measuring.probe_steps import Step

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from probed import PACKET, drop_tail, line  # noqa: E402

ROUNDS = 100
PINGS = 2000
RESAMPLES = 100
PROFILE = """
name = "planted"
title = "planted"
source = "planted"
[down]
rate = "20 Mbit/s"
delay = "250 ms"
loss = "0.5 %"
[up]
rate = "5 Mbit/s"
delay = { kind = "jitter", base = "300 ms", every = "100 ms", body = { kind = "uniform", width = "40 ms" } }
loss = "0.5 %"
"""
SERIALISATION_MS = 8 * 48 * (1 / 20e3 + 1 / 5e3)
PLANTED = {
    "delay body median": 570 + SERIALISATION_MS,
    "delay body spread": 0.34 * 40,
    "delay body base, uniform": 550 + SERIALISATION_MS,
    "delay body width, uniform": 40.0,
    "loss of pings": 100 * (1 - 0.995**2),
}
"""The link's parameters as pings see them; a datagram of 20 bytes has 48 with its headers."""

PROBES, PROBE_S, MBPS, OFFERED_MBPS, SD_MBPS, QUEUE = 10, 10.0, 8.0, 12.0, 0.4, 40
"""Probes of a round, their length, mean of the rate and its deviation from probe to probe; packets of the queue."""
PLANTED_BY_PROBES = {"down.rate": MBPS, "down.queue": QUEUE * PACKET / 1e3}


def probe(mbps: float, name: str) -> Step:
    """One probe that fills a link of this rate."""
    sent_at = np.arange(0.0, PROBE_S, PACKET * 8 / (OFFERED_MBPS * 1e6))
    arrived = drop_tail(sent_at, lambda _: mbps * 1e6, QUEUE) + 0.3
    return Step(line(sent_at, arrived, OFFERED_MBPS * 1e6), PACKET, name)


def found(seed: int, level: float) -> list[Interval]:
    """The intervals of one round of measurements."""
    rtt_ms = simulate_pings(PROFILE, 0.2, 20, PINGS, seed)
    pings = Pings(Path("pings.csv"), 0.2, 20, rtt_ms, np.arange(PINGS), ())
    rates = np.random.default_rng(seed).normal(MBPS, SD_MBPS, PROBES)
    idle = Step(line(np.arange(0.0, 1.0, 0.01), np.arange(0.0, 1.0, 0.01) + 0.3, PACKET * 800), PACKET, "0")
    probes = [idle, *(probe(rate, str(number)) for number, rate in enumerate(rates))]
    return [*of_pings(pings, level, seed, RESAMPLES), *intervals(Measured(steps=probes), level)]


def main(level: float) -> None:
    """Print, of each parameter, how many of the rounds' intervals have it."""
    planted = PLANTED | PLANTED_BY_PROBES
    hits, known = dict.fromkeys(planted, 0), dict.fromkeys(planted, 0)
    for seed in range(1, ROUNDS + 1):
        for one in found(seed, level):
            if one.name in planted and one.low is not None and one.high is not None:
                known[one.name] += 1
                hits[one.name] += one.low <= planted[one.name] <= one.high
    print("| parameter | planted | intervals with it | intervals |\n|---|---:|---:|---:|")
    for name, value in planted.items():
        print(f"| {name} | {value:.3f} | {hits[name]} | {known[name]} |")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else LEVEL)

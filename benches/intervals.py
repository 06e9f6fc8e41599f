# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How many of 100 intervals of a fit have the planted value: simulated pings and a simulated probe over one link.

`.venv/bin/python benches/intervals.py [LEVEL]` prints the table of `docs/guide/score-a-model.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from perigee.fitting.check import simulate_pings
from perigee.fitting.intervals import LEVEL, of_pings
from perigee.fitting.series import Pings

ROUNDS = 100
PINGS = 3000
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
"""What the link has of what pings see; a datagram of 20 bytes has 48 with its headers."""


def main(level: float) -> None:
    """Print, of each parameter, how many of the rounds' intervals have it."""
    hits, known = dict.fromkeys(PLANTED, 0), dict.fromkeys(PLANTED, 0)
    for seed in range(1, ROUNDS + 1):
        rtt_ms = simulate_pings(PROFILE, 0.2, 20, PINGS, seed)
        pings = Pings(Path("pings.csv"), 0.2, 20, rtt_ms, np.arange(PINGS), ())
        for one in of_pings(pings, level, seed):
            if one.name in PLANTED and one.low is not None and one.high is not None:
                known[one.name] += 1
                hits[one.name] += one.low <= PLANTED[one.name] <= one.high
    print("| parameter | planted | intervals with it | intervals |\n|---|---:|---:|---:|")
    for name, value in PLANTED.items():
        print(f"| {name} | {value:.3f} | {hits[name]} | {known[name]} |")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else LEVEL)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures what the profile `starlink-2022` takes from a recorded Starlink link, and compares the two.

    .venv/bin/python tools/leo.py measure BW DELAY      prints the statistics of a recording that the profile has
    .venv/bin/python tools/leo.py compare BW DELAY      prints the tables of docs/models/leo.md

BW is a packet-delivery trace in the format of mahimahi, DELAY a list of one-way delays in ms, one line per 10 ms.

`compare` samples both links through the link model, the recording as the profile `starlink-replay` replays it,
each with a packet of 40 bytes every 10 ms. A round trip is the delay of both directions at one instant, each in whole
milliseconds as the recording has them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, pstdev, stdev
from typing import TYPE_CHECKING

import starlink

if TYPE_CHECKING:
    import polars as pl

SLOT_STEPS = starlink.SLOT_MS // starlink.STEP_MS
QUIET = (30, 10)
"""Steps after the begin of a slot and before its end that do not count as its inside."""

EVERY_S = 0.01
RUNS = 10
"""Seeds over which the profile is sampled, for `LENGTH_S` each."""
LENGTH_S = 600.0
NOON = "43212 s"
"""A time of day at which a slot begins, outside of the busy hours."""
FAST = "10 Gbit/s"
"""A rate at which nothing waits, so that only the delays are left."""
NEAR_S = 0.2
"""At a change of slots: within so much of it."""


def measure(bw: Path, delay: Path) -> str:
    """Return the statistics of a recording that the profile has, a line each."""
    rates, delays = starlink.recorded(bw, delay)
    fine = [float(line) for line in delay.read_text().split()]
    first = starlink.beginning(delays) - 3
    starts = list(range(first, len(rates), SLOT_STEPS))
    slots = [(a + QUIET[0], b - QUIET[1]) for a, b in pairwise([-QUIET[0], *starts, len(rates)])]
    of_rates = [fmean(rates[a:b]) for a, b in slots]
    of_delays = [fmean(delays[a:b]) for a, b in slots]
    ripple = [rate / mean - 1 for (a, b), mean in zip(slots, of_rates, strict=True) for rate in rates[a:b]]
    jitter = [value - mean for (a, b), mean in zip(slots, of_delays, strict=True) for value in fine[2 * a : 2 * b]]
    outages = [sum(rate < 6 for rate in rates[start : start + 15]) * float(starlink.STEP_MS) for start in starts]
    spikes = [_spike(fine, 2 * start) for start in starts]
    lines = {
        "slot_rate_sd_percent": 100 * stdev(of_rates) / fmean(of_rates),
        "slot_rate_correlation_of_neighbours": starlink._autocorrelation(of_rates, 1),
        "ripple_percent": 100 * pstdev(ripple),
        "outage_median_ms": _middle(outages),
        "outage_sigma": _sigma(outages),
        "slot_delay_mean_ms": fmean(of_delays),
        "slot_delay_sd_ms": stdev(of_delays),
        "slot_delay_correlation_of_neighbours": starlink._autocorrelation(of_delays, 1),
        "jitter_sd_ms": pstdev(jitter),
        "jitter_correlation_after_10_ms": starlink._autocorrelation(jitter, 1),
        "jitter_correlation_after_20_ms": starlink._autocorrelation(jitter, 2),
        "spike_after_ms": median(after for after, _, _ in spikes),
        "spike_length_median_ms": _middle([length for _, length, _ in spikes]),
        "spike_length_sigma": _sigma([length for _, length, _ in spikes]),
        "spike_height_median_ms": _middle([height for _, _, height in spikes]),
        "spike_height_sigma": _sigma([height for _, _, height in spikes]),
    }
    return "".join(f"{key} = {value:.3g}\n" for key, value in lines.items())


def _spike(delays: Sequence[float], start: int) -> tuple[float, float, float]:
    """When the delay is raised after a slot's begin, for how long, and by how much on average, ms."""
    usual = median(delays[start + 50 : start + 300])
    raised = [step for step in range(start, start + 40) if delays[step] > usual + 5]
    first, end = raised[0], raised[-1] + 1
    return (first - start) * 10.0, (end - first) * 10.0, fmean(delays[first:end]) - usual


def _middle(values: Sequence[float]) -> float:
    """The median of the log-normal distribution with the mean logarithm of these."""
    return math.exp(fmean(math.log(value) for value in values))


def _sigma(values: Sequence[float]) -> float:
    return stdev(math.log(value) for value in values)


def compare(bw: Path, delay: Path) -> str:
    """Return the tables that set the profile beside a recording, in Markdown."""
    from scipy.stats import ks_2samp

    from perigee.api.profiles import Profile

    replay = Profile.load("starlink-replay").set("link.loss", "0 %").set("link.rate.trace", str(bw.resolve()))
    recording = replay.set("link.delay.trace", str(delay.resolve()))
    profile = Profile.load("starlink-2022").set("link.time_of_day", NOON)
    lossless = profile.set("link.loss", "0 %")
    seeds = range(1, RUNS + 1)
    recorded = recording.sample(120.0, EVERY_S)
    modelled = [lossless.sample(LENGTH_S, EVERY_S, seed) for seed in seeds]
    trips = {
        "recorded delay": [_round_trips(recording.set("link.rate", FAST).sample(120.0, EVERY_S))],
        "delay of the profile": [
            _round_trips(lossless.set("link.rate", FAST).sample(LENGTH_S, EVERY_S, seed)) for seed in seeds
        ],
        "recorded delay and rate": [_round_trips(recorded)],
        "delay and rate of the profile": [_round_trips(one) for one in modelled],
    }
    everything = {name: [trip for run in runs for trip in run] for name, runs in trips.items()}
    shares = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    table = ["| round trip, ms | " + " | ".join(f"{100 * share:g} %" for share in shares) + " | mean |"]
    table.append("|---|" + "---|" * (len(shares) + 1))
    for name, values in everything.items():
        ordered = sorted(values)
        cells = [*(starlink._quantile(ordered, share) for share in shares), fmean(values)]
        table.append(f"| {name} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")

    table += ["", "| | recording | profile |", "|---|---|---|"]
    names = list(trips)
    for what, one, other in (("delay", *names[:2]), ("delay and rate", *names[2:])):
        distance = ks_2samp(everything[one], everything[other]).statistic
        of_runs = sorted(ks_2samp(everything[one], run[:12_000]).statistic for run in trips[other])
        table.append(f"| {what}: Kolmogorov-Smirnov distance of the round trips | | {distance:.2f} |")
        table.append(f"| the same of {RUNS} runs of 120 s, least to most | | {of_runs[0]:.2f} to {of_runs[-1]:.2f} |")
        for lag in (14.0, 15.0, 30.0):
            steps = round(lag / EVERY_S)
            cells = [fmean(starlink._autocorrelation(run, steps) for run in trips[name]) for name in (one, other)]
            table.append(_row(f"{what}: autocorrelation of the round trips after {lag:g} s", cells, ".2f"))
    relative = [_relative_rates([recorded]), _relative_rates(modelled)]
    table.append(_row("rate over 20 ms: 5 % quantile, of the mean", [_quantile(r, 0.05) for r in relative], ".2f"))
    table.append(_row("rate over 20 ms: 95 % quantile, of the mean", [_quantile(r, 0.95) for r in relative], ".2f"))
    table.append(_row("standard deviation of the rate over 20 ms, of the mean", [pstdev(r) for r in relative], ".2f"))
    near, away = _losses([profile.sample(LENGTH_S, EVERY_S, seed) for seed in seeds])
    table.append(f"| lost within {NEAR_S:g} s of a change of slots, downlink | not recorded | {100 * near:.1f} % |")
    table.append(f"| lost elsewhere | not recorded | {100 * away:.2f} % |")
    return "\n".join(table) + "\n"


def _row(what: str, cells: Sequence[float], form: str) -> str:
    return f"| {what} | " + " | ".join(format(cell, form) for cell in cells) + " |"


def _round_trips(sample: pl.DataFrame) -> list[float]:
    """The sum of both directions' delays at one instant, each in whole ms."""
    import polars as pl

    down, up = (sample.filter(pl.col("direction") == way)["delay_ms"].round(0) for way in ("down", "up"))
    return (down + up).to_list()


def _relative_rates(samples: Sequence[pl.DataFrame]) -> list[float]:
    """The downlink's rates over 20 ms, divided by their mean."""
    import polars as pl

    rates = [
        (one + other) / 2
        for sample in samples
        for one, other in zip(
            *(sample.filter(pl.col("direction") == "down")["rate_mbps"].to_list()[start::2] for start in (0, 1)),
            strict=True,
        )
    ]
    mean = fmean(rates)
    return [rate / mean for rate in rates]


def _quantile(values: Sequence[float], share: float) -> float:
    return float(starlink._quantile(sorted(values), share))


def _losses(samples: Sequence[pl.DataFrame]) -> tuple[float, float]:
    """The downlink's loss near changes of slots and away from them; slots begin at multiples of their length."""
    import polars as pl

    down = pl.concat(samples).filter(pl.col("direction") == "down")
    period = starlink.SLOT_MS / 1000
    near = ((down["t_s"] + NEAR_S) % period) < 2 * NEAR_S
    shares = [down.filter(where)["lost"].cast(pl.Float64).mean() for where in (near, ~near)]
    at, away = (share if isinstance(share, float) else math.nan for share in shares)
    return at, away


def main(arguments: Sequence[str]) -> None:
    """Carry out a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("measure", "compare"):
        command = commands.add_parser(name)
        command.add_argument("bw", type=Path)
        command.add_argument("delay", type=Path)
    given = parser.parse_args(arguments)
    print({"measure": measure, "compare": compare}[given.command](given.bw, given.delay), end="")


if __name__ == "__main__":
    main(sys.argv[1:])

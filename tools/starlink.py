# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Makes the link of the profile `starlink-timeline` from the statistics of a recorded Starlink link.

    .venv/bin/python tools/starlink.py measure BW DELAY   prints a recording's statistics: statistics.toml of the study
    python3 tools/starlink.py synthesise                  writes profiles/starlink-timeline.csv from statistics.toml
    .venv/bin/python tools/starlink.py compare BW DELAY   prints quantiles of the recording and of the CSV file

BW is a packet-delivery trace in the format of mahimahi, DELAY a list of one-way delays in ms, one line per 10 ms.

The model: time has slots of 15 s. A slot has a mean rate and a mean delay, drawn independently of each other from the
distributions that the recording's slots have. Within a slot the rate is that mean, a slow deviation (first-order
autoregression) and a deviation for each step of 20 ms; the delay is its mean and a deviation for each step. At a slot's
beginning the link carries nothing for a moment, then its rate rises in a straight line, and the delay has a plateau and
a peak.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STATISTICS = ROOT / "studies" / "starlink-replay" / "statistics.toml"
LINK = ROOT / "profiles" / "starlink-timeline.csv"

STEP_MS = 20
SLOT_MS = 15_000

SEED = 15
LENGTH_MS = 300_000
STRATA = 5
"""Number of successive slots that take their means from different fifths of the distribution."""

RAISED_AFTER = 3
"""Steps from a slot's beginning to the plateau of its delay."""

LAGS = (1, 5, 50, 100, 250)
"""Steps at which autocorrelations are compared."""

HEAD = """\
# A link like Starlink's, synthesised from the statistics of a recording (studies/starlink-replay/statistics.toml) by
# tools/starlink.py; it is not the recording. Steps of 20 ms; after the last row its values stay.
time_s,rate_mbps,delay_ms
"""


def recorded(bw: Path, delay: Path) -> tuple[list[float], list[float], int]:
    """The rate (Mbit/s) and the delay (ms) of a recording in steps of 20 ms, and the step of its first slot's begin."""
    # The profile is made without the project's environment.
    from perigee.fitting.recording import read_recording

    recording = read_recording(bw, delay)
    return recording.steps_mbps.tolist(), recording.steps_delay_ms.tolist(), recording.first_step


def measure(bw: Path, delay: Path) -> str:
    """The statistics of a recording as TOML."""
    rates, delays, first = recorded(bw, delay)
    starts = list(range(first, len(rates), SLOT_MS // STEP_MS))
    slots = [(start, min(end, len(rates))) for start, end in pairwise([*starts, len(rates)])]
    quiet = [(start + 30, end - 10) for start, end in [(0, first), *slots]]
    seconds = [[fmean(rates[second : second + 50]) for second in range(start, end - 49, 50)] for start, end in quiet]
    within = [value - fmean(part) for part in seconds for value in part]
    after = [(value - fmean(part), following - fmean(part)) for part in seconds for value, following in pairwise(part)]
    slow = pstdev(within)
    memory = sum(a * b for a, b in after) / len(after) / slow**2
    fast = [
        value - fmean(rates[second : second + 50])
        for start, end in quiet
        for second in range(start, end - 49, 50)
        for value in rates[second : second + 50]
    ]
    still = [value - fmean(delays[start:end]) for start, end in quiet for value in delays[start:end]]
    outages = [sum(rate <= 6 for rate in rates[start : start + 15]) * STEP_MS for start in starts]
    raised = [[value for value in delays[start : start + 20] if value > 20] for start in starts]
    lines = {
        "first_slot_ms": first * STEP_MS,
        "slot_rates_mbps": _tenths((fmean(rates[start:end]), end - start) for start, end in quiet),
        "slot_delays_ms": _tenths((fmean(delays[start:end]), end - start) for start, end in quiet),
        "slow_rate_sd_mbps": f"{slow:.2f}",
        "slow_rate_memory_s": f"{-1 / math.log(memory):.2f}",
        "fast_rate_sd_mbps": f"{pstdev(fast):.2f}",
        "delay_sd_ms": f"{pstdev(still):.2f}",
        "outages_ms": _listed(outages),
        "rise_ms": _rise(rates, starts, slots),
        "plateaus_ms": _listed(fmean(part[:-1]) if len(part) > 1 else part[0] for part in raised),
        "plateau_lengths_ms": _listed(len(part) * STEP_MS for part in raised),
        "peaks_ms": _listed(max(part) for part in raised),
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def _listed(values: Iterable[float]) -> str:
    return "[" + ", ".join(f"{value:g}" for value in sorted(round(value, 1) for value in values)) + "]"


def _tenths(means: Iterable[tuple[float, int]]) -> str:
    """The 0, 10, ... 100 % quantiles of means, each counted by its length."""
    values = sorted(mean for mean, length in means for _ in range(length))
    return _listed(_quantile(values, tenth / 10) for tenth in range(11))


def _rise(rates: Sequence[float], starts: Sequence[int], slots: Sequence[tuple[int, int]]) -> int:
    """How long it takes, on average, from the first packets after a beginning to the slot's mean rate."""
    lacking = []
    for start, (_, end) in zip(starts, slots, strict=True):
        mean = fmean(rates[start + 30 : end - 10])
        begun = next(step for step in range(start + 2, end) if rates[step] > 6)
        # In a straight line from zero, half of what the mean would carry until then is lacking.
        lacking.append(2 * sum(1 - rates[step] / mean for step in range(begun, begun + 25)) * STEP_MS)
    return round(fmean(lacking) / STEP_MS) * STEP_MS


def synthesise(statistics: Mapping[str, Any], seed: int = SEED) -> str:
    """A timeline with these statistics."""
    draws = random.Random(seed)  # noqa: S311
    steps = SLOT_MS // STEP_MS
    slots = LENGTH_MS // SLOT_MS
    rates, delays = (_strata(statistics[key], slots, draws) for key in ("slot_rates_mbps", "slot_delays_ms"))
    memory = math.exp(-STEP_MS / (1000 * statistics["slow_rate_memory_s"]))
    slow = 0.0
    lines: list[str] = []
    left_out = steps - statistics["first_slot_ms"] // STEP_MS
    for rate, delay in zip(rates, delays, strict=True):
        outage, plateau, length, peak = (
            _quantile(statistics[key], draws.random())
            for key in ("outages_ms", "plateaus_ms", "plateau_lengths_ms", "peaks_ms")
        )
        for step in range(steps):
            slow = memory * slow + math.sqrt(1 - memory**2) * draws.gauss(0, statistics["slow_rate_sd_mbps"])
            now = rate + slow + draws.gauss(0, statistics["fast_rate_sd_mbps"])
            share = min(max((step * STEP_MS - outage) / statistics["rise_ms"], 0.0), 1.0)
            waits = max(delay + draws.gauss(0, statistics["delay_sd_ms"]), statistics["slot_delays_ms"][0] - 2)
            raised = range(RAISED_AFTER, RAISED_AFTER + max(round(length / STEP_MS), 1))
            if step in raised:
                waits = max(peak, plateau) if step == raised[-1] else plateau
            if left_out > 0:
                left_out -= 1
                continue
            lines.append(f"{len(lines) * STEP_MS / 1000:g},{share * max(now, 0.0):.1f},{waits:.1f}")
    return HEAD + "\n".join(lines) + "\n"


def _strata(values: Sequence[float], count: int, draws: random.Random) -> list[float]:
    """Return `count` draws; `STRATA` successive ones are from different parts of the distribution."""
    found: list[float] = []
    while len(found) < count:
        parts = list(range(STRATA))
        draws.shuffle(parts)
        found += [_quantile(values, (part + draws.random()) / STRATA) for part in parts]
    return found[:count]


def _quantile(values: Sequence[float], share: float) -> float:
    """A quantile of sorted values, interpolated."""
    place = share * (len(values) - 1)
    below = min(int(place), len(values) - 2)
    return values[below] + (place - below) * (values[below + 1] - values[below])


def synthesised() -> tuple[list[float], list[float]]:
    """The rate (Mbit/s) and the delay (ms) of the profile's timeline, in steps of 20 ms."""
    rows = [line.split(",") for line in LINK.read_text().splitlines() if line[0].isdigit()]
    return [float(rate) for _, rate, _ in rows], [float(delay) for _, _, delay in rows]


def compare(bw: Path, delay: Path) -> str:
    """Quantiles of the recording and of the synthesised link, over its whole length and over the recording's."""
    rates, delays, _ = recorded(bw, delay)
    both = [("recording", (rates, delays)), ("synthesised", synthesised())]
    table = ["| | | 1 % | 5 % | 25 % | 50 % | 75 % | 95 % | 99 % | mean |", "|---|---|" + "---|" * 8]
    for what, series, step in (
        ("rate over 20 ms, Mbit/s", 0, 1),
        ("rate over 1 s, Mbit/s", 0, 50),
        ("delay, ms", 1, 1),
    ):
        for name, pair in both:
            values = pair[series]
            means = sorted(fmean(values[start : start + step]) for start in range(0, len(values) - step + 1, step))
            cells = [_quantile(means, share) for share in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)]
            table.append(f"| {what} | {name} | " + " | ".join(f"{x:.1f}" for x in [*cells, fmean(means)]) + " |")
    lags = " | ".join(f"{lag * STEP_MS / 1000:g} s" for lag in LAGS)
    table += ["", f"| autocorrelation of the rate after | {lags} |", "|---|" + "---|" * len(LAGS)]
    for name, (rates, _) in both:
        found = " | ".join(f"{_autocorrelation(rates, lag):.2f}" for lag in LAGS)
        table.append(f"| {name} | {found} |")
    return "\n".join(table) + "\n"


def _autocorrelation(values: Sequence[float], lag: int) -> float:
    mean = fmean(values)
    return fmean((a - mean) * (b - mean) for a, b in zip(values, values[lag:], strict=False)) / pstdev(values) ** 2


def main(arguments: Sequence[str]) -> None:
    """Carry out a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("measure", "compare"):
        command = commands.add_parser(name)
        command.add_argument("bw", type=Path)
        command.add_argument("delay", type=Path)
    commands.add_parser("synthesise")
    given = parser.parse_args(arguments)
    if given.command == "synthesise":
        LINK.write_text(synthesise(tomllib.loads(STATISTICS.read_text())))
    else:
        print({"measure": measure, "compare": compare}[given.command](given.bw, given.delay), end="")


if __name__ == "__main__":
    main(sys.argv[1:])

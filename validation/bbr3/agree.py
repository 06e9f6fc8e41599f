# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Compares the states of BBR, version 3, in the simulator and in the running kernel: how many round trips each lasts.

    perigee run validation/bbr3/agree.toml --out results/agree
    chrt -f 20 perigee run validation/bbr3/agree.toml --engine emu --out results/agree-emu     # as root
    .venv/bin/python validation/bbr3/agree.py results/agree results/agree-emu

The kernel does not show BBR's state, so it is read from the pacing rate and the window at each acknowledgement, the
same way for both: the pacing rate is the gain times a bandwidth that hardly changes over these links. Startup begins
with the first segment, and ends where the rate falls to less than half. CRUISE and REFILL have one gain and count as
one; how long the former lasts is drawn at random, so its length is not compared, nor that of a state that ProbeRTT,
every 5 s, cuts short. Beside the medians stands how far the furthest emulated visit is from the nearest simulated one,
in all rounds, and in those in which nothing was lost: after a loss both engines have other bounds, and longer visits.
"""

from __future__ import annotations

import argparse
import re
from itertools import groupby
from statistics import median
from typing import NamedTuple

import polars as pl

import perigee

LEVELS = ((0.70, "Drain"), (0.955, "DOWN"), (1.12, "CRUISE"), (1.60, "UP"))
"""Gains up to which a pacing rate, over the median of the second half, belongs to a state; beyond: Startup."""
FALL = 0.45
"""A pacing rate of less than this share of the one before ends Startup."""
SMALL = 0.62
"""A window of less than this share of the median of the second half is ProbeRTT's, whose gain is that of CRUISE."""
COMPARED = ("Startup", "Drain", "UP", "DOWN", "ProbeRTT")


class Visit(NamedTuple):
    """A visit of a state.

    Attributes:
        state: its name.
        length: round trips.
        is_whole: whether BBR ended it by itself.
    """

    state: str
    length: float
    is_whole: bool


def visits(events: pl.DataFrame, rtt_s: float) -> list[Visit]:
    """Return the visits of states in the order of time, from the log of one sender."""
    first_sent = float(events.filter(pl.col("event") == "sent")["t_s"].min())  # type: ignore[arg-type]
    acks = events.filter((pl.col("event") == "ack") & pl.col("pacing_mbps").is_not_null()).sort("t_s")
    times, rates, windows = (acks[name].to_list() for name in ("t_s", "pacing_mbps", "cwnd_packets"))
    half = len(rates) // 2
    cruising, full = median(rates[half:]), median(windows[half:])
    begun = next((place for place in range(1, len(rates)) if rates[place] < FALL * rates[place - 1]), len(rates))
    states = ["Startup"] * begun
    for rate, window in zip(rates[begun:], windows[begun:], strict=True):
        state = next((name for gain, name in LEVELS if rate < gain * cruising), "Startup")
        states.append("ProbeRTT" if state == "CRUISE" and window < SMALL * full else state)
    starts = [
        (state, next(part)[1]) for state, part in groupby(zip(states, times, strict=True), key=lambda one: one[0])
    ]
    starts[0] = (starts[0][0], first_sent)
    ends = [*starts[1:], ("", times[-1])]
    return [
        Visit(state, (end - start) / rtt_s, after not in ("", "ProbeRTT"))
        for (state, start), (after, end) in zip(starts, ends, strict=True)
    ]


Lengths = dict[str, dict[str, list[float]]]
"""Lengths of whole visits, in round trips, by link and state."""


def lengths(folder: str, lossless: bool = False) -> Lengths:
    """Return the lengths of visits in all rounds, or in those in which nothing was lost."""
    results = perigee.load(folder)
    found: Lengths = {}
    events = results.table("events").partition_by("run", as_dict=True)
    for run, link, lost in results.flows.select("run", "point.link", "retransmitted_packets").iter_rows():
        if lossless and lost:
            continue
        rtt_ms = float(re.findall(r"([0-9.]+) ms", link)[0])
        for state, length, is_whole in visits(events[run,], rtt_ms / 1e3):
            if is_whole and state in COMPARED:
                found.setdefault(link, {}).setdefault(state, []).append(length)
    return found


def furthest(simulated: dict[str, list[float]], emulated: dict[str, list[float]]) -> str:
    """Return how far the furthest emulated visit is from the nearest simulated one of its state, in round trips."""
    apart = [
        min(abs(one - other) for other in simulated[state]) for state in simulated for one in emulated.get(state, [])
    ]
    return f"{max(apart):.2f}" if apart else "-"


def main() -> None:
    """Print a row per link: of each state the median length simulated and emulated, and the number of visits."""
    parser = argparse.ArgumentParser(description="How long each state of BBR lasts, simulated and emulated.")
    parser.add_argument("simulated", help="results of agree.toml")
    parser.add_argument("emulated", help="the same with --engine emu")
    given = parser.parse_args()
    simulated, emulated = lengths(given.simulated), lengths(given.emulated)
    lossless = [lengths(folder, lossless=True) for folder in (given.simulated, given.emulated)]
    print("| link | " + " | ".join(COMPARED) + " | furthest | without losses |")
    print("|---|" + "---:|" * (len(COMPARED) + 2))
    for link, of in simulated.items():
        cells = []
        for state in COMPARED:
            sim, emu = of.get(state, []), emulated.get(link, {}).get(state, [])
            if sim and emu:
                cells.append(f"{median(sim):.1f} / {median(emu):.1f} ({len(sim)}, {len(emu)})")
            else:
                cells.append("-")
        cells += [furthest(of, emulated.get(link, {})), furthest(*(one.get(link, {}) for one in lossless))]
        print(f"| {link} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

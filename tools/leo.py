# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures what the profile `starlink-2022` takes from a recorded Starlink link, and compares the two.

    .venv/bin/python tools/leo.py measure BW DELAY      prints the statistics of a recording that the profile has
    .venv/bin/python tools/leo.py compare BW DELAY      prints the tables of docs/models/leo.md about it
    .venv/bin/python tools/leo.py pairs [RESULTS]       prints the page's table of two flows (tools/pairs.toml), from
                                                        results if given

BW is a packet-delivery trace in the format of mahimahi, DELAY a list of one-way delays in ms, one line per 10 ms. The
estimators are those of `perigee fit --recording` (docs/models/fit.md), the comparison that of
`perigee.fitting.resemblance`.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perigee.fitting.recording import SLOT_MS, Floats, Recording, autocorrelation, read_recording
from perigee.fitting.resemblance import (
    LAGS_S,
    NOON_S,
    RUNS,
    SHARES,
    WITHOUT_WAITS,
    as_recorded,
    distance,
    relative_rates,
    repeats,
    replayed,
    round_trips,
    sampled,
    sums,
)
from perigee.fitting.slots import LEAST_OUTAGE_MS, fit_slots
from perigee.places import find_profile

if TYPE_CHECKING:
    import polars as pl

NEAR_S = 0.2
"""At a change of slots: within so much of it."""


def measure(bw: Path, delay: Path) -> str:
    """Return the statistics of a recording that the profile has, a line each.

    Raises:
        ValueError: the recording has no bursts, outages or spikes.
    """
    recording = read_recording(bw, delay)
    slotted = fit_slots(recording)
    grants, outage, spikes = slotted.grants, slotted.outage_ms, slotted.spikes
    if grants is None or outage is None or spikes is None:
        raise ValueError(f"{bw}, {delay}: no bursts, outages or spikes")
    lines = {
        "slot_rate_sd_percent": 100 * slotted.rate_sd,
        "slot_rate_correlation_of_neighbours": slotted.rate_correlation,
        "ripple_with_bursts_percent": 100 * slotted.ripple_measured,
        "ripple_percent": 100 * slotted.ripple,
        "grants_every_ms": grants.every_ms,
        "grants_burst_ms": grants.burst_ms,
        "outage_median_ms": outage.median,
        "outage_sigma": outage.sigma,
        "rise_ms": slotted.rise_ms,
        "slot_delay_mean_ms": slotted.delay_ms,
        "slot_delay_sd_ms": slotted.delay_sd_ms,
        "slot_delay_correlation_of_neighbours": slotted.delay_correlation,
        "jitter_sd_ms": slotted.jitter_sd_ms,
        "jitter_correlation_after_10_ms": slotted.jitter_correlation,
        "spike_after_median_ms": spikes.after_ms.median,
        "spike_length_median_ms": spikes.length_ms.median,
        "spike_height_median_ms": spikes.height_ms.median,
        "spike_height_sigma": spikes.height_ms.sigma,
        "spike_begin_percent": 100 * spikes.begin,
        "spike_peak_percent": 100 * spikes.peak,
        "spike_correlation_with_outages": spikes.outage_correlation,
    }
    lines |= _bursts(recording)
    return "".join(f"{key} = {value:.3g}\n" for key, value in lines.items())


def _bursts(recording: Recording) -> dict[str, float]:
    """How the recording sends, in its milliseconds."""
    sends = recording.opportunities > 0
    edges = np.flatnonzero(np.diff(sends.astype(int))) + 1
    begins = edges[sends[edges]]
    lengths = np.diff(edges)
    of_gaps = lengths[~sends[edges[:-1]]]
    distances = np.diff(begins)
    distances = distances[distances < _LONG_DISTANCE_MS]
    return {
        "bursts_of_1_or_2_ms_percent": 100 * float((lengths[sends[edges[:-1]]] <= 2).mean()),
        "gaps_to_6_ms_percent": 100 * float((of_gaps <= 6).mean()),
        "gap_mean_ms": float(of_gaps.mean()),
        "distance_correlation_of_neighbours": autocorrelation(distances.astype(float), 1),
        "correlation_after_8_ms": autocorrelation(recording.opportunities.astype(float), 8),
        "outage_least_ms": float(of_gaps[of_gaps >= LEAST_OUTAGE_MS].min()),
        "outage_most_ms": float(of_gaps.max()),
    }


_LONG_DISTANCE_MS = 20


def compare(bw: Path, delay: Path) -> str:
    """Return the tables that set the profile beside a recording, in Markdown."""
    recording, profile = read_recording(bw, delay), find_profile("starlink-2022")
    settings = as_recorded(fit_slots(recording))
    recorded, modelled = replayed(recording), sampled(profile, settings)
    trips = {
        "recorded delay": [round_trips(replayed(recording, WITHOUT_WAITS))],
        "delay of the profile": [round_trips(one) for one in sampled(profile, (*settings, WITHOUT_WAITS))],
        "recorded delay and rate": [round_trips(recorded)],
        "delay and rate of the profile": [round_trips(one) for one in modelled],
    }
    everything = {name: np.concatenate(runs) for name, runs in trips.items()}
    table = ["| round trip, ms | " + " | ".join(f"{100 * share:g} %" for share in SHARES) + " | mean |"]
    table.append("|---|" + "---|" * (len(SHARES) + 1))
    for name, values in everything.items():
        cells = [*np.quantile(values, SHARES), values.mean()]
        table.append(f"| {name} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")

    table += ["", "| | recording | profile |", "|---|---|---|"]
    names = list(trips)
    for what, one, other in (("delay", *names[:2]), ("delay and rate", *names[2:])):
        of_runs = sorted(distance(everything[one], run[:12_000]) for run in trips[other])
        all_runs = distance(everything[one], everything[other])
        table.append(f"| {what}: Kolmogorov-Smirnov distance of the round trips | | {all_runs:.2f} |")
        table.append(f"| the same of {RUNS} runs of 120 s, least to most | | {of_runs[0]:.2f} to {of_runs[-1]:.2f} |")
        if other == names[-1]:
            of_sums = distance(everything[one], np.concatenate([sums(sample) for sample in modelled]))
            table.append(f"| {what}: the same, with sums of both directions of the profile | | {of_sums:.2f} |")
        for lag in LAGS_S:
            cells = [repeats(trips[name], lag) for name in (one, other)]
            table.append(_row(f"{what}: autocorrelation of the round trips after {lag:g} s", cells, ".2f"))
    relative = [relative_rates([recorded]), relative_rates(modelled)]
    table.append(_row("rate over 20 ms: 5 % quantile, of the mean", [_quantile(r, 0.05) for r in relative], ".2f"))
    table.append(_row("rate over 20 ms: 95 % quantile, of the mean", [_quantile(r, 0.95) for r in relative], ".2f"))
    table.append(_row("standard deviation of the rate over 20 ms, of the mean", [r.std() for r in relative], ".2f"))
    near, away = _losses(sampled(profile, (("link.time_of_day", f"{NOON_S} s"),)))
    table.append(f"| lost within {NEAR_S:g} s of a change of slots, downlink | not recorded | {100 * near:.1f} % |")
    table.append(f"| lost elsewhere | not recorded | {100 * away:.2f} % |")
    return "\n".join(table) + "\n"


def pairs(results: Path | None) -> str:
    """Return what flows get of each profile, alone and in pairs, in Markdown: means of all rounds, Mbit/s."""
    import polars as pl

    import perigee

    if results is None:
        with tempfile.TemporaryDirectory() as folder:
            flows = perigee.Study.load(PAIRS).run(out=Path(folder) / "pairs")["flows"]
    else:
        flows = perigee.load(results)["flows"]
    keys = ["point.profile", "point.queue", "point.pair"]
    means = flows.group_by([*keys, "flow"], maintain_order=True).agg(pl.col("goodput_mbps").mean())
    cells = means.group_by(keys, maintain_order=True).agg(pl.col("goodput_mbps"))
    together = cells["point.pair"].unique(maintain_order=True).to_list()
    table = ["| profile | queue | " + " | ".join(together) + " |", "|---|---|" + "---:|" * len(together)]
    for (profile, queue), rows in cells.group_by(keys[:2], maintain_order=True):
        carried = [", ".join(f"{mbps:.0f}" for mbps in rates) for rates in rows["goodput_mbps"]]
        table.append(f"| `{profile}` | {queue} | " + " | ".join(carried) + " |")
    return "\n".join(table) + "\n"


PAIRS = Path(__file__).parent / "pairs.toml"


def _row(what: str, cells: Sequence[float], form: str) -> str:
    return f"| {what} | " + " | ".join(format(float(cell), form) for cell in cells) + " |"


def _quantile(values: Floats, share: float) -> float:
    return float(np.quantile(values, share))


def _losses(samples: Sequence[pl.DataFrame]) -> tuple[float, float]:
    """The downlink's loss near changes of slots and away from them; slots begin at multiples of their length."""
    import polars as pl

    down = pl.concat(samples).filter(pl.col("direction") == "down")
    period = SLOT_MS / 1000
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
    commands.add_parser("pairs").add_argument("results", type=Path, nargs="?")
    given = parser.parse_args(arguments)
    if given.command == "pairs":
        print(pairs(given.results), end="")
        return
    print({"measure": measure, "compare": compare}[given.command](given.bw, given.delay), end="")


if __name__ == "__main__":
    main(sys.argv[1:])

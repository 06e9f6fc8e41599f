#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How near `perigee fit` comes to links that are known: simulated pings, fitted, for several seeds.

    .venv/bin/python benches/fit.py [--seeds N]

Prints the tables of docs/models/fit.md. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perigee.fitting.check import check, simulate_pings
from perigee.fitting.delay import fit_delay
from perigee.fitting.fit import Measured, fit
from perigee.fitting.loss import fit_bursts, fit_outages, runs_of
from perigee.fitting.period import find_period, window_of
from perigee.fitting.series import read_pings

ROOT = Path(__file__).resolve().parent.parent
INTERVAL_S = 0.2

Floats = npt.NDArray[np.float64]
Found = dict[str, float]

LINK = """\
name = "known"
title = "A link of known make"
source = "none"
[down]
rate = "100 Mbit/s"
delay = "250 ms"
loss = {loss}
[up]
rate = "100 Mbit/s"
delay = {delay}
"""


def jitter(rest: str) -> str:
    """A delay that moves."""
    return f'{{ kind = "jitter", base = "300 ms", {rest} }}'


def body(rtt_ms: Floats) -> Found:
    """Body and persistence of the round trips."""
    found = fit_delay(rtt_ms, INTERVAL_S, np.ones(len(rtt_ms) - 1, bool))
    return {
        "base ms": found.base_ms, "width ms": found.width_ms, "sigma": found.sigma, "holds s": found.every_s,
        "memory s": found.memory_s,
    }  # fmt: skip


def tail(rtt_ms: Floats) -> Found:
    """Tail of the round trips."""
    found = fit_delay(rtt_ms, INTERVAL_S, np.ones(len(rtt_ms) - 1, bool)).tail
    if found is None:
        return {}
    return {"share %": 100 * found.share, "scale ms": found.scale_ms, "shape": found.shape}


def outages(rtt_ms: Floats) -> Found:
    """Single losses and outages."""
    found = {}
    for loss in fit_outages(runs_of(np.isnan(rtt_ms)), INTERVAL_S):
        if loss.kind == "single":
            found["single %"] = 100 * loss.share
        else:
            found |= {"length s": loss.length_s, "gap s": loss.gap_s}
    return found


def bursts(rtt_ms: Floats) -> Found:
    """Bursts from packet to packet."""
    found = fit_bursts(runs_of(np.isnan(rtt_ms)))
    return {} if found is None else {"lost %": 100 * found.share, "burst": found.burst}


def period(rtt_ms: Floats) -> Found:
    """Period of the losses, and what is lost in it."""
    lost, time_s = np.isnan(rtt_ms), np.linspace(0, INTERVAL_S * (len(rtt_ms) - 1), len(rtt_ms))
    found = find_period(time_s[lost], float(time_s[-1]), INTERVAL_S)
    if found is None:
        return {}
    window = window_of(found.period_s, time_s, lost, INTERVAL_S)
    return {"period s": found.period_s, "length s": window.length_s, "loss %": 100 * window.loss}


CASES: dict[str, tuple[str, str, int, Callable[[Floats], Found], Found]] = {
    "normal body": (
        jitter('every = "100 ms", body = { kind = "normal", sd = "8 ms" }'), '"0 %"', 20_000, body,
        {"base ms": 550, "width ms": 8},
    ),
    "uniform body": (
        jitter('every = "100 ms", body = { kind = "uniform", width = "40 ms" }'), '"0 %"', 20_000, body,
        {"base ms": 550, "width ms": 40},
    ),
    "triangular body": (
        jitter('every = "100 ms", body = { kind = "triangular", width = "60 ms" }'), '"0 %"', 20_000, body,
        {"base ms": 550, "width ms": 60},
    ),
    "log-normal body": (
        jitter('every = "100 ms", body = { kind = "log-normal", median = "12 ms", sigma = 0.8 }'), '"0 %"', 20_000,
        body, {"base ms": 550, "width ms": 12, "sigma": 0.8},
    ),
    "held for 5 s": (
        jitter('every = "5 s", body = { kind = "normal", sd = "8 ms" }'), '"0 %"', 50_000, body, {"holds s": 5},
    ),
    "memory of 3 s": (
        jitter('every = "200 ms", memory = "3 s", body = { kind = "normal", sd = "8 ms" }'), '"0 %"', 50_000, body,
        {"memory s": 3},
    ),
    "log-normal tail": (
        jitter(
            'every = "100 ms", body = { kind = "triangular", width = "60 ms" }, tail = { kind = "log-normal", '
            'share = "1 %", every = "200 ms", median = "120 ms", sigma = 0.9, max = "4 s" }'
        ), '"0 %"', 100_000, tail, {"share %": 1, "scale ms": 120, "shape": 0.9},
    ),
    "Pareto tail": (
        jitter(
            'every = "100 ms", body = { kind = "uniform", width = "20 ms" }, tail = { kind = "pareto", '
            'share = "1 %", every = "200 ms", min = "60 ms", shape = 1.5, max = "20 s" }'
        ), '"0 %"', 100_000, tail, {"share %": 1, "scale ms": 60, "shape": 1.5},
    ),
    "single losses and outages": (
        '"250 ms"', '[ "0.05 %", { kind = "outages", gap = "400 s", length = "2 s" } ]', 500_000, outages,
        {"single %": 0.05, "length s": 2, "gap s": 400},
    ),
    "bursts": (
        '"250 ms"', '{ kind = "gilbert-elliott", loss = "1 %", burst = 4 }', 200_000, bursts,
        {"lost %": 1, "burst": 4},
    ),
    "losses each 15 s": (
        '"250 ms"', '[ "0.2 %", { kind = "periodic", period = "15 s", length = "400 ms", loss = "40 %" } ]', 20_000,
        period, {"period s": 15, "length s": 0.4, "loss %": 40},
    ),
}  # fmt: skip


def rows(seeds: int) -> Iterator[str]:
    """Each parameter of each case: what it is, and what was found."""
    for name, (delay, loss, pings, estimate, true) in CASES.items():
        link = LINK.format(delay=delay, loss=loss)
        found = [estimate(simulate_pings(link, INTERVAL_S, 20, pings, seed)) for seed in range(1, seeds + 1)]
        for what, value in true.items():
            values = np.array([one.get(what, np.nan) for one in found])
            missing = int(np.isnan(values).sum())
            worst = float(np.nanmax(np.abs(values - value))) if missing < seeds else np.nan
            yield (
                f"| {name} | {pings:,} | {what} | {value:g} | {np.nanmean(values):.4g} | {np.nanstd(values):.2g} | "
                f"{worst:.2g} | {missing} |"
            )


def ka_pings(seed: int) -> Iterator[str]:
    """The link of `ka-pings.toml`, pinged for two and a half days, fitted, and pinged again."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "pings.csv"
        rtt = simulate_pings((ROOT / "benches/ka-pings.toml").read_text(), INTERVAL_S, 20, 1_080_000, seed)
        lines = (f"{1.7e9 + n * INTERVAL_S:.3f},{'' if np.isnan(x) else f'{x:.3f}'}\n" for n, x in enumerate(rtt))
        head = "# perigee ping: to ka-pings, every 200000 us, 20 bytes, lost after 10000000 us\nunix_s,rtt_ms\n"
        log.write_text(head + "".join(lines))
        measured = Measured(read_pings(log))
        for row in check(fit("again", measured), measured):
            yield f"| {row.what} | {row.unit} | {row.measured:.4g} | {row.fitted:.4g} |"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="realisations of each link (10)")
    seeds = parser.parse_args().seeds
    print("| link | pings | parameter | true | mean | sd | worst | not found |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    for row in rows(seeds):
        print(row, flush=True)
    print("\n| ka-pings | | measured | fitted |\n|---|---|---:|---:|")
    for row in ka_pings(1):
        print(row)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Prints the table of studies/wu-2008/README.md from results of that study.

    .venv/bin/python tools/wu_2008.py results/wu-2008 results/wu-2008-seed-2

Of the study's experiments it has the first, `base`.

Intervals are of 95 %, from the means of the seven stretches of 100 s from 130 s on of each run. Neighbouring stretches
of a flow are alike, since a Reno window takes minutes to grow at a round trip of 1 s: intervals that take them as
independent are too short. One correlation per column, of a process of first order, is estimated from the stretches of
all runs, and lengthens the column's intervals.

The HFTP has no such interval: its window hardly turns within the 700 s, so a run is one draw. Results of a second seed,
of some of the runs, give the spread of its logarithm between seeds, and the interval of one draw as a factor.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

import perigee
from perigee.statistics import special

NAMES = ("HighSpeed", "BIC", "Cubic", "H-TCP", "Compound", "Reno")
BDP = {258: 0.02, 646: 0.05, 1292: 0.1, 2583: 0.2, 6458: 0.5, 12917: 1.0}
"""The queues: packets of 1500 bytes, and as bandwidth-delay products."""
WARM_UP_S, STRETCH_S, STRETCHES = 130.0, 100.0, 7
PROBES_FROM_S, PROBES_EVERY_S = 30.0, 0.1
CAPACITY_MBPS = 155.0
PROBES_BYTES = (1024, 4096, 65536, 131072)
# Quantities with an interval, in the order of the columns, and their digits.
DIGITS = {str(size): 0 for size in PROBES_BYTES} | {"utilisation": 1, "dropped": 3}

Matrix = npt.NDArray[np.float64]


def expected(correlation: float, count: int = STRETCHES) -> tuple[float, float]:
    """Return what `count` values of a process of first order with this correlation lead one to expect.

    Returns:
        The lag-1 correlation about the values' own mean, and the variance of that mean over the one estimated as if
        the values were independent.

    Examples:
        >>> [round(value, 6) for value in expected(0.0, 4)]
        [-0.25, 1.0]
    """
    lags = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    process = correlation**lags
    centre = np.eye(count) - 1 / count
    about_mean = centre @ process @ centre
    of_mean = process.mean()
    return float(np.trace(about_mean, offset=1) / np.trace(about_mean)), float(
        of_mean * count * (count - 1) / np.trace(about_mean)
    )


def correlation_of(runs: Matrix) -> float:
    """Return the correlation of neighbouring stretches, 0 or more, from one row per run."""
    about_mean = runs - runs.mean(axis=1, keepdims=True)
    seen = (about_mean[:, 1:] * about_mean[:, :-1]).sum() / max((about_mean**2).sum(), sys.float_info.min)
    grid = np.linspace(0, 0.99, 100)
    return float(np.interp(seen, [expected(one, runs.shape[1])[0] for one in grid], grid))


def half_interval(stretches: Sequence[float], correlation: float) -> float:
    """Return half of the 95 % interval of the mean of a run's stretches."""
    count = len(stretches)
    factor = np.sqrt(expected(correlation, count)[1] / count)
    return float(special.student_quantile(count - 1, 0.975) * np.std(stretches, ddof=1) * factor)


def by_stretch(rows: pl.DataFrame, at_s: pl.Expr, value: pl.Expr) -> list[float]:
    """Return a quantity of each of the stretches."""
    rows = rows.with_columns(stretch=((at_s - WARM_UP_S) / STRETCH_S).floor())
    rows = rows.filter(pl.col("stretch").is_between(0, STRETCHES - 1))
    return list(rows.group_by("stretch").agg(value.alias("value")).sort("stretch")["value"])


def stretches_of(results: perigee.Results, run: int) -> dict[str, list[float]]:
    """Return the stretches of the quantities that have an interval."""
    of_run = pl.col("run") == run
    probes = results.exchanges.filter(of_run & (pl.col("flow") == "probe"))
    opened = PROBES_FROM_S + PROBES_EVERY_S * pl.col("number")
    response_ms = 1e3 * (pl.col("start_s") - opened) + pl.col("duration_ms")
    found = {
        str(size): by_stretch(probes.filter(pl.col("response_bytes") == size), opened, response_ms.mean())
        for size in PROBES_BYTES
    }
    # A row of `links` is of the second before `t_s`.
    at_s = pl.col("t_s") - 0.5
    link = results.links.filter(of_run & (pl.col("link") == "satellite.down"))
    utilisation = 800e-6 * pl.col("delivered_bytes").sum() / pl.len() / CAPACITY_MBPS
    found["utilisation"] = by_stretch(link, at_s, utilisation)
    dropped = 100 * pl.col("dropped_queue_full_packets").sum() / pl.col("offered_packets").sum()
    found["dropped"] = by_stretch(link, at_s, dropped)
    return found


def cell(results: perigee.Results, run: int) -> tuple[float, str]:
    """Return the queue and the algorithm of a run."""
    flows = results.flows.filter(pl.col("run") == run)
    return BDP[flows["point.packets"][0]], str(flows["point.algorithm"][0])


def factor_between_seeds(one: Mapping[tuple[float, str], float], other: Mapping[tuple[float, str], float]) -> float:
    """Return the factor within which a draw is of its median, in 95 % of the draws, from the cells of both seeds.

    The logarithm of a cell's two draws differs by twice the variance of one: as many degrees of freedom as cells.
    """
    differences = np.array([np.log(one[place] / other[place]) for place in one.keys() & other.keys()])
    spread = np.sqrt((differences**2).mean() / 2)
    return float(np.exp(special.student_quantile(len(differences), 0.975) * spread))


def hftp_of(results: perigee.Results) -> dict[tuple[float, str], float]:
    """Return the goodput of the HFTP by cell, Mbit/s."""
    hftp = results.flows.filter(pl.col("flow") == "hftp")
    goodput = dict(hftp.select("run", "steady_goodput_mbps").iter_rows())
    return {cell(results, run): goodput[run] for run in runs_of(results)}


def runs_of(results: perigee.Results) -> list[int]:
    """Return the runs of the experiment `base`; of results with `--experiment base`, all."""
    flows = results.flows
    if "point.experiment" in flows.columns:
        flows = flows.filter(pl.col("point.experiment") == "base")
    return list(flows["run"].unique().sort())


def row(results: perigee.Results, run: int, intervals: Mapping[str, str]) -> tuple[float, int, str]:
    """Return the queue of a run, the place of its algorithm, and its row of the table."""
    of_run = pl.col("run") == run
    flows = results.flows.filter(of_run)
    queue, algorithm = cell(results, run)
    voice = results.voice.filter(of_run).row(0, named=True)
    lost = 100 * voice["lost_packets"] / voice["sent_packets"]
    goodput = dict(flows.select("flow", "steady_goodput_mbps").iter_rows())
    fast = sum(value for name, value in goodput.items() if name.startswith("fast-"))
    cells = [algorithm, f"{queue:g}", *(intervals[str(size)] for size in PROBES_BYTES)]
    cells += [f"{voice['delay_mean_ms']:.0f}", f"{voice['jitter_mean_ms']:.1f}", f"{lost:.3f}"]
    cells += [f"{goodput['ftp']:.2f}", f"{goodput['hftp']:.1f}", f"{fast:.1f}"]
    cells += [intervals["utilisation"], intervals["dropped"]]
    return queue, NAMES.index(algorithm), f"| {' | '.join(cells)} |"


def table(results: perigee.Results) -> list[str]:
    """Return the rows of the table, and a line with the correlations."""
    stretches = {run: stretches_of(results, run) for run in runs_of(results)}
    correlation = {name: correlation_of(np.array([of[name] for of in stretches.values()])) for name in DIGITS}
    rows = []
    for run, of in stretches.items():
        intervals = {
            name: f"{np.mean(of[name]):.{digits}f} ± {half_interval(of[name], correlation[name]):.{digits}f}"
            for name, digits in DIGITS.items()
        }
        rows.append(row(results, run, intervals))
    words = ", ".join(f"{name} {value:.2f}" for name, value in correlation.items())
    return [text for *_, text in sorted(rows)] + [f"Correlation of neighbouring stretches: {words}"]


if __name__ == "__main__":
    first, *second = (perigee.load(folder) for folder in sys.argv[1:3])
    print("\n".join(table(first)))
    for one in second:
        print(f"HFTP, between seeds: a factor of {factor_between_seeds(hftp_of(first), hftp_of(one)):.2f}")

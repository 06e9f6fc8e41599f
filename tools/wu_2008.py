# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Prints the table of studies/wu-2008/README.md from results of that study.

    .venv/bin/python tools/wu_2008.py results/wu-2008

Intervals are of 95 %, of the means of the seven stretches of 100 s from 130 s on, taken as independent.
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
from scipy import stats

import perigee

NAMES = {"highspeed": "HighSpeed", "bic": "BIC", "cubic": "Cubic", "htcp": "H-TCP", "compound": "Compound"}
NAMES |= {"reno": "Reno"}
WARM_UP_S, STRETCH_S, STRETCHES = 130.0, 100.0, 7
PROBES_FROM_S, PROBES_EVERY_S = 30.0, 0.1
CAPACITY_MBPS = 155.0


def interval(values: pl.Series, digits: int) -> str:
    """Return a mean and half of its interval as text."""
    known = values.to_numpy()
    half = stats.t.ppf(0.975, len(known) - 1) * np.std(known, ddof=1) / np.sqrt(len(known))
    return f"{np.mean(known):.{digits}f} ± {half:.{digits}f}"


def row(results: perigee.Results, run: int) -> tuple[float, int, str]:
    """Return the queue of a run, the place of its algorithm, and its row of the table."""
    of_run = pl.col("run") == run
    flows = results.flows.filter(of_run)
    queue, algorithm = float(flows["point.bdp"][0]), str(flows["point.cc"][0])
    opened = PROBES_FROM_S + PROBES_EVERY_S * pl.col("number")
    probes = results.exchanges.filter(of_run & (pl.col("flow") == "probe")).with_columns(
        stretch=((opened - WARM_UP_S) / STRETCH_S).floor(),
        response_ms=1e3 * (pl.col("start_s") - opened) + pl.col("duration_ms"),
    )
    probes = probes.filter(pl.col("stretch").is_between(0, STRETCHES - 1) & pl.col("response_ms").is_not_null())
    cells = [NAMES[algorithm], f"{queue:g}"]
    for size in (1024, 131072):
        of_size = probes.filter(pl.col("response_bytes") == size)
        cells.append(interval(of_size.group_by("stretch").agg(pl.col("response_ms").mean())["response_ms"], 0))
    voice = results.voice.filter(of_run).row(0, named=True)
    lost = 100 * voice["lost_packets"] / voice["sent_packets"]
    cells += [f"{voice['delay_mean_ms']:.0f}", f"{voice['jitter_mean_ms']:.1f}", f"{lost:.3f}"]
    goodput = dict(flows.select("flow", "steady_goodput_mbps").iter_rows())
    fast = sum(value for name, value in goodput.items() if name.startswith("fast."))
    cells += [f"{goodput['ftp']:.2f}", f"{goodput['hftp']:.1f}", f"{fast:.1f}"]
    # A row of `links` is of the second before `t_s`.
    link = results.links.filter(of_run & (pl.col("link") == "satellite.down")).with_columns(
        stretch=((pl.col("t_s") - 0.5 - WARM_UP_S) / STRETCH_S).floor()
    )
    link = (
        link.filter(pl.col("stretch").is_between(0, STRETCHES - 1))
        .group_by("stretch")
        .agg(
            utilisation=800e-6 * pl.col("delivered_bytes").sum() / pl.len() / CAPACITY_MBPS,
            dropped=100 * pl.col("dropped_queue_full_packets").sum() / pl.col("offered_packets").sum(),
        )
    )
    cells += [interval(link["utilisation"], 1), interval(link["dropped"], 3)]
    return queue, list(NAMES).index(algorithm), f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    found = perigee.load(sys.argv[1])
    for *_, text in sorted(row(found, run) for run in found.points["run"]):
        print(text)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Throughput of transfers that follow each other over hours: gaps interpolated, with a moving average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perigee.statistics.estimates import Array

STEP_S = 60.0
"""Throughput over time is taken in steps of this length."""

AVERAGE_S = 3600.0
"""Length of the moving average."""


@dataclass(frozen=True)
class Campaign:
    """Throughput over time, in steps of `STEP_S`.

    Attributes:
        t_s: middle of each step, shape (n,).
        rates_mbps: throughput in it while a transfer was under way, else interpolated linearly.
        is_gap: whether none was under way in it.
        average_mbps: mean of `rates_mbps` over the last `AVERAGE_S`, at the begin over what there is.
    """

    t_s: Array
    rates_mbps: Array
    is_gap: npt.NDArray[np.bool_]
    average_mbps: Array


def campaign(transfers: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Campaign:
    """Return the throughput of transfers over time.

    Args:
        transfers: of each, in order of time, the edges of its intervals, s, and the throughput between them, Mbit/s.
            Transfers do not overlap.

    Examples:
        >>> one = campaign([([0.0, 60.0], [10.0]), ([180.0, 240.0], [40.0])])
        >>> one.rates_mbps.tolist(), one.is_gap.tolist(), one.average_mbps.tolist()
        ([10.0, 20.0, 30.0, 40.0], [False, True, True, False], [10.0, 15.0, 20.0, 25.0])
    """
    begin, end = transfers[0][0][0], transfers[-1][0][-1]
    steps = max(1, int(np.ceil((end - begin) / STEP_S - 1e-9)))
    edges = begin + STEP_S * np.arange(steps + 1)
    carried, covered = np.zeros(steps), np.zeros(steps)
    for bounds, rates in transfers:
        at = np.asarray(bounds, dtype=np.float64)
        grown = np.concatenate([[0.0], np.cumsum(np.asarray(rates, dtype=np.float64) * np.diff(at))])
        carried += np.diff(np.interp(edges, at, grown))
        covered += np.diff(np.clip(edges, at[0], at[-1]))
    seen = covered > 0
    middles = (edges[:-1] + edges[1:]) / 2
    rates_mbps = np.interp(middles, middles[seen], carried[seen] / covered[seen])
    sums = np.concatenate([[0.0], np.cumsum(rates_mbps)])
    high = np.arange(1, steps + 1)
    low = np.maximum(high - int(AVERAGE_S / STEP_S), 0)
    return Campaign(middles, rates_mbps, ~seen, (sums[high] - sums[low]) / (high - low))

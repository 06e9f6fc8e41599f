# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Over time: transfers that follow each other for hours, and how much of its window a sender kept at each loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

STEP_S = 60.0
"""Throughput of transfers over hours is taken in steps of this length."""

AVERAGE_S = 3600.0
"""Length of the moving average."""

NEAR = 0.03
"""A share further than this from each named one has no name; windows are whole packets, so shares are not exact."""

OTHER = "other"

_REDUCED = ("recovery", "cwr", "loss")


def reductions(events: pl.DataFrame) -> pl.DataFrame:
    """Return the instants at which a sender set its slow start threshold because of a loss, a mark or a timeout.

    Args:
        events: rows of the table `events` of one flow, in order of time.

    Returns:
        Columns `t_s`, `state` (`recovery`, `cwr` or `loss`), `before_packets`, the window before, `after_packets`, the
        threshold set, and `share`, one over the other. A sender that still repairs an earlier loss may reach the window
        that this repair aims at in the same turn: that one is the window before if the new threshold is above the last.

    Examples:
        >>> log = pl.DataFrame({
        ...     "t_s": [1.0, 2.0, 3.0, 4.0], "ca_state": ["open", "recovery", "recovery", "open"],
        ...     "cwnd_packets": [100, 99, 80, 70], "ssthresh_packets": [None, 70, 70, 70],
        ... })
        >>> reductions(log).rows()
        [(2.0, 'recovery', 100, 70, 0.7)]
    """
    state, threshold = pl.col("ca_state"), pl.col("ssthresh_packets")
    was_reduced = state.shift(1).is_in(_REDUCED).fill_null(False)
    is_new = ~was_reduced | (threshold != threshold.shift(1)).fill_null(True)
    window = pl.col("cwnd_packets").shift(1)
    before = pl.when(was_reduced & (threshold > window)).then(threshold.shift(1)).otherwise(window)
    marked = events.with_columns(before_packets=before, is_reduction=state.is_in(_REDUCED) & is_new)
    known = marked.filter("is_reduction", pl.col("before_packets") > 0, threshold.is_not_null())
    return known.select(
        "t_s",
        state.alias("state"),
        "before_packets",
        threshold.alias("after_packets"),
        (threshold / pl.col("before_packets")).alias("share"),
    )


def named_share(share: float, names: Mapping[str, float]) -> str:
    """Return which of the named shares of a window a share is; without names, the nearest multiple of 5 %.

    Examples:
        >>> kept = {"periodic": 1.0, "random": 0.9, "congestion": 0.7}
        >>> named_share(0.698, kept), named_share(0.5, kept), named_share(0.698, {})
        ('congestion', 'other', '70 %')
    """
    if not names:
        return f"{5 * round(20 * share)} %"
    nearest = min(names, key=lambda name: abs(names[name] - share))
    return nearest if abs(names[nearest] - share) <= NEAR else OTHER


def joined(transfers: Sequence[tuple[Sequence[float], Sequence[float]]]) -> pl.DataFrame:
    """Return the throughput of transfers over time, in steps of `STEP_S`; gaps are interpolated linearly.

    Args:
        transfers: of each, in order of time, the edges of its intervals, s, and the throughput between them, Mbit/s.
            Transfers do not overlap.

    Returns:
        Columns `t_s` (middle of a step), `goodput_mbps`, `is_interpolated` (no transfer was under way), `average_mbps`
        (mean over the last `AVERAGE_S`, at the beginning over what there is).

    Examples:
        >>> one = joined([([0.0, 60.0], [10.0]), ([180.0, 240.0], [40.0])])
        >>> one["goodput_mbps"].to_list(), one["is_interpolated"].to_list(), one["average_mbps"].to_list()
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
    return pl.DataFrame({
        "t_s": middles, "goodput_mbps": rates_mbps, "is_interpolated": ~seen,
        "average_mbps": (sums[high] - sums[low]) / (high - low),
    })  # fmt: skip

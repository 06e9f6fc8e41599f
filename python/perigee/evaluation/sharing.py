# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures of RFC 9743, 5.2: what a congestion control does to others."""

from __future__ import annotations

import polars as pl

from perigee.evaluation.tables import FIGURES, Tables, figures, of_flow

ROUND_TRIPS = 30
"""Length of a window in which a flow may be starved, round trips."""
SHORT_BYTES = 10_000
"""Largest of the short transfers that are measured, B."""
VEGAS = "other vegas"
"""Words of cells beside Vegas, which are printed and not judged."""
RTT_S = 0.1
"""Round trip of the study of 5.2, s."""


def starvation_of_others(tables: Tables) -> pl.DataFrame:
    """Return the least share of its fair share that one of the others has, in the mean, in 30 round trips."""
    return _judged(_least_share(tables, "other"))


def starvation_of_vegas(tables: Tables) -> pl.DataFrame:
    """Return the same of Vegas, which yields to all that fill a queue, and which no standard describes."""
    return _least_share(tables, "other").filter(pl.col("cell").str.contains(VEGAS))


def starvation_of_itself(tables: Tables) -> pl.DataFrame:
    """Return the least share of its fair share that the candidate has in 30 round trips."""
    return _least_share(tables, "candidate")


def wait_of_others(tables: Tables) -> pl.DataFrame:
    """Return the mean wait of the others' packets, ms."""
    wait = pl.col("steady_rtt_mean_ms") - RTT_S * 1e3
    return _judged(figures(tables.flows(flow="other"), wait.mean().clip(0)))


def loss_of_others(tables: Tables) -> pl.DataFrame:
    """Return the share of the others' packets, in %, that were sent again in the steady phase."""
    again, sent = pl.col("steady_retransmitted_packets").sum(), pl.col("steady_sent_packets").sum()
    return _judged(figures(tables.flows(flow="other"), again / sent.clip(1) * 100))


def frames_in_time(tables: Tables) -> pl.DataFrame:
    """Return the share of a call's frames, in %, that arrive whole and in time."""
    return figures(tables.table("calls"), pl.col("on_time_percent").fill_null(0).mean())


def short_median(tables: Tables) -> pl.DataFrame:
    """Return the median time of short transfers of 10 kB, ms."""
    return _of_responses(tables, "p50_ms")


def slowest(tables: Tables) -> pl.DataFrame:
    """Return the mean of the slowest tenth of these times, ms."""
    return _of_responses(tables, "slowest_tenth_ms")


def short_median_of_others(tables: Tables) -> pl.DataFrame:
    """Return the median time of 10 kB by another kind beside a long transfer of the candidate, ms."""
    return _of_responses(tables, "p50_ms", "other")


def slowest_of_others(tables: Tables) -> pl.DataFrame:
    """Return the mean of the slowest tenth of these times, ms, which a timeout more or less moves little."""
    return _of_responses(tables, "slowest_tenth_ms", "other")


def short_median_of_its_own(tables: Tables) -> pl.DataFrame:
    """Return the median time of 10 kB by the candidate beside a long transfer of another kind, ms."""
    return _of_responses(tables, "p50_ms", "candidate")


def slowest_of_its_own(tables: Tables) -> pl.DataFrame:
    """Return the mean of the slowest tenth of these times, ms."""
    return _of_responses(tables, "slowest_tenth_ms", "candidate")


def _of_responses(tables: Tables, column: str, flow: str = "") -> pl.DataFrame:
    small = tables.table("responses").filter(pl.col("least_bytes") <= SHORT_BYTES)
    if flow:
        small = small.filter(of_flow(flow))
    return figures(small, pl.col(column).max())


def goodput_of_others(tables: Tables, experiment: str) -> pl.DataFrame:
    """Return the goodput of the flows of CUBIC beside the candidate in the steady phase, Mbit/s."""
    both = pl.concat([tables.flows(experiment, "other"), tables.flows(experiment, "second")])
    return figures(both, pl.col("steady_goodput_mbps").fill_null(0).sum())


def _judged(found: pl.DataFrame) -> pl.DataFrame:
    return found.filter(~pl.col("cell").str.contains(VEGAS))


def _least_share(tables: Tables, flow: str) -> pl.DataFrame:
    """Return the least of the windows in the second half, as a share of what equal flows have there."""
    window = (pl.col("t_s") / (ROUND_TRIPS * RTT_S)).floor()
    keys = ["run", "cell", "cc", "round", "window"]
    late = pl.col("t_s") > pl.col("t_s").max().over("run") / 2
    parts = {}
    for name in ("candidate", "other"):
        series = tables.series(flow=name).filter(late).with_columns(window=window)
        count, goodput = pl.col("flow").n_unique(), pl.col("goodput_mbps").sum()
        parts[name] = series.group_by(keys, maintain_order=True).agg(goodput.alias(name), count.alias(f"{name}_flows"))
    others = parts["other"].select("run", "window", "other", "other_flows")
    both = parts["candidate"].join(others, on=["run", "window"], maintain_order="left")
    per_flow = pl.col(flow) / pl.col(f"{flow}_flows")
    fair = (pl.col("candidate") + pl.col("other")) / (pl.col("candidate_flows") + pl.col("other_flows"))
    return figures(both, (per_flow / fair).min())


def share_of_other(tables: Tables, experiment: str) -> pl.DataFrame:
    """Return what a flow has beside one of the candidate's, where there are both, over half of what both have."""
    others = tables.flows(experiment, "other")
    both = pl.concat([tables.flows(experiment), others]).filter(pl.col("run").is_in(others["run"].implode()))
    goodput = pl.col("steady_goodput_mbps").fill_null(0)
    return figures(both, 2 * goodput.filter(of_flow("other")).sum() / goodput.sum())


def share_kept(tables: Tables) -> pl.DataFrame:
    """Return what the other flow keeps: its goodput, over that of a flow beside another of its own kind.

    The twin is the run of the same cell and round in which both flows are of the other's kind.
    """
    keys = ["cell", "round"]
    goodput = pl.col("steady_goodput_mbps").fill_null(0)
    others = tables.flows(flow="other")
    both = pl.concat([tables.flows(), others])
    twins = both.filter(pl.col("cc") == pl.col("other")).group_by(keys).agg(alike=goodput.mean())
    found = others.join(twins, on=keys, how="inner", maintain_order="left")
    # Each of two flows of one kind keeps the mean of both.
    alone = pl.col("cc") == pl.col("other")
    return found.with_columns(value=pl.when(alone).then(1.0).otherwise(goodput / pl.col("alike"))).select(*FIGURES)

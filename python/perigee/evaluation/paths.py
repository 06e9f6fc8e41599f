# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures of RFC 9743, 6 and 7: what a congestion control does on kinds of paths."""

from __future__ import annotations

import polars as pl

from perigee.evaluation.tables import FIGURES, Tables, figures

SEGMENT_BITS = 1448 * 8
"""Payload of a full packet with timestamps, bits."""
INITIAL_WINDOW = 10
"""Segments (RFC 6928)."""
TIME_LIMIT_S, BESIDE = 1200.0, "beside-cubic"
"""Time after which the study of 7.5 ends a transfer, s, and its experiment in which another flow was there before."""
NO_WAIT_MS = 5.0
"""Waits below CoDel's target are none (RFC 8289)."""
CHANGE_S, AFTER_S = 60.0, 18.0
"""When the delay changes in the study of 7.3, and 30 of its longest round trips, s."""
STREAM_S, FILLED_MBPS = 40.0, 80.0
"""When the stream of 7.8 begins or ends, s, and 80 % of its path's rate."""
FAILS_S = 20.0
"""When the path of 7.10 fails, s."""
START_S = 5.0
"""Before it, a flow is beginning, s."""
RATE_SHARE = 1448 / 1500
"""Payload of a link's rate."""
WAIT = (pl.col("steady_rtt_mean_ms") - pl.col("rtt")).mean().clip(0)
"""Mean wait in the steady phase, ms."""


def utilisation(tables: Tables, experiment: str = "") -> pl.DataFrame:
    """Return the goodput in the steady phase, of all flows `candidate`, Mbit/s."""
    return figures(tables.flows(experiment), pl.col("steady_goodput_mbps").fill_null(0).sum())


def goodput_alone(tables: Tables) -> pl.DataFrame:
    """Return the goodput in the steady phase with ECT(1) and no other flow, Mbit/s."""
    return figures(_alone(tables), pl.col("steady_goodput_mbps").fill_null(0).sum())


def wait_alone(tables: Tables) -> pl.DataFrame:
    """Return the mean wait in the steady phase with ECT(1) and no other flow, ms."""
    return figures(_alone(tables), WAIT)


def _alone(tables: Tables) -> pl.DataFrame:
    return tables.flows("scalable").filter(pl.col("beside") == "nobody")


def wait(tables: Tables, experiment: str = "") -> pl.DataFrame:
    """Return the mean wait in the steady phase, ms."""
    return figures(tables.flows(experiment), WAIT)


def wait_by_marks(tables: Tables) -> pl.DataFrame:
    """Return the mean wait in a queue that marks, over that in the same queue that drops; below 5 ms, both are 5 ms."""
    flows = tables.flows("queues").with_columns(
        pl.col("cell").str.replace(r", ecn .*", ""),
        wait_ms=(pl.col("steady_rtt_mean_ms") - pl.col("rtt")).fill_null(0).clip(NO_WAIT_MS),
    )
    ecn = {ecn: flows.filter(pl.col("ecn") == ecn) for ecn in ("ECT(0)", "Not-ECT")}
    dropped = ecn["Not-ECT"].select("cell", "cc", "round", without_ms="wait_ms")
    found = ecn["ECT(0)"].join(dropped, on=["cell", "cc", "round"], maintain_order="left")
    return found.with_columns(value=pl.col("wait_ms") / pl.col("without_ms")).select(*FIGURES)


def high_round_trip(tables: Tables) -> pl.DataFrame:
    """Return the 95th percentile of round trips, ms."""
    return figures(tables.flows(), pl.col("rtt_p95_ms").mean())


def after_over_before(tables: Tables) -> pl.DataFrame:
    """Return the throughput in 30 round trips after the delay changed, over that in as long a time before it."""
    series = tables.series()
    after = series.filter(pl.col("t_s").is_between(CHANGE_S, CHANGE_S + AFTER_S, closed="right"))
    before = series.filter(pl.col("t_s").is_between(CHANGE_S - AFTER_S, CHANGE_S, closed="right"))
    means = before.group_by("run").agg(before=pl.col("goodput_mbps").mean())
    joined = after.join(means, on="run", maintain_order="left")
    return figures(joined, pl.col("goodput_mbps").mean() / pl.col("before").first())


def longest_stall(tables: Tables) -> pl.DataFrame:
    """Return the longest time, after the first 5 s, in which nothing arrives, s."""
    series = tables.series().filter(pl.col("t_s") > START_S)
    streak = (pl.col("goodput_mbps") == 0).rle().struct
    longest = streak.field("len").filter(streak.field("value")).max().fill_null(0)
    return figures(series, longest * pl.col("t_s").diff().median())


def of_that_in_order(tables: Tables) -> pl.DataFrame:
    """Return the goodput where packets overtake each other, over that where none does, in the steady phase."""
    flows = tables.flows().with_columns(goodput=pl.col("steady_goodput_mbps").fill_null(0))
    in_order = flows.filter(pl.col("late") == 0).select("cc", "round", in_order="goodput")
    found = flows.filter(pl.col("late") != 0).join(in_order, on=["cc", "round"], maintain_order="left")
    return figures(found, (pl.col("goodput") / pl.col("in_order")).sum())


def sent_again(tables: Tables, experiment: str = "") -> pl.DataFrame:
    """Return the share of packets, in %, that were sent again."""
    return figures(tables.flows(experiment), pl.col("retransmitted_packets").sum() / pl.col("sent_packets").sum() * 100)


def time_to_fill(tables: Tables) -> pl.DataFrame:
    """Return the time from the end of a stream to 80 % of the path's rate, s; that to the end of the run if never."""
    series = tables.series().filter(pl.col("stream").str.starts_with("ends"), pl.col("t_s") > STREAM_S)
    filled = pl.col("t_s").filter(pl.col("goodput_mbps") >= FILLED_MBPS).min()
    return figures(series, pl.coalesce(filled, pl.col("t_s").max()) - STREAM_S)


def loss_of_a_stream(tables: Tables) -> pl.DataFrame:
    """Return the share of the packets, in %, that a stream loses that begins beside the transfer."""
    streams = tables.flows(flow="stream").filter(pl.col("stream").str.starts_with("begins"))
    return figures(streams, pl.col("lost_packets").sum() / pl.col("sent_packets").sum() * 100)


def goodput_after_failover(tables: Tables) -> pl.DataFrame:
    """Return the goodput in 10 s from the instant when the failure is noticed, Mbit/s."""
    noticed = FAILS_S + pl.col("detect") / 1e3
    after = tables.series().filter(pl.col("t_s").is_between(noticed, noticed + 10.0, closed="right"))
    return figures(after, pl.col("goodput_mbps").mean())


def time_behind_a_proxy(tables: Tables) -> pl.DataFrame:
    """Return the time of a download behind a splitting proxy, over that of the direct one."""
    keys = ["cell", "cc", "round"]
    flows = tables.flows().with_columns(pl.col("cell").str.replace(r", way .*", ""))
    direct = flows.filter(pl.col("way") == "direct").select(*keys, direct_s="duration_s")
    found = flows.filter(pl.col("way") != "direct").join(direct, on=keys, maintain_order="left")
    return found.with_columns(value=pl.col("duration_s") / pl.col("direct_s")).select(*FIGURES)


def slowest(tables: Tables) -> pl.DataFrame:
    """Return the time of the slowest of several transfers, s."""
    return figures(tables.flows(), pl.col("duration_s").max())


def timeouts(tables: Tables) -> pl.DataFrame:
    """Return the retransmission timeouts in five minutes."""
    return figures(tables.flows(), pl.col("rto_count").sum())


def ideal_s(size_mb: float, rate_mbps: float, rtt_s: float) -> float:
    """Return the shortest time of a transfer, s: a handshake, then a window that doubles until it fills the path.

    Examples:
        >>> ideal_s(100, 50, 0.6) > 100 * 8 / 50
        True
    """
    left, window, passed = size_mb * 8e6, INITIAL_WINDOW * SEGMENT_BITS, rtt_s
    rate = rate_mbps * 1e6 * RATE_SHARE
    while window < rate * rtt_s and left > window:
        left, window, passed = left - window, 2 * window, passed + rtt_s
    return passed + left / rate + rtt_s / 2


def against_ideal(tables: Tables) -> pl.DataFrame:
    """Return the time of 100 MB over that of an ideal sender, which has half the rate beside another flow."""
    flows = _times(tables, 100).with_columns(
        share=pl.when(pl.col("experiment") == BESIDE).then(pl.col("rate") / 2).otherwise(pl.col("rate"))
    )
    ideal = pl.struct("share", "rtt_ms").map_elements(
        lambda row: ideal_s(100, row["share"], row["rtt_ms"] / 1e3), return_dtype=pl.Float64
    )
    return flows.with_columns(value=pl.col("value") / ideal).select(*FIGURES)


def time_of_1_mb(tables: Tables) -> pl.DataFrame:
    """Return the time of the first 1 MB, s."""
    return _times(tables, 1).select(*FIGURES)


def time_of_10_mb(tables: Tables) -> pl.DataFrame:
    """Return the time of the first 10 MB, s."""
    return _times(tables, 10).select(*FIGURES)


def time_of_100_mb(tables: Tables) -> pl.DataFrame:
    """Return the time of 100 MB, s."""
    return _times(tables, 100).select(*FIGURES)


def _times(tables: Tables, size_mb: int) -> pl.DataFrame:
    reached = tables.table("milestones").filter(pl.col("bytes") == size_mb * 10**6).select("run", value="t_s")
    found = tables.flows().join(reached, on="run", how="left", maintain_order="left")
    return found.with_columns(pl.col("value").fill_null(TIME_LIMIT_S), rtt_ms=pl.lit(600.0))

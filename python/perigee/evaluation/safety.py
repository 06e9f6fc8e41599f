# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures of RFC 9743, 5.1: what one kind of congestion control does to the network."""

from __future__ import annotations

from itertools import pairwise

import polars as pl

from perigee.evaluation.tables import FIGURES, Tables, figures, of_flow

LOSS_FROM_S = 10.0
"""When losses and silences begin in the study of 5.1.1, s."""
SETTLED_S = 30.0
"""Time that a sender has to back off: 50 of the longest round trips, s."""
STRETCH_S = 5.0
"""Length of the stretches of that time of which the median counts, s."""
SILENCE_S = 60.0
"""Length of the silence, s."""
LAST_GAPS = 4
"""Gaps between retransmissions whose growth is judged: the last ones."""
DOUBLED = 2.0
"""Growth that counts for two retransmissions or fewer: they are further apart than any doubling asks for."""
INTERVAL_S, BAD_SHARE = 5.0, 0.1
"""Interval of the circuit breaker, s, and the share of lost packets that makes it a bad one."""
PAYLOAD_SHARE = 1448 / 1500
"""Payload of a full packet with timestamps."""


def packets_per_round_trip(tables: Tables) -> pl.DataFrame:
    """Return the packets sent per round trip where at least 30 % are lost, once a sender had time to back off.

    It is the median of stretches. A timeout that turns out to be spurious gives a sender its window back, and it backs
    off again: a mean is that of the one stretch in which this happened, in few runs, so that no rounds decide it.
    """
    series = tables.series("loss").filter((pl.col("loss") >= 30) & (pl.col("t_s") > LOSS_FROM_S + SETTLED_S))
    stretch = ((pl.col("t_s") - 1e-6) / STRETCH_S).floor()
    by_stretch = series.group_by("run", "cell", "cc", "round", stretch.alias("stretch"), maintain_order=True)
    sent = by_stretch.agg(packets=pl.col("sent_packets").sum() / STRETCH_S * pl.col("rtt").first() / 1e3)
    return figures(sent, pl.col("packets").median())


def duplicates(tables: Tables) -> pl.DataFrame:
    """Return the share of arriving bytes, in %, that had arrived before, at losses of up to 30 %."""
    lossy = (pl.col("loss") <= 30) & (pl.col("t_s") > LOSS_FROM_S)
    series = tables.series("loss").filter(lossy)
    step = pl.col("t_s").diff().median()
    new = series.group_by("run").agg(bytes=pl.col("goodput_mbps").sum() * step * 1e6 / 8)
    link = tables.link("loss").filter(lossy).join(new, on="run")
    arrived = pl.col("delivered_bytes").sum() * PAYLOAD_SHARE
    return figures(link, ((1 - pl.col("bytes").first() / arrived) * 100).clip(0))


def growth_of_gaps(tables: Tables) -> pl.DataFrame:
    """Return the least ratio of a gap between retransmissions to the gap before it, in a silence of 60 s."""
    silent = pl.col("t_s").is_between(LOSS_FROM_S, LOSS_FROM_S + SILENCE_S)
    events = tables.table("events", "silence").filter(
        of_flow("candidate") & silent & (pl.col("event") == "retransmitted")
    )
    rows = []
    for row in tables.runs.filter(pl.col("experiment") == "silence").iter_rows(named=True):
        sent = events.filter(pl.col("run") == row["run"])["t_s"].to_list()
        gaps = [later - earlier for earlier, later in pairwise(sent)][-LAST_GAPS:]
        ratios = [later / earlier if earlier > 0 else 0.0 for earlier, later in pairwise(gaps)]
        rows.append((row["cell"], row["cc"], row["round"], min(ratios) if ratios else DOUBLED))
    return pl.DataFrame(rows, schema=FIGURES, orient="row")


def queueing_delay(tables: Tables) -> pl.DataFrame:
    """Return the mean time that packets wait in the second half, ms."""
    return figures(tables.flows(), (pl.col("steady_rtt_mean_ms") - pl.col("rtt")).mean().clip(0))


def high_queueing_delay(tables: Tables) -> pl.DataFrame:
    """Return the 95th percentile of the time that packets wait in the second half, ms."""
    rtt = tables.table("rtt").filter(of_flow("candidate") & (pl.col("phase") == "steady")).sort("run", "rtt_ms")
    reached = pl.col("count").cum_sum() >= 0.95 * pl.col("count").sum()
    return figures(rtt, (pl.col("rtt_ms").filter(reached).first() - pl.col("rtt").first()).clip(0))


def standing_queue(tables: Tables) -> pl.DataFrame:
    """Return the shortest wait in the last ten round trips, ms: what is left of a queue is a standing one."""
    link = tables.link()
    at_end = pl.col("t_s") > pl.col("t_s").max().over("run") - pl.col("rtt") * 10 / 1e3
    return figures(link.filter(at_end), pl.col("queue_bytes").min() * 8 / 1e3 / pl.col("rate").first())


def bottleneck_loss(tables: Tables) -> pl.DataFrame:
    """Return the share of packets, in %, that the bottleneck drops in the second half."""
    link = tables.link()
    late = link.filter(pl.col("t_s") > pl.col("t_s").max().over("run") / 2)
    return figures(late, pl.col("dropped_packets").sum() / pl.col("offered_packets").sum() * 100)


def fairness(tables: Tables) -> pl.DataFrame:
    """Return Jain's index of flows over one round trip: 1 where all have the same goodput."""
    share = pl.col("steady_goodput_mbps").fill_null(0)
    return figures(tables.flows("equal"), share.sum() ** 2 / (pl.len() * (share**2).sum()))


def ratio_of_round_trips(tables: Tables) -> pl.DataFrame:
    """Return the goodput of a flow over 160 ms, over that of a flow over the other round trip."""
    second = tables.flows("unequal", "second").select("run", other=pl.col("steady_goodput_mbps").fill_null(0))
    flows = tables.flows("unequal").join(second, on="run", maintain_order="left")
    return figures(flows, pl.col("steady_goodput_mbps").fill_null(0).sum() / pl.col("other").sum())


def late_comer(tables: Tables) -> pl.DataFrame:
    """Return the goodput of a flow that comes 30 s late, over its fair share, in the second half of its time."""
    first = tables.flows("late").select("run", other=pl.col("steady_goodput_mbps").fill_null(0))
    own = pl.col("steady_goodput_mbps").fill_null(0)
    joined = tables.flows("late", "second").join(first, on="run", maintain_order="left")
    return figures(joined, 2 * own.sum() / (own.sum() + pl.col("other").sum()))


def bad_intervals(tables: Tables) -> pl.DataFrame:
    """Return the most intervals of 5 s in a row in which the bottleneck drops 10 % or more."""
    link = tables.link().with_columns(interval=((pl.col("t_s") - 1e-6) / INTERVAL_S).floor())
    by_run = ["run", "cell", "cc", "round"]
    dropped, offered = pl.col("dropped_packets").sum(), pl.col("offered_packets").sum()
    loss = link.group_by([*by_run, "interval"], maintain_order=True).agg(bad=dropped >= BAD_SHARE * offered.clip(1))
    streak = pl.col("bad").rle().struct
    longest = streak.field("len").filter(streak.field("value")).max().fill_null(0)
    return figures(loss, longest)

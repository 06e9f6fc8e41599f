# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Utilisation of links."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from perigee.report.context import Context

DROPS = ("dropped_queue_full_packets", "dropped_aqm_packets")
"""Packets that never used the link."""

Span = tuple[int, float, float]
"""A run, and begin and end within it, s."""


def utilisation(context: Context, link: str, spans: Sequence[Span]) -> pl.Series:
    """Return the utilisation of a directed link in each span of time, in %, in order.

    What leaves the queue counts, with the link's overhead, also if it is lost on the air then: arrivals less the drops
    of the queue and less its growth. A partly covered interval counts by its share. At most 100: the packets in service
    at both ends, or a burst that a shaper lets through, would make it more. Null if the span has no interval.
    """
    wanted = pl.DataFrame(
        [(place, *span) for place, span in enumerate(spans)],
        schema={"span": pl.UInt32, "run": context.rows.schema["run"], "from_s": pl.Float64, "until_s": pl.Float64},
        orient="row",
    )
    during = _departures(context, link).join(wanted, on="run").with_columns(part=_part_within())
    within = during.filter(pl.col("part") > 0)
    carried = (pl.col("departed_bytes") * pl.col("part")).sum()
    could = (pl.col("rate_mbps") * pl.col("step_s") * pl.col("part")).sum() * 1e6 / 8
    used = within.group_by("span").agg((100 * carried / could).clip(0, 100).alias("percent"))
    return wanted.join(used, on="span", how="left", maintain_order="left")["percent"].fill_nan(None)


def _departures(context: Context, link: str) -> pl.DataFrame:
    """Return the rows of a link with their length `step_s`, and the bytes that left its queue for the air.

    A drop has the mean size of the link's packets, since the table counts drops in packets.
    """
    overheads = context.rows.select("run", "point").unique()
    overheads = overheads.with_columns(
        pl.col("point")
        .map_elements(lambda point: context.network.overhead_bytes(point, link), return_dtype=pl.Int64)
        .alias("overhead_bytes")
    )
    rows = context.results.table("links").filter(pl.col("link") == link).join(overheads, on="run").sort("run", "t_s")
    packets = pl.col("offered_packets").cast(pl.Float64)
    packet_bytes = pl.col("offered_bytes").sum().over("run") / packets.sum().over("run")
    dropped = pl.sum_horizontal(pl.col(name) for name in DROPS if name in rows.columns).cast(pl.Float64)
    arrived = pl.col("offered_bytes") + packets * pl.col("overhead_bytes")
    queue = pl.col("queue_bytes").cast(pl.Float64)
    grown = queue - queue.shift(1).over("run").fill_null(0)
    return rows.with_columns(
        pl.col("t_s").diff().over("run").fill_null(pl.col("t_s")).alias("step_s"),
        (arrived - dropped * (packet_bytes + pl.col("overhead_bytes")).fill_nan(0.0) - grown).alias("departed_bytes"),
    )


def _part_within() -> pl.Expr:
    """Return the part of each interval that lies within the span, 0 to 1."""
    begin = pl.max_horizontal(pl.col("t_s") - pl.col("step_s"), "from_s")
    return (pl.min_horizontal("t_s", "until_s") - begin) / pl.col("step_s")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Utilisation of links."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from perigee.report.context import Context

Span = tuple[int, float, float]
"""A run, and begin and end within it, s."""


def utilisation(context: Context, link: str, spans: Sequence[Span]) -> pl.Series:
    """Return the utilisation of a directed link in each span of time, in %, in order.

    Sent bytes count: delivered packets, packets lost on the air, and the link's overhead per packet.
    A partly covered interval counts by its share. Null if the span has no interval.
    """
    wanted = pl.DataFrame(
        [(place, *span) for place, span in enumerate(spans)],
        schema={"span": pl.UInt32, "run": context.rows.schema["run"], "from_s": pl.Float64, "until_s": pl.Float64},
        orient="row",
    )
    during = _sent(context, link).join(wanted, on="run").with_columns(part=_part_within())
    within = during.filter(pl.col("part") > 0).sort("span", "t_s")
    grown = pl.col("queue_bytes").last().cast(pl.Float64) - pl.col("queued_before").first().cast(pl.Float64)
    # The table counts arrivals, so the final queue is subtracted.
    carried = (pl.col("sent_bytes") * pl.col("part")).sum() - grown
    could = (pl.col("rate_mbps") * pl.col("step_s") * pl.col("part")).sum() * 1e6 / 8
    used = within.group_by("span").agg((100 * carried / could).alias("percent"))
    return wanted.join(used, on="span", how="left", maintain_order="left")["percent"].fill_nan(None)


def _sent(context: Context, link: str) -> pl.DataFrame:
    """Return the rows of a link with their length `step_s`, the bytes sent, and the queue at their beginning."""
    overheads = context.rows.select("run", "point").unique()
    overheads = overheads.with_columns(
        pl.col("point")
        .map_elements(lambda point: context.network.overhead_bytes(point, link), return_dtype=pl.Int64)
        .alias("overhead_bytes")
    )
    rows = context.results.table("links").filter(pl.col("link") == link).join(overheads, on="run").sort("run", "t_s")
    packet_bytes = pl.col("offered_bytes") / pl.col("offered_packets").cast(pl.Float64)
    lost = pl.when(pl.col("lost_packets") > 0).then(pl.col("lost_packets") * packet_bytes).otherwise(0.0)
    packets = (pl.col("delivered_packets") + pl.col("lost_packets")).cast(pl.Float64)
    return rows.with_columns(
        pl.col("t_s").diff().over("run").fill_null(pl.col("t_s")).alias("step_s"),
        (pl.col("delivered_bytes") + lost + packets * pl.col("overhead_bytes")).alias("sent_bytes"),
        pl.col("queue_bytes").shift(1).over("run").fill_null(0).alias("queued_before"),
    )


def _part_within() -> pl.Expr:
    """Return the part of each interval that lies within the span, 0 to 1."""
    begin = pl.max_horizontal(pl.col("t_s") - pl.col("step_s"), "from_s")
    return (pl.min_horizontal("t_s", "until_s") - begin) / pl.col("step_s")

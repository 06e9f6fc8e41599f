# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures of RFC 9743, 5.2: what a congestion control does to others."""

from __future__ import annotations

import polars as pl

from perigee.evaluation.tables import FIGURES, Tables


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

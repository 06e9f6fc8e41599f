# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Payload acknowledged to the sender of each flow, over time; of a flow that proxies split, by its receiver."""

from __future__ import annotations

from typing import Any

import polars as pl

from perigee.store.results import Results

Flow = tuple[int, str]
"""A flow, by the number of its run and its name."""


def acknowledged(results: Results, flows: pl.DataFrame) -> dict[Flow, pl.DataFrame]:
    """Return for each flow the ends of the intervals of its series and what had been acknowledged by then.

    The sender of a flow's last leg hears from the receiver, those before it from proxies: a split flow counts by its
    last. What SACK reports counts, where a sender knows it, so that a long recovery makes no step, and is not taken
    back when a timeout forgets it.

    Args:
        results: where the series are taken from.
        flows: rows of the table `flows`.

    Returns:
        Columns `t_s` (seconds since the flow began), `acked_bytes` (by acknowledgements alone) and `known_bytes` (by
        SACK, too), by flow.
    """
    whole, legs = results.table("series"), results.legs("series")
    if not legs.is_empty():
        last = legs.filter(pl.col("leg") == pl.col("leg").max().over("run", "flow")).drop("leg")
        whole = pl.concat([whole.join(last, on=["run", "flow"], how="anti"), last])
    sacked: Any = pl.col("sacked_bytes").fill_null(0) if "sacked_bytes" in whole.columns else 0
    known = whole.join(flows.select("run", "flow", "start_s"), on=["run", "flow"]).sort("t_s")
    known = known.select(
        "run", "flow", pl.col("t_s") - pl.col("start_s"), "acked_bytes",
        (pl.col("acked_bytes") + sacked).cum_max().over("run", "flow").alias("known_bytes"),
    )  # fmt: skip
    return {
        (int(run), str(flow)): part
        for (run, flow), part in known.partition_by(["run", "flow"], as_dict=True, maintain_order=True).items()
    }

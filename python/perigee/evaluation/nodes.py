# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures of RFC 9743, 6.2 and 7.6: tunnels that treat ECN, receivers that cheat, policers."""

from __future__ import annotations

import polars as pl

from perigee.evaluation.tables import FIGURES, Tables, figures

WITHOUT_ECN = "without ECN"
"""The variant of 6.2 with which the others are compared."""
HIDDEN_MARKS = "hidden marks"
"""The cheat of 7.6 that needs ECN."""


def of_that_without_ecn(tables: Tables) -> pl.DataFrame:
    """Return the goodput with ECN through each tunnel, over that without ECN; 0 where nothing arrives."""
    return _over_without_ecn(_goodput(tables, "alone"))


def of_others_without_ecn(tables: Tables) -> pl.DataFrame:
    """Return the goodput of another flow beside the candidate with ECN, over that beside the candidate without."""
    return _over_without_ecn(_goodput(tables, "beside", "other"))


def sent_again(tables: Tables) -> pl.DataFrame:
    """Return the share of packets, in %, that were sent again in the steady phase."""
    again, sent = pl.col("steady_retransmitted_packets").sum(), pl.col("steady_sent_packets").sum()
    return figures(tables.flows("alone"), again / sent.clip(1) * 100)


def gain_of_a_cheat(tables: Tables) -> pl.DataFrame:
    """Return what a flow takes by a cheat, beyond its fair share and what it has without, in % of the fair share."""
    others = _goodput(tables, "receivers", "other").select("run", other="goodput")
    flows = _goodput(tables, "receivers").join(others, on="run", maintain_order="left")
    flows = flows.with_columns(goodput=2 * pl.col("goodput") / (pl.col("goodput") + pl.col("other")))
    honest = pl.col("receiver").str.starts_with("honest")
    ecn = pl.col("receiver").is_in(["honest with ECN", HIDDEN_MARKS])
    gain = (100 * (pl.col("goodput") - pl.col("twin").clip(1))).clip(0)
    parts = [flows.filter(ecn), flows.filter(~ecn)]
    return pl.concat([_over(part.filter(~honest), part.filter(honest), gain) for part in parts])


def loss_at_a_policer(tables: Tables) -> pl.DataFrame:
    """Return the share of packets, in %, that a policer drops in the second half."""
    link = tables.link("policer")
    late = link.filter(pl.col("t_s") > pl.col("t_s").max().over("run") / 2)
    return figures(late, pl.col("dropped_packets").sum() / pl.col("offered_packets").sum().clip(1) * 100)


def _goodput(tables: Tables, experiment: str, flow: str = "candidate") -> pl.DataFrame:
    return tables.flows(experiment, flow).with_columns(goodput=pl.col("steady_goodput_mbps").fill_null(0))


def _over_without_ecn(flows: pl.DataFrame) -> pl.DataFrame:
    without = pl.col("tunnel") == WITHOUT_ECN
    return _over(flows.filter(~without), flows.filter(without), pl.col("goodput") / pl.col("twin"))


def _over(flows: pl.DataFrame, twins: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """Return a figure of each flow and of its twin over the same round trip, whose `goodput` is `twin`."""
    keys = ["rtt", "cc", "round"]
    joined = flows.join(twins.select(*keys, twin="goodput"), on=keys, maintain_order="left")
    return joined.with_columns(value=value.fill_nan(0)).select(*FIGURES)

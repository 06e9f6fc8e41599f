# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""For how long each cause limited each flow, by its rounds or its series."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from perigee.statistics.limits import of_rounds, of_series, shares, shares_of_time, with_sender
from perigee.store.schema import empty_table

Tables = Callable[[str], pl.DataFrame]
"""Gives a table by its name; one without rows where there is none."""
Judged = list[tuple[Mapping[str, Any], dict[str, float]]]
"""Rows of `flows` with the share of their time by cause; empty where it is unknown."""


def judge(table: Tables, flows: pl.DataFrame, policed: pl.DataFrame | None = None) -> Judged:
    """Judge flows by their rounds, which captures have, or else by their series.

    Args:
        table: gives `series`, `connections`, `rounds` and `losses` with these flows.
        flows: rows of `flows`, of the legs of flows too.
        policed: `run` and `flow` of those that a policer dropped packets of, where that is known.
    """
    of_legs = "leg" in flows.columns and flows["leg"].count() > 0
    keys = ["run", "flow", *(["leg"] if of_legs else [])]
    captured = _by_flow(table("rounds"), flows)
    seen = {key: rows.row(0, named=True) for key, rows in _by_flow(table("connections"), flows).items()}
    losses = _by_flow(table("losses").filter(pl.col("how") != "matched").sort("t_s"), flows)
    no_losses = empty_table("losses")
    others = flows.join(table("rounds"), on=["run", "flow"], how="anti")
    series = of_series(_with_series(table, others, keys, policed), keys)
    lengths = series.group_by(*keys, "cause").agg(pl.sum("length_s"))
    sums: dict[tuple[object, ...], dict[str, float]] = {}
    for *names, cause, length_s in lengths.iter_rows():
        sums.setdefault(tuple(names), {})[cause] = length_s
    found: Judged = []
    for row in flows.iter_rows(named=True):
        key = (row["run"], row["flow"])
        if key in captured:
            causes = of_rounds(row, seen.get(key, {}), captured[key], losses.get(key, no_losses))
            found.append((row, shares(causes)))
        else:
            guessed = shares_of_time(sums.get(tuple(row[name] for name in keys), {}))
            found.append((row, with_sender(guessed, row) if guessed else {}))
    return found


def _by_flow(table: pl.DataFrame, flows: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    own = table.join(flows.select("run", "flow").unique(), on=["run", "flow"], how="semi", maintain_order="left")
    return own.partition_by("run", "flow", as_dict=True)


def _with_series(table: Tables, flows: pl.DataFrame, keys: list[str], policed: pl.DataFrame | None) -> pl.DataFrame:
    """Return the intervals of flows in order, with all that `of_series` reads; unknown is empty in older results."""
    about = pl.concat([empty_table("flows").drop("leg", strict=False), flows], how="diagonal_relaxed")
    about = about.select(*keys, "start_s", "rtt_min_ms", "lost_packets", "limited_by")
    ends = table("connections").select("run", "flow", "receive_window_max_bytes", "segment_bytes", is_seen=True)
    if policed is None:
        policed = flows.select("run", "flow").clear()
    about = about.join(ends.unique(["run", "flow"]), on=["run", "flow"], how="left").join(
        policed.select("run", "flow", is_policed=True), on=["run", "flow"], how="left"
    )
    series = pl.concat([empty_table("series").drop("leg"), table("series")], how="diagonal_relaxed")
    return (
        series.join(about, on=keys)
        .sort(*keys, "t_s")
        .with_columns(pl.col("t_s") - pl.col("start_s"), rtt_ms=pl.coalesce("rtt_mean_ms", "srtt_ms"))
    )

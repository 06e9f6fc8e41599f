# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""For how long each cause limited each flow, of results and of files that were analysed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from perigee.groups.network import Network
from perigee.statistics.limits import RAISED_MS, of_rounds, of_series, shares, shares_of_time, with_sender
from perigee.store.results import Results
from perigee.store.schema import empty_table

Tables = Callable[[str], pl.DataFrame]
"""Gives a table by its name; one without rows where there is none."""
Judged = list[tuple[Mapping[str, Any], dict[str, float]]]
"""Rows of `flows` with the share of their time by cause; empty where it is unknown."""


def shares_of(results: Results) -> pl.DataFrame:
    """Return the share of its time for which each cause limited each flow, as far as that is known.

    A flow that proxies split has that of its legs. A leg that waits for what the leg before it brings, or for room in
    the proxy that it ends at, is limited by the proxy.

    Returns:
        Columns `run`, `flow`, `leg`, `cause` (one of `CAUSES`) and `share`; no rows for a flow of which it is unknown.
    """
    judged = judge(results.table, results.table("flows"), policed=_policed(results))
    legs = judge(results.legs, results.legs("flows"))
    ends: dict[tuple[object, object], list[int]] = {}
    for row, _ in legs:
        ends.setdefault((row["run"], row["flow"]), []).append(row["leg"])
    judged += [(row, _beside_proxies(found, row["leg"], ends[row["run"], row["flow"]])) for row, found in legs]
    rows = [
        (row["run"], row["flow"], row.get("leg"), cause, share)
        for row, found in judged
        for cause, share in found.items()
    ]
    schema = {"run": pl.UInt32, "flow": pl.String, "leg": pl.UInt32, "cause": pl.String, "share": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


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


def _beside_proxies(found: Mapping[str, float], leg: int, legs: list[int]) -> dict[str, float]:
    """Return shares of a leg, whose ends that are proxies are no application and no receiver."""
    ends = [*(["application"] if leg > min(legs) else []), *(["receiver"] if leg < max(legs) else [])]
    of_proxy = sum(found.get(end, 0.0) for end in ends)
    rest = {cause: share for cause, share in found.items() if cause not in ends}
    return rest | ({"proxy": of_proxy} if of_proxy else {})


def _policed(results: Results) -> pl.DataFrame | None:
    """Return `run` and `flow` of those whose data a link with a bucket of tokens dropped, and let hardly wait."""
    buckets = [
        link["name"]
        for link in results.setup().get("links", ())
        if any(name == "burst" for name, _ in link["properties"])
    ]
    # Links in words are those of the first run.
    if not buckets or any(column.key.startswith("links.") for column in results.points.columns):
        return None
    over = (
        results.table("links")
        .filter(pl.col("link").is_in(buckets))
        .group_by("run", "link")
        .agg(pl.sum("dropped_queue_full_packets"), wait_ms=pl.max("queue_bytes") * 8e-3 / pl.mean("rate_mbps"))
        .filter((pl.col("dropped_queue_full_packets") > 0) & (pl.col("wait_ms") < RAISED_MS))
    )
    network = Network(results)
    links = {(run, link) for run, link in over.select("run", "link").iter_rows()}
    rows = [
        (row["run"], row["flow"])
        for row in results.table("flows").iter_rows(named=True)
        if any((row["run"], link) in links for link in network.path(row))
    ]
    return pl.DataFrame(rows, schema={"run": pl.UInt32, "flow": pl.String}, orient="row")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""For how long each cause limited each flow of results, and each leg of those that proxies split."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from perigee.groups.network import Network
from perigee.statistics.flow_limits import judge
from perigee.statistics.limits import RAISED_MS
from perigee.store.results import Results


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

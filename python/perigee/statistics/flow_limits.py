# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""For how long each cause limited each flow of results."""

from __future__ import annotations

import polars as pl

from perigee.statistics.limits import of_rounds, of_series, shares, with_sender
from perigee.store.results import Results


def shares_of(results: Results) -> pl.DataFrame:
    """Return the share of its time for which each cause limited each flow, as far as that is known.

    Returns:
        Columns `run`, `flow`, `cause` (one of `CAUSES`) and `share`; no rows for a flow of which it is unknown.
    """
    by_flow: dict[str, dict[tuple[object, ...], pl.DataFrame]] = {
        name: results.table(name).partition_by("run", "flow", as_dict=True)
        for name in ("series", "rounds", "losses", "connections")
    }
    rows = []
    for row in results.table("flows").iter_rows(named=True):
        own = {name: tables.get((row["run"], row["flow"])) for name, tables in by_flow.items()}
        seen, rounds, losses = own["connections"], own["rounds"], own["losses"]
        about = {} if seen is None else seen.row(0, named=True)
        if rounds is not None:
            known = results.table("losses").clear() if losses is None else losses.filter(pl.col("how") != "matched")
            found = shares(of_rounds(row, about, rounds, known.sort("t_s")))
        elif own["series"] is not None:
            series = (
                own["series"]
                .sort("t_s")
                .with_columns(pl.col("t_s") - row["start_s"], rtt_ms=pl.coalesce("rtt_mean_ms", "srtt_ms"))
            )
            found = with_sender(shares(of_series(row, about, series)), row)
        else:
            continue
        rows += [(row["run"], row["flow"], cause, share) for cause, share in found.items()]
    schema = {"run": pl.UInt32, "flow": pl.String, "cause": pl.String, "share": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")

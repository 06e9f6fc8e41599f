# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Prints what each change of the path costs, from results of the study `handover-queues`.

    .venv/bin/python tools/handovers.py RESULTS      prints the table of studies/handover-queues/README.md

For the `WINDOW_S` after a change: packets sent again, the longest time without new data, and the goodput, each the
mean over the rounds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

CHANGES_S = {"to it": 15.0, "back": 30.0}
WINDOW_S = 5.0
RULES = ("kept", "moved", "lost")


def costs(results: Path) -> pl.DataFrame:
    """Return what a change costs.

    Args:
        results: results of the study.

    Returns:
        A row per point and change: `other`, `change`, `cc`, `waiting`, and the means of `again` (packets), `pause_ms`
        and `goodput_mbps`.
    """
    flows = pl.read_parquet(results / "flows.parquet")
    point = pl.struct(
        pl.col("point").str.json_path_match("$.other.name").fill_null("-").alias("other"),
        pl.col("cc"),
        pl.col("point").str.json_path_match("$['route.waiting']").alias("waiting"),
    )
    points = flows.select("run", point.alias("point")).unnest("point")
    series = pl.read_parquet(results / "series.parquet").sort("run", "t_s")
    step_s = series["t_s"].diff().head(100).median()
    parts = []
    for change, at_s in CHANGES_S.items():
        window = series.filter(pl.col("t_s").is_between(at_s, at_s + WINDOW_S, closed="right"))
        idle = (pl.col("goodput_mbps") == 0).rle_id().over("run")
        spans = (
            window.with_columns(idle.alias("span"))
            .group_by("run", "span")
            .agg(pl.len().alias("steps"), (pl.col("goodput_mbps") == 0).all().alias("is_idle"))
        )
        pauses = spans.group_by("run").agg(
            (pl.col("steps").filter(pl.col("is_idle")).max().fill_null(0) * step_s * 1000).alias("pause_ms")
        )
        sums = window.group_by("run").agg(
            pl.col("retransmitted_packets").sum().alias("again"), pl.col("goodput_mbps").mean()
        )
        parts.append(sums.join(pauses, on="run").with_columns(pl.lit(change).alias("change")))
    keys = ["other", "change", "cc", "waiting"]
    return pl.concat(parts).join(points, on="run").group_by(keys).agg(pl.exclude("run").mean()).sort(keys)


def table(found: pl.DataFrame) -> str:
    """Return the table of the README."""
    lines = [f"| other path | change | | {' | '.join(RULES)} |", "|---|---|---|---:|---:|---:|"]
    for (other, change, cc), rows in found.group_by(["other", "change", "cc"], maintain_order=True):
        by_rule = {row["waiting"]: row for row in rows.iter_rows(named=True)}
        cells = [
            f"{row['again']:.0f}, {row['pause_ms']:.0f} ms, {row['goodput_mbps']:.1f}"
            for row in (by_rule[rule] for rule in RULES)
        ]
        lines.append(f"| {other} | {change} | {cc} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(costs(Path(sys.argv[1]))))

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Prints what subscribers see with either owner of the queue, from results of the study `who-owns-the-queue`.

    .venv/bin/python tools/queue_owners.py RESULTS      prints the tables of studies/who-owns-the-queue/README.md
    .venv/bin/python tools/queue_owners.py RESULTS 20   looks at the link from 20 s on, as for the README's runs of 60 s

Page loads are those of all rounds together. The link is looked at from `SETTLED_S` on, or the second given, to
`END_S` or the end of shorter runs: the share of its capacity that it carried, the mean of its backlog as a time, and
Jain's index of the homes' payload, whatever number of connections each has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl

SETTLED_S, END_S = 40.0, 140.0
HALVED_S, LOOKED_AT_S = 60.0, 20.0
ROUND_TRIP_S = 0.6
POINT = ["experiment", "load", "queue", "owner", "told"]


def points(results: Path) -> pl.DataFrame:
    """Return the point of each run: `run` and `POINT`, each empty where it is no part of the experiment.

    Args:
        results: results of the study.
    """
    settings = json.loads((results / "manifest.json").read_text(encoding="utf-8"))["settings"]
    fixed = {key: value for key, _, value in (setting.partition("=") for setting in settings)}
    flows = pl.read_parquet(results / "flows.parquet", columns=["run", "point"]).unique("run")
    parts = [
        pl.coalesce(
            pl.col("point").str.json_path_match(f"$.{key}.name"),
            pl.col("point").str.json_path_match(f"$.{key}"),
            pl.lit(fixed.get(key), pl.String),
        ).alias(key)
        for key in POINT
    ]
    found = flows.select("run", *parts)
    for experiment, factor in {"loads": "load", "halved": "told"}.items():
        if found.filter(experiment=experiment)[factor].null_count():
            sys.exit(f"{results}: `{factor}` of the experiment {experiment} is unknown; run it with the study's values")
    return found


def last_s(results: Path, experiment: str) -> float | None:
    """Return the end of the shortest run of an experiment; None without runs.

    Args:
        results: results of the study.
        experiment: its name.
    """
    runs = points(results).filter(experiment=experiment)
    links = pl.read_parquet(results / "links.parquet", columns=["run", "t_s"]).join(runs, on="run", how="semi")
    end_s = links.group_by("run").agg(pl.col("t_s").max())["t_s"].min()
    return end_s if isinstance(end_s, float) else None


def links(results: Path, begin_s: float, end_s: float) -> pl.DataFrame:
    """Return what each direction of the satellite link did between two instants.

    Args:
        results: results of the study.
        begin_s: the first instant.
        end_s: the last instant.

    Returns:
        `run`, `direction`, `used_percent`, `wait_ms` and `dropped` (packets).
    """
    rows = pl.read_parquet(results / "links.parquet").filter(
        pl.col("link").str.starts_with("satellite."), pl.col("t_s").is_between(begin_s, end_s, closed="right")
    )
    step_s = rows["t_s"].unique().sort().diff().median()
    capacity = pl.col("rate_mbps").sum() * 1e6 / 8 * step_s
    return rows.group_by("run", pl.col("link").str.strip_prefix("satellite.").alias("direction")).agg(
        (pl.col("delivered_bytes").sum() / capacity * 100).alias("used_percent"),
        (pl.col("queue_bytes") * 8 / pl.col("rate_mbps") / 1e3).mean().alias("wait_ms"),
        pl.col("dropped_packets").sum().alias("dropped"),
    )


def fairness(results: Path, begin_s: float, end_s: float) -> pl.DataFrame:
    """Return Jain's index of the homes of each run, by the payload that each sent or received between two instants.

    Args:
        results: results of the study.
        begin_s: the first instant.
        end_s: the last instant.

    Returns:
        `run` and `jain`; of runs with several homes only.
    """
    home = pl.col("flow").cast(pl.String).str.extract(r"^(h\d\d)")
    rows = pl.read_parquet(results / "series.parquet").filter(
        pl.col("leg").is_null(), pl.col("t_s").is_between(begin_s, end_s, closed="right"), home.is_not_null()
    )
    shares = rows.group_by("run", home.alias("home")).agg(pl.col("goodput_mbps").sum())
    index = pl.col("goodput_mbps").sum() ** 2 / (pl.len() * (pl.col("goodput_mbps") ** 2).sum())
    return shares.group_by("run").agg(index.alias("jain"), pl.len().alias("homes")).filter(pl.col("homes") > 1)


def loads(results: Path) -> pl.DataFrame:
    """Return what the reader and the caller saw of each point, over all rounds.

    Args:
        results: results of the study.

    Returns:
        In the order of the study `POINT`, `pages`, `median_s` and `p95_s` of page loads, and `seen_percent` of the
        call's frames.
    """
    of_run = points(results)
    page = pl.read_parquet(results / "pages.parquet").join(of_run, on="run")
    load_s = pl.col("load_ms") / 1000
    pages = page.group_by(POINT).agg(
        pl.col("run").min().alias("first"),
        load_s.count().alias("pages"),
        load_s.median().alias("median_s"),
        load_s.quantile(0.95, "higher").alias("p95_s"),
    )
    calls = pl.read_parquet(results / "calls.parquet").join(of_run, on="run")
    seen = calls.group_by(POINT).agg(
        (pl.col("on_time_frames").sum() / pl.col("frames").sum() * 100).alias("seen_percent")
    )
    return pages.join(seen, on=POINT, how="left", nulls_equal=True).sort("first").drop("first")


def table(results: Path, begin_s: float) -> str:
    """Return the table of the experiment `loads`, a row per point.

    Args:
        results: results of the study.
        begin_s: from when on the link is looked at.
    """
    found = links(results, begin_s, END_S).join(points(results), on="run")
    found = found.join(fairness(results, begin_s, END_S), on="run", how="left")
    means = found.group_by(*POINT, "direction").agg(pl.col("used_percent", "wait_ms", "jain").mean())
    lines = [
        "| load | queue | its owner | pages | median and 95th percentile | frames seen | link used | wait | Jain |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in loads(results).filter(experiment="loads").iter_rows(named=True):
        direction = "up" if row["load"].endswith("upload") else "down"
        here = [pl.col(key).eq_missing(pl.lit(row[key])) for key in POINT]
        link = means.filter(*here, direction=direction).row(0, named=True)
        seen = "" if row["seen_percent"] is None else f"{row['seen_percent']:.1f} %"
        jain = "" if link["jain"] is None else f"{link['jain']:.3f}"
        pages = f"{row['pages']} | {row['median_s']:.1f} s, {row['p95_s']:.1f} s"
        of_link = f"{link['used_percent']:.1f} % | {link['wait_ms']:.0f} ms"
        lines.append(f"| {row['load']} | {row['queue']} | {row['owner']} | {pages} | {seen} | {of_link} | {jain} |")
    return "\n".join(lines)


def halved(results: Path) -> str:
    """Return the table of the experiment `halved`: the link once the proxy has learned of the change.

    Args:
        results: results of the study.
    """
    of_run = points(results).filter(pl.col("experiment") == "halved")
    lines = [
        "| told after | queue | its owner | two round trips after it is told | the second after these | from 10 s on |",
        "|---|---|---|---:|---:|---:|",
    ]
    for runs in of_run.sort("run").partition_by("told", "queue", "owner"):
        told, queue, owner = runs.select("told", "queue", "owner").row(0)
        told_s = HALVED_S + float(told.split()[0])
        cells = []
        for begin_s, length_s in (
            (told_s, 2 * ROUND_TRIP_S),
            (told_s + 2 * ROUND_TRIP_S, 1.0),
            (told_s + LOOKED_AT_S / 2, LOOKED_AT_S / 2),
        ):
            down = links(results, begin_s, begin_s + length_s).filter(direction="down").join(runs, on="run")
            used_percent, wait_ms = down.select(pl.col("used_percent", "wait_ms").mean()).row(0)
            cells.append(f"{used_percent:.0f} %, {wait_ms:.0f} ms")
        lines.append(f"| {told} | {queue} | {owner} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(results: Path, begin_s: float | None) -> None:
    """Print the table of each experiment that the results have.

    Args:
        results: results of the study.
        begin_s: from when on the link is looked at in `loads`; None: as in the whole study.
    """
    loads_s, halved_s = last_s(results, "loads"), last_s(results, "halved")
    if loads_s is None and halved_s is None:
        sys.exit(f"{results}: no runs of the experiments loads and halved of who-owns-the-queue")
    if loads_s is not None:
        if loads_s < END_S and begin_s is None:
            sys.exit(
                f"{results}: runs end at {loads_s:g} s; add the second from which on to look at the link, such as 20"
            )
        begin_s = SETTLED_S if begin_s is None else begin_s
        if not begin_s < min(loads_s, END_S):
            sys.exit(f"{results}: nothing to look at from {begin_s:g} s on; runs end at {loads_s:g} s")
        print(table(results, begin_s))
    if halved_s is not None:
        told_s = points(results)["told"].drop_nulls().str.extract(r"^([\d.]+) s$").cast(pl.Float64).max()
        needed_s = HALVED_S + float(str(told_s)) + LOOKED_AT_S
        if halved_s < needed_s:
            sys.exit(f"{results}: runs of halved end at {halved_s:g} s; leave out time_limit, they need {needed_s:g} s")
        print(f"\n{halved(results)}" if loads_s is not None else halved(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else None)

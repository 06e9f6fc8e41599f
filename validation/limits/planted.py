# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows that one cause limits by construction, and how much of their time is said to be limited by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from perigee import load, toml
from perigee.analysis.recordings import analyze
from perigee.statistics import limits

ROOT = Path(__file__).resolve().parents[2]
FAST = {"rate": "1 Gbit/s", "delay": "0.2 ms", "queue": "5 MB"}
WIDE = {**FAST, "queue": "10 MB"}
LEO = {"rate": "50 Mbit/s", "delay": "25 ms", "queue": {"bdp": 1}}
DEEP = {**LEO, "queue": {"bdp": 4}}
SLOW = {"rate": "4 Mbit/s", "delay": "60 ms", "queue": {"bdp": 4}}
GEO = {"rate": "20 Mbit/s", "delay": "300 ms", "queue": {"bdp": 1}}
POLICED = {**LEO, "rate": "10 Mbit/s", "burst": "100 kB", "queue": "3 kB"}
PACED = {"name": str(ROOT / "tests/planted_cc/constant_rate.c"), "rate": "12 Mbit/s"}
SMALL_WINDOW = {"hosts": {"rmem": ["4096 B", "131072 B", "262144 B"]}}
LARGE_BUFFERS = {"hosts": {"rmem": ["4096 B", "16 MB", "32 MB"], "wmem": ["4096 B", "16 MB", "32 MB"]}}
SMALL_BUFFER = {"hosts": {"wmem": ["4096 B", "131072 B", "1000000 B"]}}
CUBIC = {"cc": "cubic"}
PROXY = {"proxies": [{"name": "pep", "node": "b", "sides": {"first": CUBIC, "second": CUBIC}}]}


@dataclass(frozen=True)
class Case:
    """A flow from `a` over `b` to `c` whose limit is known.

    Attributes:
        cause: the only limit from `since_s` on, one of `limits.CAUSES`.
        why: in words, why nothing else can limit it.
        study: the study's tables.
        since_s: seconds since the flow began; None: since its first loss.
        node: where the capture is taken.
        standing: whether the queue of the second link, where it stands, is the limit instead.
        far: whether the capture is far from the sender, which is what the case is about.
        said: what a capture at this node says of it; empty: the cause.
    """

    cause: str
    why: str
    study: Mapping[str, Any]
    since_s: float | None
    node: str = "a"
    standing: bool = False
    far: bool = False
    said: str = ""

    def text(self) -> str:
        """Return the study, with captures at both ends."""
        measure = {"measure": {"series": "20 ms" if self.standing else "100 ms", "pcap": ["a", "c"]}}
        return toml.document({"name": "planted", "nodes": ["a", "b", "c"], **measure, **self.study})


def path(
    first: Mapping[str, object], second: Mapping[str, object], more: Mapping[str, object] | None = None, **flow: object
) -> dict[str, Any]:
    """Return a transfer from `a` over `b` to `c`, without its congestion control where none is given."""
    links = [{"name": "first", "between": ["a", "b"], **first}, {"name": "second", "between": ["b", "c"], **second}]
    return {**(more or {}), "links": links, "flows": [{"name": "f", "from": "a", "to": "c", **flow}]}


PLANTED = {
    "application": Case(
        "application", "4 Mbit/s offered to 50 Mbit/s", path(FAST, LEO, duration="20 s", offered="4 Mbit/s"), 0.2
    ),
    "application-geo": Case(
        "application", "6 Mbit/s offered to 20 Mbit/s", path(FAST, GEO, duration="30 s", offered="6 Mbit/s"), 6.0
    ),
    "receiver": Case(
        "receiver", "a buffer of 256 KiB over 600 ms", path(FAST, GEO, SMALL_WINDOW, duration="40 s"), 4.0
    ),
    "receiver-leo": Case(
        "receiver", "a buffer of 256 KiB over 50 ms", path(FAST, LEO, SMALL_WINDOW, duration="20 s"), 1.0
    ),
    "slow-start": Case(
        "slow_start", "8 MB over 1 Gbit/s and 600 ms",
        path(WIDE, {**WIDE, "delay": "300 ms"}, LARGE_BUFFERS, size="8 MB", cc="reno"), 0.0,
    ),
    "loss": Case(
        "loss", "Reno with 0.3 % random loss, 50 ms",
        path(FAST, {**LEO, "loss": "0.3 %"}, duration="30 s", cc="reno"), None,
    ),
    "loss-geo": Case(
        "loss", "Cubic with 0.3 % random loss, 600 ms",
        path(FAST, {**GEO, "loss": "0.3 %"}, duration="60 s", cc="cubic"), None,
    ),
    "pacing": Case(
        "pacing", "a sender at 12 Mbit/s whatever comes, 50 Mbit/s", path(FAST, LEO, duration="20 s", cc=PACED), 1.0
    ),
    "pacing-bbr": Case(
        "pacing", "BBR alone, except where its probes fill the queue", path(FAST, DEEP, duration="20 s", cc="bbr"),
        2.0, standing=True,
    ),
    "queue": Case(
        "queue", "Cubic with four products of queue, 50 ms", path(FAST, DEEP, duration="20 s", cc="cubic"), 1.0
    ),
    "queue-slow": Case(
        "queue", "Reno with four products of queue, 4 Mbit/s", path(FAST, SLOW, duration="30 s", cc="reno"), 4.0
    ),
    "policer": Case(
        "policer", "Cubic beyond a bucket of 100 kB, 10 Mbit/s", path(FAST, POLICED, duration="30 s"), None
    ),
    "policer-bbr": Case(
        "policer", "BBR beyond the same bucket", path(FAST, POLICED, duration="30 s", cc="bbr"), None
    ),
    "proxy": Case(
        "proxy", "the far end behind 600 ms and a proxy that splits", path(GEO, FAST, PROXY, duration="30 s"), 3.0, "c"
    ),
    "buffer": Case(
        "window", "a send buffer of 1 MB over 600 ms",
        path({**FAST, "queue": "9 MB"}, {**GEO, "queue": "3 MB"}, SMALL_BUFFER, duration="40 s"), 6.0, "c", far=True,
    ),
    "receiver-far": Case(
        "receiver", "as `receiver`, captured at the receiver",
        path(FAST, GEO, SMALL_WINDOW, duration="40 s"), 4.0, "c", far=True,
    ),
    "application-far": Case(
        "application", "as `application`, captured at the receiver",
        path(FAST, LEO, duration="20 s", offered="4 Mbit/s"), 0.2, "c", far=True, said="sender",
    ),
}  # fmt: skip
"""Cases by name; the last three are of captures far from the sender."""


def captured(case: Case, folder: Path) -> tuple[pl.DataFrame, float]:
    """Return the cause in each round of the capture from the time on at which it is the only one, and that time."""
    found = analyze([folder / f"captures/run-000000-{case.node}.pcapng"])
    if found is None:
        raise ValueError(f"{folder}: the capture was not read")
    row, seen = (found.table(name).row(0, named=True) for name in ("flows", "connections"))
    losses = found.table("losses").sort("t_s")
    causes = limits.of_rounds(row, seen, found.table("rounds"), losses)
    since_s = case.since_s if case.since_s is not None else float(losses["t_s"][0]) - row["start_s"]
    return causes.filter(pl.col("t_s") - pl.col("length_s") >= row["start_s"] + since_s), since_s


def right(case: Case, causes: pl.DataFrame, folder: Path) -> float:
    """Return the share of the time for which the planted cause was named."""
    expected = case.said or case.cause
    is_right = pl.col("cause") == expected
    if case.standing:
        causes = causes.with_columns(stands=pl.Series(_stands(causes, folder), dtype=pl.Float64))
        is_right = (is_right & (pl.col("stands") < 1)) | ((pl.col("cause") == "queue") & (pl.col("stands") > 0))
    return float(causes.select(pl.col("length_s").filter(is_right).sum() / pl.col("length_s").sum()).item())


def _stands(causes: pl.DataFrame, folder: Path) -> list[float]:
    """Return the share of samples with a standing queue in and a round trip before each round, from the link itself."""
    flow = load(folder).table("flows").row(0, named=True)
    trip_s = flow["rtt_min_ms"] / 1e3
    least_ms = max(limits.RAISED_SHARE * flow["rtt_min_ms"], limits.RAISED_MS)
    link = load(folder).table("links").filter(pl.col("link") == "second.down").sort("t_s")
    at = link["t_s"].to_numpy()
    raised = (link["queue_bytes"] * 8e-3 / link["rate_mbps"] >= least_ms).to_numpy()
    rounds = causes.select("t_s", "length_s").iter_rows()
    return [
        float(np.mean(raised[np.searchsorted(at, end - length - trip_s) : np.searchsorted(at, end) + 1]))
        for end, length in rounds
    ]

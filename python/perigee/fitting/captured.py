# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A link as captures of transfers show it: the most that it carried for some seconds, and how its delay grew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from perigee.analysis.recordings import Analysis, Options, analyze
from perigee.errors import InputError
from perigee.headers import IPV4, IPV6, TCP
from perigee.statistics.periodicity import periodicity

SUSTAINED_S = 5
"""Minimum duration of a rate that is no burst of a queue before the capture."""
HEADERS = {4: IPV4 + TCP, 6: IPV6 + TCP}
"""Bytes of the headers of IP and TCP, options not counted: they are part of what an announced segment size leaves."""


@dataclass(frozen=True)
class Ceiling:
    """One transfer.

    Attributes:
        file: the capture's name.
        flow: which one of its flows.
        way: `down` where the receiver opened the connection, as one that downloads, otherwise `up`.
        bps: the largest mean rate of five seconds, headers of IP and TCP counted; the link carries this or more.
        seconds: length of the transfer.
        least_ms: shortest round trip.
        grown_ms: 99th percentile of the round trips less the shortest.
        period_s: period of the retransmissions; none: none was found.
        assumed: whether the direction is a guess, since the beginning is not in the capture.
    """

    file: str
    flow: str
    way: str
    bps: float
    seconds: float
    least_ms: float | None
    grown_ms: float | None
    period_s: float | None
    assumed: bool

    @property
    def queue_bytes(self) -> float | None:
        """The queue that explains the growth of the delay; none without round trips."""
        return None if self.grown_ms is None else self.grown_ms / 1000 * self.bps / 8


def ceilings(files: Sequence[Path]) -> list[Ceiling]:
    """Return the transfers in captures that lasted long enough, the fastest first.

    Raises:
        InputError: a file is no capture, or none of its transfers lasted.
    """
    analysis = analyze(files, Options(series="1 s", most=20))
    if analysis is None:
        raise AssertionError("nobody stopped it")
    found = sorted(_transfers(analysis), key=lambda ceiling: ceiling.bps, reverse=True)
    if not found:
        names = ", ".join(str(file) for file in files)
        raise InputError(f"{names}: no transfer of {SUSTAINED_S} s or more is in it; capture one that lasts a minute")
    return found


def _transfers(analysis: Analysis) -> list[Ceiling]:
    flows, series, seen = analysis.table("flows"), analysis.table("series"), analysis.table("connections")
    if seen.is_empty():
        return []
    found = []
    for row in flows.join(seen, on=["run", "flow"], how="inner").filter(pl.col("kind") == "bulk").to_dicts():
        own = series.filter((pl.col("run") == row["run"]) & (pl.col("flow") == row["flow"])).sort("t_s")
        goodput = own["goodput_mbps"].to_numpy()
        if len(goodput) >= SUSTAINED_S and row["segment_bytes"]:
            found.append(_ceiling(row, goodput, own["retransmitted_packets"].fill_null(0).to_numpy()))
    return found


def _ceiling(row: dict[str, Any], goodput: np.typing.NDArray[np.float64], again: np.typing.NDArray[Any]) -> Ceiling:
    packet = (row["mss_bytes"] or row["segment_bytes"]) + HEADERS[6 if ":" in row["from_node"] else 4]
    most = float(np.convolve(goodput, np.ones(SUSTAINED_S) / SUSTAINED_S, mode="valid").max())
    least, far = row["rtt_min_ms"], row["rtt_p99_ms"]
    repeats = periodicity(again.astype(float))
    return Ceiling(
        file=row["capture"],
        flow=row["flow"],
        way="up" if row["opened_by"] == "from" else "down",
        bps=most * 1e6 * packet / row["segment_bytes"],
        seconds=row["duration_s"],
        least_ms=least,
        grown_ms=None if least is None or far is None else max(far - least, 0.0),
        period_s=None if repeats is None else repeats.period_s,
        assumed=row["opened_by"] == "",
    )

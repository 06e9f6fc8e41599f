# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A link as transfers show it, in captures and logs: the most that it carried for some seconds, how its delay grew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from perigee.analysis import iperf3
from perigee.analysis.recordings import LOGS, Analysis, Options, analyze
from perigee.errors import InputError
from perigee.fitting.loss import Runs
from perigee.headers import IPV4, IPV6, TCP, UDP
from perigee.statistics import limits
from perigee.statistics.periodicity import periodicity
from perigee.store.small_flows import is_small

SUSTAINED_S = 5
"""Minimum duration of a rate that is no burst of a queue before the capture."""
_MSS, _SEGMENT = 1460, 1448
"""Payload of a packet of 1500 B over IPv4, without and with timestamps."""
HEADERS = {4: IPV4 + TCP, 6: IPV6 + TCP}
"""Bytes of the headers of IP and TCP, options not counted: they are part of what an announced segment size leaves."""
FLOODED_FROM = 0.1
"""Share of lost datagrams from which they were sent faster than the path carries: more than the air loses."""
_SETTLED_S = 2
"""Seconds in which a queue fills, or a bucket empties, before what arrives is the path's rate."""
_BURST_FROM = 1.05
"""First second of a flood, in the rate of those after it, from which a bucket let a burst pass: no queue does."""
_PAUSED_FROM, _UNEVEN_FROM = 1.1, 0.05
"""Share of a flood's rate that a transfer carries, and scatter of its seconds, from which its sender paused."""
_PAYLOAD = 1448
"""Payload of a datagram of iperf3 by default over Ethernet; its counts leave out those that were lost last."""

_NONE = Runs(0, ())


@dataclass(frozen=True)
class Ceiling:
    """One transfer.

    Attributes:
        file: the capture's or the log's name.
        flow: which one of its flows.
        way: `down` where the receiver opened the connection, as one that downloads, otherwise `up`.
        bps: the largest mean rate of five seconds, headers of IP and TCP counted; the link carries this or more.
        seconds: length of the transfer.
        least_ms: shortest round trip.
        grown_ms: 99th percentile of the round trips less the shortest.
        period_s: period of the retransmissions; none: none was found.
        assumed: whether the direction is a guess, since the beginning is not in the capture.
        is_written: whether its bytes are what its sender wrote, which runs ahead of what the link carried.
        is_sampled: whether round trips are samples of a log, of which none may have met an empty queue.
        again: share of the packets that were sent again; none: not known.
        cc: the sender's congestion control; empty: not known.
        is_udp: whether it is of datagrams.
        is_flood: whether datagrams were sent faster than the link carries, so that what arrived is its rate.
        bins: seconds of a flood that its rate is the mean of; 0: too few to say how it scatters, or no flood.
        standard_error_bps: of that mean.
        burst_bytes: bytes that arrived in the first second of a flood beyond its rate, as a policer lets them pass.
        notes: what the reader of its file says of it.
        goodput_mbps: mean over all of it; none: not known.
        quiet: packets that it sent, and sent again, in seconds without a queue: the path lost those.
        how: what its rate is: the most of some seconds, or the mean where nothing else is in the file.
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
    how: str
    is_written: bool = False
    is_sampled: bool = False
    again: float | None = None
    cc: str = ""
    is_udp: bool = False
    is_flood: bool = False
    bins: int = 0
    standard_error_bps: float = 0.0
    burst_bytes: float = 0.0
    notes: tuple[str, ...] = ()
    goodput_mbps: float | None = None
    quiet: Runs = _NONE

    def above(self, idle_ms: float) -> Ceiling:
        """Return it with the growth of its delay above that of the idle path, where samples do not tell it."""
        if not self.is_sampled or self.grown_ms is None or self.least_ms is None or self.least_ms <= idle_ms:
            return self
        stood = self.least_ms >= limits.raised_ms(idle_ms)
        grown_ms = self.grown_ms + self.least_ms - idle_ms
        return replace(self, least_ms=idle_ms, grown_ms=grown_ms, quiet=_NONE if stood else self.quiet)

    def queue_bytes(self, bps: float | None = None) -> float | None:
        """Return the queue that explains the growth of the delay, at the link's rate; none without round trips."""
        return None if self.grown_ms is None else self.grown_ms / 1000 * (bps or self.bps) / 8


def ceilings(files: Sequence[Path]) -> list[Ceiling]:
    """Return the transfers in captures and logs that lasted long enough, the fastest first.

    Raises:
        InputError: a file is none of these, or none of its transfers lasted.
    """
    found = transfers_of(files)
    if not found:
        names = ", ".join(str(file) for file in files)
        raise InputError(f"{names}: no transfer of {SUSTAINED_S} s or more is in it; capture one that lasts a minute")
    return found


def transfers_of(files: Sequence[Path]) -> list[Ceiling]:
    """Return the same, also where there is none.

    Raises:
        InputError: a file is neither a capture nor a log.
    """
    analysis = analyze(files, Options(series="1 s", most=20))
    if analysis is None:
        raise AssertionError("nobody stopped it")
    found = sorted(_transfers(analysis), key=lambda ceiling: ceiling.bps, reverse=True)
    return [_held_against(found, one) for one in found]


def _held_against(found: Sequence[Ceiling], flood: Ceiling) -> Ceiling:
    """Return a flood that carried unevenly less than a transfer by TCP as the lower bound that it is.

    On a machine that has other work, its sender pauses for longer than the queue lasts, and the link idles.
    """
    own = (one for one in found if one.way == flood.way and not one.is_udp and not one.is_written)
    more = next((one for one in own if one.bps > _PAUSED_FROM * flood.bps), None)
    scatter = flood.standard_error_bps * math.sqrt(flood.bins)
    if not flood.is_flood or more is None or scatter < _UNEVEN_FROM * flood.bps:
        return flood
    note = (
        f"its rate varied from second to second, and {more.file} carried {more.bps / flood.bps - 1:.0%} more: its "
        "sender paused; its rate is a lower bound"
    )
    return replace(flood, is_flood=False, bins=0, standard_error_bps=0.0, burst_bytes=0.0, notes=(*flood.notes, note))


def busy(files: Sequence[Path]) -> list[tuple[float, float]]:
    """Return begin and end, s since 1970, of each transfer in captures and logs that say the time of day.

    Raises:
        InputError: a file is neither a capture nor a log.
    """
    analysis = analyze(files, Options()) if files else None
    found: list[tuple[float, float]] = []
    for run in () if analysis is None else analysis.runs:
        is_transfer = (pl.col("kind") == "bulk") & ~is_small() | (pl.col("kind") == "udp") & (run.kind == "iperf3")
        own = run.placed.flows.filter(is_transfer & (pl.col("duration_s") > 0))
        if run.began_s is not None:
            spans = own.select("start_s", "duration_s").iter_rows()
            found += [(run.began_s + begin, run.began_s + begin + took) for begin, took in spans]
    return found


def _transfers(analysis: Analysis) -> list[Ceiling]:
    flows, series, seen = analysis.table("flows"), analysis.table("series"), analysis.table("connections")
    found = []
    iperf3_runs = [number for number, run in enumerate(analysis.runs) if run.kind == "iperf3"]
    is_sent = (
        (pl.col("kind") == "udp") & (pl.col("lost_packets") < pl.col("sent_packets")) & pl.col("run").is_in(iperf3_runs)
    )
    for row in flows.join(seen, on=["run", "flow"], how="left").filter((pl.col("kind") == "bulk") | is_sent).to_dicts():
        own = series.filter((pl.col("run") == row["run"]) & (pl.col("flow") == row["flow"])).sort("t_s")
        goodput = own["goodput_mbps"].to_numpy()
        run = analysis.runs[row["run"]]
        row["capture"] = row["capture"] or run.name
        if max(len(goodput), row["duration_s"]) >= SUSTAINED_S:
            made = _ceiling(row, own) if row["kind"] == "bulk" else _flood(row, goodput)
            is_written = bool({iperf3.WRITTEN, iperf3.UNHEARD} & set(run.notes))
            is_log = run.kind in LOGS
            notes = (*(run.notes if is_log else ()), *made.notes)
            found.append(replace(made, is_written=is_written, is_sampled=is_log, notes=notes))
    return found


def _ceiling(row: dict[str, Any], series: pl.DataFrame) -> Ceiling:
    # Logs do not say how large packets are.
    segment = row["segment_bytes"] or _SEGMENT
    packet = (row["mss_bytes"] or row["segment_bytes"] or _MSS) + HEADERS[6 if ":" in row["from_node"] else 4]
    goodput = series["goodput_mbps"].to_numpy()
    most, how = row["goodput_mbps"] or 0.0, "mean"
    if len(goodput) >= SUSTAINED_S:
        most = float(np.convolve(goodput, np.ones(SUSTAINED_S) / SUSTAINED_S, mode="valid").max())
        how = f"most of {SUSTAINED_S} s on end"
    least, far = row["rtt_min_ms"], row["rtt_p99_ms"]
    repeats = periodicity(series["retransmitted_packets"].fill_null(0).to_numpy().astype(float))
    return Ceiling(
        file=row["capture"],
        flow=row["flow"],
        way="up" if row["opened_by"] == "from" or row["from_node"] == "client" else "down",
        bps=most * 1e6 * packet / segment,
        seconds=row["duration_s"],
        least_ms=least,
        grown_ms=None if least is None or far is None else max(far - least, 0.0),
        period_s=None if repeats is None else repeats.period_s,
        assumed=row["opened_by"] == "",
        how=how,
        again=row["retransmitted_packets"] / row["sent_packets"]
        if row["retransmitted_packets"] is not None and row["sent_packets"]
        else None,
        cc=row["cc"] or "",
        goodput_mbps=row["goodput_mbps"],
        quiet=_quiet(series, least, far, segment),
    )


def _quiet(series: pl.DataFrame, least_ms: float | None, far_ms: float | None, segment: int) -> Runs:
    """Return what a transfer sent and lost in seconds without a queue; none where none of them shows its queue.

    Its delay shows a queue: where the round trip has hardly grown at both ends of a second, none was full between them.
    Slow start fills a queue within one round trip, so that what is before the end of its losses does not count.
    """
    if least_ms is None or far_ms is None or far_ms < limits.raised_ms(least_ms):
        return _NONE
    again = series["retransmitted_packets"].fill_null(0).to_numpy()
    lossy = np.flatnonzero(again)
    first = int(lossy[0]) if len(lossy) else 0
    calm = np.flatnonzero(again[first:] == 0)
    begin = first + int(calm[0]) if len(calm) else len(again)
    rtt_ms = series["rtt_mean_ms"].to_numpy()
    is_low = np.maximum(rtt_ms[1:], rtt_ms[:-1]) < limits.raised_ms(least_ms)
    is_low[: max(begin - 1, 0)] = False
    sent = series["goodput_mbps"].to_numpy()[1:] * np.diff(series["t_s"].to_numpy()) * 1e6 / 8 / segment
    lost = int(again[1:][is_low].sum())
    return Runs(round(sent[is_low].sum()) + lost, ((1, lost),) if lost else ())


def _flood(row: dict[str, Any], goodput: np.typing.NDArray[np.float64]) -> Ceiling:
    """Return what datagrams say: where few of them were lost, they did not fill the link, which carries this or more.

    Lost are those that a later one overtook, as iperf3 counts: none that were still on their way at the end.
    """
    lost = row["lost_packets"] / row["sent_packets"]
    is_flood = lost >= FLOODED_FROM
    settled = goodput[_SETTLED_S:-1]
    mean, first, bins, error = row["goodput_mbps"], 0.0, 0, 0.0
    of_packets = (_PAYLOAD + IPV4 + UDP) / _PAYLOAD
    if len(settled) >= SUSTAINED_S:
        mean, first = float(settled.mean()), float(goodput[0])
        bins = len(settled) if is_flood else 0
        error = float(settled.std(ddof=1)) / math.sqrt(len(settled)) * 1e6 * of_packets
    return Ceiling(
        file=row["capture"],
        flow=row["flow"],
        way="up" if row["from_node"] == "client" else "down",
        bps=mean * 1e6 * of_packets,
        seconds=row["duration_s"],
        least_ms=None,
        grown_ms=None,
        period_s=None,
        assumed=False,
        how="mean",
        is_udp=True,
        is_flood=is_flood,
        bins=bins,
        standard_error_bps=error if is_flood else 0.0,
        burst_bytes=(first - mean) * 1e6 / 8 * of_packets if is_flood and first >= _BURST_FROM * mean else 0.0,
        notes=()
        if is_flood
        else (
            f"{100 * lost:.2g} % of the datagrams were lost, less than {100 * FLOODED_FROM:.0f} %, so that they did "
            "not fill the path: its rate is a lower bound; send faster (`iperf3 --udp --bitrate`, or --most of "
            "`perigee advise HOST`)",
        ),
    )

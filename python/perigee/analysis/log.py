# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A log of another program, whatever wrote it, and the tables of results that it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from perigee.analysis import observations
from perigee.analysis.observations import FlowDescription, Measure, Observation
from perigee.core import native
from perigee.errors import InputError
from perigee.store.schema import blank_row, empty_table
from perigee.store.streams import frames_of

MOST_ROWS = 2_000_000
"""Pings that are written one by one: more than four days at five per second. Figures count all of them."""

BIN_MS = 0.1
"""Width of the bins of round trips."""
_NS_PER_MS = 1_000_000
_YEAR_2000_S = 946_684_800
_DAY_NS = 86_400 * 10**9
_SERIES_NS = 10**9
LONGEST_NS = 60 * _DAY_NS
"""Longest transfer: its series has a row for each second."""

Entry = tuple[float, float | None]
"""When a ping was sent or answered (s), and its round trip (ms); none: it was lost."""


@dataclass(frozen=True)
class Flow:
    """A transfer, one way.

    Attributes:
        name: as the log has it: `stream.1` and so on.
        kind: `bulk` (TCP) or `udp`.
        upload: whether it goes away from the user's side.
        cc: the sender's congestion control; empty where the log does not say.
        seen: what is measured.
        outcome: how it ended, as the column `outcome` of the table `flows` has it.
        lost_packets: of UDP.
        jitter_ms: of UDP: mean over the intervals of the receiver's smoothed value.
        rtt_ms: shortest, mean and 95th percentile of round trips that the log counted itself.
        gaps: spans of time that the log says nothing of, seconds since the flow began: they are in no mean.
        states: seconds since the flow began, packets in flight, and the slow start threshold, in order.
        counted_s: columns of `flows` that the sender counted, seconds.
    """

    name: str
    kind: str
    upload: bool
    cc: str
    seen: Observation
    outcome: str
    lost_packets: int | None = None
    jitter_ms: float | None = None
    rtt_ms: tuple[float | None, float | None, float | None] | None = None
    gaps: tuple[tuple[float, float], ...] = ()
    states: tuple[tuple[float, int | None, int | None], ...] = ()
    counted_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class OneWay:
    """Datagrams in one direction, whose delay was measured by two clocks.

    Attributes:
        upload: whether they go away from the user's side.
        sent: how many were sent; none: not known, since some that were lost may have been lost on the way back.
        lost: how many of them did not arrive.
        received: how many arrived for certain.
        size: bytes of each.
        delay_ms: mean delay; none: the clocks are not held against each other.
        length_s: from the first to the last.
    """

    upload: bool
    sent: int | None
    lost: int | None
    received: int
    size: int
    delay_ms: float | None
    length_s: float


@dataclass(frozen=True)
class Pings:
    """Pings of a log, in order.

    Attributes:
        entries: yields them, each time from the first on.
        counts: how many were sent and lost, as the log has it itself or as can be known; none: as they are counted;
            a count that is not known is none.
        interval_s: time between two; none: the log does not say.
        size: bytes of each without headers; none: the log does not say.
        is_measured: whether the interval is measured or told, not assumed.
    """

    entries: Callable[[], Iterator[Entry]]
    counts: tuple[int | None, int | None] | None = None
    interval_s: float | None = None
    size: int | None = None
    is_measured: bool = True


@dataclass(frozen=True)
class Log:
    """One measurement of a log.

    Attributes:
        system: the program that wrote it, with its system or version where it says so.
        flows: transfers.
        pings: round trips; none: there are none in it.
        one_way: datagrams of each direction.
        began_s: when, seconds of Unix time; none: not said.
        error: what the program says went wrong, after it had carried something; none: nothing.
        notes: what cannot be had from the file, or is assumed, for people.
        damage: where the file is damaged or cut off; the notes say so too.
    """

    system: str
    flows: tuple[Flow, ...] = ()
    pings: Pings | None = None
    one_way: tuple[OneWay, ...] = ()
    began_s: float | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()

    @property
    def time_zero_s(self) -> float | None:
        """Time of day of its tables' time zero, s since 1970: of its first ping or its begin; none: not said."""
        first = None if self.pings is None else next(iter(self.pings.entries()), None)
        return first[0] if first is not None and first[0] > _YEAR_2000_S else self.began_s


def tables(
    log: Log, study: str, name: str, measure: Measure | None = None
) -> tuple[dict[str, pl.DataFrame], tuple[str, ...]]:
    """Return the tables of a log, and notes on its pings.

    Args:
        log: the measurement.
        study: what the tables call it.
        name: its file, for errors.
        measure: what to measure of transfers; none: as a study that does not say.

    Raises:
        InputError: it holds nothing.
    """
    parts: list[dict[str, pl.DataFrame]] = []
    notes: tuple[str, ...] = ()
    if any(flow.seen.duration_ns > LONGEST_NS for flow in log.flows):
        raise InputError(
            f"{name}: spans more than {LONGEST_NS // _DAY_NS} days; are its times right? give a part of it"
        )
    if log.flows:
        parts.append(_with_figures(frames_of(transfers(log, study, 0, measure)), log.flows))
    if log.pings is not None:
        made, notes = _pings(log.pings, study, name)
        parts.append(made)
    if log.one_way:
        parts.append({"flows": _one_way(log.one_way, study)})
    if not parts:
        raise InputError(f"{name}: holds nothing that was measured")
    joined: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for called, table in part.items():
            joined.setdefault(called, []).append(table)
    return {called: pl.concat(own) for called, own in joined.items()}, notes


def transfers(log: Log, study: str, run: int = 0, measure: Measure | None = None) -> dict[str, bytes]:
    """Return the tables of the transfers of a log, with the definitions that all engines share, as streams."""
    rows = []
    for flow in log.flows:
        ends = ("client", "server") if flow.upload else ("server", "client")
        description = FlowDescription(
            study, flow.name, flow.kind, *ends, cc=flow.cc, run=run, outcome=flow.outcome,
            lost_packets=flow.lost_packets, jitter_ms=flow.jitter_ms,
        )  # fmt: skip
        rows.append((description, measure or Measure(), flow.seen))
    return observations.tables(rows)


def _without_gaps(tables: dict[str, pl.DataFrame], flow: Flow) -> dict[str, pl.DataFrame]:
    """Return the tables with the mean over the time that the log tells of, and that time's bins alone."""
    is_own = pl.col("flow") == flow.name
    told_s = flow.seen.duration_ns / 1e9 - sum(end - begin for begin, end in flow.gaps)
    mean = pl.lit(8e-6 * flow.seen.arrivals[-1][1] / told_s, pl.Float64)
    goodput = pl.when(is_own).then(mean).otherwise(pl.col("goodput_mbps")).alias("goodput_mbps")
    made = tables | {"flows": tables["flows"].with_columns(goodput, *_without_course(tables["flows"], is_own))}
    if "series" in tables:
        silent = [(pl.col("t_s") > begin) & (pl.col("t_s") <= end) for begin, end in flow.gaps]
        made |= {"series": tables["series"].filter(~(is_own & pl.any_horizontal(silent)))}
    return made


def _without_course(flows: pl.DataFrame, is_own: pl.Expr) -> list[pl.Expr]:
    """Return the columns of a flow's course over time, empty for a flow that has none."""
    return [
        pl.when(is_own).then(None).otherwise(pl.col(name)).alias(name)
        for name in flows.columns
        if name.startswith(("goodput_p", "steady_", "startup_"))
    ]


def _with_figures(tables: dict[str, pl.DataFrame], flows: tuple[Flow, ...]) -> dict[str, pl.DataFrame]:
    """Return the tables with what a log itself has of flows, and without a course that it does not have."""
    for flow in flows:
        if flow.gaps:
            tables = _without_gaps(tables, flow)
        if len(flow.seen.arrivals) == 1 and flow.seen.duration_ns > _SERIES_NS:
            is_own = pl.col("flow") == flow.name
            tables = tables | {"flows": tables["flows"].with_columns(_without_course(tables["flows"], is_own))}
            tables = tables | {"series": tables["series"].filter(~is_own)} if "series" in tables else tables
        told: dict[str, float | None] = dict(flow.counted_s)
        if flow.rtt_ms is not None:
            told |= zip(("rtt_min_ms", "rtt_mean_ms", "rtt_p95_ms"), flow.rtt_ms, strict=True)
        is_own = pl.col("flow") == flow.name
        filled = [
            pl.when(is_own).then(pl.lit(value, pl.Float64)).otherwise(pl.col(name)).alias(name)
            for name, value in told.items()
        ]
        tables = tables | {"flows": tables["flows"].with_columns(filled)}
    return tables if "series" not in tables else tables | {"series": _with_states(tables["series"], flows)}


def _with_states(series: pl.DataFrame, flows: tuple[Flow, ...]) -> pl.DataFrame:
    """Return the series with the state of the sender at the last sample in each interval."""
    columns = {"t_s": pl.Float64, "inflight_packets": pl.UInt32, "ssthresh_packets": pl.UInt32}
    parts = []
    for flow in flows:
        own = series.filter(pl.col("flow") == flow.name)
        if flow.states:
            states = pl.DataFrame(flow.states, schema=columns, orient="row").sort("t_s")
            found = own.sort("t_s").join_asof(states, on="t_s", suffix="_told")
            own = found.with_columns(**{name: f"{name}_told" for name in list(columns)[1:]}).select(series.columns)
        parts.append(own)
    return pl.concat(parts) if parts else series


def _pings(pings: Pings, study: str, name: str) -> tuple[dict[str, pl.DataFrame], tuple[str, ...]]:
    answered, sent = native.Histogram(round(BIN_MS * _NS_PER_MS)), 0
    first: float | None = None
    last = 0.0
    starts: list[float] = []
    took: list[float] = []
    backwards = 0
    for at, rtt_ms in pings.entries():
        first = at if first is None else first
        backwards += at < last
        last = at
        sent += 1
        if rtt_ms is not None:
            answered.add(round(rtt_ms * _NS_PER_MS))
        if len(starts) < MOST_ROWS:
            starts.append(max(0.0, at - first))
            took.append(np.nan if rtt_ms is None else rtt_ms)
    if not sent:
        raise InputError(f"{name}: holds no ping; was it ended before the first answer?")
    notes = []
    if sent > MOST_ROWS:
        notes.append(f"the first {MOST_ROWS} of {sent} pings are written one by one; the figures count all")
    if backwards:
        notes.append(f"the clock was set back {backwards} times; instants behind that are wrong, round trips are not")
    made = {
        "flows": _row(study, answered, max(last - (first or 0.0), 0.0), pings.counts or (sent, sent - answered.count)),
        "exchanges": _exchanges(starts, took),
        "rtt": _distribution(answered),
    }
    return {called: table for called, table in made.items() if table.height}, tuple(notes)


def _blank(study: str, flow: str, kind: str, ends: tuple[str, str]) -> dict[str, object]:
    return blank_row("flows") | {
        "study": study, "point": "{}", "cc_params": "{}", "flow": flow, "kind": kind, "from_node": ends[0],
        "to_node": ends[1], "start_s": 0.0, "completed": True, "outcome": "completed",
    }  # fmt: skip


def _row(study: str, answered: native.Histogram, length: float, counts: tuple[int | None, int | None]) -> pl.DataFrame:
    """Return the row of a flow; `counts` is how many were sent and lost."""
    row = _blank(study, "ping", "ping", ("here", "there")) | {
        "duration_s": length, "goodput_mbps": 0.0, "sent_packets": counts[0], "lost_packets": counts[1],
    }  # fmt: skip
    if answered.count:
        row |= {
            "rtt_min_ms": answered.min_ms, "rtt_mean_ms": answered.mean_ms, "rtt_p50_ms": answered.quantile_ms(0.5),
            "rtt_p95_ms": answered.quantile_ms(0.95), "rtt_p99_ms": answered.quantile_ms(0.99),
        }  # fmt: skip
    return pl.DataFrame([row], empty_table("flows").schema)


def _one_way(ways: tuple[OneWay, ...], study: str) -> pl.DataFrame:
    rows = []
    for way in ways:
        name, ends = ("up", ("here", "there")) if way.upload else ("down", ("there", "here"))
        payload = way.received * way.size
        rows.append(
            _blank(study, name, "udp", ends)
            | {
                "duration_s": way.length_s, "bytes": payload, "received_bytes": payload,
                "goodput_mbps": 8e-6 * payload / way.length_s if way.length_s else None,
                "sent_packets": way.sent, "lost_packets": way.lost, "delay_mean_ms": way.delay_ms,
            }
        )  # fmt: skip
    return pl.DataFrame(rows, empty_table("flows").schema)


def _exchanges(starts: list[float], took: list[float]) -> pl.DataFrame:
    count = len(starts)
    columns = {
        "run": np.zeros(count, np.uint32), "flow": ["ping"] * count,
        "number": np.arange(count, dtype=np.uint32), "start_s": starts,
        "request_bytes": np.zeros(count, np.uint64), "response_bytes": np.zeros(count, np.uint64),
        "duration_ms": pl.Series(took, dtype=pl.Float64).fill_nan(None),
    }  # fmt: skip
    return pl.DataFrame(columns, empty_table("exchanges").schema)


def _distribution(answered: native.Histogram) -> pl.DataFrame:
    rows = [
        {"run": 0, "flow": "ping", "phase": "all", "rtt_ms": edge_ms, "count": count}
        for edge_ms, count in answered.bins()
    ]
    return pl.DataFrame(rows, empty_table("rtt").schema)

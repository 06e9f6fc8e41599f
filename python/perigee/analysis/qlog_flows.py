# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows of a qlog's trace, as tables of results: what its packets carried, and what the stack says of its sending.

The end that sent the data knows most: payload counts when its packet is acknowledged, a packet is lost when the stack
says so, and time is held by flow control while a stream or the connection has no credit left. The end that received
them knows what arrived. What a stack does not log is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from perigee.analysis import observations
from perigee.analysis.observations import FlowDescription, Measure, Observation
from perigee.analysis.qlog import Trace
from perigee.analysis.qlog_ends import Receiving, Sending, follow
from perigee.numbers import number
from perigee.store.schema import blank_row, empty_table
from perigee.store.streams import frames_of

Tables = dict[str, pl.DataFrame]
SMALL_SHARE, SMALL_BYTES = 0.1, 100_000
"""The direction that carries less is a flow of its own from this share of the other's payload, and this many bytes."""
AS_FAST = 0.8
"""From this share of window over round trip a receiver's throughput is said to be what the window allows."""


def tables(trace: Trace, name: str, study: str) -> tuple[Tables, tuple[str, ...]]:
    """Return the tables of a trace, and notes on it; no table where it carried nothing.

    Args:
        trace: the events.
        name: of the file, in the table `connections`.
        study: what the tables call it.
    """
    sending, receiving = follow(trace)
    notes = list(trace.notes)
    if trace.vantage == "network":
        notes.append("logged between the two ends: what its own side's packets carry is taken as sent")
    if receiving.is_guessed or sending.is_guessed:
        notes.append("the packets' frames are not in it: payload is taken as the packets' own bytes")
    larger = max(sending.payload, receiving.payload)
    parts: list[Tables] = []
    for end in (sending, receiving):
        if end.payload and end.payload >= min(larger, max(SMALL_SHARE * larger, SMALL_BYTES)):
            notes += _notes(end)
            parts.append(_tables(trace, end, name, study))
    names = {table for part in parts for table in part}
    joined = {table: pl.concat([part[table] for part in parts if table in part]) for table in sorted(names)}
    return joined, tuple(notes)


def _tables(trace: Trace, end: Sending | Receiving, name: str, study: str) -> Tables:
    is_up = isinstance(end, Sending) == (trace.vantage != "server")
    flow = f"{trace.group[:8] or 'connection'}.{'up' if is_up else 'down'}"
    ends = ("client", "server") if is_up else ("server", "client")
    described = FlowDescription(study, flow, "bulk", *ends, outcome=end.outcome(), handshake_ms=end.handshake_ms)
    made = frames_of(observations.tables([(described, Measure(), _observation(end))]))
    if isinstance(end, Sending):
        made["series"] = _with_sender(made["series"], end)
        flow_s = end.held_ns("flow") / 1e9 if end.knows_credit else None
        waits_s = end.held_ns("application") / 1e9 if end.knows_window else None
        made["flows"] = made["flows"].with_columns(
            rwnd_limited_s=pl.lit(flow_s, pl.Float64), app_limited_s=pl.lit(waits_s, pl.Float64)
        )
        made["losses"] = _rows("losses", [{"flow": flow, "how": "stack", **loss.row()} for loss in end.losses])
    elif end.shortest_trip_ns:
        # Few of its packets measure one: a shortest, and no course.
        made["flows"] = made["flows"].with_columns(rtt_min_ms=pl.lit(end.shortest_trip_ns / 1e6, pl.Float64))
    made["connections"] = _rows("connections", [_connection(trace, end, name, flow)])
    return made


def _observation(end: Sending | Receiving) -> Observation:
    return Observation(
        duration_ns=max(end.arrivals[-1][0], 1),
        arrivals=end.arrivals,
        samples=end.samples(),
        size=end.payload,
        segment=end.segment or None,
        sent_packets=end.data_packets if isinstance(end, Sending) else None,
        retransmitted_packets=end.repeated if isinstance(end, Sending) and not end.is_guessed else None,
    )


def _with_sender(series: pl.DataFrame, end: Sending) -> pl.DataFrame:
    """Return the series with what only a stack's own log has of its sender."""
    rows = end.over_time([round(t_s * 1e9) for t_s in series["t_s"]])
    return series.with_columns(
        pl.Series(name, [row.get(name) for row in rows], series.schema[name])
        for name in ("srtt_ms", "inflight_packets", "sent_packets", "retransmitted_packets", "pacing_mbps",
                     "ssthresh_packets")
    )  # fmt: skip


def _connection(trace: Trace, end: Sending | Receiving, name: str, flow: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "flow": flow,
        "capture": name,
        "began_unix_s": trace.began_s or 0.0,
        "opened_by": "from" if isinstance(end, Sending) == (trace.vantage != "server") else "to",
        "captured_packets": end.packets,
        "segment_bytes": end.segment,
        "receive_window_max_bytes": end.window(),
        "ended_by": "fin" if end.is_finished else "",
    }
    if isinstance(end, Receiving):
        return row | {"side": "receiver"}
    return row | {
        "side": "sender",
        "rtt_by": "acknowledgements" if end.trips else "",
        "spurious_packets": end.spurious,
        "loss_events": len(end.losses),
        "loss_event_max_packets": max((loss.packets for loss in end.losses), default=0),
        "timeouts": end.timeouts,
        "inflight_max_bytes": end.in_flight_max or None,
    }


def _rows(name: str, rows: list[Mapping[str, Any]]) -> pl.DataFrame:
    blank = blank_row(name)
    return pl.DataFrame([{**blank, **row} for row in rows], schema=empty_table(name).schema)


def _notes(end: Sending | Receiving) -> list[str]:
    """Return what flow control did, in numbers: a window is the throughput that it allows over a round trip."""
    window, trip_ns = end.window(), end.shortest_trip_ns
    if not window or not trip_ns:
        return []
    allowed = f"its window of {number(window / 1e6, 2)} MB allows {number(8e3 * window / trip_ns, 1)} Mbit/s over the "
    allowed += f"shortest round trip of {number(trip_ns / 1e6, 0)} ms"
    if isinstance(end, Sending):
        held_s, whole_s = end.held_ns("flow") / 1e9, end.arrivals[-1][0] / 1e9
        if held_s < 0.1 * whole_s:
            return []
        return [f"flow control held it for {number(held_s, 1)} of {number(whole_s, 1)} s: {allowed}"]
    is_at_limit = end.peak_bps() >= AS_FAST * 8e9 * window / trip_ns
    return [f"it is about as fast as flow control lets it: {allowed}"] if is_at_limit else []

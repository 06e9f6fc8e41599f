# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Time-sequence graphs of flows: segments, acknowledgements, the receiver's window and retransmissions.

W. R. Stevens, "TCP/IP Illustrated, Volume 1", 1994, chapter 20; S. Ostermann's tcptrace draws them so too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Block, Plot, Section, Text
from perigee.report.stretch import Kind, sequence_json
from perigee.report.style import INK, figure
from perigee.report.svg import themed

MOST_GRAPHS = 8
"""Maximum number of flows or legs with a graph: representatives of a study, the largest of captures."""
OPEN_GRAPHS = 2
"""Number of graphs that are not folded."""
MOST_POINTS = 1500
"""Maximum points of a line over the whole flow; more are invisible in print."""
CLOSE_ROUND_TRIPS = 4.0
"""Length of the close view, in round trips."""
CLOSE_LEAST_S = 0.02
DENSE = 1500
"""Number of marks above which a view is drawn as pixels, to keep the page small."""

_SENT, _AGAIN, _ACK, _SACK, _WINDOW = "#4D4D4D", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
KINDS = [
    Kind("ack", "Receiver's window", themed(_WINDOW), 1.0, line=True, window=True),
    Kind("sack", "SACK", themed(_SACK), 1.0),
    Kind("ack", "Acknowledged", themed(_ACK), 1.2, line=True),
    Kind("sent", "Sent", themed(_SENT), 1.8),
    Kind("retransmitted", "Retransmitted", themed(_AGAIN), 2.6),
]
"""Kinds of marks that the page's script draws; the last is on top."""


@dataclass(frozen=True)
class Sequence:
    """The time sequence of a flow.

    Attributes:
        run: number of its run.
        flow: its name.
        label: its label.
        rows: `t_s` since the first row, `event`, `sequence`, `segment_bytes` and `receive_window_bytes`.
        rtt_s: round-trip time for the length of the close view, s.
        leg: number of the leg of a flow split by proxies; None: the flow itself.
    """

    run: int
    flow: str
    label: str
    rows: pl.DataFrame
    rtt_s: float
    leg: int | None = None


def section(context: Context) -> Section | None:
    """Return a graph per flow; None if neither a log of TCP nor a capture has segments."""
    found = sequences(context)
    if not found:
        return None
    text = (
        "Each segment over time, by its first and last byte in the stream; below it the line of acknowledgements, "
        "above it the edge of the receiver's window. Horizontally between segments and acknowledgements lies the round "
        "trip, vertically the data in flight. Where the page may run its script, Zoom in time "
        "shows any stretch of it; far from the close view neighbouring segments may be drawn together."
    )
    blocks: list[Block] = [Text(text), *(_plot(one, folded=place >= OPEN_GRAPHS) for place, one in enumerate(found))]
    return Section("time_sequence", "Time sequence", blocks)


def sequences(context: Context) -> list[Sequence]:
    """Return the time sequences to draw: all of captures, the representatives of a study."""
    results = context.results
    if results.has("segments"):
        rows = results.table("segments")
        chosen = [(run, flow, _label(context, run, flow)) for run, flow in rows.select("run", "flow").unique(
            maintain_order=True).iter_rows()]  # fmt: skip
    elif results.has("events"):
        rows = results.table("events")
        chosen = [(*context.typical[group.number], group.label) for group in context.drawn]
    else:
        return []
    made: list[Sequence] = []
    for run, flow, label in chosen:
        own = rows.filter((pl.col("run") == run) & (pl.col("flow") == flow))
        made += [
            Sequence(run, flow, label if leg is None else f"{label}, leg {leg}", part, rtt_s, leg)
            for leg, part, rtt_s in _of_legs(context, run, flow, own)
            if not part.filter(pl.col("event").is_in(["sent", "retransmitted"])).is_empty()
        ]
    return made[:MOST_GRAPHS]


def _of_legs(
    context: Context, run: int, flow: str, own: pl.DataFrame
) -> Iterator[tuple[int | None, pl.DataFrame, float]]:
    """Yield rows and round-trip time of a flow, or of each leg of a flow split by proxies, from a common time zero."""
    parts: list[tuple[int | None, pl.DataFrame]] = [(None, own)]
    if own.is_empty() and context.results.has("events"):
        logged = context.results.legs("events").filter((pl.col("run") == run) & (pl.col("flow") == flow))
        parts = [(leg, logged.filter(pl.col("leg") == leg)) for leg in logged["leg"].unique().sort()]
    begin_s = min((float(part["t_s"].min()) for _, part in parts if part.height), default=0.0)  # type: ignore[arg-type]
    for leg, part in parts:
        ordered = part.sort("t_s", maintain_order=True).select(
            pl.col("t_s") - begin_s,
            "event",
            "sequence",
            pl.col("segment_bytes").cast(pl.UInt64),
            "receive_window_bytes",
        )
        yield leg, ordered, _round_trip_s(context, run, flow, leg)


def draw(one: Sequence, width_in: float) -> Figure:
    """Draw a whole flow, and beside it a close view of its first retransmission, or else of its beginning."""
    drawing = figure(3.4, width_in)
    whole, close = drawing.subplots(1, 2, width_ratios=[3, 2])
    start, end = close_view(one)
    _draw_whole(whole, one.rows)
    whole.axvspan(start, end, color=INK, alpha=0.08, lw=0)
    _draw_close(close, one.rows.filter(pl.col("t_s").is_between(start, end)))
    close.set_xlim(start, end)
    for axes in (whole, close):
        axes.set_xlabel("Time (s)")
    whole.set_ylabel("Position in the stream (MB)")
    whole.set_title("Whole")
    close.set_title("Close: the grey time of the left")
    handles, labels = whole.get_legend_handles_labels()
    more, names = close.get_legend_handles_labels()
    known = dict(zip([*labels, *names], [*handles, *more], strict=True))
    columns = max(1, int(width_in / 1.7))
    drawing.legend(known.values(), known.keys(), loc="outside upper center", ncols=min(columns, len(known)))
    return drawing


def close_view(one: Sequence) -> tuple[float, float]:
    """Return the beginning and the end of the close view, s.

    Examples:
        >>> rows = pl.DataFrame({"t_s": [0.0, 5.0, 9.0], "event": ["sent", "retransmitted", "ack"]})
        >>> close_view(Sequence(0, "x", "x", rows, 0.5))
        (4.0, 6.0)
        >>> close_view(Sequence(0, "x", "x", rows.filter(pl.col("event") != "retransmitted"), 0.5))
        (0.0, 2.0)
    """
    length = max(CLOSE_ROUND_TRIPS * one.rtt_s, CLOSE_LEAST_S)
    again = one.rows.filter(pl.col("event") == "retransmitted")["t_s"]
    start = max(float(again[0]) - length / 2, 0.0) if len(again) else 0.0
    return start, start + length


def _draw_whole(axes: Axes, rows: pl.DataFrame) -> None:
    sent = _thinned(rows.filter(pl.col("event") == "sent"))
    again = rows.filter(pl.col("event") == "retransmitted")
    axes.plot(sent["t_s"], _end_mb(sent), color=_SENT, lw=1.0, label="Sent")
    _draw_answers(axes, rows, thin=True)
    axes.plot(again["t_s"], _end_mb(again), ls="", marker="x", ms=3, color=_AGAIN, label="Retransmitted",
              rasterized=again.height > DENSE)  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    top = float(np.max(_end_mb(rows.filter(pl.col("segment_bytes") > 0)), initial=0.0))
    # A window that is far away would press the flow down.
    axes.set_ylim(top=max(top, 1e-6) * 1.15)


def _draw_close(axes: Axes, rows: pl.DataFrame) -> None:
    kinds = (("sent", _SENT, 1.6, "Sent"), ("retransmitted", _AGAIN, 2.4, "Retransmitted"),
             ("sack", _SACK, 0.8, "SACK"))  # fmt: skip
    lows, highs = [], []
    for event, color, width, label in kinds:
        part = rows.filter(pl.col("event") == event)
        if part.is_empty():
            continue
        t, low, high = part["t_s"].to_numpy(), part["sequence"].to_numpy() / 1e6, _end_mb(part)
        # One line with gaps takes far less of the page than a line per segment.
        gap = np.full(len(t), np.nan)
        axes.plot(
            np.column_stack([t, t, gap]).ravel(), np.column_stack([low, high, gap]).ravel(), color=color, lw=width,
            solid_capstyle="butt", label=label, rasterized=part.height > DENSE,
        )  # fmt: skip
        lows.append(float(low.min()))
        highs.append(float(high.max()))
    _draw_answers(axes, rows, thin=False)
    acks = rows.filter(pl.col("event") == "ack")["sequence"]
    if len(acks):
        lows.append(float(acks.to_numpy().min()) / 1e6)
    if lows and highs:
        room = max((max(highs) - min(lows)) * 0.06, 1e-6)
        axes.set_ylim(min(lows) - room, max(highs) + room)


def _draw_answers(axes: Axes, rows: pl.DataFrame, *, thin: bool) -> None:
    acks = rows.filter(pl.col("event") == "ack")
    acks = _thinned(acks) if thin else acks
    if acks.is_empty():
        return
    position = acks["sequence"].to_numpy() / 1e6
    axes.step(acks["t_s"], position, where="post", color=_ACK, lw=1.0, label="Acknowledged")
    if acks["receive_window_bytes"].count():
        edge = position + acks["receive_window_bytes"].fill_null(0).to_numpy() / 1e6
        axes.step(acks["t_s"], edge, where="post", color=_WINDOW, lw=1.0, ls=(0, (4, 1.5)), label="Receiver's window")


def _thinned(rows: pl.DataFrame) -> pl.DataFrame:
    """Thin the rows of a line to the visible ones; the first and the last stay."""
    step = -(-rows.height // MOST_POINTS)
    return rows if step <= 1 else pl.concat([rows.gather_every(step), rows.tail(1)])


def _end_mb(rows: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    ends: np.ndarray[tuple[int], np.dtype[np.float64]] = (rows["sequence"] + rows["segment_bytes"]).to_numpy() / 1e6
    return ends


def _plot(one: Sequence, *, folded: bool) -> Plot:
    counts = dict(one.rows["event"].value_counts().iter_rows())
    sent, again = counts.get("sent", 0), counts.get("retransmitted", 0)
    length = number(float(one.rows["t_s"][-1]), 1)
    caption = f"{one.label}: {sent} segments, {again} retransmitted, in {length} s (run {one.run})."
    leg = f"-leg-{one.leg}" if one.leg else ""
    return Plot.of(
        f"time-sequence-{one.run}-{one.flow}{leg}",
        caption,
        f"Time sequence of {one.label}: positions of segments and acknowledgements over {length} s, {again} segments "
        "retransmitted",
        partial(draw, one),
        data=one.rows,
        sequence=sequence_json(one.rows, KINDS, close_view(one)),
        folded=folded,
    )


def _label(context: Context, run: int, flow: str) -> str:
    """Return the name of a captured flow, with its file if several exist."""
    for group in context.drawn:
        if not group.flows.filter((pl.col("run") == run) & (pl.col("flow") == flow)).is_empty():
            return group.label
    return flow


def _round_trip_s(context: Context, run: int, flow: str, leg: int | None) -> float:
    flows = context.results.table("flows") if leg is None else context.results.legs("flows")
    row = flows.filter((pl.col("run") == run) & (pl.col("flow") == flow))
    row = row if leg is None else row.filter(pl.col("leg") == leg)
    known = row["rtt_mean_ms"][0] if row.height else None
    if known is None and row.height:
        known = row["handshake_ms"][0]
    return float(known) / 1000 if known else 0.1

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What only a capture shows of each flow, and notes on the files."""

from __future__ import annotations

import polars as pl

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Section, Table, Text

MOST_ROWS = 50
"""Flows in the page; the data files have all."""

_COLUMNS = (
    ("Seen at", "side", None),
    ("Round trips by", "rtt_by", None),
    ("Handshake (ms)", "handshake_ms", 1),
    ("Segment (B)", "segment_bytes", 0),
    ("Sent", "sent_packets", 0),
    ("Sent again", "retransmitted_packets", 0),
    ("Late", "reordered_packets", 0),
    ("Reported twice", "spurious_packets", 0),
    ("Losses", "loss_events", 0),
    ("Longest in a row", "loss_event_max_packets", 0),
    ("Lost exactly", "matched_lost_packets", 0),
    ("Not captured", "unseen_packets", 0),
    ("Largest window (MB)", "window_mb", 2),
    ("Most in flight (MB)", "inflight_mb", 2),
)


def section(context: Context) -> Section | None:
    """Return a table of the connections, and the notes on the files; none where nothing was captured."""
    blocks: list[Block] = [Text(note) for note in notes(context)]
    if context.results.has("connections"):
        blocks.append(_table(context))
    return Section("capture", "What the files hold", blocks) if blocks else None


def notes(context: Context) -> list[str]:
    """Return what is to be known of each file, a sentence each."""
    return [f"{about['name']}: {note}." for about in context.results.files() for note in about["notes"]]


def _table(context: Context) -> Table:
    flows = context.results.table("flows")
    flows = flows.select("run", "flow", "received_bytes", "handshake_ms", "sent_packets", "retransmitted_packets")
    seen = context.results.table("connections").join(flows, on=["run", "flow"], how="left", maintain_order="left")
    seen = seen.with_columns(
        (pl.col("receive_window_max_bytes") / 1e6).alias("window_mb"),
        (pl.col("inflight_max_bytes") / 1e6).alias("inflight_mb"),
    )
    shown = [column for column in _COLUMNS if seen[column[1]].count()]
    several = seen["run"].n_unique() > 1
    largest = seen.sort("received_bytes", descending=True, maintain_order=True).head(MOST_ROWS).sort("run", "flow")
    rows = []
    for row in largest.iter_rows(named=True):
        name = f"{row['flow']} ({row['capture']})" if several else str(row["flow"])
        cells = [
            Cell(str(row[key]) or "–") if digits is None else Cell(number(row[key], digits)) for _, key, digits in shown
        ]
        rows.append([Cell(name), *cells])
    caption = "Each flow as its capture shows it; packets are of data"
    if seen.height > MOST_ROWS:
        caption += f"; the {MOST_ROWS} largest of {seen.height}"
    return Table(
        name="connections",
        caption=caption,
        head=["", *(title for title, _, _ in shown)],
        rows=rows,
        data=seen,
        words=[place for place, (_, _, digits) in enumerate(shown, 1) if digits is None],
    )

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Details of flows that only captures have, and notes on the files."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Section, Table, Text
from perigee.store.small_flows import SMALL_BYTES, SMALL_SHARE, and_small, is_small

MOST_ROWS = 50
"""Maximum number of flows in the page; the data files have all."""

_COLUMNS = (
    ("Seen at", "side", None),
    ("Round trips by", "rtt_by", None),
    ("Handshake (ms)", "handshake_ms", 1),
    ("Segment (B)", "segment_bytes", 0),
    ("Sent", "sent_packets", 0),
    ("Retransmitted", "retransmitted_packets", 0),
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
    """Return a table of the connections, and the notes on the files; None without captures."""
    blocks: list[Block] = [Text(note) for note in notes(context)]
    if context.results.has("connections"):
        blocks += _tables(context)
    if context.results.has("quic"):
        blocks.append(_over_quic(context))
    return Section("capture", "What the files hold", blocks) if blocks else None


def notes(context: Context) -> list[str]:
    """Return the notes on each file, a sentence each."""
    return [f"{about['name']}: {note}." for about in context.results.files() for note in about["notes"]]


def _tables(context: Context) -> list[Table]:
    """Return the table of the connections, and one of small ones if any."""
    flows = context.results.table("flows").with_columns(is_small().alias("small"))
    own = ("received_bytes", "handshake_ms", "sent_packets", "retransmitted_packets", "small")
    seen = context.results.table("connections").join(
        flows.select("run", "flow", *own), on=["run", "flow"], how="left", maintain_order="left"
    )
    seen = seen.with_columns(
        (pl.col("receive_window_max_bytes") / 1e6).alias("window_mb"),
        (pl.col("inflight_max_bytes") / 1e6).alias("inflight_mb"),
    )
    large, small = seen.filter(~pl.col("small")), seen.filter(pl.col("small"))
    tables = [_table("connections", "Each flow as its capture shows it; packets are of data", large, small)]
    if not small.is_empty():
        caption = f"Small connections: below {SMALL_BYTES // 1000} kB, and {SMALL_SHARE:.0%} of their file's largest"
        tables.append(_table("small-connections", caption, small, folded=True))
    return tables


_QUIC_COLUMNS = (
    ("QUIC", "version", None),
    ("Opened by", "opened_by", None),
    ("Handshake (ms)", "handshake_ms", 1),
    ("Datagrams", "sent_packets", 0),
    ("Largest (B)", "largest_datagram_bytes", 0),
    ("Spin bit", "spin_bit", None),
    ("Round trips by it", "spin_turns", 0),
    ("Longest pause (s)", "longest_pause_s", 2),
    ("from (s)", "longest_pause_from_s", 1),
)
_OPENERS = {"from": "the sender", "to": "the receiver"}


def _over_quic(context: Context) -> Table:
    """Return the table of flows over QUIC."""
    flows = context.results.table("flows").select("run", "flow", "received_bytes", "handshake_ms", "sent_packets")
    seen = context.results.table("quic").join(flows, on=["run", "flow"], how="left", maintain_order="left")
    seen = seen.with_columns(pl.col("opened_by").replace(_OPENERS))
    caption = "Each flow over QUIC, as far as its encryption shows it"
    return _table("quic", caption, seen, columns=_QUIC_COLUMNS)


def _table(
    name: str,
    caption: str,
    seen: pl.DataFrame,
    rest: pl.DataFrame | None = None,
    *,
    columns: Sequence[tuple[str, str, int | None]] = _COLUMNS,
    folded: bool = False,
) -> Table:
    """Return a table of connections; `rest` share one row."""
    shown = [column for column in columns if seen[column[1]].count()]
    several = seen["run"].n_unique() > 1
    largest = seen.sort("received_bytes", descending=True, maintain_order=True).head(MOST_ROWS).sort("run", "flow")
    rows = []
    for row in largest.iter_rows(named=True):
        title = f"{row['flow']} ({row['capture']})" if several else str(row["flow"])
        cells = [
            Cell(str(row[key]) or "–") if digits is None else Cell(number(row[key], digits)) for _, key, digits in shown
        ]
        rows.append([Cell(title), *cells])
    if rest is not None and not rest.is_empty():
        sums = {key: Cell(number(float(rest[key].sum()), 0)) for key in _SUMMED}
        rows.append([Cell(and_small(rest.height)), *(sums.get(key, Cell("–")) for _, key, _ in shown)])
    if seen.height > MOST_ROWS:
        caption += f"; the {MOST_ROWS} largest of {seen.height}"
    return Table(
        name=name,
        caption=caption,
        head=["", *(title for title, _, _ in shown)],
        rows=rows,
        data=seen.drop("small", strict=False),
        words=[place for place, (_, _, digits) in enumerate(shown, 1) if digits is None],
        folded=folded,
    )


_SUMMED = ("sent_packets", "retransmitted_packets")
"""Columns of a row for several connections."""

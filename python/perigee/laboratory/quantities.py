# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The quantities over time that results have: columns of their tables, with a name and a unit each.

A quantity is named `TABLE.COLUMN`, or `TABLE.COLUMN:NAME` of one link or proxy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.groups.names import link_in_words
from perigee.laboratory.graphs import empty_columns, kind_of, names_in, quantities

FIRST = ("series.goodput_mbps", "series.rtt_mean_ms", "series.cwnd_packets")
"""The quantities drawn first where none is named; else the first one that the results have."""

TITLES = {
    "series.goodput_mbps": "Throughput",
    "series.acked_bytes": "Acknowledged since the beginning",
    "series.cwnd_packets": "Congestion window",
    "series.ssthresh_packets": "Slow start threshold",
    "series.srtt_ms": "Smoothed round-trip time",
    "series.rtt_mean_ms": "Round-trip time",
    "series.inflight_packets": "In flight",
    "series.sent_packets": "Sent in an interval",
    "series.retransmitted_packets": "Retransmitted in an interval",
    "series.pacing_mbps": "Pacing rate",
    "links.offered_packets": "Arriving in an interval",
    "links.offered_bytes": "Arriving in an interval",
    "links.delivered_packets": "Delivered in an interval",
    "links.delivered_bytes": "Delivered in an interval",
    "links.dropped_packets": "Dropped or lost in an interval",
    "links.dropped_queue_full_packets": "Dropped by a full queue",
    "links.dropped_aqm_packets": "Dropped by queue management",
    "links.lost_packets": "Lost on the air",
    "links.queue_bytes": "Queue",
    "links.rate_mbps": "Service rate",
    "proxies.connections": "Open connections",
    "proxies.unread_bytes": "Unread in receive buffers",
    "proxies.held_bytes": "Held",
    "proxies.held_max_bytes": "Largest amount held so far",
    "milestones.bytes": "Delivered",
    "events.sequence": "Sequence",
    "events.segment_bytes": "Size of segments",
    "events.cwnd_packets": "Congestion window",
    "events.ssthresh_packets": "Slow start threshold",
    "events.inflight_packets": "In flight",
    "events.sacked_packets": "Selectively acknowledged",
    "events.lost_packets": "Marked lost",
    "events.clamp_packets": "Bound of the congestion window",
    "events.snd_nxt_bytes": "Next byte to send",
    "events.rtt_ms": "Round-trip time",
    "events.srtt_ms": "Smoothed round-trip time",
    "events.rttvar_ms": "Mean deviation of the round-trip time",
    "events.rto_ms": "Retransmission timeout",
    "events.receive_window_bytes": "Receive window",
    "events.pacing_mbps": "Pacing rate",
    "losses.packets": "Lost in a row",
    "losses.since_packets": "Sent since the loss before",
    "losses.offset_bytes": "First byte lost",
    "segments.sequence": "Sequence",
    "segments.segment_bytes": "Size of segments",
    "segments.receive_window_bytes": "Receive window",
}
"""Names of quantities; others are named by the words of their column."""
UNITS = {"mbps": "Mbit/s", "bytes": "B", "sequence": "B", "ms": "ms", "us": "µs", "s": "s", "percent": "%"}
"""The unit by the last word of a column; packets have their name."""
TABLES = {
    "series": "Flows",
    "events": "TCP log",
    "segments": "Time sequence of captures",
    "losses": "Losses of captures",
    "milestones": "Milestones",
}
"""Names of the tables of flows in the menu, in its order; tables of links and proxies by these."""


@dataclass(frozen=True)
class Quantity:
    """A quantity over time, one panel of a view.

    Attributes:
        table: its table.
        column: its column.
        name: the link or proxy; empty: the flows of the curves, or all links or proxies.
    """

    table: str
    column: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity of an address.

        Raises:
            InputError: it is none.
        """
        found = re.fullmatch(r"([a-z_]+)\.([a-z0-9_]+)(?::(.+))?", text)
        if found is None:
            raise InputError(f"{text[:80]}: no quantity over time")
        return cls(found[1], found[2], found[3] or "")

    @property
    def key(self) -> str:
        """As an address has it."""
        return f"{self.table}.{self.column}" + (f":{self.name}" if self.name else "")

    @property
    def title(self) -> str:
        """The title, without its unit.

        Examples:
            >>> Quantity("links", "queue_bytes", "satellite.down").title, Quantity("series", "new_thing_ms").title
            ('Queue of satellite, downlink', 'New thing')
        """
        words = self.column.split("_")
        plain = " ".join(words[:-1] if self.unit and len(words) > 1 else words).capitalize()
        of = f" of {link_in_words(self.name)}" if self.name else ""
        return TITLES.get(f"{self.table}.{self.column}", plain) + of

    @property
    def unit(self) -> str:
        """The unit of its values; empty for plain numbers."""
        last = self.column.rpartition("_")[2]
        return last if last == "packets" else UNITS.get(last, "")


def offered(folder: Path, tables: Mapping[str, Any]) -> dict[str, list[Quantity]]:
    """Return the quantities over time of results by the table, link or proxy that they are of, as a menu has them."""
    found: dict[str, list[Quantity]] = {}
    order = {name: place for place, name in enumerate(TABLES)}
    for table in sorted(tables, key=lambda name: (order.get(name, len(order)), name)):
        path = folder / f"{table}.parquet"
        if not path.is_file() or path.is_symlink() or not tables[table]["rows"]:
            continue
        empty = empty_columns(path)
        columns = [column for column in quantities(path) if column not in empty]
        kind = kind_of(path)
        if columns and kind == "flow":
            found[TABLES.get(table, table.capitalize())] = [Quantity(table, column) for column in columns]
        elif columns and kind is not None:
            for name in names_in(path):
                of = f"{kind.capitalize()} {link_in_words(name)}"
                found[of] = [Quantity(table, column, name) for column in columns]
    return found


def first(there: Mapping[str, Quantity]) -> list[str]:
    """Return which quantities are drawn where an address names none, of those that there are by their keys."""
    return [key for key in FIRST if key in there] or list(there)[:1]

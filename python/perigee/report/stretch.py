# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The marks of a time sequence as JSON, from which the page's script draws any interval of time.

A mark is a segment, a SACK block or an acknowledgement. So that a page stays small, marks outside the close view are
merged into groups with first and last time, lowest and highest byte, and count. Times (units of 10 us) and positions
(bytes) are differences from the previous mark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import polars as pl

MOST_MARKS = 1000
"""Maximum marks of a kind outside the close view; more are merged."""
_TICKS_PER_S = 100_000


@dataclass(frozen=True)
class Kind:
    """The look of a kind of marks.

    Attributes:
        event: value of their `event`.
        name: their name in the legend.
        color: colour of the stroke, as a style sheet has it.
        width: width of the stroke, pixels.
        line: whether one line joins them, in place of a stroke each.
        window: whether they are at the edge of the receiver's window, not at their position.
    """

    event: str
    name: str
    color: str
    width: float
    line: bool = False
    window: bool = False


def sequence_json(rows: pl.DataFrame, kinds: list[Kind], close: tuple[float, float]) -> str:
    """Return the marks for the script: `end_s`, `close` (the first view, s), and of each of `kinds` its look and marks.

    Args:
        rows: `t_s` in ascending order, `event`, `sequence`, `segment_bytes` and `receive_window_bytes`.
        kinds: kinds of marks; the last is on top.
        close: begin and end of the close view, s; its marks are kept one by one.

    Examples:
        >>> rows = pl.DataFrame({"t_s": [0.0, 0.5], "event": ["sent", "sent"], "sequence": [0, 1000],
        ...                      "segment_bytes": [1000, 500], "receive_window_bytes": [None, None]})
        >>> json.loads(sequence_json(rows, [Kind("sent", "Sent", "#000", 1.0)], (0.0, 1.0)))["kinds"][0]["marks"]
        [[0, 0, 0, 1000, 1], [50000, 0, 1000, 500, 1]]
    """
    made = []
    for kind in kinds:
        part = rows.filter(pl.col("event") == kind.event)
        if kind.window:
            edge = pl.col("sequence") + pl.col("receive_window_bytes")
            part = part.filter(pl.col("receive_window_bytes").is_not_null()).with_columns(edge.alias("sequence"))
        if not part.is_empty():
            look = {"name": kind.name, "color": kind.color, "width": kind.width, "line": kind.line}
            made.append({**look, "window": kind.window, "marks": _marks(part, close)})
    end_s = float(rows["t_s"][-1]) if rows.height else 0.0
    return json.dumps({"end_s": end_s, "close": close, "kinds": made}, separators=(",", ":"))


def _marks(part: pl.DataFrame, close: tuple[float, float]) -> list[list[int]]:
    """Return a mark per group of rows: time since the mark before, length, bytes above the mark before, bytes, rows."""
    group = _groups(part["t_s"].to_numpy(), close)
    ticks = (pl.col("t_s") * _TICKS_PER_S).round().cast(pl.Int64)
    low = pl.col("sequence").cast(pl.Int64)
    high = low + pl.col("segment_bytes").cast(pl.Int64)
    grouped = (
        part.with_columns(pl.Series("group", group))
        .group_by("group", maintain_order=True)
        .agg(
            ticks.min().alias("begin"),
            ticks.max().alias("end"),
            low.min().alias("low"),
            high.max().alias("high"),
            pl.len().cast(pl.Int64).alias("count"),
        )
        .select(
            pl.col("begin").diff().fill_null(pl.col("begin")),
            (pl.col("end") - pl.col("begin")).alias("lasts"),
            pl.col("low").diff().fill_null(pl.col("low")),
            (pl.col("high") - pl.col("low")).alias("bytes"),
            "count",
        )
    )
    return [list(row) for row in grouped.iter_rows()]


def _groups(
    times: np.ndarray[tuple[int], np.dtype[np.float64]], close: tuple[float, float]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the number of each row's group: rows in the close view are alone, the others in groups of equal size.

    Examples:
        >>> [int(one) for one in _groups(np.arange(4.0), (0.0, 1.0))]
        [0, 1, 2, 3]
        >>> len(np.unique(_groups(np.arange(9000.0), (100.0, 200.0)))) <= MOST_MARKS + 103
        True
    """
    alone = (times >= close[0]) & (times <= close[1])
    size = max(1, -(-int(np.count_nonzero(~alone)) // MOST_MARKS))
    place = np.cumsum(~alone) - 1
    # A group ends at either end of the close view, and when it is full.
    begins = alone | (place % size == 0)
    begins[1:] |= alone[1:] != alone[:-1]
    begins[:1] = True
    groups: np.ndarray[tuple[int], np.dtype[np.int64]] = np.cumsum(begins)
    return groups - 1

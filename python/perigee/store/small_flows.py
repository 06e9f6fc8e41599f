# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Small connections of captures, such as iperf3's control connection, apart from the transfers that are looked at."""

from __future__ import annotations

import polars as pl

SMALL_BYTES = 100_000
"""A small flow carries less than this."""
SMALL_SHARE = 0.01
"""And less than this share of what the largest flow of its file carries."""


def is_small() -> pl.Expr:
    """Return whether a row of `flows` is of a small connection: next to nothing beside the largest of its run.

    Examples:
        >>> flows = pl.DataFrame({
        ...     "run": [0, 0, 0, 1],
        ...     "kind": ["bulk", "bulk", "bulk", "bulk"],
        ...     "received_bytes": [90_000_000, 500, 2_000_000, 500],
        ... })
        >>> flows.filter(is_small())["received_bytes"].to_list()
        [500]
    """
    carried = pl.col("received_bytes")
    largest = carried.max().over("run")
    return (pl.col("kind") == "bulk") & (carried < SMALL_BYTES) & (carried < SMALL_SHARE * largest)


def and_small(count: int) -> str:
    """Return the row that stands for small connections.

    Examples:
        >>> and_small(1), and_small(30)
        ('and 1 small connection', 'and 30 small connections')
    """
    return f"and {count} small connection{'' if count == 1 else 's'}"

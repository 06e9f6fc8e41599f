# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How flows ended: which failed, and the words of reports for it."""

from __future__ import annotations

import polars as pl

FAILED = {
    "refused": "refused",
    "reset": "reset",
    "timed_out": "timed out",
    "unreachable": "unreachable",
}
"""Outcomes of a connection that failed, and how people call them."""

STOPPED = "stopped"
"""The outcome of a flow that ended before it had carried all, in none of the other ways."""

INCOMPLETE = {
    "time_limit": "cut off by the time limit",
    "unconnected": "not connected within the duration",
    "stalled": "stalled",
    STOPPED: "stopped early",
}
"""Outcomes of a flow that did not fail and carried less than it was to, and how people call them."""


def has_failed() -> pl.Expr:
    """Return the condition on rows of `flows` whose connection failed."""
    return pl.col("outcome").is_in(list(FAILED))


def in_words(flows: pl.DataFrame) -> str:
    """Say how many of a group's flows, one per round, failed or were cut off; empty where all went well.

    Examples:
        >>> in_words(pl.DataFrame({"outcome": ["completed", "timed_out", "reset", "timed_out", "time_limit"]}))
        'failed in 3 of 5 rounds (2 timed out, 1 reset), cut off by the time limit in 1 of 5 rounds'
    """
    counts = dict(flows.group_by("outcome").len().sort("len", "outcome", descending=[True, False]).iter_rows())
    failed = {FAILED[name]: count for name, count in counts.items() if name in FAILED}
    rounds = f"of {flows.height} round{'' if flows.height == 1 else 's'}"
    words = []
    if len(failed) == 1:
        ((why, count),) = failed.items()
        words.append(f"failed in {count} {rounds} ({why})")
    elif failed:
        reasons = ", ".join(f"{count} {why}" for why, count in failed.items())
        words.append(f"failed in {sum(failed.values())} {rounds} ({reasons})")
    words += [f"{what} in {counts[name]} {rounds}" for name, what in INCOMPLETE.items() if name in counts]
    return ", ".join(words)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs of the emulator in which this machine released packets later than the link would have."""

from __future__ import annotations

import polars as pl

from perigee.store.results import Results

LATE_US = 1000.0
"""99th percentile of release lateness above which a run is late."""


def late_releases(results: Results) -> pl.DataFrame:
    """Return the rows of `releases` of late runs; none for engines without that table."""
    if not results.has("releases"):
        return pl.DataFrame()
    return results.table("releases").filter(pl.col("late_p99_us") > LATE_US)


def late_runs(results: Results) -> set[int]:
    """Return the numbers of the late runs."""
    late = late_releases(results)
    return set() if late.is_empty() else set(late["run"])

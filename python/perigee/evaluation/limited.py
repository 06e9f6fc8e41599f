# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures of applications that limit their sender: what a window does that is not used (RFC 7661)."""

from __future__ import annotations

import polars as pl

from perigee.evaluation.tables import Tables, figures

IN_FLIGHT = 14
"""Packets of 1448 B that a response of 20 kB has in flight."""


def unused_window(tables: Tables) -> pl.DataFrame:
    """Return the largest window of a sender of responses, over the packets that one response has in flight."""
    return figures(tables.series("responses"), pl.col("cwnd_packets").max() / IN_FLIGHT)


def video_megabytes(tables: Tables) -> pl.DataFrame:
    """Return the bytes of a video that arrived, MB: the higher the quality that its player chose, the more."""
    return figures(tables.flows("video"), pl.col("received_bytes").sum() / 1e6)

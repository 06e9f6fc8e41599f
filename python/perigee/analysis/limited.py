# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Limits of a flow of files that were analysed, and the kind of its losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from perigee.analysis.recordings import Analysis
from perigee.statistics import limits


@dataclass(frozen=True)
class Limited:
    """Limits of a flow.

    Attributes:
        shares: share of its time by cause, one of `limits.CAUSES`; empty where it is unknown.
        losses: kind of its losses, one of `limits.KINDS_OF_LOSSES`; empty where they are too few.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    losses: str = ""

    @property
    def sentence(self) -> str:
        """Both in words; empty where nothing is known."""
        kind = f" Its losses came {limits.KINDS_OF_LOSSES[self.losses]}." if self.losses else ""
        return f"{limits.sentence(self.shares)}{kind}" if self.shares else ""


def limited(analysis: Analysis, row: Mapping[str, Any]) -> Limited:
    """Judge a flow by its rounds, which captures have; nothing is known of other files.

    Args:
        analysis: the files.
        row: its row of `flows`.
    """
    own = (pl.col("run") == row["run"]) & (pl.col("flow") == row["flow"])
    rounds, losses, seen = (analysis.table(name).filter(own) for name in ("rounds", "losses", "connections"))
    if rounds.is_empty():
        return Limited()
    losses = losses.filter(pl.col("how") != "matched").sort("t_s")
    causes = limits.of_rounds(row, seen.row(0, named=True), rounds, losses)
    return Limited(limits.shares(causes), limits.kind_of_losses(losses))

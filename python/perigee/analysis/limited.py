# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Limits of a flow of files that were analysed, and the kind of its losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from perigee.analysis.recordings import Analysis
from perigee.statistics import limits
from perigee.statistics.flow_limits import judge


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


def limited(analysis: Analysis, flows: pl.DataFrame) -> list[Limited]:
    """Judge flows by their rounds, which captures have, or else by their series.

    Args:
        analysis: the files.
        flows: rows of its table `flows`.
    """
    losses = (
        analysis.table("losses")
        .filter(pl.col("how") != "matched")
        .sort("t_s")
        .partition_by("run", "flow", as_dict=True)
    )
    kinds = {key: limits.kind_of_losses(own) for key, own in losses.items()}
    judged = judge(analysis.table, flows)
    return [Limited(shares, kinds.get((row["run"], row["flow"]), "")) for row, shares in judged]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cells of an evaluation from values by round, for tests."""

from __future__ import annotations

import polars as pl

from perigee.evaluation.criterion import Measure
from perigee.evaluation.judging import Judged, judge_measure, together
from perigee.evaluation.rules import Rule
from perigee.evaluation.tables import FIGURES


def table(**means: list[float]) -> pl.DataFrame:
    """One cell, with the values of each congestion control by round."""
    rows = [("cell", cc, number, value) for cc, values in means.items() for number, value in enumerate(values)]
    return pl.DataFrame(rows, schema=FIGURES, orient="row")


def judged(rule: Rule, **means: list[float]) -> Judged:
    measure = Measure("Loss", "%", lambda _tables: pl.DataFrame(), rule)
    return together([judge_measure(measure, table(**means), "mine")])[0]


def around(mean: float, spread: float = 0.02, rounds: int = 6) -> list[float]:
    """Values of rounds about a mean."""
    return [mean * (1 + spread * (number % 3 - 1)) for number in range(rounds)]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Verdicts: figures of cells against their thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from perigee.evaluation.criterion import Criterion, Measure
from perigee.evaluation.rules import Verdict
from perigee.evaluation.tables import Tables
from perigee.statistics.estimates import mean_interval

NEAR = 0.1
"""A verdict that changes when all thresholds move by this share is close."""
ORDER = (Verdict.FAIL, Verdict.DOCUMENT, Verdict.PASS)
"""The first of these that a measure has is the verdict on its criterion."""


@dataclass(frozen=True)
class Figure:
    """The mean of one congestion control in one cell.

    Attributes:
        mean: over the rounds, in the measure's unit.
        half_width: of its 95 % confidence interval; none of a single round, and of rounds that are all alike.
        rounds: number of rounds.
    """

    mean: float
    half_width: float | None
    rounds: int


@dataclass(frozen=True)
class Cell:
    """One cell of a measure.

    Attributes:
        words: what varies, in words.
        figures: by congestion control.
        times_beyond: the figure of each as a multiple of its threshold: beyond it above 1. Empty without a threshold.
    """

    words: str
    figures: Mapping[str, Figure]
    times_beyond: Mapping[str, float]


@dataclass(frozen=True)
class Judged:
    """A measure with its cells and verdict.

    Attributes:
        measure: what was measured.
        subject: the congestion control that is judged.
        cells: in the order of the study.
        worst: the cell in which the subject is nearest to its threshold, or furthest beyond; none: no cell has one.
    """

    measure: Measure
    subject: str
    cells: Sequence[Cell]
    worst: Cell | None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; none of a figure that is not judged."""
        return None if self.worst is None else self.verdict_with(0.0)

    @property
    def near(self) -> bool:
        """Whether the verdict would be another with the threshold moved by `NEAR`."""
        return self.worst is not None and len({self.verdict_with(share) for share in (NEAR, -NEAR)}) > 1

    @property
    def times(self) -> float:
        """The subject's figure in the worst cell as a multiple of its threshold; 0: it has none."""
        return 0.0 if self.worst is None else self.worst.times_beyond.get(self.subject, 0.0)

    def verdict_with(self, share: float) -> Verdict:
        """Return the verdict with the threshold larger by a share of it, or smaller where that is negative."""
        rule = self.measure.rule
        if rule is None or self.worst is None:
            return Verdict.UNKNOWN
        moved = self.times / (1 + share) if rule.at_most else self.times * (1 + share)
        return rule.missed if moved > 1 else Verdict.PASS

    @property
    def beyond(self) -> int:
        """Number of cells in which the subject is beyond its threshold."""
        return 0 if self.verdict is None else sum(cell.times_beyond.get(self.subject, 0.0) > 1 for cell in self.cells)


@dataclass(frozen=True)
class Finding:
    """A criterion with its verdict.

    Attributes:
        criterion: the criterion.
        verdict: the verdict.
        reason: why it is not measured, or what is left out; may be empty.
        near: whether the verdict would be another with thresholds moved by `NEAR`.
        measures: the judged measures.
        behind: the same behind a splitting proxy; none: that was not asked, or nothing of it is measured.
    """

    criterion: Criterion
    verdict: Verdict
    reason: str
    near: bool = False
    measures: Sequence[Judged] = ()
    behind: Finding | None = None

    @property
    def nearest(self) -> Judged | None:
        """The measure that the verdict rests on, which is furthest beyond its threshold; none: none is judged."""
        judged = [one for one in self.measures if one.worst is not None]
        return max(judged, key=lambda one: (one.verdict is self.verdict, one.times), default=None)


def judge(criterion: Criterion, tables: Tables, subject: str) -> Finding:
    """Return the verdict on one congestion control by one criterion.

    Args:
        criterion: the criterion, which has a study.
        tables: of its study.
        subject: the name of the congestion control in it.
    """
    made = set(tables.runs["experiment"])
    measures = (one for one in criterion.measures if not one.experiment or one.experiment in made)
    judged = [judge_measure(measure, measure.figure(tables), subject) for measure in measures]
    verdict, *moved = (
        worst(one.verdict_with(share) for one in judged if one.worst is not None) for share in (0.0, NEAR, -NEAR)
    )
    return Finding(criterion, verdict, criterion.reason, any(each is not verdict for each in moved), judged)


def not_measured(criterion: Criterion, reason: str) -> Finding:
    """Return a criterion without a verdict."""
    return Finding(criterion, Verdict.UNKNOWN, reason)


def judge_measure(measure: Measure, figures: pl.DataFrame, subject: str) -> Judged:
    """Return the verdict by one measure: the subject's mean of each cell against the threshold."""
    cells = []
    for (words,), of_cell in figures.group_by("cell", maintain_order=True):
        found = {
            str(cc): _figure(rows["value"].drop_nulls().to_list())
            for (cc,), rows in of_cell.group_by("cc", maintain_order=True)
        }
        cells.append(Cell(str(words), found, _times_beyond(measure, found)))
    worst = max(cells, key=lambda cell: cell.times_beyond.get(subject, 0.0)) if measure.rule else None
    return Judged(measure, subject, cells, worst)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that holds where several do; none of them measured: not measured."""
    found = set(verdicts)
    return next((each for each in ORDER if each in found), Verdict.UNKNOWN)


def _times_beyond(measure: Measure, figures: Mapping[str, Figure]) -> dict[str, float]:
    if measure.rule is None:
        return {}
    references = [figures[name].mean for name in measure.rule.references if name in figures]
    return {cc: measure.rule.times_beyond(figure.mean, references) for cc, figure in figures.items()}


def _figure(values: Sequence[float]) -> Figure:
    """Return the mean and its interval.

    Examples:
        >>> _figure([2.0]), _figure([1.0, 3.0]).mean
        (Figure(mean=2.0, half_width=None, rounds=1), 2.0)
    """
    if not values:
        return Figure(math.nan, None, 0)
    mean, half = mean_interval(values)
    return Figure(mean, None if math.isnan(half) else half, len(values))

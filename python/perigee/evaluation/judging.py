# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Verdicts: figures of cells against their thresholds.

`Cell.figures` has each figure with its interval, `Cell.bound` the threshold, `Cell.distance` how far the subject is
beyond it with interval and P, `Cell.outcome` where that lies, `Judged.verdict` and `Finding.verdict` what follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from perigee.evaluation.criterion import Criterion, Measure
from perigee.evaluation.deciding import Distance, Outcome, among, distance
from perigee.evaluation.rules import Rule, Verdict
from perigee.evaluation.tables import Tables
from perigee.statistics.estimates import mean_interval

ORDER = (Verdict.FAIL, Verdict.DOCUMENT, Verdict.UNDECIDED, Verdict.PASS)
"""The first of these that a measure has is the verdict on its criterion."""
ONLY_PRINTED = "It is measured and not judged: a scavenger is meant to yield what is asked for here."
NEEDS_ECN = "It is not measured of a congestion control that needs ECN and does not run without it."


@dataclass(frozen=True)
class Figure:
    """The mean of one congestion control in one cell.

    Attributes:
        mean: over the rounds, in the measure's unit.
        half_width: of its 95 % confidence interval; none of a single round, and of rounds that are all alike.
        rounds: number of rounds.
        ends: the smallest and the largest of them; none: of a threshold, or without any.
    """

    mean: float
    half_width: float | None
    rounds: int
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Cell:
    """One cell of a measure.

    Attributes:
        words: what varies, in words.
        figures: by congestion control.
        times_beyond: the figure of each as a multiple of its threshold: beyond it above 1. Empty without a threshold.
        bound: the threshold of the means, in the measure's unit; none: it has none.
        distance: how far the subject's figure is beyond it; none: it has none.
    """

    words: str
    figures: Mapping[str, Figure]
    times_beyond: Mapping[str, float]
    bound: float | None = None
    distance: Distance | None = None

    @property
    def outcome(self) -> Outcome | None:
        """Where the subject's figure lies; none: nowhere, since it has no threshold."""
        return self.distance.outcome if self.distance else None


@dataclass(frozen=True)
class Judged:
    """A measure with its cells and verdict.

    Attributes:
        measure: what was measured.
        subject: the congestion control that is judged.
        cells: in the order of the study.
        reason: why it is not measured; empty: it is.
    """

    measure: Measure
    subject: str
    cells: Sequence[Cell]
    reason: str = ""

    @property
    def worst(self) -> Cell | None:
        """The cell whose mean is the largest multiple of its threshold; of equal ones the one that decides."""
        judged = [cell for cell in self.cells if cell.distance]
        return max(judged, key=lambda cell: (self._times(cell), self.urgency(cell)), default=None)

    @property
    def deciding(self) -> Cell | None:
        """The cell that decides: the most surely beyond its threshold, else the least surely within it."""
        judged = [cell for cell in self.cells if cell.distance]
        return max(judged, key=self.urgency, default=None)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; none of a figure that is not judged."""
        if self.measure.rule is None or self.worst is None:
            return None
        verdicts = {
            Outcome.BEYOND: self.measure.rule.missed,
            Outcome.OPEN: Verdict.UNDECIDED,
            Outcome.WITHIN: Verdict.PASS,
        }
        return worst(verdicts[outcome] for cell in self.cells if (outcome := cell.outcome))

    @property
    def times(self) -> float:
        """The subject's figure in the worst cell as a multiple of its threshold; 0: it has none."""
        return 0.0 if self.worst is None else self._times(self.worst)

    def _times(self, cell: Cell) -> float:
        return cell.times_beyond.get(self.subject, 0.0)

    def urgency(self, cell: Cell) -> tuple[int, float, float]:
        """Return what orders cells: beyond before open before within, then by P, then by multiples of the threshold."""
        found = cell.distance
        if found is None:
            return -1, 0.0, 0.0
        rank = (Outcome.WITHIN, Outcome.OPEN, Outcome.BEYOND).index(found.outcome)
        return rank, -(1.0 if found.p is None else found.p), self._times(cell)

    @property
    def beyond(self) -> int:
        """Number of cells of which it is decided that the subject is beyond its threshold."""
        return sum(cell.outcome is Outcome.BEYOND for cell in self.cells)

    @property
    def beyond_by_mean(self) -> int:
        """Number of further cells in which the subject's mean is beyond the threshold, which is not decided."""
        return sum(cell.outcome is not Outcome.BEYOND and self._times(cell) > 1 for cell in self.cells)


@dataclass(frozen=True)
class Finding:
    """A criterion with its verdict.

    Attributes:
        criterion: the criterion.
        verdict: the verdict.
        reason: why it is not measured, or what is left out; may be empty.
        measures: the judged measures.
        behind: the same behind a splitting proxy; none: that was not asked, or nothing of it is measured.
        longest_s: length of the longest run that was carried out for it, s; 0: none was.
        left_open: why a pass is left open; empty: it is not.
        again: the command that measures the cell that decides again; empty: nothing is to be looked at.
    """

    criterion: Criterion
    verdict: Verdict
    reason: str
    measures: Sequence[Judged] = ()
    behind: Finding | None = None
    longest_s: float = 0.0
    left_open: str = ""
    again: str = ""

    @property
    def nearest(self) -> Judged | None:
        """The measure that the verdict rests on, which is furthest beyond its threshold; none: none is judged."""
        judged = [one for one in self.measures if one.worst is not None]
        return max(judged, key=lambda one: (one.verdict is self.verdict, one.times), default=None)

    @property
    def tested(self) -> int:
        """Number of cells that are judged together, of all measures."""
        return sum(cell.distance is not None for one in self.measures for cell in one.cells)

    @property
    def near(self) -> list[tuple[Judged, Cell]]:
        """The cells that are open and could change the verdict, the most surely beyond first."""
        found = [
            (one, cell)
            for one in self.measures
            if one.measure.rule and ORDER.index(one.measure.rule.missed) < ORDER.index(self.verdict)
            for cell in one.cells
            if cell.outcome is Outcome.OPEN
        ]
        return sorted(found, key=lambda pair: pair[0].urgency(pair[1]), reverse=True)


@dataclass(frozen=True)
class Measured:
    """The figures of a criterion by one set of tables.

    Attributes:
        figures: by measure, of all congestion controls in the tables.
        longest_s: length of the longest run, s.
    """

    figures: Mapping[Measure, pl.DataFrame]
    longest_s: float


def measured(criterion: Criterion, tables: Tables) -> Measured:
    """Take the figures of a criterion from tables; measures of experiments that these lack have none."""
    made = {"", *tables.runs["experiment"]}
    figures = {one: one.figure(tables) for one in criterion.measures if one.experiment in made}
    return Measured(figures, tables.longest_s)


class Evidence:
    """The figures of a criterion from one or more sets of tables: all cells, then further rounds of some.

    Args:
        criterion: the criterion, which has a study.
        subject: the name of the congestion control that is judged.
        scalable: whether it needs ECN, so that it has no runs without.
        scavenger: whether it is meant to yield, so that what it gets itself is printed only.
    """

    def __init__(self, criterion: Criterion, subject: str, *, scalable: bool = False, scavenger: bool = False) -> None:
        self._criterion = criterion
        self._subject = subject
        self._scalable = scalable
        self._scavenger = scavenger
        self._figures: dict[Measure, list[pl.DataFrame]] = {}
        self._longest_s = 0.0

    def add(self, more: Measured) -> None:
        """Take the figures of one more set of tables."""
        self._longest_s = max(self._longest_s, more.longest_s)
        for measure, figures in more.figures.items():
            if self._scavenger or not measure.scavenger:
                self._figures.setdefault(measure, []).append(figures)

    def finding(self) -> Finding:
        """Return the verdict of what was taken so far."""
        judged = together(
            [
                Judged(measure, self._subject, [], NEEDS_ECN)
                if self._lacks(measure)
                else judge_measure(self._asked(measure), pl.concat(found), self._subject)
                for measure, found in self._figures.items()
            ]
        )
        verdict = worst(one.verdict for one in judged if one.verdict)
        reason = self._criterion.reason
        if self._scavenger and verdict is Verdict.UNKNOWN:
            verdict, reason = Verdict.NOT_JUDGED, ONLY_PRINTED
        return Finding(self._criterion, verdict, reason, judged, longest_s=self._longest_s)

    def _lacks(self, measure: Measure) -> bool:
        return self._scalable and measure.without_ecn

    def _asked(self, measure: Measure) -> Measure:
        return replace(measure, rule=None) if self._scavenger and measure.own else measure


def judge(
    criterion: Criterion, tables: Tables, subject: str, *, scalable: bool = False, scavenger: bool = False
) -> Finding:
    """Return the verdict on one congestion control by one criterion, see `Evidence`."""
    evidence = Evidence(criterion, subject, scalable=scalable, scavenger=scavenger)
    evidence.add(measured(criterion, tables))
    return evidence.finding()


def not_measured(criterion: Criterion, reason: str) -> Finding:
    """Return a criterion without a verdict."""
    return Finding(criterion, Verdict.UNKNOWN, reason)


def judge_measure(measure: Measure, figures: pl.DataFrame, subject: str) -> Judged:
    """Return one measure: the subject's figure of each cell against the threshold, each cell by itself."""
    cells = []
    for (words,), of_cell in figures.group_by("cell", maintain_order=True):
        values = {
            str(cc): dict(zip(rows["round"], rows["value"].fill_null(math.nan), strict=True))
            for (cc,), rows in of_cell.group_by("cc", maintain_order=True)
        }
        found = {cc: _figure([one for one in each.values() if not math.isnan(one)]) for cc, each in values.items()}
        cell = Cell(str(words), found, {})
        if measure.rule is not None:
            bound = bound_of(measure.rule, found)
            times = {cc: measure.rule.times_of(figure.mean, bound) for cc, figure in found.items()}
            references = [values[name] for name in measure.rule.references if name in values]
            far = distance(measure.rule, values.get(subject, {}), references)
            cell = replace(cell, times_beyond=times, bound=bound, distance=far)
        cells.append(cell)
    return Judged(measure, subject, cells)


def together(judged: Sequence[Judged]) -> list[Judged]:
    """Return measures of one criterion whose cells are corrected for the number of all of them (Holm)."""
    corrected = iter(among([cell.distance for one in judged for cell in one.cells if cell.distance]))
    return [
        replace(one, cells=[replace(cell, distance=next(corrected)) if cell.distance else cell for cell in one.cells])
        for one in judged
    ]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that holds where several do; none of them measured: not measured."""
    found = set(verdicts)
    return next((each for each in ORDER if each in found), Verdict.UNKNOWN)


def bound_of(rule: Rule, figures: Mapping[str, Figure]) -> float | None:
    """Return the threshold of a cell by the means of its references; none: it has none."""
    known = (figures[name].mean for name in rule.references if name in figures)
    return rule.bound([mean for mean in known if not math.isnan(mean)])


def _figure(values: Sequence[float]) -> Figure:
    """Return the mean and its interval.

    Examples:
        >>> _figure([2.0]), _figure([1.0, 3.0]).mean
        (Figure(mean=2.0, half_width=None, rounds=1, ends=(2.0, 2.0)), 2.0)
    """
    if not values:
        return Figure(math.nan, None, 0)
    mean, half = mean_interval(values)
    return Figure(mean, None if math.isnan(half) else half, len(values), (min(values), max(values)))

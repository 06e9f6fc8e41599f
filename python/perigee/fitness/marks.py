# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Scores: figures of a congestion control beside those of Reno, CUBIC and BBR in the same cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from perigee.evaluation.deciding import Outcome, distance
from perigee.evaluation.rules import Rule, Verdict
from perigee.fitness.cells import Cell, Mark
from perigee.fitness.trying import Figures

REFERENCES = ("reno", "cubic", "bbr")
MOST = 4.0
"""Largest score, and the smallest with a minus: 16 times as good as the references' median."""
ENOUGH = 4.0
"""Figures that are at least as many times within the threshold count alike: there, twins differ by chance."""


@dataclass(frozen=True)
class Marked:
    """A figure with its verdict and score.

    Attributes:
        cell: its cell.
        mark: what was measured.
        values: one per round.
        bound: the threshold in this cell; none: it has none.
        verdict: the rule's if the interval over the rounds is beyond the threshold, `pass` if it is within, else
            `undecided`.
        margin: 0 to 1: 0.5 at the threshold, more within it.
        score: how many times the figure is as good as the references' median, each as `counted` says, as a binary
            logarithm within `MOST`.
        relative: how many times the figure is as good as that of each reference.
    """

    cell: Cell
    mark: Mark
    values: Sequence[float]
    bound: float | None
    verdict: Verdict
    margin: float
    score: float
    relative: Mapping[str, float]

    @property
    def fails(self) -> bool:
        """Whether it is harm to others."""
        return self.verdict is Verdict.FAIL


def marked(cell: Cell, figures: Figures, references: Mapping[str, Figures]) -> list[Marked]:
    """Return the figures of a cell with their verdicts and scores.

    Args:
        cell: the cell.
        figures: the candidate's.
        references: those of `REFERENCES` in the same cell.
    """
    return [
        _marked(cell, mark, figures[mark.name], {name: references[name][mark.name] for name in REFERENCES})
        for mark in cell.marks
    ]


def score_of(found: Sequence[Marked]) -> float:
    """Return the score of a candidate: the mean of its criteria, of which each is the mean of its figures."""
    return fmean(fmean(one.score for one in of_one) for _, of_one in groupby(found, lambda one: one.cell.criterion))


def criteria_failed(found: Sequence[Marked]) -> list[str]:
    """Return the criteria that it fails, in the order of RFC 9743."""
    return list(dict.fromkeys(one.cell.criterion for one in found if one.fails))


def as_good(mark: Mark, value: float, reference: float) -> float:
    """Return how many times a figure is as good as another one.

    Examples:
        >>> from perigee.fitness.cells import CELLS
        >>> wait = CELLS[1].marks[0]
        >>> as_good(wait, 9.0, 19.0), as_good(wait, 0.0, 0.0)
        (2.0, 1.0)
    """
    better, worse = (reference, value) if mark.rule.at_most else (value, reference)
    return (better + mark.floor) / (worse + mark.floor)


def counted(rule: Rule, value: float, bound: float | None) -> float:
    """Return a figure as a score counts it: at most `ENOUGH` times within its threshold.

    Examples:
        >>> counted(Rule("at most 1"), 0.02, 1.0), counted(Rule("at most 1"), 3.0, 1.0)
        (0.25, 3.0)
        >>> counted(Rule("at least 2"), 9.0, 2.0)
        8.0
    """
    if bound is None:
        return value
    return max(value, bound / ENOUGH) if rule.at_most else min(value, bound * ENOUGH)


def _marked(cell: Cell, mark: Mark, values: Sequence[float], rounds: Mapping[str, Sequence[float]]) -> Marked:
    rule, mean = mark.rule, fmean(values)
    beside = {name: fmean(found) for name, found in rounds.items()}
    of_rule = [beside[name] for name in rule.references]
    found = distance(rule, dict(enumerate(values)), [dict(enumerate(rounds[name])) for name in rule.references])
    outcome = found.outcome if found else Outcome.OPEN
    verdicts = {Outcome.BEYOND: rule.missed, Outcome.OPEN: Verdict.UNDECIDED, Outcome.WITHIN: Verdict.PASS}
    # A figure of 0 where some is asked for is infinitely far beyond: 0.
    bound = rule.bound(of_rule)
    margin = 1 / (1 + rule.times_of(mean, bound))
    middle = as_good(
        mark, counted(rule, mean, bound), median(counted(rule, reference, bound) for reference in beside.values())
    )
    return Marked(
        cell,
        mark,
        values,
        bound,
        verdicts[outcome],
        margin,
        min(max(math.log2(middle), -MOST), MOST),
        {name: as_good(mark, mean, reference) for name, reference in beside.items()},
    )

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whether a figure lies beyond its threshold: the distance of both over rounds, its interval, and the rounds it takes.

Rounds of all congestion controls share their seeds, so that distances are paired by round. A cell is beyond its
threshold if the interval of the distance is, with all cells of the criterion in view (Holm); it is within if a
one-sided test of that cell alone says so, since each of them has to be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from perigee.evaluation.rules import Rule
from perigee.statistics.estimates import holm, holm_levels, spread
from perigee.statistics.special import student_beyond, student_quantile

LOOKS = (3, 6, 12, 24)
"""Numbers of rounds after which a cell is judged; a cell near its threshold goes on to the next."""
FEWEST_TO_FAIL = LOOKS[1]
"""Rounds without which nothing that varies is beyond a threshold: three values of a figure with two modes may lie in
one of them."""
MANY = 1000
"""Rounds that are not asked for: a figure that takes more lies at its threshold."""
LEVEL = 0.01
"""Chance of a wrong `beyond` in one look at all cells of a criterion; with three looks at most 3 %."""
LEVEL_WITHIN = 0.05
"""Chance that a cell at its threshold is taken to be within, in one look."""
POWER = 0.8
"""Chance that the rounds which are asked for decide, were the mean that was measured the true one."""
MOST = 1e9
"""Distance that stands for a figure without end, such as the time of a transfer that never finished."""


class Outcome(StrEnum):
    """Where the figure of a cell lies."""

    BEYOND = "beyond"
    OPEN = "open"
    WITHIN = "within"


@dataclass(frozen=True)
class Distance:
    """How far a figure is beyond its threshold, in the measure's unit; negative: within it.

    Attributes:
        mean: over the rounds.
        deviation: standard deviation over the rounds; 0 where it does not vary; none of a single round.
        rounds: number of rounds.
        p: probability that a figure at its threshold has a distance as large (Student's t, one-sided); corrected for
            the cells of the criterion once `among` has them; none of a single round.
        level: level of its interval, of which half lies on either side.
    """

    mean: float
    deviation: float | None
    rounds: int
    p: float | None
    level: float = LEVEL

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval of the mean; none of a single round."""
        if self.deviation is None:
            return None
        return student_quantile(self.rounds - 1, 1 - self.level) * self.deviation / math.sqrt(self.rounds)

    @property
    def half_width_within(self) -> float | None:
        """Half the width of the interval by which a cell alone is within its threshold; none of a single round."""
        if self.deviation is None:
            return None
        return student_quantile(self.rounds - 1, 1 - LEVEL_WITHIN) * self.deviation / math.sqrt(self.rounds)

    @property
    def outcome(self) -> Outcome:
        """Where the figure lies."""
        if self.p is None or self.deviation is None:
            return Outcome.OPEN
        if self.deviation == 0:
            return Outcome.BEYOND if self.mean > 0 else Outcome.WITHIN
        if self.p < LEVEL and self.rounds >= FEWEST_TO_FAIL:
            return Outcome.BEYOND
        if self.mean < 0 and _p(-self.mean, self.deviation, self.rounds) < LEVEL_WITHIN:
            return Outcome.WITHIN
        return Outcome.OPEN

    @property
    def rounds_to_decide(self) -> float:
        """Number of rounds that decide with a chance of `POWER`, were the mean the true one; infinite at the threshold.

        Examples:
            >>> Distance(-0.5, 2.0, 24, 0.9).rounds_to_decide
            99
        """
        if not self.deviation:
            return self.rounds
        if self.mean == 0:
            return math.inf
        level = self.level if self.mean > 0 else LEVEL_WITHIN
        # The normal quantile stands for those of Student's t, which depend on the number that is looked for.
        quantiles = student_quantile(1e6, 1 - level) + student_quantile(1e6, POWER)
        estimate = math.ceil((quantiles * self.deviation / self.mean) ** 2)
        return max(estimate, self.rounds + 1)


def distance(rule: Rule, own: Mapping[int, float], references: Sequence[Mapping[int, float]]) -> Distance | None:
    """Return how far a figure lies beyond a threshold; none: no round has any.

    A figure that is beyond a threshold of several bounds is beyond each of them: the bound that it is least surely
    beyond decides (an intersection-union test).

    Args:
        rule: the threshold.
        own: the figure by round; NaN where it has none, which is beyond anything.
        references: those of `rule.references`, in their order; a bound without any is no bound.

    Examples:
        >>> rule = Rule("at most 2 %, or twice CUBIC's", limit=2, of_cubic=2)
        >>> distance(rule, {0: 5.0, 1: 7.0}, [{0: 1.0, 1: 2.0}]).mean
        4.0
    """
    found = []
    if own and rule.limit is not None:
        found.append(_distance([_beyond(rule, value, rule.limit) for value in own.values()]))
    for reference in references:
        paired = [key for key in own if key in reference] if rule.of_cubic is not None else []
        if paired:
            bounds = [(own[key], (rule.of_cubic or 0.0) * reference[key]) for key in paired]
            found.append(_distance([_beyond(rule, value, bound) for value, bound in bounds]))
    # A single round has no p: the smallest mean decides.
    return max(found, key=lambda one: (0.0 if one.p is None else one.p, -one.mean), default=None)


def among(distances: Sequence[Distance]) -> list[Distance]:
    """Return the distances of all cells that are judged together, with `p` and `level` corrected for their number."""
    tested = [one.p for one in distances if one.p is not None]
    corrected = iter(zip(holm(tested), holm_levels(tested, LEVEL), strict=True))
    found = []
    for one in distances:
        p, level = next(corrected) if one.p is not None else (None, LEVEL)
        found.append(replace(one, p=p, level=level))
    return found


def _beyond(rule: Rule, value: float, bound: float) -> float:
    """Return the distance of one round."""
    if math.isnan(value):
        return MOST
    if math.isnan(bound):
        return -MOST
    found = value - bound if rule.at_most else bound - value
    return 0.0 if math.isnan(found) else min(max(found, -MOST), MOST)


def _distance(values: Sequence[float]) -> Distance:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return Distance(mean, None, 1, None)
    deviation = spread(values) or 0.0
    return Distance(mean, deviation, len(values), _p(mean, deviation, len(values)))


def _p(mean: float, deviation: float, rounds: int) -> float:
    """Return the probability of a mean as large where the true one is 0."""
    if deviation == 0:
        return 0.0 if mean > 0 else 1.0
    t = mean / deviation * rounds**0.5
    beyond = student_beyond(rounds - 1, abs(t))
    return beyond if t > 0 else 1 - beyond

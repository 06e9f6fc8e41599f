# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The trials around a finding: whether it stands for a region, or is an accident of one point.

Further seeds alone do not show that: a link without random losses gives the same run for each. A search finds the
trial of many in which even a twin of a reference is worst, by chance; nearby, it is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from perigee.attack.bench import Bench, Result
from perigee.attack.figures import Goal
from perigee.attack.trial import Trial
from perigee.statistics.estimates import spread
from perigee.statistics.special import student_quantile

STEP = 0.03
"""Factors that scale rate, round trip and queue, less or more than 1."""
LATER_S = 0.05
"""Other flows begin as much later in each trial than in the one before."""
SEEDS = 3
"""Runs of each congestion control in a trial whose losses or queues are random."""
LEVEL = 0.01
"""Chance that a candidate that is no worse is taken to be so."""


@dataclass(frozen=True)
class Around:
    """The excess in the trials around a finding, as multiples of the finding's own.

    Attributes:
        least: the smallest.
        most: the largest.
        holds: their mean is a finding too, and not by chance.
    """

    least: float
    most: float
    holds: bool

    @property
    def sentence(self) -> str:
        """The range in words.

        Examples:
            >>> print(Around(0.361, 1.04, True).sentence)  # doctest: +NORMALIZE_WHITESPACE
            With rate, round trip and queue 3 % smaller or larger, its excess is 36 to 104 % of that: it depends
            on detail.
        """
        detail = ": it depends on detail" if self.least < 1 / 2 else ""
        amounts = f"{self.least * 100:.0f} to {self.most * 100:.0f} % of that"
        return f"With rate, round trip and queue {STEP * 100:.0f} % smaller or larger, its excess is {amounts}{detail}."


def around(bench: Bench, goal: Goal, found: Result) -> Around:
    """Carry out the eight trials around a finding; code that fails in one is as bad there as in the finding.

    Args:
        bench: carries trials out.
        goal: what the finding is about.
        found: the trial, with an excess above zero.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    corners = itertools.product((1 - STEP, 1 + STEP), repeat=3)
    trials = [_moved(found.trial, *steps, later_s=place * LATER_S) for place, steps in enumerate(corners)]
    own = found.excess(goal)
    is_random = found.trial.loss_percent or found.trial.aqm
    results = bench.measure(trials, SEEDS if is_random else 1)
    excesses = [own if result.fault else result.excess(goal) for result in results]
    return Around(min(excesses) / own, max(excesses) / own, _holds(excesses, goal.least))


def _holds(excesses: Sequence[float], least: float) -> bool:
    """Whether the mean of excesses is at least `least`, and surely above 0 (Student's t, one-sided).

    Examples:
        >>> _holds([0.3, 0.2, 0.4, 0.3], 0.15), _holds([0.9, -0.1, -0.1, 0.1], 0.15), _holds([0.2, 0.2], 0.15)
        (True, False, True)
    """
    mean, count = fmean(excesses), len(excesses)
    half_width = student_quantile(count - 1, 1 - LEVEL) * (spread(excesses) or 0.0) / count**0.5
    return mean >= least and mean > half_width


def _moved(trial: Trial, rate: float, rtt: float, queue: float, *, later_s: float) -> Trial:
    return replace(
        trial,
        rate_mbps=trial.rate_mbps * rate,
        rtt_ms=trial.rtt_ms * rtt,
        queue_kb=trial.queue_kb * queue,
        other_at_s=trial.other_at_s + later_s if trial.others else 0.0,
    )

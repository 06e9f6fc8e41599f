# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The trials around a finding: whether it stands for a region, or is an accident of one point.

Further seeds do not show that. A link without random losses gives the same run for each.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from perigee.attack.bench import Bench, Result
from perigee.attack.figures import Goal
from perigee.attack.trial import Trial

STEP = 0.03
"""Factors that scale rate, round trip and queue, less or more than 1."""


@dataclass(frozen=True)
class Around:
    """The excess in the trials around a finding, as multiples of the finding's own.

    Attributes:
        least: the smallest.
        most: the largest.
    """

    least: float
    most: float

    @property
    def sentence(self) -> str:
        """The range in words.

        Examples:
            >>> print(Around(0.361, 1.04).sentence)  # doctest: +NORMALIZE_WHITESPACE
            With rate, round trip and queue 3 % smaller or larger, its excess is 36 to 104 % of that: it depends
            on detail.
        """
        detail = ": it depends on detail" if self.least < 1 / 2 else ""
        amounts = f"{self.least * 100:.0f} to {self.most * 100:.0f} % of that"
        return f"With rate, round trip and queue {STEP * 100:.0f} % smaller or larger, its excess is {amounts}{detail}."


def around(bench: Bench, goal: Goal, found: Result) -> Around:
    """Carry out the eight trials around a finding.

    Args:
        bench: carries trials out.
        goal: what the finding is about.
        found: the trial, with an excess above zero.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    trials = [_moved(found.trial, *steps) for steps in itertools.product((1 - STEP, 1 + STEP), repeat=3)]
    excesses = [result.excess(goal) / found.excess(goal) for result in bench.measure(trials)]
    return Around(min(excesses), max(excesses))


def _moved(trial: Trial, rate: float, rtt: float, queue: float) -> Trial:
    return replace(trial, rate_mbps=trial.rate_mbps * rate, rtt_ms=trial.rtt_ms * rtt, queue_kb=trial.queue_kb * queue)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The search for the worst trial: differential evolution (Storn, Price 1997) over the cube of `space`.

It begins anew after `GENERATIONS`, by when it has settled. A trial takes 20 to 60 ms: no surrogate is cheap beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perigee.attack.bench import Bench, Result
from perigee.attack.figures import Goal
from perigee.attack.space import ABSENT, AXES, Space
from perigee.attack.trial import Trial
from perigee.statistics.samples import latin_hypercube

if TYPE_CHECKING:
    from numpy.typing import NDArray

POPULATION = 36
"""Trials of a generation: two per axis."""
GENERATIONS = 40
"""Generations until the search begins anew elsewhere."""
MUTATION = (0.4, 0.9)
"""How much of a difference is added, drawn anew for each generation."""
CROSSOVER = 0.6
"""Share of the axes on which a candidate differs from its point."""
KEPT = 8
"""The worst trials that are carried out again with further seeds, and that later goals begin with."""
AT_ONCE = 2
"""Trials of these that are carried out before the time is looked at."""
COMPLICATIONS = 2.0
"""Mean number of axes on which a complication of a first generation is present."""
WORST = 1e9
"""The excess of code that crashes."""


@dataclass(frozen=True)
class Budget:
    """How long a search goes on: until either is used up.

    Attributes:
        trials: number of trials; none: any.
        until: instant of `time.monotonic`, s; none: any.
    """

    trials: int | None = None
    until: float | None = None

    @property
    def is_over(self) -> bool:
        """True once its instant has passed."""
        return self.until is not None and time.monotonic() >= self.until

    def share(self, trials: int, begun: float) -> float:
        """Return the share of it that is used up, 0 to 1, after some trials since an instant."""
        shares = [0.0]
        if self.trials is not None:
            shares.append(trials / self.trials)
        if self.until is not None:
            shares.append((time.monotonic() - begun) / max(self.until - begun, 1e-9))
        return min(max(shares), 1.0)


@dataclass
class Archive:
    """All trials of a search with their points.

    Attributes:
        points: the points in the order in which they were tried.
        results: their results.
    """

    points: list[tuple[float, ...]] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def worst(self, goal: Goal, count: int, first: int = 0) -> list[int]:
        """Return the places of the worst trials from place `first` on, each trial once, the worst first."""
        excesses = {place: self.results[place].excess(goal) for place in range(first, len(self.results))}
        order = sorted(excesses, key=lambda place: (-excesses[place], place))
        found: dict[Trial, int] = {}
        for place in order:
            found.setdefault(self.results[place].trial, place)
            if len(found) == count:
                break
        return list(found.values())


def search(
    bench: Bench,
    space: Space,
    goal: Goal,
    budget: Budget,
    seed: int,
    archive: Archive,
    watch: Callable[[float], None],
) -> None:
    """Search for the trial with the largest excess, and add all trials to the archive.

    Args:
        bench: carries trials out.
        space: the trials.
        goal: what is looked for.
        budget: when to stop; a generation is tried in any case.
        seed: seed of the search.
        archive: trials of earlier goals, the worst of which are in the first generation.
        watch: called with the share of the budget that is used up.

    Raises:
        KeyboardInterrupt: the user stopped it; the archive has what was tried.
    """
    random = np.random.default_rng(seed)
    begun, first, known = time.monotonic(), bench.trials, len(archive.results)

    def used() -> float:
        return budget.share(bench.trials - first, begun)

    def generation(points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Carry out the trials of a generation at once, and return their scores, the worst trial's the highest."""
        asked = [tuple(map(float, point)) for point in points]
        left = len(asked) if budget.trials is None else max(budget.trials - (bench.trials - first), 0)
        # The first generation is tried even if earlier searches have used up the time.
        wanted = asked[:left] if used() < 1 or len(archive.results) == known else []
        results = bench.measure([space.trial(point) for point in wanted], done=lambda: watch(used()))
        archive.points += wanted
        archive.results += results
        scores = [min(result.excess(goal), WORST) for result in results]
        return np.array(scores + [-WORST] * (len(asked) - len(scores)))

    while used() < 1 or len(archive.results) == known:
        points = _beginning(random, archive, goal)
        scores = generation(points)
        for _ in range(GENERATIONS):
            if used() >= 1:
                break
            candidates = _varied(random, points, points[np.argmax(scores)])
            found = generation(candidates)
            better = found >= scores
            points[better], scores[better] = candidates[better], found[better]


def _varied(
    random: np.random.Generator, points: NDArray[np.float64], worst: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a candidate for each point: on some axes, at least one, the worst trial moved by two others' difference.

    A coordinate that leaves the cube is drawn anew.
    """
    count, axes = points.shape
    others = np.array([random.choice(np.delete(np.arange(count), place), 2, replace=False) for place in range(count)])
    moved = worst + random.uniform(*MUTATION) * (points[others[:, 0]] - points[others[:, 1]])
    moved = np.where((moved < 0) | (moved > 1), random.random(moved.shape), moved)
    crossed = random.random(points.shape) < CROSSOVER
    crossed[np.arange(count), random.integers(0, axes, count)] = True
    return np.where(crossed, moved, points)


def _beginning(random: np.random.Generator, archive: Archive, goal: Goal) -> NDArray[np.float64]:
    """Return the first generation: a Latin hypercube with few complications, and what other goals found."""
    # A stream of its own: a first generation does not depend on how many numbers later ones drew.
    points = latin_hypercube(random.spawn(1)[0], len(AXES), POPULATION)
    complicated = [AXES.index(name) for name in ("loss", "aqm", "rate_factor", "rtt_factor", "outage", "object", "up")]
    present = COMPLICATIONS / len(complicated)
    for axis in complicated:
        x = points[:, axis]
        # The axis is bent so that `present` of the points lie where the complication is there.
        points[:, axis] = np.where(
            x < 1 - present, x / (1 - present) * ABSENT, ABSENT + (x - 1 + present) / present * (1 - ABSENT)
        )
    for row, place in enumerate(archive.worst(goal, KEPT // 2)):
        points[row] = archive.points[place]
    return points


def again(
    bench: Bench, goal: Goal, archive: Archive, first: int, rounds: int, is_over: Callable[[], bool] = lambda: False
) -> list[Result]:
    """Carry the worst trials from place `first` on out again with further seeds, and return them, the worst first.

    The worst of all is carried out even if the time is over.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    trials = [archive.results[place].trial for place in archive.worst(goal, KEPT, first)]
    found: list[Result] = []
    for begin in range(0, len(trials), AT_ONCE):
        if found and is_over():
            break
        found += bench.measure(trials[begin : begin + AT_ONCE], rounds)
    return sorted(found, key=lambda result: -result.excess(goal))


def shared_with(bench: Bench, goal: Goal, archive: Archive, first: int, rounds: int) -> Result | None:
    """Return the trial from place `first` on in which the candidate is worst beside the best reference, but as another.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    trials = [one for one in archive.results[first:] if one.lag(goal) >= goal.least and one.excess(goal) < goal.least]
    if not trials:
        return None
    (found,) = bench.measure([max(trials, key=lambda one: one.lag(goal)).trial], rounds)
    return found if found.lag(goal) >= goal.least and found.excess(goal) < goal.least and found.like(goal) else None

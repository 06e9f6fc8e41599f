# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Evaluations of several congestion controls whose first rounds are runs of one study."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perigee.engines.plan.contract import Engine
from perigee.engines.sim.engine import Simulator
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.judging import Finding, Measured
from perigee.evaluation.running import evaluate
from perigee.evaluation.studies import Candidate, Order, candidate


@dataclass(frozen=True)
class Several:
    """Evaluations of several congestion controls; references run once for all of them.

    Attributes:
        names: names, or files.
        folder: folder for results, in which the same evaluations go on.
        quick: whether the studies have their reduced sizes.
        workers: number of concurrent runs; none: one per core.
        seed: of all studies.
        engine: what carries the studies out.
        taken: the figures that were taken so far, by the folder of their results; first rounds serve all evaluations.
    """

    names: Sequence[str]
    folder: Path
    quick: bool
    workers: int | None = None
    seed: int = 1
    engine: Engine = Simulator
    taken: dict[Path, Measured] = field(default_factory=dict)

    @functools.cached_property
    def candidates(self) -> Sequence[Candidate]:
        """The congestion controls."""
        return [candidate(name) for name in self.names]

    def orders(self, chosen: Collection[str] = ()) -> list[Order]:
        """Return the order of each evaluation, by some criteria or all."""
        start = functools.partial(Order, engine=self.engine, workers=self.workers, seed=self.seed, several=self)
        return [start(one, chosen, self.quick, keep=self.folder / one.name) for one in self.candidates]

    def alike(self, one: Candidate, criterion: Criterion) -> Sequence[Candidate]:
        """Return the congestion controls that the same study of a criterion has: those that need ECN may have more."""
        return [each for each in self.candidates if not criterion.scalable or each.scalable == one.scalable]

    def first_rounds(self, one: Candidate, criterion: Criterion) -> Path:
        """Return the folder of that study's results."""
        return self.folder / ("first-rounds-ecn" if criterion.scalable and one.scalable else "first-rounds")

    def findings(
        self, criterion: Criterion, say: Callable[[str], None] = lambda _: None
    ) -> Iterator[tuple[Order, Finding]]:
        """Yield the verdict on each by a criterion, with the further rounds that it takes."""
        for order in self.orders((criterion.id,)):
            found = evaluate(order, lambda _: contextlib.nullcontext(lambda *_, outlook=None: None), say)
            yield order, next(one for one in found if one.criterion is criterion)

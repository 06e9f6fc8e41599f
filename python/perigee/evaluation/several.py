# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Evaluations of several congestion controls whose first rounds are runs of one study."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perigee.engines.sim.engine import Simulator
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.judging import Finding
from perigee.evaluation.running import evaluate
from perigee.evaluation.studies import Order, candidate


@dataclass(frozen=True)
class Several:
    """Evaluations of several congestion controls; references run once for all of them.

    Attributes:
        names: names, or files.
        folder: folder for results, in which the same evaluations go on.
        quick: whether the studies have their reduced sizes.
        workers: number of concurrent runs; none: one per core.
        seed: of all studies.
    """

    names: Sequence[str]
    folder: Path
    quick: bool
    workers: int | None = None
    seed: int = 1

    def orders(self, criterion: Criterion) -> Iterator[Order]:
        """Yield the order of each evaluation by a criterion."""
        every = [candidate(name) for name in self.names]
        for one in every:
            # Those that need ECN are run in an experiment more.
            has_more = bool(criterion.scalable) and one.scalable
            alike = [each.value for each in every if not criterion.scalable or each.scalable == one.scalable]
            yield Order(
                one,
                (criterion.id,),
                self.quick,
                Simulator,
                self.workers,
                self.folder / one.name,
                seed=self.seed,
                beside=alike,
                first_rounds=self.folder / ("first-rounds-ecn" if has_more else "first-rounds"),
            )

    def findings(
        self, criterion: Criterion, say: Callable[[str], None] = lambda _: None
    ) -> Iterator[tuple[Order, Finding]]:
        """Yield the verdict on each by a criterion, with the further rounds that it takes."""
        for order in self.orders(criterion):
            found = evaluate(order, lambda _: contextlib.nullcontext(lambda *_, outlook=None: None), say)
            yield order, next(one for one in found if one.criterion is criterion)

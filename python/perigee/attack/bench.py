# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries trials out on several threads, and keeps their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean

from perigee.attack.figures import Figures, Goal, figures_of
from perigee.attack.trial import Trial, study
from perigee.cc.child import LostError
from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.interrupts import held_back
from perigee.keeper.runs import Runs, compiled, in_order

TABLES = ("flows", "series")


@dataclass(frozen=True)
class Result:
    """A trial that was carried out.

    Attributes:
        trial: the trial.
        candidate: the candidate's figures in each round; empty where its code failed.
        references: those of each reference.
        fault: how the candidate's code failed.
    """

    trial: Trial
    candidate: tuple[Figures, ...]
    references: Mapping[str, tuple[Figures, ...]]
    fault: str = ""

    def excess(self, goal: Goal) -> float:
        """Return by how much the candidate is worse than the worst reference, in the mean over rounds."""
        if self.fault:
            return float("inf")
        return self.mean(goal) - max(self.mean(goal, name) for name in self.references)

    def lag(self, goal: Goal) -> float:
        """Return by how much the candidate is worse than the best reference, which the others may be, too."""
        if self.fault:
            return float("inf")
        return self.mean(goal) - min(self.mean(goal, name) for name in self.references)

    def like(self, goal: Goal) -> list[str]:
        """Return the references that do as badly, within half of what is a finding."""
        bad = self.mean(goal) - goal.least / 2
        return [name for name in self.references if self.mean(goal, name) >= bad]

    def mean(self, goal: Goal, reference: str | None = None) -> float:
        """Return the mean badness over rounds, of a reference or of the candidate."""
        return fmean(goal.badness(one) for one in (self.candidate if reference is None else self.references[reference]))

    def best(self, goal: Goal) -> str:
        """Return the name of the reference that does best."""
        return min(self.references, key=lambda name: self.mean(goal, name))

    def worst(self, goal: Goal) -> str:
        """Return the name of the reference that does worst, against which a finding counts."""
        return max(self.references, key=lambda name: self.mean(goal, name))


class Bench:
    """Carries trials out; the same trials give the same results on any number of workers.

    Args:
        candidate: the congestion control: a name, or the absolute path of its file.
        references: names of those that it is compared with.
        workers: number of threads.
        limits: limits of authors' code.

    Attributes:
        trials: number of trials carried out so far.
    """

    def __init__(
        self, candidate: str, references: Sequence[str], workers: int, limits: CodeLimits = DEFAULT_LIMITS
    ) -> None:
        self.trials = 0
        self._references = tuple(references)
        # A candidate that is a reference runs once.
        self._algorithms = tuple(dict.fromkeys([candidate, *references]))
        self._kept: dict[tuple[Trial, int], Result] = {}
        self._runs = Runs(compiled(study(Trial(10, 100, 100, 1), self._algorithms)), limits)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="attack")

    def close(self) -> None:
        """End threads and processes."""
        self._pool.shutdown(cancel_futures=True)
        self._runs.close()

    def measure(
        self, trials: Sequence[Trial], rounds: int = 1, done: Callable[[], None] = lambda: None
    ) -> list[Result]:
        """Carry trials out, in `rounds` runs of each congestion control, and return their results in order.

        Raises:
            KeyboardInterrupt: the user stopped it; trials that were begun are finished.
            RunError: a run failed for a reason other than the candidate's code.
        """
        missing = list(dict.fromkeys(trial for trial in trials if (trial, rounds) not in self._kept))
        with held_back() as answer_interrupts:
            futures = [self._pool.submit(self._carried_out, trial, rounds) for trial in missing]

            def waiting() -> None:
                answer_interrupts()
                done()

            try:
                results = list(in_order(futures, waiting))
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        self._kept |= {(trial, rounds): result for trial, result in zip(missing, results, strict=True)}
        self.trials += len(missing)
        return [self._kept[trial, rounds] for trial in trials]

    def _carried_out(self, trial: Trial, rounds: int) -> Result:
        count = len(self._algorithms)
        found: list[Figures] = []
        try:
            for tables in self._runs.tables(study(trial, self._algorithms, rounds=rounds), rounds * count, TABLES):
                found.append(figures_of(trial, tables, len(found)))
        except LostError as lost:
            if len(found) % count:
                raise
            return Result(trial, (), {}, lost.sentence)
        figures = {name: tuple(found[place::count]) for place, name in enumerate(self._algorithms)}
        return Result(trial, figures[self._algorithms[0]], {name: figures[name] for name in self._references})

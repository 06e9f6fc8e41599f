# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries trials out in the simulator, in memory, on several threads; authors' code runs in processes of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from perigee.attack.figures import Figures, Goal, figures_of
from perigee.attack.trial import Trial, study
from perigee.cc.child import LOADING_FACTOR, Child, LostError
from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.core import native
from perigee.interrupts import held_back
from perigee.places import headers
from perigee.store.schema import empty_table
from perigee.store.streams import checked_frame, frame_of

if TYPE_CHECKING:
    import polars as pl

POLL_S = 0.05
TABLES = ("flows", "series")
PATH = "attack.toml"
"""The name of a trial's study in errors; it is never a file."""
RENEWED_AFTER = 100
"""Studies after which a process of authors' code is replaced: it keeps a file open for each, of the 256 that it may."""


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
        self._limits = limits
        self._kept: dict[tuple[Trial, int], Result] = {}
        self._libraries = self._plan(study(Trial(10, 100, 100, 1), self._algorithms)).compiled()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="attack")
        self._own = threading.local()
        self._children: list[Child] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """End threads and processes."""
        self._pool.shutdown(cancel_futures=True)
        with self._lock:
            children, self._children = self._children, []
        for child in children:
            child.close()

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
            futures = {trial: self._pool.submit(self._carried_out, trial, rounds) for trial in missing}
            try:
                self._await(list(futures.values()), answer_interrupts, done)
            except BaseException:
                for future in futures.values():
                    future.cancel()
                raise
        self._kept |= {(trial, rounds): future.result() for trial, future in futures.items()}
        self.trials += len(missing)
        return [self._kept[trial, rounds] for trial in trials]

    @staticmethod
    def _await(futures: Sequence[Future[Result]], answer: Callable[[], None], done: Callable[[], None]) -> None:
        pending = set(futures)
        while pending:
            finished, pending = wait(pending, POLL_S, FIRST_EXCEPTION)
            for future in finished:
                future.result()
            answer()
            done()

    def _plan(self, text: str) -> native.Plan:
        return native.Plan(text, PATH, [], False, [], str(headers()))

    def _carried_out(self, trial: Trial, rounds: int) -> Result:
        text = study(trial, self._algorithms, rounds=rounds)
        count = len(self._algorithms)
        found: list[list[Figures]] = [[] for _ in range(count)]
        run = self._confined(text) if self._libraries else self._native(text)
        for index in range(rounds * count):
            try:
                tables = run(index)
            except LostError as lost:
                self._drop()
                if index % count:
                    raise
                return Result(trial, (), {}, _said(lost))
            found[index % count].append(figures_of(trial, tables, index))
        figures = {name: tuple(each) for name, each in zip(self._algorithms, found, strict=True)}
        return Result(trial, figures[self._algorithms[0]], {name: figures[name] for name in self._references})

    def _native(self, text: str) -> Callable[[int], dict[str, pl.DataFrame]]:
        plan = self._plan(text)

        def run(index: int) -> dict[str, pl.DataFrame]:
            done = plan.run(index, "sim", "", lambda *_: True)
            assert done, "nobody stops a run here"  # noqa: S101 - as the progress says
            return {name: frame_of(done[0][name]) if name in done[0] else empty_table(name) for name in TABLES}

        return run

    def _confined(self, text: str) -> Callable[[int], dict[str, pl.DataFrame]]:
        child = self._child()
        blobs = [blob for _, source, library in self._libraries for blob in (source, library)]
        arguments = [text, PATH, [], False, [], str(headers())]
        asked = {"do": "plan", "arguments": arguments, "paths": [str(path) for path, _, _ in self._libraries]}
        child.ask(asked, blobs, stall_s=LOADING_FACTOR * self._limits.stall_s)

        def run(index: int) -> dict[str, pl.DataFrame]:
            answer, parts = child.ask({"do": "run", "index": index})
            return _tables(answer, parts)

        return run

    def _child(self) -> Child:
        """Return the process of this thread."""
        if getattr(self._own, "left", 0) <= 0:
            self._drop()
        child: Child | None = getattr(self._own, "child", None)
        if child is None:
            child = Child(self._limits)
            with self._lock:
                self._children.append(child)
            self._own.child, self._own.left = child, RENEWED_AFTER
        self._own.left -= 1
        return child

    def _drop(self) -> None:
        child: Child | None = getattr(self._own, "child", None)
        if child is not None:
            with self._lock:
                self._children.remove(child)
            child.close()
            self._own.child = None


def _said(lost: LostError) -> str:
    callback = f"`{lost.noted.callback}` at {lost.noted.time_s:.6f} s" if lost.noted.callback else "the code"
    return f"{callback} {lost.how}"


def _tables(answer: dict[str, Any], parts: Sequence[memoryview]) -> dict[str, pl.DataFrame]:
    streams = dict(zip(answer["tables"], parts, strict=False))
    return {
        name: checked_frame(name, bytes(streams[name])) if name in streams else empty_table(name) for name in TABLES
    }

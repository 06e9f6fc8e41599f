# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Worker threads that execute the runs of a plan: long ones singly, short ones in batches of a quarter of a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from perigee.engines.plan.contract import Plan, Progress
from perigee.engines.run.curve import Curve
from perigee.engines.run.equal import EqualRuns
from perigee.engines.run.stretches import Stretches
from perigee.errors import FaultError, InterruptedRunError
from perigee.interrupts import held_back
from perigee.store.folder import ResultsFolder

if TYPE_CHECKING:
    from perigee.store.streams import Streams

POLL_S = 0.1
WINDOW = 2
"""Batches in flight for each worker: one that runs and one that follows at once."""
STRETCH_S = 0.25
"""Target duration of a batch of short runs, s: bounds the loss at a kill, and amortizes storing."""
SPARE = 4
"""Minimum number of batches left per worker, so that all end at about the same time."""
NO_CAPTURES: Mapping[str, bytes] = MappingProxyType({})


class Watch(Protocol):
    """Called with the progress."""

    def __call__(self, done: float, total: int, /, outlook: tuple[str, float | None] | None = None) -> None:
        """The work done and the total in runs, including fractions; and the outlook of a plan with a timetable."""


class Crew:
    """Worker threads; the engine releases the GIL, so they use all cores.

    Args:
        plan: plan of the runs.
        folder: folder for results.
        workers: number of threads.
        follow: called on the calling thread with the throughput over time of the oldest current run.

    Attributes:
        faults: the error of each run that broke a law of the simulator, and has no results.
    """

    def __init__(
        self, plan: Plan, folder: ResultsFolder, workers: int, follow: Callable[[Curve], None] | None = None
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._workers = workers
        self._follow = follow
        self._curves: dict[int, Curve] = {}
        self._stop = threading.Event()
        self._share: dict[int, float] = {}
        self._run_s = STRETCH_S
        self.faults: dict[int, FaultError] = {}

    def do(self, missing: Sequence[int], total: int, watch: Watch) -> None:
        """Execute the missing runs of a total, see `carry_out`."""
        done = total - len(missing)
        equal = EqualRuns(self._plan, missing)
        watch(done, total)
        with held_back() as answer_interrupts, ThreadPoolExecutor(self._workers, thread_name_prefix="run") as pool:
            left = Stretches(equal.carried_out)
            waiting: dict[Future[int], range] = {}
            try:
                while left or waiting:
                    # Only a window is submitted, since the cost of `wait` grows with the number of futures.
                    while left and len(waiting) < WINDOW * self._workers:
                        stretch = left.take(self._most(len(left)))
                        waiting[pool.submit(self._some, stretch, equal)] = stretch
                    answer_interrupts()
                    for future in wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED).done:
                        stretch, number = waiting.pop(future), future.result()
                        left.put_back(stretch[number:])
                        done += number + equal.number_after(stretch[:number])
                    if self._follow and (curves := list(self._curves.values())):
                        self._follow(curves[0])
                    watch(done + sum(list(self._share.values())), total, outlook=self._plan.outlook())
            except BaseException as error:
                self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                if isinstance(error, KeyboardInterrupt):
                    still = self._folder.missing(len(self._plan.runs))
                    kept = total - len(set(missing).intersection(still))
                    raise InterruptedRunError(
                        f"stopped: {kept} of {total} runs are kept in {self._folder.path}"
                    ) from None
                raise

    def _most(self, left: int) -> int:
        """Return the maximum number of runs in a batch."""
        longest = min(left // (SPARE * self._workers), self._plan.most_together)
        return max(1, min(int(STRETCH_S / self._run_s), longest))

    def _some(self, runs: range, equal: EqualRuns) -> int:
        """Execute and store runs of a batch; return their number."""
        if self._stop.is_set():
            return 0

        def progress(done: float, now_s: float = 0.0, received: Sequence[int] = ()) -> bool:
            self._share[runs[0]] = done
            if curve and received:
                curve.add(now_s, received)
                self._curves.setdefault(runs[0], curve)
            return not self._stop.is_set()

        begun = time.monotonic()
        curve = Curve(runs[0], self._plan.runs[runs[0]].get("flows", ())) if self._follow else None
        try:
            done = self._together(runs, equal, progress) or self._alone(runs[0], equal, progress)
        finally:
            self._share.pop(runs[0], None)
            self._curves.pop(runs[0], None)
        self._run_s = max((time.monotonic() - begun) / max(done, 1), 1e-9)
        return done

    def _together(self, runs: range, equal: EqualRuns, progress: Progress) -> int:
        if len(runs) == 1:
            return 0
        done, tables = self._plan.execute_several(runs, STRETCH_S, progress)
        if done:
            self._folder.keep_several(runs[:done], tables)
            self._keep_after(runs[:done], tables, equal)
        return done

    def _alone(self, run: int, equal: EqualRuns, progress: Progress) -> int:
        try:
            output = self._plan.execute(run, progress, self._folder.captures)
        except FaultError as fault:
            also = [later for runs, _ in equal.after([run]) for later in runs]
            self.faults.update(dict.fromkeys([run, *also], fault))
            return 1
        if output is None:
            return 0
        self._folder.keep(run, output.tables, output.captures, output.files)
        self._keep_after(range(run, run + 1), output.tables, equal, output.captures)
        return 1

    def _keep_after(
        self, runs: range, tables: Streams, equal: EqualRuns, captures: Mapping[str, bytes] = NO_CAPTURES
    ) -> None:
        """Keep the results of these runs for the further runs that equal them."""
        for later, of in equal.after(runs):
            self._folder.keep_captures(later, captures)
            self._folder.keep_several(later, equal.tables(tables, later, of))

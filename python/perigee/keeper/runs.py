# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs of small studies in the simulator, in memory; authors' code runs in processes of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from perigee.cc.child import Child, StoppedError
from perigee.cc.fault import Library
from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.core import native
from perigee.errors import RunError
from perigee.places import data_roots, headers
from perigee.store.schema import empty_table
from perigee.store.streams import checked_frame

if TYPE_CHECKING:
    import polars as pl

    from perigee.engines.plan.native import PlanArguments

T = TypeVar("T")
PATH = "small.toml"
"""Name of a small study in errors; it is never a file."""
POLL_S = 0.05
RENEWED_AFTER = 100
"""Studies after which a process of authors' code is replaced: it keeps a file open for each, of the 256 that it may."""

Tables = Mapping[str, "pl.DataFrame"]
"""Tables of one run by name."""


class Runs:
    """Carries small studies out, for any number of threads; used with `with`, or closed.

    Args:
        libraries: authors' files that the studies name, compiled; none: all code is built in, and runs in this process.
        limits: what a process of authors' code may take.
        goes_on: asked a few times a second whether to go on.
    """

    def __init__(
        self,
        libraries: Sequence[Library] = (),
        limits: CodeLimits = DEFAULT_LIMITS,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._libraries = libraries
        self._limits = limits
        self._goes_on = goes_on
        self._lock = threading.Lock()
        self._idle: list[tuple[Child, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child, _ in idle:
            child.close()

    def tables(self, study: str, count: int, names: Sequence[str]) -> Iterator[Tables]:
        """Carry out the first runs of a study, and yield the tables of each.

        Args:
            study: its text.
            count: number of runs.
            names: names of tables.

        Raises:
            InputError: the study is wrong.
            LostError: an author's code crashed, hung or took too much.
            RunError: a run failed for another reason.
            StoppedError: it should not go on.
        """
        with self._loaded(arguments_of(study)) as run:
            for index in range(count):
                yield _frames(run(index), names)

    @contextlib.contextmanager
    def _loaded(self, arguments: PlanArguments) -> Iterator[Callable[[int], Mapping[str, bytes]]]:
        """Read a study, and return what carries out one of its runs."""

        def watch(*_progress: object) -> bool:
            return self._goes_on()

        if not self._libraries:
            plan = native.Plan(*arguments)

            def native_run(index: int) -> Mapping[str, bytes]:
                if done := plan.run(index, "sim", "", watch):
                    return done[0]
                raise StoppedError

            yield native_run
            return

        def confined_run(index: int) -> Mapping[str, bytes]:
            answer, parts = child.ask({"do": "run", "index": index}, watch=watch)
            return dict(zip(answer["tables"], map(bytes, parts), strict=False))

        with self._lock:
            child, left = self._idle.pop() if self._idle else (Child(self._limits), RENEWED_AFTER)
        try:
            child.plan(arguments, self._libraries, watch=watch)
            yield confined_run
        except BaseException:
            child.close()
            raise
        if left == 1:
            child.close()
            return
        with self._lock:
            self._idle.append((child, left - 1))


def _frames(streams: Mapping[str, bytes], names: Sequence[str]) -> Tables:
    try:
        return {name: checked_frame(name, streams[name]) if name in streams else empty_table(name) for name in names}
    except ValueError as error:
        raise RunError(f"a table came back damaged ({error}); the code overwrites memory") from None


def arguments_of(study: str) -> PlanArguments:
    """Return the first arguments of the core's `Plan` for a study that is no file."""
    return study, PATH, [], False, [str(root) for root in data_roots()], str(headers())


def compiled(study: str) -> Sequence[Library]:
    """Return the authors' files that a study names, compiled.

    Raises:
        InputError: one does not compile.
    """
    return native.Plan(*arguments_of(study)).compiled()


def in_order(futures: Sequence[Future[T]], watch: Callable[[], None]) -> Iterator[T]:
    """Yield results in the order of what was asked for; `watch` is called while one is waited for."""
    for future in futures:
        while not wait([future], POLL_S).done:
            watch()
        yield future.result()

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The contract of every engine: a study becomes a plan of runs, and a run becomes tables with the same columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from perigee.core import core_fingerprint
from perigee.places import StudyFile

if TYPE_CHECKING:
    import polars as pl

    from perigee.engines.host.memory import Room
    from perigee.engines.plan.runs import Runs
    from perigee.store.streams import Streams


class Progress(Protocol):
    """Called while a run goes on."""

    def __call__(self, share: float, now_s: float = 0.0, received: Sequence[int] = (), /) -> bool:
        """Return whether to continue.

        Args:
            share: completed share of the run, 0 to 1.
            now_s: time within the run, s, from engines that report received data.
            received: payload received by each of its first flows, bytes.
        """


@dataclass(frozen=True)
class Output:
    """Results of one run.

    Attributes:
        tables: tables that have rows by name, as Arrow streams with the columns of `schema/results.md`.
        captures: captures and qlogs by file name, if the study asks for them and the engine keeps them in memory.
        files: further files by their path in the results folder.
    """

    tables: Streams
    captures: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table; one without rows where the run has none."""
        from perigee.store.schema import empty_table
        from perigee.store.streams import frame_of

        return frame_of(self.tables[name]) if name in self.tables else empty_table(name)


class Plan:
    """A study planned for an engine: its runs and their execution. An engine is a class of plans.

    Attributes:
        engine: name of the engine in `--engine` and in results.
        most_at_once: maximum number of concurrent runs; None: the number of cores.
        most_together: maximum number of short runs for `execute_several`.
        has_timetable: runs have start times, so all are executed, in order.
        is_repeatable: runs with equal settings and seeds have equal results, so one of them is executed.
        study: the study's name.
        runs: `index`, `round`, `seed`, `point` (varied keys), links and flows of each run, in order.
        setup: links, hosts and flows of all points in words: lists of `name` and `properties`, for the report.
        warnings: compiler warnings about users' congestion controls.
        sources: source of each user's congestion control, by its name in results.
        rooms: memory of the results of each point; empty: unknown.
        processor_s: estimated processor time of all runs, s; None: in real time, or unknown.
        remarks: notes for the user before the first run.
    """

    engine: ClassVar[str]
    most_at_once: int | None = None
    most_together: int = 1
    has_timetable: ClassVar[bool] = False
    is_repeatable: ClassVar[bool] = False
    study: str
    runs: Runs
    setup: Mapping[str, Any]
    warnings: str = ""
    sources: Mapping[str, bytes] = MappingProxyType({})
    rooms: Sequence[Room] = ()

    @property
    def build(self) -> str:
        """Fingerprint of the engine: results of another one are not resumed."""
        return core_fingerprint()

    @property
    def processor_s(self) -> float | None:
        """See the class."""
        return None

    @property
    def remarks(self) -> Sequence[str]:
        """See the class."""
        return ()

    def prepare(self) -> None:
        """Prepare for runs: check this machine, or distribute the study.

        Raises:
            InputError: the runs cannot be executed here.
        """

    def begin(self, since_s: float, *, resumed: bool) -> None:
        """Record when the study began, seconds of Unix time, and whether it is resumed."""

    def outlook(self) -> tuple[str, float | None] | None:
        """Return the activity and the seconds left (None: unknown); None without a timetable."""
        return None

    def seed(self, index: int) -> int:
        """Return the seed of a run."""
        return int(self.runs[index]["seed"])

    def point_text(self, index: int) -> str:
        """Return the varied keys of a run as results have them, a JSON object."""
        raise NotImplementedError

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Execute a run; return None if `progress` stopped it.

        Args:
            index: which run.
            progress: called with the progress.
            captures: folder for captures too large for memory, named `run-INDEX-NODE.pcapng`.

        Raises:
            RunError: the run failed.
            StorageError: a capture cannot be written.
        """
        raise NotImplementedError

    def execute_several(self, runs: range, for_s: float, progress: Progress) -> tuple[int, Streams]:
        """Execute runs in order until a time has passed, and return their tables together.

        Args:
            runs: up to `most_together` runs.
            for_s: time after which no further run starts, s.
            progress: called with the number of completed runs, including fractions; returns whether to continue.

        Returns:
            The number of runs executed, from the first, and their tables. It is zero if the first needs `execute`, or
            `progress` stopped.
        """
        return 0, {}

    def close(self) -> None:
        """End the processes and connections of the plan."""


Engine = Callable[[StudyFile, Sequence[str], bool], Plan]
"""Makes the plan of a study file with `key=value` overrides, optionally at the study's reduced size.

Raises `InputError` if the study or a setting is wrong; the message names file, line and fix.
"""

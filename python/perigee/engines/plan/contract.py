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
    import pyarrow as pa

    from perigee.engines.host.memory import Room
    from perigee.engines.plan.runs import Runs


class Progress(Protocol):
    """Called while a run goes on."""

    def __call__(self, share: float, now_s: float = 0.0, received: Sequence[int] = (), /) -> bool:
        """Return whether to go on.

        Args:
            share: the share of the run that is done, 0 to 1.
            now_s: the time of the run, from an engine that knows what flows have received.
            received: payload that each of its first flows has received by then, in bytes.
        """


@dataclass(frozen=True)
class Output:
    """Results of one run.

    Attributes:
        tables: Arrow tables by name, in the columns of `schema/results.md`.
        captures: packet captures (pcapng) by node, where the study asks for them and the engine holds them in memory.
        files: further files by their path in the results folder.
    """

    tables: Mapping[str, pa.Table]
    captures: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


class Plan:
    """A study laid out for an engine: its runs, and how to carry one out. An engine is a class of plans.

    Attributes:
        engine: the engine, as `--engine` and the results have it.
        most_at_once: how many runs may go at a time; none: as many as there are cores.
        most_together: how many short runs `execute_several` may be given.
        has_timetable: whether runs have their times, so that all of them are carried out, and in their order.
        study: the study's name.
        runs: what each run is: `index`, `round`, `seed`, `point` (what varied), links, flows; in run order.
        setup: links, hosts and flows of all points in words: lists of `name` and `properties`, for the report.
        warnings: what a compiler warned of in authors' congestion controls.
        sources: the text of each author's congestion control, by the name that results have for it.
        rooms: what the results of each point take; empty: nobody knows.
        processor_s: processor time of all runs together, s, roughly; none: they are in real time, or nobody knows.
        remarks: what a user should know before the first run.
    """

    engine: ClassVar[str]
    most_at_once: int | None = None
    most_together: int = 1
    has_timetable: ClassVar[bool] = False
    study: str
    runs: Runs
    setup: Mapping[str, Any]
    warnings: str = ""
    sources: Mapping[str, bytes] = MappingProxyType({})
    rooms: Sequence[Room] = ()

    @property
    def build(self) -> str:
        """Fingerprint of the engine: half-finished results of another one are not continued."""
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
        """Make ready for runs: check this machine, or hand the study to others.

        Raises:
            InputError: the runs cannot be carried out here.
        """

    def begin(self, since_s: float, *, resumed: bool) -> None:
        """Take note of when the study began, seconds of Unix time, and whether runs of it are there already."""

    def outlook(self) -> tuple[str, float | None] | None:
        """Return what goes on, and how many seconds are left (none: nobody knows); none without a timetable."""
        return None

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Do one run; `None` when `progress` asked to stop.

        Args:
            index: which run.
            progress: called with the progress.
            captures: the folder for captures that are too large for memory, as `run-INDEX-NODE.pcapng`.

        Raises:
            RunError: the run failed.
            StorageError: a capture cannot be written.
        """
        raise NotImplementedError

    def execute_several(self, runs: range, for_s: float, progress: Progress) -> tuple[int, Mapping[str, pa.Table]]:
        """Do runs in their order until a time has passed, and hand their tables over in one piece.

        Args:
            runs: which runs, `most_together` at the most.
            for_s: no run is begun when so many seconds have passed.
            progress: called with the number of runs done, parts of them counted; returns whether to go on.

        Returns:
            How many of the runs are done, from the first, and their tables. None is, where the first of them has to be
            done by `execute`, or `progress` asked to stop.
        """
        return 0, {}

    def close(self) -> None:
        """End the processes and connections that the plan has."""


Engine = Callable[[StudyFile, Sequence[str], bool], Plan]
"""Lays a study out: the study file, `key=value` overrides, and whether to take the small size that the study declares.

It raises `InputError` where the study or a setting is wrong; the message names file, line and fix.
"""

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The contract of every engine: a study becomes a plan of runs, and a run becomes tables with the same columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from perigee.engines.plan.runs import Runs
    from perigee.places import StudyFile


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


class Plan(Protocol):
    """The runs of a study with all its settings resolved."""

    @property
    def study(self) -> str:
        """The study's name."""

    @property
    def runs(self) -> Runs:
        """What each run is: `index`, `round`, `seed`, `point` (what varied), links, flows; in run order."""

    @property
    def setup(self) -> Mapping[str, Any]:
        """Links, hosts and flows of the first run in words: lists of `name` and `properties`, for the report."""

    @property
    def warnings(self) -> str:
        """What a compiler warned of in authors' congestion controls."""

    @property
    def sources(self) -> Mapping[str, bytes]:
        """The text of each author's congestion control, by the name that results have for it."""

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


class Engine(Protocol):
    """A way to carry a study out.

    Attributes:
        name: as `--engine` and the results have it.
        most_at_once: how many runs may go at a time; none: as many as there are cores.
    """

    name: str
    most_at_once: int | None

    @property
    def build(self) -> str:
        """Fingerprint of the engine: half-finished results of another one are not continued."""

    def plan(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> Plan:
        """Read a study and plan its runs.

        Args:
            study: the study file.
            settings: `key=value` overrides.
            reduced: take the small size the study declares.

        Raises:
            InputError: the study or a setting is wrong; the message names file, line and fix.
        """


@runtime_checkable
class Preparing(Protocol):
    """An engine that makes ready for runs when it plans them: it checks this machine, or hands the study to others."""

    def plan_of_done(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> Plan:
        """Plan runs whose results are there already, see `Engine.plan`; none is to be carried out."""


@runtime_checkable
class Closing(Protocol):
    """A plan that has processes of its own."""

    def close(self) -> None:
        """End them."""


@runtime_checkable
class Several(Protocol):
    """A plan that can do runs one after the other and hand their tables over in one piece: short runs cost less so."""

    def execute_several(self, runs: range, for_s: float, progress: Progress) -> tuple[int, Mapping[str, pa.Table]]:
        """Do runs in their order until a time has passed; return how many, and their tables.

        Args:
            runs: which runs.
            for_s: no run is begun when so many seconds have passed.
            progress: called with the number of runs done, parts of them counted; returns whether to go on.

        Returns:
            How many of the runs are done, from the first, and their tables. None is, where the first of them has to be
            done by `execute`, or `progress` asked to stop.
        """


@runtime_checkable
class Timed(Protocol):
    """A plan whose runs have their times."""

    def begin(self, since_s: float, *, resumed: bool) -> None:
        """Say when the study began, seconds of Unix time, and whether runs of it are there already."""

    def outlook(self) -> tuple[str, float | None]:
        """Return what goes on, and how many seconds are left; none: nobody knows."""


def describe(run: Mapping[str, Any]) -> str:
    """Say in a few words which run it is.

    Examples:
        >>> describe({"round": 3, "point": {"flow.cc": "cubic"}})
        'round 3, flow.cc = cubic'
    """
    point = run.get("point") or {}
    if isinstance(point, str):
        point = json.loads(point)
    # Of a variant its name says enough.
    said = {
        key: value["name"] if "." not in key and isinstance(value, Mapping) else value for key, value in point.items()
    }
    words = [f"round {run.get('round', 0)}", *(f"{key} = {value}" for key, value in said.items())]
    return ", ".join(words)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A job: a study, its plan on an engine, the identity of its results, and their folder."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from perigee.engines.host.memory import available_bytes, workers_that_fit
from perigee.engines.plan.contract import Engine, Plan
from perigee.engines.plan.runs import Runs
from perigee.engines.run.part import Part
from perigee.engines.run.until import Until
from perigee.errors import InputError
from perigee.files import printable
from perigee.places import StudyFile
from perigee.store.identity import Identity, default_folder

if TYPE_CHECKING:
    from perigee.store.folder import ResultsFolder

SCHEDULE = {
    f"live.{key}"
    for key in ("pause", "every", "slot", "for", "retries", "backoff", "failed", "timeout", "connect_timeout")
}
"""Settings that may change when a study is resumed."""


@dataclass(frozen=True)
class Job:
    """A study to run and its results folder. A `with` block prepares its plan for runs and closes it.

    Attributes:
        study: the study file.
        engine: engine that plans and executes it.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
        out: the results folder; none: `results/<study>`, with `-emu` or `-live` for these engines, `-reduced` for
            that size, and `-1-of-8` for a part.
        workers: number of concurrent runs; None: the number of cores.
        fresh: discard existing results.
        part: part of the runs to execute; None: all runs.
        until: stop rules for rounds; the study's own number is the maximum.
        suffix: suffix of the results folder's default name.

    Raises:
        InputError: a setting is not text, or a part has a stop rule.
    """

    study: StudyFile
    engine: Engine
    settings: Sequence[str] = ()
    reduced: bool = False
    out: Path | None = None
    workers: int | None = None
    fresh: bool = False
    part: Part | None = None
    until: Sequence[Until] = ()
    suffix: str = ""

    def __post_init__(self) -> None:
        """Refuse settings that results cannot store, and parts of studies of unknown size."""
        if self.part and self.until:
            raise InputError("--shard: how many runs --until needs is known when they are done; leave one of them out")
        for setting in self.settings:
            if printable(setting) != setting:
                raise InputError(f"--set {printable(setting)}: is no UTF-8; rename the file, or write it in UTF-8")

    def __enter__(self) -> Self:
        """Plan the study and prepare for its runs.

        Raises:
            InputError: the study or a setting is wrong, or its runs cannot be executed here.
        """
        self.plan.prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the plan."""
        self.plan.close()

    def check_timetable(self) -> None:
        """Refuse a part, or a stop rule, of runs between real hosts.

        Raises:
            InputError: as said.
        """
        if (self.part or self.until) and self.plan.has_timetable:
            option = "--shard" if self.part else "--until"
            raise InputError(
                f"{option}: runs between real hosts have one timetable, which it would change; leave it out"
            )

    @functools.cached_property
    def plan(self) -> Plan:
        """The runs.

        Raises:
            InputError: the study or a setting is wrong.
        """
        return self.engine(self.study, self.settings, self.reduced)

    @functools.cached_property
    def folder(self) -> ResultsFolder:
        """The folder for the results."""
        from perigee.store.folder import ResultsFolder

        if self.out:
            return ResultsFolder(self.out)
        whole = default_folder(self.plan.study, self.plan.engine, reduced=self.reduced)
        part = f"-{self.part.number}-of-{self.part.of}" if self.part else ""
        return ResultsFolder(whole.with_name(f"{whole.name}{self.suffix}{part}"))

    @property
    def files(self) -> dict[str, bytes]:
        """Files for the report by name."""
        return {
            "study.toml": self.study.text.encode(),
            **self.study.companions(),
            **{_file_name(name): text for name, text in self.plan.sources.items()},
            "setup.json": json.dumps(self.plan.setup, indent=1).encode(),
        }

    def identity(self, rounds: int | None = None) -> Identity:
        """Return the identity of its results; with `rounds`, that of a study with so few rounds."""
        # Start times are not part of the identity.
        settings = tuple(setting for setting in self.settings if _key(setting) not in SCHEDULE)
        runs = self.plan.runs
        if rounds is not None and rounds != runs.rounds:
            runs = Runs(runs.points, rounds, runs.seed_of)
            settings = (*(one for one in settings if _key(one) != "rounds"), f"rounds={rounds}")
        path = self.study.path
        return Identity(
            study=self.plan.study,
            engine=self.plan.engine,
            plan=runs.digest,
            build=self.plan.build,
            settings=settings,
            reduced=self.reduced,
            runs=len(runs),
            rounds=runs.rounds,
            first_seed=runs.seed_of(0),
            # Name of the study in commands: the folder of a study with companions, else its file.
            study_file=printable(path.parent.name if path.name == "study.toml" else path.name),
        )

    def at_once(self, say: Callable[[str], None]) -> int:
        """Return the number of concurrent runs; `say` prints a note if memory limits it.

        Raises:
            InputError: not even one run fits into this machine's memory.
        """
        most = self.plan.most_at_once or self.workers or os.cpu_count() or 1
        wanted = min(self.workers or most, most, len(self.plan.runs))
        return workers_that_fit(self.plan.rooms, wanted, available_bytes(), say)


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()


def _file_name(cc: str) -> str:
    """Return the file name for storing a user's congestion control.

    Examples:
        >>> _file_name("mycc"), _file_name("cubic (../cubic.c)")
        ('mycc.c', 'cubic-..-cubic.c')
    """
    plain = re.sub(r"[^\w.]+", "-", cc).strip("-")
    return plain if plain.endswith(".c") else f"{plain}.c"

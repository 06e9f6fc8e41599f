# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A job: a study, the engine that carries it out, and the folder for its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perigee.engines.plan.contract import Engine
from perigee.engines.run.part import Part
from perigee.engines.run.until import Until
from perigee.errors import InputError
from perigee.files import printable
from perigee.places import StudyFile


@dataclass(frozen=True)
class Job:
    """A study to run, and where its results go.

    Attributes:
        study: the study file.
        engine: what carries it out.
        settings: `key=value` overrides.
        reduced: take the small size the study declares.
        out: the results folder; none: `results/<study>`, with `-emu` or `-live` for these engines, `-reduced` for
            that size, and `-1-of-8` for a part.
        workers: how many runs at a time; none: as many as there are cores.
        fresh: begin anew where results are there already.
        part: do only these of the runs; none: all of them.
        until: do no more rounds than these means need; the study's own number is the most.
        suffix: ends the name of the results folder where `out` does not give it.

    Raises:
        InputError: a setting is not text, or there is a stop rule for a part.
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
        """Refuse settings that no file of results could hold, and parts of what nobody knows the size of."""
        if self.part and self.until:
            raise InputError("--shard: how many runs --until needs is known when they are done; leave one of them out")
        for setting in self.settings:
            if printable(setting) != setting:
                raise InputError(f"--set {printable(setting)}: is no UTF-8; rename the file, or write it in UTF-8")

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Identity of results: when two folders are the same work, and where results go unless another place is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REDUCED = "Reduced size: to try the set-up, not for conclusions"
"""The heading of everything made of the small size of a study."""


@dataclass(frozen=True)
class Identity:
    """The identity of results: folders with the same one are the same work, so that one may be resumed as the other.

    Attributes:
        study: the study's name.
        engine: `sim`, `emu` or `live`; `capture` or `campaign` of what others recorded.
        plan: SHA-256 of the plan: every run with every setting resolved.
        build: SHA-256 of the engine's binary.
        settings: the `--set` overrides, for messages.
        reduced: whether the small size was asked for.
        runs: the number of runs.
        rounds: the number of rounds.
        first_seed: the seed of the first of them.
        study_file: what the command called the study, for the report; results of another name are the same work.
    """

    study: str
    engine: str
    plan: str
    build: str
    settings: tuple[str, ...]
    reduced: bool
    runs: int
    rounds: int
    first_seed: int
    study_file: str = ""

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Identity:
        """Return the work that a manifest says its folder is of."""
        return cls(
            study=manifest["study"],
            engine=manifest["engine"],
            plan=manifest["study_hash"],
            build=manifest["build"],
            settings=tuple(manifest["settings"]),
            reduced=manifest["reduced"],
            runs=manifest["runs"],
            rounds=manifest["rounds"],
            first_seed=manifest["first_seed"],
            study_file=manifest.get("study_file") or "",
        )

    def differences(self, manifest: Mapping[str, Any]) -> list[str]:
        """Say what differs from the work a folder was begun with."""
        mine = {
            "study": self.study,
            "engine": self.engine,
            "settings": list(self.settings),
            "reduced": self.reduced,
            "runs": self.runs,
        }
        found = [
            f"{key} {_say(manifest.get(key))} there, {_say(value)} here"
            for key, value in mine.items()
            if manifest.get(key) != value
        ]
        if not found and manifest.get("study_hash") != self.plan:
            what = "a file, or what is measured of it," if self.engine == "campaign" else _OF_STUDIES
            found.append(f"{what} was changed since")
        return found


def default_folder(study: str, engine: str, *, reduced: bool) -> Path:
    """Return the results folder of a study where none is given.

    Examples:
        >>> default_folder("gallery", "sim", reduced=False), default_folder("gallery", "emu", reduced=True)
        (PosixPath('results/gallery'), PosixPath('results/gallery-emu-reduced'))
    """
    return Path("results") / f"{study}{'' if engine == 'sim' else f'-{engine}'}{'-reduced' if reduced else ''}"


_OF_STUDIES = "the study, a profile, a trace or an algorithm"


def _say(value: object) -> str:
    return json.dumps(value) if value not in ([], None) else "none"

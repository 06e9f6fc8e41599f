# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Check, before a run, of the files beside a study that configure its report."""

from __future__ import annotations

import tomllib
from pathlib import Path

from perigee.errors import InputError
from perigee.groups.settings import report_settings
from perigee.places import StudyFile
from perigee.scoring.reading import published
from perigee.store.results import experiments_in


class BesideStudy:
    """The files beside a study, before it is run.

    Args:
        study: its file.
    """

    def __init__(self, study: StudyFile) -> None:
        self._study = study
        self._folder = study.path.parent
        self._texts = study.companions()

    def file(self, name: str) -> tuple[Path, str] | None:
        """Return a file and its text, see `Kept.file`."""
        content = self._texts.get(name)
        if content is None:
            return None
        path = self._folder / name
        try:
            return path, content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a text file (byte {error.start} is no UTF-8); save it as UTF-8") from error

    def declared_experiments(self) -> list[str]:
        """Return the names of the study's experiments, see `Kept.declared_experiments`."""
        try:
            return experiments_in(tomllib.loads(self._study.text))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self._study.path}: {error}; correct the TOML there") from error


def check_beside(study: StudyFile) -> None:
    """Check `report.toml` and `published.toml` beside a study, so that errors show before hours of runs.

    Raises:
        InputError: a file is wrong; the message names file, line and fix.
    """
    beside = BesideStudy(study)
    report_settings(beside)
    published(beside)

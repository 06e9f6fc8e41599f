# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A plan of the compiled module: parsed once, executed by several threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from perigee.cc.begun import check_planned
from perigee.core import native
from perigee.engines.plan.contract import Output, Plan, Progress
from perigee.engines.plan.forecast import MOST_POINTS, cut_short, path_warnings, slots_without_path, small_buffers
from perigee.engines.plan.runs import Runs, describe
from perigee.errors import FaultError, RunError, StorageError
from perigee.files import printable
from perigee.places import StudyFile, headers

PlanArguments = tuple[str, str, list[str], bool, list[str], str]
"""First arguments of the core's `Plan`."""

FREE = (0.0, 0.0)
"""Cost of moving a packet in an engine that moves none, us."""


def native_plan(
    study: StudyFile,
    settings: Sequence[str],
    reduced: bool,
    *,
    real: bool = False,
    foreign: Literal["", "settings", "study"] = "",
) -> native.Plan:
    """Return the core's plan of a study; with `real` paths, its runs have no links.

    What is `foreign`, the settings or the whole study, is somebody else's: it names no files but those that come with
    Perigee, and no code.

    Raises:
        InputError: the study or a setting is wrong.
    """
    return native.Plan(*plan_arguments(study, settings, reduced), real, foreign=foreign)


def plan_arguments(study: StudyFile, settings: Sequence[str], reduced: bool) -> PlanArguments:
    """Return the first arguments of the core's `Plan`."""
    search = [str(folder) for folder in study.search]
    return study.text, printable(study.path), list(settings), reduced, search, str(headers())


class NativePlan(Plan):
    """Base of the engines of the core.

    Args:
        study: the study file.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
    """

    is_real: ClassVar[bool] = False
    """True if paths are real, so that runs have no links."""

    def __init__(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> None:
        self._core = native_plan(study, settings, reduced, real=self.is_real)
        if not self.is_real:
            check_planned(self._core.compiled(), plan_arguments(study, settings, reduced))
        self.study = self._core.study
        laid_out = self._core.laid_out()
        points = laid_out["points"]
        self.runs = Runs(points, laid_out["rounds"], lambda round_: self._core.seed(round_ * len(points)))
        self.setup: dict[str, Any] = self._core.setup()
        # Captures are written directly to disk.
        self.rooms = [[part for part in parts if part.name != "captures"] for parts in self._core.rooms()]
        self.warnings = self._core.warnings
        self.sources = self._core.sources()

    @property
    def remarks(self) -> Sequence[str]:
        """Warnings about flows that cannot end, settings without effect, small buffers, old or missing satellites."""
        points = self.runs.points
        found = [*cut_short(self._core, points), *path_warnings(self.setup)]
        # A setting may act at a point that was not looked at.
        if len(points) <= MOST_POINTS:
            found += [f"note: {said}" for said in self._core.without_effect(MOST_POINTS)]
        if not self.is_real:
            found += small_buffers(self._core, len(points))
            found += slots_without_path(self._core, self._core.outlook_emulated(FREE))
        return found

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Execute a run with the GIL released, see `Plan.execute`."""
        try:
            return self._carried_out(index, progress, captures)
        except OSError as error:
            raise StorageError.from_os(error, Path(error.filename)) from error
        except FaultError as error:
            run = f"run {index} ({describe(self.runs[index])}, seed {self._core.seed(index)})"
            raise FaultError(f"{run}: {error}") from error
        except RunError as error:
            raise RunError(f"run {index} ({describe(self.runs[index])}): {error}") from error

    def _carried_out(self, index: int, progress: Progress, captures: Path) -> Output | None:
        result = self._core.run(index, self.engine, str(captures), progress)
        if result is None:
            return None
        return Output(*result)

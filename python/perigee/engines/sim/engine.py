# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The packet-level simulator: virtual time, identical results for the same study and seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.engines.plan.contract import Output, Progress
from perigee.engines.plan.forecast import processor_seconds
from perigee.engines.plan.native import FREE, NativePlan, plan_arguments
from perigee.places import StudyFile

if TYPE_CHECKING:
    from perigee.engines.sim.own_runs import OwnRuns
    from perigee.store.streams import Streams

LONGEST_STRETCH = 4096
"""Maximum number of runs in a batch."""


class Simulator(NativePlan):
    """A study in the simulator, see `NativePlan`.

    Args:
        study: the study file.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
        limits: limits of users' code.
    """

    engine = "sim"
    is_repeatable = True

    def __init__(
        self, study: StudyFile, settings: Sequence[str], reduced: bool, limits: CodeLimits = DEFAULT_LIMITS
    ) -> None:
        super().__init__(study, settings, reduced)
        self.rooms = self._core.rooms()
        self._own: OwnRuns | None = None
        if self.sources:
            from perigee.engines.sim.own_runs import OwnRuns

            self._own = OwnRuns(self._core, plan_arguments(study, settings, reduced), limits)
        self.most_together = 1 if self._own else LONGEST_STRETCH

    @property
    def processor_s(self) -> float:
        """See `Plan`."""
        return processor_seconds(self._core.outlook_emulated(FREE), self.rooms)

    def seed(self, index: int) -> int:
        """See `Plan`."""
        return self._core.seed(index)

    def point_text(self, index: int) -> str:
        """See `Plan`."""
        return self._core.point_text(index)

    def execute_several(self, runs: range, for_s: float, progress: Progress) -> tuple[int, Streams]:
        """Simulate runs with the GIL released, see `Plan.execute_several`."""
        return self._core.run_several(runs, for_s, progress)

    def close(self) -> None:
        """End the processes of users' code."""
        if self._own:
            self._own.close()

    def _carried_out(self, index: int, progress: Progress, captures: Path) -> Output | None:
        if self._own and self._own.has(index):
            return self._own.execute(index, progress)
        return super()._carried_out(index, progress, captures)

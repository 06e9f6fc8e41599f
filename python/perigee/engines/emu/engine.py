# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The emulator: the real kernel across emulated links, in real time."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from perigee.engines.emu.real_time import foresee
from perigee.engines.host.settings import of_namespaces
from perigee.engines.plan.contract import Output, Progress
from perigee.engines.plan.native import NativePlan
from perigee.engines.plan.runs import describe
from perigee.places import StudyFile

MOST_TRIES = 5
"""How often a run is carried out at most whose packets were released too late."""


class Emulator(NativePlan):
    """A study on this machine's kernel, one run at a time so that runs do not disturb each other.

    Args:
        study: the study file.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
        say: prints the duration of the runs, and warns of runs that this machine is too slow for.
        force: start even if a run cannot keep real time.
        late_s: carry a run out again if a packet was released later than this, s; see `MOST_TRIES`.
    """

    engine = "emu"
    most_at_once = 1

    def __init__(
        self,
        study: StudyFile,
        settings: Sequence[str],
        reduced: bool,
        say: Callable[[str], None] = lambda _text: None,
        *,
        force: bool = False,
        late_s: float = math.inf,
    ) -> None:
        super().__init__(study, settings, reduced)
        self._core.check_emulated()
        hosts = of_namespaces(self._core.emulated_sysctls, len(self.runs.points))
        self.setup |= {"hosts": hosts, "kernel": platform.release()}
        self._say = say
        self._force = force
        self._late_us = late_s * 1e6

    def prepare(self) -> None:
        """Report the duration of the runs, and refuse runs that this machine is too slow for, see `Plan.prepare`."""
        outlook = self._core.outlook_emulated()
        names = [f"run {index} ({describe(self.runs[index])})" for index in range(len(self.runs.points))]
        foresee(outlook, names, self._say, force=self._force)

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Execute a run, and again as long as it comes late; the last one counts. See `Plan.execute`."""
        for _ in range(MOST_TRIES):
            output = super().execute(index, progress, captures)
            if output is None:
                break
            late_us = output.tables["releases"]["late_max_us"].to_pylist()
            if max(late_us, default=0.0) <= self._late_us:
                break
        return output

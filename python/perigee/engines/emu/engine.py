# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The emulator: the real kernel across emulated links, in real time."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence

from perigee.engines.emu.real_time import foresee
from perigee.engines.host.settings import of_namespaces
from perigee.engines.plan.native import NativePlan
from perigee.engines.plan.runs import describe
from perigee.places import StudyFile


class Emulator(NativePlan):
    """A study on this machine's kernel, one run at a time so that runs do not disturb each other.

    Args:
        study: the study file.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
        say: prints the duration of the runs, and warns of runs that this machine is too slow for.
        force: start even if a run cannot keep real time.
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
    ) -> None:
        super().__init__(study, settings, reduced)
        self._core.check_emulated()
        hosts = of_namespaces(self._core.emulated_sysctls, len(self.runs.points))
        self.setup |= {"hosts": hosts, "kernel": platform.release()}
        self._say = say
        self._force = force

    def prepare(self) -> None:
        """Report the duration of the runs, and refuse runs that this machine is too slow for, see `Plan.prepare`."""
        outlook = self._core.outlook_emulated()
        names = [f"run {index} ({describe(self.runs[index])})" for index in range(len(self.runs.points))]
        foresee(outlook, names, self._say, force=self._force)

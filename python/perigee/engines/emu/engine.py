# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The emulator: the real kernel across emulated links, in real time."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.core import native
from perigee.engines.emu.real_time import foresee
from perigee.engines.host.settings import of_namespaces
from perigee.engines.plan.contract import Output, Progress
from perigee.engines.plan.native import NativePlan, native_plan, plan_arguments
from perigee.engines.plan.runs import describe
from perigee.errors import InputError
from perigee.places import StudyFile

REMEDIES = {
    "kernel_hosts=true": "Linux has nothing for some settings of hosts and flows, and a tick of its own",
    "hosts.like=linux-6.18": "the hosts of an emulated run have the running kernel's TCP",
    "measure.events=false": "this kernel shows no events of a connection",
    "measure.states=off": "this kernel shows no states of a congestion control",
}
"""Settings with which a study may run here that asks for what the kernel does not do, and why each is needed.

Those that stand first are left out first where the others are enough.
"""

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
        limits: limits of users' code over QUIC.
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
        limits: CodeLimits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(study, settings, reduced)
        _check(self._core, study, settings, reduced)
        hosts = of_namespaces(self._core.emulated_sysctls, len(self.runs.points))
        self.setup |= {"hosts": hosts, "kernel": platform.release()}
        self._say = say
        self._force = force
        self._late_us = late_s * 1e6
        self._arguments = plan_arguments(study, settings, reduced)
        self._limits = limits

    def prepare(self) -> None:
        """Report the duration of the runs, and refuse runs that this machine is too slow for, see `Plan.prepare`."""
        outlook = self._core.outlook_emulated()
        names = [f"run {index} ({describe(self.runs[index])})" for index in range(len(self.runs.points))]
        foresee(outlook, names, self._say, force=self._force)

    def _carried_out(self, index: int, progress: Progress, captures: Path) -> Output | None:
        if not self._core.apart(index):
            return super()._carried_out(index, progress, captures)
        from perigee.engines.emu.own_flows import Carriers, with_carriers

        def execute(carriers: Carriers) -> Output | None:
            done = self._core.run(index, self.engine, str(captures), progress, carriers)
            return done and Output(*done)

        return with_carriers(self._core, self._arguments, self._limits, index, progress, execute)

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Execute a run, and again as long as it comes late; the last one counts. See `Plan.execute`."""
        for _ in range(MOST_TRIES):
            output = super().execute(index, progress, captures)
            if output is None:
                break
            if max(output.table("releases")["late_max_us"], default=0.0) <= self._late_us:
                break
        return output


def nearest(study: StudyFile, settings: Sequence[str], reduced: bool, say: Callable[[str], None]) -> tuple[str, ...]:
    """Return the settings that bring a study to the nearest that this kernel can carry out; say each.

    Raises:
        InputError: no such settings help.
    """
    try:
        native_plan(study, settings, reduced).check_emulated()
    except InputError:
        if not (needed := tuple(_remedies(study, settings, reduced))):
            raise
        for one in needed:
            say(f"--nearest: {one}, since {REMEDIES[one]}")
        for name, was, is_now in _replaced(study, settings, needed, reduced):
            say(f"--nearest: {name} is {is_now}, not {was}")
        return needed
    return ()


def _replaced(
    study: StudyFile, settings: Sequence[str], needed: Sequence[str], reduced: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield what `kernel_hosts` replaces beside the system of the hosts: setting and node, values before and after."""
    system = tuple(one for one in needed if one != "kernel_hosts=true")
    if len(system) == len(needed):
        return
    plans = [native_plan(study, (*settings, *remedies), reduced) for remedies in (system, needed)]
    before, after = ({host["name"]: dict(host["properties"]) for host in plan.setup()["hosts"]} for plan in plans)
    for node, values in before.items():
        for name, was in values.items():
            if name != "system" and was != (is_now := after[node].get(name, "")):
                yield f"{name} of {node}", was, is_now


def _check(core: native.Plan, study: StudyFile, settings: Sequence[str], reduced: bool) -> None:
    """Refuse a study that the kernel cannot carry out, and name the settings with which it could.

    Raises:
        InputError: as said.
    """
    try:
        core.check_emulated()
    except InputError as error:
        if not (remedies := _remedies(study, settings, reduced)):
            raise
        changed = " ".join(f"--set {remedy}" for remedy in remedies)
        raise InputError(f"{error}, or here with --nearest, which is {changed}") from error


def _remedies(study: StudyFile, settings: Sequence[str], reduced: bool) -> Sequence[str]:
    """Return those of `REMEDIES` that it takes for the kernel to carry a study out; empty: it cannot."""

    def is_possible(remedies: Sequence[str]) -> bool:
        try:
            native_plan(study, (*settings, *remedies), reduced).check_emulated()
        except InputError:
            return False
        return True

    # Reading a study may take seconds: all at once first, then without each.
    if not is_possible(tuple(REMEDIES)):
        return ()
    needed = list(REMEDIES)
    for remedy in REMEDIES:
        without = [one for one in needed if one != remedy]
        if is_possible(without):
            needed = without
    return needed

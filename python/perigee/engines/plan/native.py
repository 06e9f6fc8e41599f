# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The engines of the compiled module: the simulator, and the emulator on this machine's kernel."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.core import core_fingerprint, native
from perigee.engines.emu.real_time import foresee
from perigee.engines.host.memory import Room
from perigee.engines.host.settings import of_namespaces
from perigee.engines.plan.contract import Output, Plan, Progress, describe
from perigee.engines.plan.forecast import cut_short, path_warnings, processor_seconds, slots_without_path
from perigee.engines.plan.runs import Runs
from perigee.errors import RunError, StorageError
from perigee.files import printable
from perigee.places import StudyFile, headers

if TYPE_CHECKING:
    import pyarrow as pa

    from perigee.engines.sim.own_runs import OwnRuns


PlanArguments = tuple[str, str, list[str], bool, list[str], str]
"""The first arguments of the core's `Plan`."""


class Simulator:
    """The packet-level simulator: virtual time, the same bytes out for the same study and seed."""

    name = "sim"
    most_at_once: int | None = None

    def __init__(self, limits: CodeLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits

    @property
    def build(self) -> str:
        """Fingerprint of the simulator's binary."""
        return core_fingerprint()

    def plan(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> Plan:
        """Read a study and lay out its runs, see `Engine.plan`."""
        plan = native_plan(study, settings, reduced)
        if not plan.sources():
            return NativePlan(plan, self.name)
        from perigee.engines.sim.own_runs import OwnRuns

        arguments = plan_arguments(study, settings, reduced)
        return NativePlan(plan, self.name, OwnRuns(plan, arguments, self._limits))


class Emulator:
    """The real kernel across emulated links, in real time: one run after the other, so that none disturbs another."""

    name = "emu"
    most_at_once: int | None = 1

    def __init__(self, say: Callable[[str], None] = lambda _text: None, *, force: bool = False) -> None:
        self._say = say
        self._force = force

    @property
    def build(self) -> str:
        """Fingerprint of the emulator's binary."""
        return core_fingerprint()

    def plan(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> Plan:
        """Read a study and lay out its runs, see `Engine.plan`; what this machine cannot carry out is an error."""
        core = native_plan(study, settings, reduced)
        core.check_emulated()
        outlook = core.outlook_emulated()
        plan = _emulated(core)
        first_round = plan.runs[: len(plan.runs.points)]
        foresee(outlook, [f"run {run['index']} ({describe(run)})" for run in first_round], self._say, force=self._force)
        return plan

    def plan_of_done(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> Plan:
        """Lay out runs that this machine has carried out, see `Preparing.plan_of_done`."""
        return _emulated(native_plan(study, settings, reduced))


def _emulated(core: native.Plan) -> NativePlan:
    plan = NativePlan(core, Emulator.name)
    sysctls = of_namespaces(core.emulated_sysctls, len(plan.runs.points))
    plan.setup = {**plan.setup, "hosts": sysctls, "kernel": platform.release()}
    return plan


def native_plan(study: StudyFile, settings: Sequence[str], reduced: bool, *, real: bool = False) -> native.Plan:
    """Return the Rust core's plan of a study; where paths are `real`, its runs have no links.

    Raises:
        InputError: the study or a setting is wrong.
    """
    return native.Plan(*plan_arguments(study, settings, reduced), real)


def plan_arguments(study: StudyFile, settings: Sequence[str], reduced: bool) -> PlanArguments:
    """Return what the core's `Plan` takes first."""
    search = [str(folder) for folder in study.search]
    return study.text, printable(study.path), list(settings), reduced, search, str(headers())


class NativePlan:
    """A plan held by the Rust core: parsed once, run from as many threads as the engine may have.

    Args:
        plan: the core's.
        engine: what carries it out.
        own: does the runs that execute authors' code, of the simulator; in the emulator the kernel executes it.
    """

    def __init__(self, plan: native.Plan, engine: str, own: OwnRuns | None = None) -> None:
        self._plan = plan
        self._engine = engine
        self._own = own
        self.study = plan.study
        laid_out = json.loads(plan.plan_json())
        points: list[dict[str, Any]] = laid_out["points"]
        self.runs = Runs(points, laid_out["rounds"], lambda round_: plan.seed(round_ * len(points)))
        self.setup: dict[str, Any] = json.loads(plan.setup_json())
        # The emulator writes captures straight to the disk.
        self.rooms: list[Room] = [
            [part for part in parts if engine == "sim" or part.name != "captures"] for parts in plan.rooms()
        ]
        self.warnings = plan.warnings
        self.sources = plan.sources()

    @property
    def processor_s(self) -> float | None:
        """Processor time of all simulated runs together, s, roughly."""
        # What the core is told here is what moving packets costs an emulator; a simulator moves none.
        return processor_seconds(self._plan.outlook_emulated((0.0, 0.0))) if self._engine == "sim" else None

    @property
    def remarks(self) -> list[str]:
        """Flows that cannot come to their end; of computed paths, old elements and slots without a satellite."""
        found = [*cut_short(self._plan, self.runs.points), *path_warnings(self.setup)]
        if self._engine != "live":
            found += slots_without_path(self._plan, self._plan.outlook_emulated((0.0, 0.0)))
        return found

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Carry out one run with the interpreter's lock released, see `Plan.execute`."""
        try:
            if self._own and self._own.has(index):
                return self._own.execute(index, progress)
            result = self._plan.run(index, self._engine, str(captures), progress)
        except OSError as error:
            raise StorageError.from_os(error, Path(error.filename)) from error
        except RunError as error:
            raise RunError(f"run {index} ({describe(self.runs[index])}): {error}") from error
        if result is None:
            return None
        tables, captured = result
        return Output(arrow_tables(tables), captured)

    def execute_several(self, runs: range, for_s: float, progress: Progress) -> tuple[int, Mapping[str, pa.Table]]:
        """Simulate runs with the interpreter's lock released, see `Several.execute_several`."""
        if self._engine != "sim" or self._own:
            return 0, {}
        done, tables = self._plan.run_several(runs, for_s, progress)
        return done, arrow_tables(tables)

    def close(self) -> None:
        """End the processes of authors' code."""
        if self._own:
            self._own.close()


def arrow_tables(tables: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Return the core's tables as Arrow tables."""
    from perigee.store.arrow import arrow_table

    return {name: arrow_table(rows, columns) for name, (rows, columns) in tables.items()}

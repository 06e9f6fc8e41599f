# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Engines turn a study into runs and a run into tables; all engines write the same columns."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from perigee.errors import InputError, RunError, StorageError
from perigee.files import printable
from perigee.isolated import CodeLimits
from perigee.memory import Room
from perigee.places import headers
from perigee.real_time import foresee
from perigee.runs import Runs

if TYPE_CHECKING:
    from perigee.isolated_runs import OwnRuns
    from perigee.places import StudyFile

Progress = Callable[[float], bool]
"""Called with the share of a run that is done (0..1); returns whether to go on."""


@dataclass(frozen=True)
class Output:
    """What one run gives.

    Attributes:
        tables: Arrow tables by name, in the columns of `schema/results.md`.
        captures: packet captures (pcapng) by node, where the study asks for them and the engine holds them in memory.
        files: further files by their path in the results folder.
    """

    tables: Mapping[str, pa.Table]
    captures: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


class Plan(Protocol):
    """The runs of a study with all its settings resolved."""

    @property
    def study(self) -> str:
        """The study's name."""

    @property
    def runs(self) -> Runs:
        """What each run is: `index`, `round`, `seed`, `point` (what varied), links, flows; in run order."""

    @property
    def setup(self) -> Mapping[str, Any]:
        """Links, hosts and flows of the first run in words: lists of `name` and `properties`, for the report."""

    @property
    def warnings(self) -> str:
        """What a compiler warned of in authors' congestion controls."""

    @property
    def sources(self) -> Mapping[str, bytes]:
        """The text of each author's congestion control, by the name that results have for it."""

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Do one run; `None` when `progress` asked to stop.

        Args:
            index: which run.
            progress: told how far it is.
            captures: the folder for captures that are too large for memory, as `run-INDEX-NODE.pcapng`.

        Raises:
            RunError: the run failed.
            StorageError: a capture cannot be written.
        """


class Engine(Protocol):
    """A way to carry a study out.

    Attributes:
        name: as `--engine` and the results have it.
        most_at_once: how many runs may go at a time; none: as many as there are cores.
    """

    name: str
    most_at_once: int | None

    @property
    def build(self) -> str:
        """Fingerprint of the engine: half-finished results of another one are not continued."""

    def plan(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> Plan:
        """Read a study and lay out its runs.

        Args:
            study: the study file.
            settings: `key=value` overrides.
            reduced: take the small size the study declares.

        Raises:
            InputError: the study or a setting is wrong; the message names file, line and fix.
        """


@runtime_checkable
class Closing(Protocol):
    """A plan that has processes of its own."""

    def close(self) -> None:
        """End them."""


@runtime_checkable
class Timed(Protocol):
    """A plan whose runs have their times."""

    def begin(self, since_s: float, *, resumed: bool) -> None:
        """Say when the study began, seconds of Unix time, and whether runs of it are there already."""

    def outlook(self) -> tuple[str, float | None]:
        """Return what goes on, and how many seconds are left; none: nobody knows."""


DEFAULT_LIMITS = CodeLimits()


def engine(
    name: str,
    say: Callable[[str], None] = lambda _text: None,
    *,
    force: bool = False,
    limits: CodeLimits = DEFAULT_LIMITS,
) -> Engine:
    """Return the engine called `name`; it says with `say` what happens while it works.

    With `force` it begins what this machine is too slow for; `limits` are those of authors' code in simulated runs.

    Raises:
        InputError: there is no such engine.

    Examples:
        >>> engine("emu").most_at_once
        1
        >>> engine("lab")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --engine lab: there is no such engine; the engines are: sim, emu, live
    """
    from perigee.live import Live

    known: dict[str, Engine] = {"sim": Simulator(limits), "emu": Emulator(say, force=force), "live": Live(say)}
    if name in known:
        return known[name]
    raise InputError(f"--engine {name}: there is no such engine; the engines are: {', '.join(known)}")


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
        from perigee.isolated_runs import OwnRuns

        plan = native_plan(study, settings, reduced)
        arguments = plan_arguments(study, settings, reduced)
        return NativePlan(plan, self.name, OwnRuns(native_core(), plan, arguments, self._limits))


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
        try:
            core.check_emulated()
            outlook = json.loads(core.outlook_emulated())
        except native_core().LinkError as error:
            raise InputError(f"--engine emu: {error}") from error
        plan = NativePlan(core, self.name)
        first_round = plan.runs[: len(plan.runs.points)]
        foresee(outlook, [f"run {run['index']} ({describe(run)})" for run in first_round], self._say, force=self._force)
        return plan


def native_plan(study: StudyFile, settings: Sequence[str], reduced: bool, *, real: bool = False) -> Any:
    """Return the Rust core's plan of a study; where paths are `real`, its runs have no links.

    Raises:
        InputError: the study or a setting is wrong, or the core is not built.
    """
    core = native_core()
    try:
        return core.Plan(*plan_arguments(study, settings, reduced), real)
    except core.StudyError as error:
        raise InputError(str(error)) from error


def plan_arguments(study: StudyFile, settings: Sequence[str], reduced: bool) -> tuple[Any, ...]:
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

    def __init__(self, plan: Any, engine: str, own: OwnRuns | None = None) -> None:
        self._plan = plan
        self._engine = engine
        self._own = own
        self.study: str = plan.study
        laid_out = json.loads(plan.plan_json())
        points: list[dict[str, Any]] = laid_out["points"]
        self.runs = Runs(points, laid_out["rounds"], lambda round_: int(plan.seed(round_ * len(points))))
        self.setup: dict[str, Any] = json.loads(plan.setup_json())
        rooms = json.loads(plan.room_json())
        # The emulator writes captures straight to the disk.
        self.rooms: list[Room] = [
            [part for part in parts if engine == "sim" or part["name"] != "captures"] for parts in rooms
        ]
        self.warnings: str = plan.warnings
        self.sources: dict[str, bytes] = plan.sources()

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Carry out one run with the interpreter's lock released, see `Plan.execute`."""
        core = native_core()
        try:
            if self._own and self._own.has(index):
                return self._own.execute(index, progress)
            result = self._plan.run(index, self._engine, str(captures), progress)
        except core.LinkError as error:
            raise InputError(f"--engine {self._engine}: {error}") from error
        except OSError as error:
            raise StorageError.from_os(error, Path(error.filename)) from error
        except (core.SimulationError, RunError) as error:
            raise RunError(f"run {index} ({describe(self.runs[index])}): {error}") from error
        if result is None:
            return None
        tables, captured = result
        return Output({name: arrow_table(rows, columns) for name, (rows, columns) in tables.items()}, captured)

    def close(self) -> None:
        """End the processes of authors' code."""
        if self._own:
            self._own.close()


_CELLS = {
    "text": pa.large_string(),
    "bool": pa.bool_(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f64": pa.float64(),
}
"""Arrow's types by the schema's names."""


Buffer = bytes | memoryview


def arrow_table(rows: int, columns: Sequence[tuple[str, str, Buffer | None, Buffer | None, Buffer]]) -> pa.Table:
    """Make an Arrow table of columns in Arrow's memory layout, without a copy.

    Args:
        rows: the number of rows.
        columns: of each: name, type (`text`, `bool`, `u32`, `u64`, `f64`), validity bits (none: all cells are there),
            64-bit offsets (of text only), and the values, little-endian.

    Examples:
        >>> arrow_table(2, [("cwnd", "u32", bytes([0b01]), None, bytes([7, 0, 0, 0, 0, 0, 0, 0]))]).to_pydict()
        {'cwnd': [7, None]}
    """
    arrays, fields = [], []
    for name, cell, validity, offsets, data in columns:
        parts = (validity, data) if offsets is None else (validity, offsets, data)
        buffers = [None if part is None else pa.py_buffer(part) for part in parts]
        arrays.append(pa.Array.from_buffers(_CELLS[cell], rows, buffers))
        fields.append(pa.field(name, _CELLS[cell], nullable=validity is not None))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def describe(run: Mapping[str, Any]) -> str:
    """Say in a few words which run it is.

    Examples:
        >>> describe({"round": 3, "point": {"flow.cc": "cubic"}})
        'round 3, flow.cc = cubic'
    """
    point = run.get("point") or {}
    if isinstance(point, str):
        point = json.loads(point)
    words = [f"round {run.get('round', 0)}", *(f"{key} = {value}" for key, value in point.items())]
    return ", ".join(words)


def algorithms() -> list[dict[str, Any]]:
    """Return the congestion controls of the simulator.

    Returns:
        By name: `name`, `title`, `state_bytes`, `storage_bytes`, and `params`, each with `name, unit, default, min,
        max, doc`.

    Raises:
        InputError: the simulator is not built.
    """
    found: list[dict[str, Any]] = json.loads(native_core().algorithms())
    return found


def algorithm_of(path: Path) -> tuple[dict[str, Any], str]:
    """Compile the congestion control of an author's file; nothing of it is executed.

    Returns:
        What `algorithms` says of one, and what the compiler warned of.

    Raises:
        InputError: the simulator is not built, or the file is no algorithm; the message has the compiler's words.
    """
    core = native_core()
    try:
        found, warnings = core.algorithm_of(str(path), str(headers()))
    except core.StudyError as error:
        raise InputError(str(error)) from error
    return json.loads(found), warnings


def check_of(path: Path, sequences: int, limits: CodeLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Check an author's file: compile it for the simulator and the kernel, and try random sequences of events on it.

    The events are tried in another process.

    Args:
        path: the C file.
        sequences: how many sequences.
        limits: what the code may take.

    Returns:
        What `algorithms` says of one; `warnings` of the compilers; `kernel_error`, what the compiler for the kernel
        says, and `kernel_unknown`, why it was not asked (both none where the file compiles); `wrong`, what the events
        did to a window, or that the code crashed or never returned (none: nothing).

    Raises:
        InputError: the simulator is not built, or the file is no algorithm; the message has the compiler's words.
    """
    from perigee.cc_check import trial

    core = native_core()
    try:
        text, library = core.check_of(str(path), str(headers()))
    except core.StudyError as error:
        raise InputError(str(error)) from error
    found: dict[str, Any] = json.loads(text)
    return {**found, "wrong": trial(core, library, sequences, limits)}


def native_core() -> Any:
    """Return the compiled module.

    Raises:
        InputError: it is not built.
    """
    try:
        from perigee import _core as core
    except ImportError as error:
        raise InputError(
            f"the simulator is not built ({error}); in a checkout run `make setup`, elsewhere reinstall perigee"
        ) from error
    return core


@functools.cache
def core_fingerprint() -> str:
    """Return the SHA-256 of the compiled module."""
    return hashlib.sha256(Path(native_core().__file__).read_bytes()).hexdigest()

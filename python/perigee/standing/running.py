# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures the standing of congestion controls, whose references run once for all, and keeps it by version."""

from __future__ import annotations

import contextlib
import datetime
import platform
import shlex
import shutil
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perigee.cc import kernel
from perigee.cc.catalog import algorithms, built_in
from perigee.engines.plan.contract import Engine
from perigee.engines.run.crew import Watch
from perigee.errors import InputError, PerigeeError, RunError
from perigee.evaluation.criteria import CRITERIA, VERSION
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.running import evaluate
from perigee.evaluation.several import Several
from perigee.evaluation.studies import Order, key_of, study_of
from perigee.evaluation.summary import key_figure
from perigee.fitness.cells import CELLS
from perigee.fitness.references import digest
from perigee.keeper import kept
from perigee.keeper.kept import Bar, Say
from perigee.standing.satellites import CANDIDATE, PROFILES, row, study
from perigee.version import __version__

FORMAT = 1
"""Version of the JSON."""
COMMAND = "perigee cc standing"
FOLDER, FILE = "standing", "standing.json"
BESIDE = "BESIDE"
"""Stands for the congestion control to compare with in the text of a study."""
IN_KERNEL = "p_standing"
"""Name under which an algorithm is in the kernel for the moment in which that is tried."""


@dataclass(frozen=True)
class Standing:
    """An order of a standing: the congestion controls, and where it is kept.

    Attributes:
        names: congestion controls.
        folder: where it is kept: a folder for each version, and in it a file for each congestion control.
        engine: what carries studies out.
        quick: whether the evaluation has the reduced sizes.
        workers: number of concurrent runs; none: one per core.
        fresh: whether what is kept of this version is measured again.
        chosen: criteria; empty: all.
    """

    names: Sequence[str]
    folder: Path
    engine: Engine
    quick: bool = True
    workers: int | None = None
    fresh: bool = False
    chosen: Collection[str] = ()

    @property
    def kept(self) -> Path:
        """The folder of this version, size and choice of criteria."""
        size = "quick" if self.quick else "whole"
        only = "".join(f"-{one}" for one in self.chosen)
        return self.folder / f"{__version__}-{digest()}-{size}{only}"


def choose(names: Collection[str]) -> list[str]:
    """Return names of congestion controls, checked, each once; none: all that are built in.

    Raises:
        InputError: there is no such congestion control.
    """
    for name in names:
        built_in(name, "--only ")
    return list(dict.fromkeys(names or (one.name for one in algorithms())))


def measure(standing: Standing, bar: Bar, say: Say) -> dict[str, Any]:
    """Measure what is not kept yet, and return the whole table as plain data.

    Args:
        standing: what to measure.
        bar: shows progress.
        say: prints notes.

    Raises:
        InputError: a folder has something else in it.
        RunError: a run failed.
        StorageError: results cannot be written.
        InterruptedRunError: the user stopped it; the same command resumes.
    """
    files = {name: standing.kept / f"{name}.json" for name in standing.names}
    rows = {name: None if standing.fresh else kept.read(file) for name, file in files.items()}
    missing = [name for name in standing.names if rows[name] is None]
    # Kept together at the end: the studies that a stopped command has begun are those of the same names.
    folder = standing.kept / f"{'-'.join(missing)}.studies"
    if standing.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    several = Several(missing, folder, standing.quick, standing.workers, engine=standing.engine)
    rows |= {order.candidate.name: _row(order, bar, say) for order in several.orders(standing.chosen)}
    for name in missing:
        kept.write(files[name], rows[name])
    shutil.rmtree(folder, ignore_errors=True)
    measured = [one for one in CRITERIA if not standing.chosen or one.id in standing.chosen]
    return {
        "format": FORMAT,
        "version": __version__,
        "criteria_version": VERSION,
        "size": "quick" if standing.quick else "whole",
        "command": _command(standing),
        "criteria": [
            {"id": one.id, "title": one.title, "level": one.level, "study": live_study(one)} for one in measured
        ],
        "satellites": [{"profile": profile, "study": study(profile)} for profile in PROFILES],
        "algorithms": list(rows.values()),
    }


def kept_in(folder: Path) -> dict[str, Any] | None:
    """Return the standing that `perigee cc standing` has written to a working folder; none: there is none.

    Raises:
        InputError: the file is damaged, or of another version.
    """
    path = folder / FOLDER / FILE
    if not path.is_file():
        return None
    found = kept.read(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{path}: is not what this version of perigee writes; make it again by {COMMAND}")
    return found


def live_study(criterion: Criterion) -> str | None:
    """Return a study that shows a criterion, with `CANDIDATE` and `BESIDE` for the two congestion controls in it.

    It is the evaluation's own; where that needs a file beside it, the score's cell. None: nothing measures it.
    """
    if not criterion.study:
        return None
    file = study_of(criterion)
    if ".csv" in file.text:
        cell = next((one for one in CELLS if one.criterion == criterion.id), None)
        return cell.study([CANDIDATE, BESIDE]) if cell else None
    key = key_of(criterion)
    return "".join(
        f'"{key}" = ["{CANDIDATE}", "{BESIDE}"]\n' if line.startswith(f'"{key}" = ') else line
        for line in file.text.splitlines(keepends=True)
    )


def in_kernel(name: str) -> dict[str, Any] | None:
    """Return whether the running kernel takes an algorithm: `release`, `loads`, `said`; none: it cannot be tried here.

    It is loaded under a name of its own, and unloaded at once; no socket can have it by accident.
    """
    with contextlib.suppress(PerigeeError):
        # One that was killed meanwhile left it.
        kernel.unload(IN_KERNEL, force=True)
    try:
        kernel.load(name, [], name=IN_KERNEL)
    except InputError:
        return None
    except RunError as error:
        return {"release": platform.release(), "loads": False, "said": str(error).splitlines()[0]}
    kernel.unload(IN_KERNEL, force=True)
    return {"release": platform.release(), "loads": True, "said": None}


def _row(order: Order, bar: Bar, say: Say) -> dict[str, Any]:
    name, chosen = order.candidate.name, order.chosen

    def titled(title: str) -> AbstractContextManager[Watch]:
        return bar(f"{name}: {title}")

    findings = [one for one in evaluate(order, titled, say) if not chosen or one.criterion.id in chosen]
    try:
        kernel_says = in_kernel(name)
    except PerigeeError as error:
        say(f"{name}: not tried in the kernel: {error}")
        kernel_says = None
    with titled("satellite links") as watch:
        rows = []
        for done, profile in enumerate(PROFILES):
            watch(done, len(PROFILES))
            rows.append(row(name, profile))
    return {
        "name": name,
        "title": order.candidate.title,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "kernel": kernel_says,
        "verdicts": [
            {
                "id": one.criterion.id,
                "verdict": str(one.verdict),
                "figure": key_figure(one) if one.verdict.is_judged else None,
                "reason": one.reason or None,
                "left_open": one.left_open or None,
                "again": one.again or None,
            }
            for one in findings
        ],
        "satellites": rows,
    }


def _command(standing: Standing) -> str:
    only = "" if set(standing.names) == {one.name for one in algorithms()} else " --only ".join(["", *standing.names])
    criteria = "".join(f" --criterion {one}" for one in standing.chosen)
    out = "" if standing.folder == Path(FOLDER) else f" --out {shlex.quote(str(standing.folder))}"
    return f"{COMMAND}{'' if standing.quick else ' --whole'}{only}{criteria}{out}"

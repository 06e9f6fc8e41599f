# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Simulates a study with and without fast paths, and compares all results."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from perigee.core import native
from perigee.engines.plan.native import native_plan
from perigee.engines.run.crew import Watch
from perigee.engines.run.job import Job
from perigee.engines.run.runner import Done, carry_out
from perigee.engines.sim.difference import Difference, first_difference
from perigee.errors import InputError
from perigee.store.slices import slices

FAST, PLAIN = "carriage=fast", "carriage=plain"


@dataclass(frozen=True)
class Verified:
    """Outcome of a comparison with and without fast paths.

    Attributes:
        done: outcome of the runs with fast paths.
        tables: number of compared tables.
        captures: number of compared captures.
        difference: the first difference; None: no difference.
    """

    done: Done
    tables: int
    captures: int
    difference: Difference | None


def verify(job: Job, watch: Callable[[str], Watch], say: Callable[[str], None]) -> Verified:
    """Simulate a job with and without fast paths, and compare.

    Args:
        job: job to simulate. Results with fast paths go into its `out`; without one nothing is kept.
        watch: returns the progress callback for the pass of the given name.
        say: prints a note on each deviation from the request.

    Raises:
        InputError: the job is a part of the runs; or as in `carry_out`.
        RunError: a run failed.
    """
    if job.part:
        raise InputError("--verify: a shard has no tables before it is merged; leave --shard out")
    is_plain = native_plan(job.study, job.settings, job.reduced).is_plain
    fast = dataclasses.replace(job, settings=(*job.settings, FAST)) if is_plain else job
    with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("verify")) as scratch:
        folders = [job.out or Path(scratch) / "fast", Path(scratch) / "plain"]
        done = carry_out(dataclasses.replace(fast, out=folders[0]), watch("fast"), say)
        plain = dataclasses.replace(job, settings=(*job.settings, PLAIN), out=folders[1], fresh=False)
        carry_out(plain, watch("plain"))
        names = sorted({path.name for folder in folders for path in folder.glob("*.parquet")})
        found = (_of_table(name.removesuffix(".parquet"), *(folder / name for folder in folders)) for name in names)
        difference = next((one for one in found if one), None) or _of_captures(*folders)
        return Verified(done, len(names), len(_captures(folders[0])), difference)


def _of_table(name: str, one: Path, other: Path) -> Difference | None:
    if not (one.exists() and other.exists()):
        there, missing = ("rows", "no table") if one.exists() else ("no table", "rows")
        return Difference(name, {}, None, (there, missing))
    for tables in zip_longest(*map(slices, (one, other))):
        first, second = (tables[place] if tables[place] is not None else tables[1 - place].clear() for place in (0, 1))
        if found := first_difference({name: first}, {name: second}):
            return found
    return None


def _of_captures(one: Path, other: Path) -> Difference | None:
    for name in sorted(_captures(one) | _captures(other)):
        sizes = [path.stat().st_size if (path := folder / name).exists() else None for folder in (one, other)]
        if sizes[0] != sizes[1] or (one / name).read_bytes() != (other / name).read_bytes():
            return Difference("captures", {"file": name}, None, (f"{sizes[0]} B", f"{sizes[1]} B that differ"))
    return None


def _captures(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("run-*-*") if path.suffix in (".pcapng", ".sqlog")}

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The work of a job: what makes its results the same as others, where they go, what is beside them, its threads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from perigee.engines.host.memory import Roomy, available_bytes, workers_that_fit
from perigee.engines.plan.contract import Plan
from perigee.engines.plan.runs import Runs
from perigee.engines.run.job import Job
from perigee.files import printable
from perigee.store.folder import Identity, default_folder

SCHEDULE = {
    f"live.{key}"
    for key in ("pause", "every", "slot", "for", "retries", "backoff", "failed", "timeout", "connect_timeout")
}
"""Settings that may change while a study is going on."""


def identity_of(plan: Plan, job: Job, rounds: int | None = None) -> Identity:
    """Return the work of a job; with `rounds` that of its first rounds, as a study of no more has it."""
    # When runs begin is no part of what they are.
    settings = tuple(setting for setting in job.settings if setting.partition("=")[0].strip() not in SCHEDULE)
    runs = plan.runs
    if rounds is not None and rounds != runs.rounds:
        runs = Runs(runs.points, rounds, runs.seed_of)
        settings = (*(one for one in settings if one.partition("=")[0].strip() != "rounds"), f"rounds={rounds}")
    return Identity(
        study=plan.study,
        engine=job.engine.name,
        plan=runs.digest,
        build=job.engine.build,
        settings=settings,
        reduced=job.reduced,
        runs=len(runs),
        rounds=runs.rounds,
        first_seed=runs.seed_of(0),
        study_file=_as_given(job),
    )


def files_of(plan: Plan, job: Job) -> dict[str, bytes]:
    """Return what the report needs of the study, by file name."""
    return {
        "study.toml": job.study.text.encode(),
        **job.study.companions(),
        **{_file_name(name): text for name, text in plan.sources.items()},
        "setup.json": json.dumps(plan.setup, indent=1).encode(),
    }


def folder_of(study: str, job: Job) -> Path:
    """Return the results folder of a job."""
    if job.out:
        return job.out
    whole = default_folder(study, job.engine.name, reduced=job.reduced)
    part = f"-{job.part.number}-of-{job.part.of}" if job.part else ""
    return whole.with_name(f"{whole.name}{job.suffix}{part}")


def workers_of(plan: Plan, job: Job, say: Callable[[str], None]) -> int:
    """Return how many runs go at a time.

    Raises:
        InputError: not even one run fits into this machine's memory.
    """
    total = len(plan.runs)
    most = job.engine.most_at_once or job.workers or os.cpu_count() or 1
    workers = min(job.workers or most, most, total)
    if isinstance(plan, Roomy):
        workers = workers_that_fit(plan.rooms, plan.runs, workers, available_bytes(), say)
    return workers


def _as_given(job: Job) -> str:
    """Return what a command calls the study: the folder of one with companions, else its file."""
    path = job.study.path
    return printable(path.parent.name if path.name == "study.toml" else path.name)


def _file_name(cc: str) -> str:
    """Return the name under which the file of an author's congestion control is kept.

    Examples:
        >>> _file_name("mycc"), _file_name("cubic (../cubic.c)")
        ('mycc.c', 'cubic-..-cubic.c')
    """
    plain = re.sub(r"[^\w.]+", "-", cc).strip("-")
    return plain if plain.endswith(".c") else f"{plain}.c"

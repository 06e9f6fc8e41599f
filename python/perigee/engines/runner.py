# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries a plan out on all cores, run by run, into a results folder that can be resumed at any instant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from perigee.engines.contract import Closing, Plan, Timed
from perigee.engines.crew import Crew, Watch
from perigee.engines.curve import Curve
from perigee.engines.forecast import Forecast
from perigee.engines.job import Job
from perigee.engines.memory import Roomy, available_bytes, workers_that_fit
from perigee.engines.runs import Runs
from perigee.engines.until import FIRST_ROUNDS, Seen, Until
from perigee.errors import InputError
from perigee.files import printable
from perigee.store.folder import Identity, ResultsFolder, default_folder

SCHEDULE = {
    f"live.{key}"
    for key in ("pause", "every", "slot", "for", "retries", "backoff", "failed", "timeout", "connect_timeout")
}
"""Settings that may change while a study is going on."""


@dataclass(frozen=True)
class Done:
    """Outcome of a job.

    Attributes:
        folder: the results folder.
        runs: the number of runs that the job has.
        resumed: how many of them were there already.
        warnings: what a compiler warned of in authors' congestion controls.
        left: how many runs other parts of the study have, and are not there.
    """

    folder: Path
    runs: int
    resumed: int
    warnings: str = ""
    left: int = 0


def carry_out(
    job: Job,
    watch: Watch = lambda _done, _total, outlook=None: None,
    say: Callable[[str], None] = lambda _text: None,
    follow: Callable[[Curve], None] | None = None,
) -> Done:
    """Do the runs of a job that are not done yet; when all runs of the study are there, merge their tables.

    Args:
        job: what to run.
        watch: called with the progress, on the calling thread.
        say: prints a note on each deviation from the request.
        follow: called with the throughput over time of the run that has gone on for longest, on the calling thread.

    Raises:
        InputError: the study, a setting or the folder is wrong, or a run does not fit into this machine's memory;
            nothing was changed.
        RunError: a run failed; those done before are kept.
        StorageError: the disk is full; runs done before are kept.
        InterruptedRunError: the user stopped it; runs done before are kept.
    """
    plan = job.engine.plan(job.study, job.settings, job.reduced)
    if isinstance(plan, Forecast):
        for remark in plan.remarks:
            say(remark)
    try:
        return _carry_out(plan, job, watch, say, follow)
    finally:
        if isinstance(plan, Closing):
            plan.close()


def _carry_out(
    plan: Plan, job: Job, watch: Watch, say: Callable[[str], None], follow: Callable[[Curve], None] | None
) -> Done:
    total = len(plan.runs)
    if (job.part or job.until) and isinstance(plan, Timed):
        option = "--shard" if job.part else "--until"
        raise InputError(f"{option}: runs between real hosts have one timetable, which it would change; leave it out")
    most = job.engine.most_at_once or job.workers or os.cpu_count() or 1
    workers = min(job.workers or most, most, total)
    if isinstance(plan, Roomy):
        workers = workers_that_fit(plan.rooms, plan.runs, workers, available_bytes(), say)
    out = job.out or _default_folder(plan.study, job)
    folder = ResultsFolder(out)
    identity = _identity(plan, job)
    files = {
        "study.toml": job.study.text.encode(),
        **job.study.companions(),
        **{_file_name(name): text for name, text in plan.sources.items()},
        "setup.json": json.dumps(plan.setup, indent=1).encode(),
    }
    if job.until and not job.fresh and (rounds := folder.rounds_of_complete()):
        # What the stop rule came to before.
        identity = _identity(plan, job, min(rounds, plan.runs.rounds))
    with folder.open(identity, files, fresh=job.fresh) as manifest:
        if manifest.is_complete and job.until:
            total = identity.runs
        if manifest.is_complete:
            watch(total, total)
            return Done(out, total, total, plan.warnings)
        missing = folder.missing(total)
        if isinstance(plan, Timed):
            since = datetime.fromisoformat(manifest.content["started"]).timestamp()
            plan.begin(since, resumed=len(missing) < total)
        crew = Crew(plan, folder, workers, follow)
        if job.until:
            rounds = _rounds_needed(plan, job.until, folder, crew, watch)
            ended = _identity(plan, job, rounds)
            folder.finish(manifest, ended=ended)
            return Done(out, ended.runs, ended.runs - sum(run < ended.runs for run in missing), plan.warnings)
        mine = job.part.select(missing) if job.part else missing
        all_of_mine = len(job.part.select(range(total))) if job.part else total
        crew.do(mine, all_of_mine, watch)
        left = len(missing) - len(mine)
        if not left:
            folder.finish(manifest)
        return Done(out, all_of_mine, all_of_mine - len(mine), plan.warnings, left)


def _identity(plan: Plan, job: Job, rounds: int | None = None) -> Identity:
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


def _rounds_needed(plan: Plan, until: Sequence[Until], folder: ResultsFolder, crew: Crew, watch: Watch) -> int:
    """Do rounds until all stop rules are content, or there are no more; return how many."""
    points, most = len(plan.runs.points), plan.runs.rounds
    seen = Seen(folder.shards, [one.metric for one in until])
    rounds = min(FIRST_ROUNDS, most)
    while True:
        runs = rounds * points
        crew.do(folder.missing(runs), runs, watch)
        flows = seen.flows(runs)
        needed = max(one.needed(flows, rounds) for one in until)
        if needed <= rounds or rounds == most:
            return rounds
        rounds = min(needed, most)


def _as_given(job: Job) -> str:
    """Return what a command calls the study: the folder of one with companions, else its file."""
    path = job.study.path
    return printable(path.parent.name if path.name == "study.toml" else path.name)


def _default_folder(study: str, job: Job) -> Path:
    whole = default_folder(study, job.engine.name, reduced=job.reduced)
    part = f"-{job.part.number}-of-{job.part.of}" if job.part else ""
    return whole.with_name(f"{whole.name}{job.suffix}{part}")


def _file_name(cc: str) -> str:
    """Return the name under which the file of an author's congestion control is kept.

    Examples:
        >>> _file_name("mycc"), _file_name("cubic (../cubic.c)")
        ('mycc.c', 'cubic-..-cubic.c')
    """
    plain = re.sub(r"[^\w.]+", "-", cc).strip("-")
    return plain if plain.endswith(".c") else f"{plain}.c"

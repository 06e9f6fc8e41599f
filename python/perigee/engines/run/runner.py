# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries a plan out on all cores, run by run, into a results folder that can be resumed at any instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from perigee.engines.plan.contract import Closing, Plan, Timed
from perigee.engines.plan.forecast import Forecast
from perigee.engines.run.crew import Crew, Watch
from perigee.engines.run.curve import Curve
from perigee.engines.run.job import Job
from perigee.engines.run.kept_flows import KeptFlows
from perigee.engines.run.until import FIRST_ROUNDS, Until
from perigee.engines.run.work import files_of, folder_of, identity_of, workers_of
from perigee.errors import InputError
from perigee.store.folder import ResultsFolder


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
    workers = workers_of(plan, job, say)
    out = folder_of(plan.study, job)
    folder = ResultsFolder(out)
    identity = identity_of(plan, job)
    if job.until and not job.fresh and (rounds := folder.rounds_of_complete()):
        # What the stop rule came to before.
        identity = identity_of(plan, job, min(rounds, plan.runs.rounds))
    with folder.open(identity, files_of(plan, job), fresh=job.fresh) as manifest:
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
            ended = identity_of(plan, job, rounds)
            folder.finish(manifest, ended=ended)
            return Done(out, ended.runs, ended.runs - sum(run < ended.runs for run in missing), plan.warnings)
        mine = job.part.select(missing) if job.part else missing
        all_of_mine = len(job.part.select(range(total))) if job.part else total
        crew.do(mine, all_of_mine, watch)
        left = len(missing) - len(mine)
        if not left:
            folder.finish(manifest)
        return Done(out, all_of_mine, all_of_mine - len(mine), plan.warnings, left)


def _rounds_needed(plan: Plan, until: Sequence[Until], folder: ResultsFolder, crew: Crew, watch: Watch) -> int:
    """Do rounds until all stop rules are content, or there are no more; return how many."""
    points, most = len(plan.runs.points), plan.runs.rounds
    kept = KeptFlows("--until", folder.shards, [one.metric for one in until])
    rounds = min(FIRST_ROUNDS, most)
    while True:
        runs = rounds * points
        crew.do(folder.missing(runs), runs, watch)
        flows = kept.rows(runs)
        needed = max(one.needed(flows, rounds) for one in until)
        if needed <= rounds or rounds == most:
            return rounds
        rounds = min(needed, most)

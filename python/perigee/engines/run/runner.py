# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries a job out on all cores, run by run, into a results folder that can be resumed at any instant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from perigee.engines.run.crew import Crew, Watch
from perigee.engines.run.curve import Curve
from perigee.engines.run.job import Job
from perigee.engines.run.kept_flows import KeptFlows
from perigee.engines.run.until import FIRST_ROUNDS
from perigee.errors import InputError


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
    with job:
        plan, folder = job.plan, job.folder
        for remark in plan.remarks:
            say(remark)
        if (job.part or job.until) and plan.has_timetable:
            option = "--shard" if job.part else "--until"
            raise InputError(
                f"{option}: runs between real hosts have one timetable, which it would change; leave it out"
            )
        crew = Crew(plan, folder, job.at_once(say), follow)
        identity = job.identity(_rounds_before(job))
        with folder.open(identity, job.files, fresh=job.fresh) as manifest:
            if manifest.is_complete:
                watch(identity.runs, identity.runs)
                return Done(folder.path, identity.runs, identity.runs, plan.warnings)
            missing = folder.missing(identity.runs)
            since = datetime.fromisoformat(manifest.content["started"])
            plan.begin(since.timestamp(), resumed=len(missing) < identity.runs)
            if job.until:
                ended = job.identity(_rounds_needed(job, crew, watch))
                folder.finish(manifest, ended=ended)
                return Done(
                    folder.path, ended.runs, ended.runs - sum(run < ended.runs for run in missing), plan.warnings
                )
            mine = job.part.select(missing) if job.part else missing
            all_of_mine = len(job.part.select(range(identity.runs))) if job.part else identity.runs
            crew.do(mine, all_of_mine, watch)
            left = len(missing) - len(mine)
            if not left:
                folder.finish(manifest)
            return Done(folder.path, all_of_mine, all_of_mine - len(mine), plan.warnings, left)


def _rounds_before(job: Job) -> int | None:
    """Return the rounds that a stop rule came to before; none: nothing is there that it has ended."""
    rounds = job.folder.rounds_of_complete() if job.until and not job.fresh else None
    return min(rounds, job.plan.runs.rounds) if rounds else None


def _rounds_needed(job: Job, crew: Crew, watch: Watch) -> int:
    """Do rounds until all stop rules are content, or there are no more; return how many."""
    points, most = len(job.plan.runs.points), job.plan.runs.rounds
    kept = KeptFlows("--until", job.folder.shards, [one.metric for one in job.until])
    rounds = min(FIRST_ROUNDS, most)
    while True:
        runs = rounds * points
        crew.do(job.folder.missing(runs), runs, watch)
        flows = kept.rows(runs)
        needed = max(one.needed(flows, rounds) for one in job.until)
        if needed <= rounds or rounds == most:
            return rounds
        rounds = min(needed, most)

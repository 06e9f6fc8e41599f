# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Executes a job on all cores into a results folder that can be resumed at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from perigee.engines.run.crew import Crew, Watch
from perigee.engines.run.curve import Curve
from perigee.engines.run.job import Job
from perigee.engines.run.kept_flows import KeptFlows
from perigee.engines.run.until import FIRST_ROUNDS
from perigee.errors import FaultError
from perigee.numbers import counted


@dataclass(frozen=True)
class Done:
    """Outcome of a job.

    Attributes:
        folder: the results folder.
        runs: number of runs of the job.
        resumed: number of runs stored before.
        warnings: compiler warnings about users' congestion controls.
        left: number of missing runs of other parts.
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
    """Execute the missing runs of a job; once the study is complete, merge their tables.

    Args:
        job: what to run.
        watch: called with the progress, on the calling thread.
        say: prints a note on each deviation from the request.
        follow: called on the calling thread with the throughput over time of the oldest current run.

    Raises:
        InputError: the study, a setting or the folder is wrong, or a run does not fit into this machine's memory;
            nothing is changed.
        RunError: a run failed; earlier runs are kept.
        FaultError: runs broke a law of the simulator; all others are carried out and kept.
        StorageError: the disk is full; earlier runs are kept.
        InterruptedRunError: the user stopped it; earlier runs are kept.
    """
    with job:
        plan, folder = job.plan, job.folder
        for remark in plan.remarks:
            say(remark)
        job.check_timetable()
        crew = Crew(plan, folder, job.at_once(say), follow)
        identity = job.identity(_rounds_before(job))
        with folder.open(identity, job.files, fresh=job.fresh) as manifest:
            if manifest.is_complete:
                _raise_faults(job, manifest.content.get("faults"), identity.runs)
                watch(identity.runs, identity.runs)
                return Done(folder.path, identity.runs, identity.runs, plan.warnings)
            missing = folder.missing(identity.runs)
            since = datetime.fromisoformat(manifest.content["started"])
            plan.begin(since.timestamp(), resumed=len(missing) < identity.runs)
            if job.until:
                rounds = _rounds_needed(job, crew, watch)
                _raise_faults(job, crew.faults, len(plan.runs.points) * rounds)
                ended = job.identity(rounds)
                folder.finish(manifest, ended=ended)
                return Done(
                    folder.path, ended.runs, ended.runs - sum(run < ended.runs for run in missing), plan.warnings
                )
            mine = job.part.select(missing) if job.part else missing
            all_of_mine = len(job.part.of_all(identity.runs)) if job.part else identity.runs
            crew.do(mine, all_of_mine, watch)
            left = len(missing) - len(mine)
            if not left:
                folder.finish(manifest, faults={run: _first_line(fault) for run, fault in crew.faults.items()})
            _raise_faults(job, crew.faults or manifest.content.get("faults"), all_of_mine)
            return Done(folder.path, all_of_mine, all_of_mine - len(mine), plan.warnings, left)


def _raise_faults(job: Job, faults: Mapping[int, object] | Mapping[str, object] | None, runs: int) -> None:
    """Raise what the simulator's faults are, in the words of each run and with the study; do nothing without any."""
    if not faults:
        return
    said = list(dict.fromkeys(map(str, faults.values())))
    study = said[0].partition("\n")[2] or f"the study is in {job.folder.path / 'study'}"
    kept = f"{len(faults)} of {counted(runs, 'run')} without results; the others are kept in {job.folder.path}"
    raise FaultError("\n".join([*map(_first_line, said), kept, study]))


def _first_line(said: object) -> str:
    return str(said).partition("\n")[0]


def _rounds_before(job: Job) -> int | None:
    """Return the number of rounds after which a stop rule ended the study before; None: it has not."""
    rounds = job.folder.rounds_of_complete() if job.until and not job.fresh else None
    return min(rounds, job.plan.runs.rounds) if rounds else None


def _rounds_needed(job: Job, crew: Crew, watch: Watch) -> int:
    """Execute rounds until all stop rules are met or no more are left; return their number."""
    points, most = len(job.plan.runs.points), job.plan.runs.rounds
    kept = KeptFlows("--until", job.folder.shards, [one.metric for one in job.until])
    rounds = min(FIRST_ROUNDS, most)
    while True:
        runs = rounds * points
        crew.do(job.folder.missing(runs), runs, watch)
        if crew.faults:
            return rounds
        flows = kept.rows(runs)
        needed = max(one.needed(flows, rounds) for one in job.until)
        if needed <= rounds or rounds == most:
            return rounds
        rounds = min(needed, most)

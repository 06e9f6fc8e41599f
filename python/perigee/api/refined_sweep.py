# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries a sweep out in stages, each at the points that the results so far ask for, into one results folder.

A stage is a study of its new points alone, in a folder within the results folder that can be resumed at any instant. At
the end the runs of all stages get the numbers that a sweep over all the points gives them, and its results.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perigee.api.designs import MOST_POINTS
from perigee.api.refinement import Means, Node, Refinement
from perigee.engines.plan.contract import Plan
from perigee.engines.plan.runs import Runs
from perigee.engines.run.crew import Crew, Watch
from perigee.engines.run.job import Job
from perigee.engines.run.kept_flows import KeptFlows
from perigee.engines.run.runner import Done
from perigee.errors import InputError, InterruptedRunError
from perigee.interrupts import held_back
from perigee.numbers import counted
from perigee.store.folder import ResultsFolder
from perigee.store.identity import Identity
from perigee.store.points import as_text, named

Say = Callable[[str], None]
MOST_RUNS = 1_000_000
"""As many as a study may have."""


def carry_out(job: Job, refinement: Refinement, watch: Watch, say: Say) -> Done:
    """Carry a study out over ranges that are refined; see `perigee.engines.run.runner.carry_out`.

    Args:
        job: what to run, without the values of the ranges.
        refinement: where the points are.
        watch: called with the progress, on the calling thread.
        say: prints a note on each deviation from the request, and between which points the response changes most.

    Raises:
        InputError: the study, a setting or the folder is wrong, or the points are too many.
        RunError: a run failed; those done before are kept.
        StorageError: the disk is full; runs done before are kept.
        InterruptedRunError: the user stopped it; runs done before are kept.
    """
    with _at(job, refinement.settings(refinement.grid)) as grid:
        _check(grid.plan, refinement)
        # The grid has the ends of the ranges.
        for remark in grid.plan.remarks:
            say(remark)
        begun = _begun(grid.identity(), job, refinement)
        folder, warnings = grid.folder, grid.plan.warnings
        if not job.fresh and (runs := folder.runs_refined_from(begun)):
            watch(runs, runs)
            return Done(folder.path, runs, runs, warnings)
        with folder.open(begun, grid.files, fresh=job.fresh) as manifest:
            sweep = _Sweep(job, refinement, folder, watch, say)
            sweep.do_all(grid)
            # Its runs are done already: nothing is made ready for them.
            whole = _at(job, refinement.settings(sorted(sweep.means)))
            kept, numbers = sweep.runs_of(whole.plan.runs)
            folder.keep_study(manifest, whole.files)
            folder.take_captures(kept, numbers)
            folder.finish(manifest, kept, numbers, ended=whole.identity(), refined_from=begun)
        stages = counted(len(sweep.stages), "stage")
        say(f"{counted(len(sweep.means), 'point')} in {stages}, {refinement.end}")
        for line in refinement.steepest(sweep.means):
            say(f"steepest: {line}")
        return Done(folder.path, len(kept), sweep.resumed, warnings)


@dataclass(frozen=True)
class _Stage:
    """A study of some points, with its results.

    Attributes:
        folder: where they are.
        runs: what the runs are.
    """

    folder: ResultsFolder
    runs: Runs


class _Sweep:
    """The stages of a sweep, as they are carried out.

    Args:
        job: what to run, without the values of the ranges.
        refinement: where the points are.
        folder: the results folder.
        watch: called with the progress.
        say: prints a note.

    Attributes:
        stages: those that are done.
        means: the means of the points that are done.
        resumed: how many runs were there already.
    """

    def __init__(self, job: Job, refinement: Refinement, folder: ResultsFolder, watch: Watch, say: Say) -> None:
        self._job = job
        self._refinement = refinement
        self._folder = folder
        self._watch = watch
        self._heard: set[str] = set()
        self._say = say
        self._most = 0
        self._began_s = time.monotonic()
        self.stages: list[_Stage] = []
        self.means: dict[Node, Means] = {}
        self.resumed = 0

    def do_all(self, grid: Job) -> None:
        """Carry out the first grid, and then what its results ask for."""
        self._most = len(grid.plan.runs) // len(self._refinement.grid) * self._refinement.rule.points
        with held_back() as answer_interrupts:
            try:
                self._do(grid, self._refinement.grid)
                while nodes := self._refinement.advance(self.means):
                    answer_interrupts()
                    with _at(self._job, self._refinement.settings(nodes)) as further:
                        self._do(further, nodes)
            except (KeyboardInterrupt, InterruptedRunError):
                kept = counted(sum(len(stage.folder.shards()) for stage in self.stages), "run")
                raise InterruptedRunError(
                    f"stopped in stage {len(self.stages)}: {kept} of up to {self._most} are kept in {self._folder.path}"
                ) from None

    def runs_of(self, runs: Runs) -> tuple[list[Path], list[int]]:
        """Return the shard of each run of the sweep over all points, and its number there."""
        places = {
            _text(point): (stage, number) for stage in self.stages for number, point in enumerate(stage.runs.points)
        }
        found = [places[_text(point)] for point in runs.points]
        shards = {stage.folder.path: stage.folder.shards() for stage in self.stages}
        kept, numbers = [], []
        for round_ in range(runs.rounds):
            for stage, point in found:
                numbers.append(round_ * len(stage.runs.points) + point)
                kept.append(shards[stage.folder.path][numbers[-1]])
        return kept, numbers

    def _do(self, job: Job, nodes: Sequence[Node]) -> None:
        plan = job.plan
        before = sum(len(stage.runs) for stage in self.stages)
        stage = _Stage(self._folder.stage(len(self.stages)), plan.runs)
        self.stages.append(stage)
        of = self._refinement.rule.points
        said = f"stage {len(self.stages)}, {len(self.means) + len(nodes)} of up to {of} points"

        def watch(done: float, _total: int, /, outlook: object = None) -> None:
            here = before + done - self.resumed
            left_s = (time.monotonic() - self._began_s) / here * (self._most - before - done) if here > 0 else None
            self._watch(before + done, self._most, outlook=(said, left_s))

        with stage.folder.open(job.identity(), {}):
            missing = stage.folder.missing(len(plan.runs))
            self.resumed += len(plan.runs) - len(missing)
            if missing:
                crew = Crew(plan, stage.folder, job.at_once(self._say_once))
                crew.do(missing, len(plan.runs), watch)
        self.means |= self._means_of(stage, nodes)

    def _say_once(self, text: str) -> None:
        # A message on the memory of a run holds in all stages.
        if text not in self._heard:
            self._heard.add(text)
            self._say(text)

    def _means_of(self, stage: _Stage, nodes: Sequence[Node]) -> dict[Node, Means]:
        metric = self._refinement.rule.metric
        keys = [axis.key for axis in self._refinement.axes]
        at = {_text(self._refinement.values(node)): node for node in nodes}
        places = []
        for point in stage.runs.points:
            varied = point["point"]
            others = [f"{key} = {as_text(value)}" for key, value in named(varied).items() if key not in keys]
            places.append((at[_text({key: varied[key] for key in keys})], others))
        values: dict[Node, dict[str, list[float]]] = {node: {} for node in nodes}
        rows = KeptFlows("--refine", stage.folder.shards, [metric]).rows(len(stage.runs))
        for run, flow, value in rows.select("run", "flow", metric).iter_rows():
            node, others = places[run % len(places)]
            found = values[node].setdefault(", ".join([f"flow {flow}", *others]), [])
            if value is not None and math.isfinite(value):
                found.append(value)
        return {
            node: {group: math.fsum(found) / len(found) if found else None for group, found in of_node.items()}
            for node, of_node in values.items()
        }


def _at(job: Job, points: Sequence[str]) -> Job:
    """Return a job at some points of its ranges."""
    return replace(job, settings=(*job.settings, *points))


def _check(plan: Plan, refinement: Refinement) -> None:
    """Refuse before the first run what could not be put together after the last one."""
    if plan.has_timetable:
        raise InputError("--refine: runs between real hosts have one timetable, which it would change; leave it out")
    each = len(plan.runs.points) // len(refinement.grid)
    points = each * refinement.rule.points
    if points > MOST_POINTS or points * plan.runs.rounds > MOST_RUNS:
        raise InputError(
            f"--refine {refinement.rule.points}: with {each} points of what else the study varies and "
            f"{counted(plan.runs.rounds, 'round')} these are {points * plan.runs.rounds} runs of {points} points; a "
            f"study has at most {MOST_RUNS} runs and {MOST_POINTS} points"
        )


def _begun(grid: Identity, job: Job, refinement: Refinement) -> Identity:
    """Return the work that a folder is begun with: the points of all stages follow from it and the results."""
    over = [f"--over {axis}" for axis in refinement.axes]
    return replace(grid, settings=(*job.settings, *over, f"--refine {refinement.rule}"))


def _text(values: Mapping[str, Any]) -> str:
    """Return values of keys as a text that is the same for the same values."""
    return json.dumps(values, sort_keys=True)

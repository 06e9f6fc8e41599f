# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Replays a finding on the emulator: the candidate and the worst reference, on this machine's own TCP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perigee.attack.bench import TABLES
from perigee.attack.figures import Figures, Goal, figures_of
from perigee.attack.finding import Finding
from perigee.attack.trial import study
from perigee.engines.emu.engine import Emulator
from perigee.engines.run.job import Job
from perigee.keeper.kept import results_folder, results_of
from perigee.keeper.runs import PATH
from perigee.places import StudyFile


@dataclass(frozen=True)
class Confirmation:
    """A finding on the emulator.

    Attributes:
        candidate: the candidate's figures.
        reference: name of the reference that does worst in the simulation.
        other: its figures.
    """

    candidate: Figures
    reference: str
    other: Figures

    def excess(self, goal: Goal) -> float:
        """Return by how much the candidate is worse than that reference."""
        return goal.badness(self.candidate) - goal.badness(self.other)

    def sentence(self, name: str, goal: Goal) -> str:
        """Return what was measured, and whether the finding holds."""
        own, other = goal.words(goal.badness(self.candidate)), goal.words(goal.badness(self.other))
        verdict = "confirmed" if self.excess(goal) >= goal.least else "not confirmed"
        return f"{verdict}: on the emulator, {name} {own}, where {self.reference} {other}."


def confirm(finding: Finding, progress: Callable[[float], None] = lambda _share: None) -> Confirmation:
    """Replay a finding that has figures.

    Args:
        finding: the finding.
        progress: called with the share done.

    Raises:
        InputError: this machine cannot emulate it.
        RunError: a run failed.
    """
    assert finding.result is not None, "a finding has a result"  # noqa: S101 - the caller's promise
    reference, trial = finding.result.worst(finding.goal), finding.result.trial
    file = StudyFile(Path(PATH), study(trial, [finding.candidate.value, reference]), ())
    with results_folder(None, "") as folder:
        job = Job(file, Emulator, out=folder / "emulated")
        results = results_of(job, lambda done, total, outlook=None: progress(done / total))
        tables = {name: results.table(name) for name in TABLES}
        own, other = (figures_of(trial, tables, run) for run in range(2))
    return Confirmation(own, reference, other)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The finding of a search for one goal: its sentence, its study, and its content for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perigee.attack.around import Around
from perigee.attack.bench import Result
from perigee.attack.edges import Edges
from perigee.attack.figures import Goal
from perigee.attack.trial import study
from perigee.evaluation.studies import Candidate


@dataclass(frozen=True)
class Finding:
    """The worst that was found for a goal.

    Attributes:
        candidate: the congestion control.
        goal: the goal.
        result: the trial after shrinking, with its figures; none: nothing was tried.
        before: the trial as the search found it.
        trials: number of trials of the search and of shrinking.
        rounds: number of runs of each congestion control.
        around: the excess in the trials around it; none: that is not known.
        edges: where it is at least half as bad; none: that is not known.
        is_plain: whether the search was among plain trials.
        is_whole: false if the search was interrupted.
        shared: the trial in which it is worst beside the best reference, where another is as bad; none: there is none.
    """

    candidate: Candidate
    goal: Goal
    result: Result | None
    before: Result | None
    trials: int
    rounds: int
    around: Around | None = None
    edges: Edges | None = None
    is_plain: bool = False
    is_whole: bool = True
    shared: Result | None = None

    @property
    def is_one(self) -> bool:
        """True if the candidate is worse than each of the references by as much as the goal asks for, also nearby."""
        if self.result is None or self.result.excess(self.goal) < self.goal.least:
            return False
        return bool(self.result.fault) or (self.around is not None and self.around.holds)

    @property
    def name(self) -> str:
        """Name of the search."""
        return f"{self.goal.name}-plain" if self.is_plain else self.goal.name

    @property
    def file(self) -> str:
        """Name of the file of its study."""
        return f"{self.name}.toml"

    @property
    def sentence(self) -> str:
        """A sentence on the candidate's result, that of the worse reference, and where."""
        if self.result is None:
            return f"{self.candidate.name}: nothing was tried."
        if self.result.fault:
            return f"{self.candidate.name} fails: {self.result.fault}. Over {self.result.trial.words}."
        return f"{self.short()}: {self.result.trial.words}."

    def short(self, called: Callable[[str], str] = str) -> str:
        """Return the candidate's result and that of the worse reference; `called` gives names of algorithms."""
        assert self.result is not None, "a finding has a result"  # noqa: S101 - asked where `is_one`
        if self.result.fault:
            return f"{called(self.candidate.name)} fails"
        worst = self.result.worst(self.goal)
        own, other = self.goal.words(self.result.mean(self.goal)), self.goal.said(self.result.mean(self.goal, worst))
        return f"{called(self.candidate.name)} {own}, {called(worst)} {other}"

    def shared_words(self, called: Callable[[str], str] = str) -> str:
        """Return what it has in common with a standard, and where; empty if there is nothing."""
        if self.shared is None:
            return ""
        best, likes = self.shared.best(self.goal), self.shared.like(self.goal)
        own = self.goal.words(self.shared.mean(self.goal))
        other = self.goal.said(self.shared.mean(self.goal, best))
        return f"{called(self.candidate.name)} {own}, as {' and '.join(map(called, likes))}; {called(best)} {other}"

    def study(self, folder: Path) -> str:
        """Return its study, for a file in a folder; empty if nothing was tried."""
        if self.result is None:
            return ""
        value = self.candidate.value
        if self.candidate.sha256:
            value = os.path.relpath(value, folder.resolve())
            value = value if value.startswith("../") else f"./{value}"
        algorithms = (value, *(self.result.references or ("cubic",)))
        name = f"attack-{self.candidate.name}-{self.name}"
        return study(self.result.trial, algorithms, name=name, title=self.short(), rounds=self.rounds)

    def content(self) -> dict[str, Any]:
        """Return its content for programs."""
        found: dict[str, Any] = {
            "goal": self.goal.name,
            "plain": self.is_plain,
            "found": self.is_one,
            "trials": self.trials,
        }
        if self.shared is not None:
            found["shared"] = {
                "sentence": f"{self.shared_words()}: {self.shared.trial.words}.",
                "with": self.shared.like(self.goal),
                "trial": asdict(self.shared.trial),
            }
        if self.result is None:
            return found
        found |= {"sentence": self.sentence, "study": self.file, "trial": asdict(self.result.trial)}
        if self.result.fault:
            return found | {"fault": self.result.fault}
        figures = {self.candidate.label: self.result.candidate, **self.result.references}
        return found | {
            "excess": self.result.excess(self.goal),
            "around": asdict(self.around) if self.around else None,
            "edges": asdict(self.edges) if self.edges else None,
            "least": self.goal.least,
            "figures": {name: [asdict(one) for one in rounds] for name, rounds in figures.items()},
        }

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An attack: two searches for each goal, the worst of each with further seeds, and its smallest study."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from perigee.attack.around import Around, around
from perigee.attack.bench import Bench, Result
from perigee.attack.edges import edges
from perigee.attack.figures import GOALS, Goal
from perigee.attack.finding import Finding
from perigee.attack.search import Archive, Budget, again, search, shared_with
from perigee.attack.shrink import shrink
from perigee.attack.space import WHERE, Space
from perigee.cc.catalog import built_in
from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.errors import InputError
from perigee.evaluation.studies import Candidate
from perigee.interrupts import held_back
from perigee.names import suggestion

REFERENCES = ("reno", "cubic")
"""The congestion controls that every candidate is compared with: standards, each of which may do badly."""
ROUNDS = 3
PLAIN_SHARE = 0.25
"""The part of a goal's budget for plain trials."""
SEARCH_SHARE = 0.6
"""The part of its time that a search has; shrinking has the rest."""

Bar = Callable[[str], AbstractContextManager[Callable[[float], None]]]
"""Shows the progress of the search of a goal, whose name it is given."""


@dataclass(frozen=True)
class Order:
    """The algorithm to attack, and the settings of the search.

    Attributes:
        candidate: the congestion control.
        goals: names of goals.
        where: a key of `WHERE`.
        references: names of what it is compared with.
        budget_s: time for all goals, s; none: as long as the trials take.
        trials: number of trials of each goal's search; none: as many as the time allows.
        seed: seed of the search.
        workers: number of threads; none: one per core.
        limits: limits of an author's code.
    """

    candidate: Candidate
    goals: Sequence[str]
    where: str = "any"
    references: Sequence[str] = REFERENCES
    budget_s: float | None = None
    trials: int | None = None
    seed: int = 1
    workers: int | None = None
    limits: CodeLimits = DEFAULT_LIMITS


def chosen(goals: Sequence[str], where: str, references: Sequence[str], candidate: str) -> tuple[list[str], list[str]]:
    """Return names of goals and references, checked, each once; none: all goals, and `REFERENCES`.

    Raises:
        InputError: there is no such goal, place or congestion control, or the candidate is named as its reference.

    Examples:
        >>> chosen(["loss", "loss"], "geo", [], "cubic")
        (['loss'], ['reno', 'cubic'])
    """
    for goal in goals:
        if goal not in GOALS:
            raise InputError(f"--goal {goal}: there is no such goal", suggestion(goal, list(GOALS)))
    if where not in WHERE:
        raise InputError(f"--where {where}: there is no such place", suggestion(where, list(WHERE)))
    for name in references:
        built_in(name, "--reference ")
        if name == candidate:
            raise InputError(f"--reference {name}: that is the candidate itself; name another one")
    return list(dict.fromkeys(goals or GOALS)), list(dict.fromkeys(references or REFERENCES))


def attack(order: Order, bar: Bar, found: Callable[[Finding], None]) -> bool:
    """Search for each goal, and report each finding once it is there; return whether all was done.

    After Ctrl-C what was found so far is reported, as it was found.

    Args:
        order: what to attack, and how.
        bar: shows progress.
        found: called with the finding of each goal.

    Raises:
        InputError: the candidate cannot be run.
        RunError: a run failed for another reason than the candidate's code.
    """
    bench = Bench(order.candidate.value, order.references, order.workers or os.cpu_count() or 1, order.limits)
    is_whole = False
    try:
        # The bench answers Ctrl-C where it waits; at the end of the block it comes once more.
        with contextlib.suppress(KeyboardInterrupt), held_back():
            is_whole = _attacked(order, bench, bar, found)
    finally:
        bench.close()
    return is_whole


def _attacked(order: Order, bench: Bench, bar: Bar, found: Callable[[Finding], None]) -> bool:
    archive = Archive()
    begun = time.monotonic()
    searches = [(GOALS[name], is_plain) for name in order.goals for is_plain in (True, False)]
    for place, (goal, is_plain) in enumerate(searches):
        space = Space(order.where, goal.needs_others, is_plain)
        with bar(f"{goal.name} on a plain link" if is_plain else goal.name) as watch:
            ends = _ends(order, begun, [plain for _, plain in searches[place:]])
            finding = _searched(order, bench, archive, space, goal, ends, watch)
        found(finding)
        if not finding.is_whole:
            return False
    return True


def _part(is_plain: bool) -> float:
    return PLAIN_SHARE if is_plain else 1 - PLAIN_SHARE


def _ends(order: Order, begun: float, plain: Sequence[bool]) -> tuple[float | None, float | None]:
    """Return when searching and shrinking end of the first of these searches; what earlier ones left over is shared."""
    if order.budget_s is None:
        return None, None
    now = time.monotonic()
    share = (begun + order.budget_s - now) * _part(plain[0]) / sum(map(_part, plain))
    return now + SEARCH_SHARE * share, now + share


def _searched(
    order: Order,
    bench: Bench,
    archive: Archive,
    space: Space,
    goal: Goal,
    ends: tuple[float | None, float | None],
    watch: Callable[[float], None],
) -> Finding:
    first, known = bench.trials, len(archive.results)
    trials = None if order.trials is None else max(round(order.trials * _part(space.is_plain)), 1)
    best = before = near = where = shared = None
    rounds = 1
    is_whole = True
    try:
        search(
            bench, space, goal, Budget(trials, ends[0]), order.seed, archive, lambda share: watch(SEARCH_SHARE * share)
        )
        until = Budget(until=ends[1])
        worst = again(bench, goal, archive, known, ROUNDS, lambda: until.is_over)
        best = before = next(iter(worst), None)
        rounds = ROUNDS
        shared = shared_with(bench, goal, archive, known, ROUNDS)
        held = _held(bench, goal, worst)
        if held is not None:
            # Known before it is shrunk: Ctrl-C keeps it.
            before, (best, near) = held[0], held
            best, near = _shrunk(bench, goal, held, lambda: until.is_over)
            if not (best.fault or until.is_over):
                where = edges(bench, goal, best, ROUNDS, lambda: until.is_over)
    except KeyboardInterrupt:
        is_whole = False
        if best is None and len(archive.results) > known:
            best = before = archive.results[archive.worst(goal, 1, known)[0]]
    tried = bench.trials - first
    return Finding(order.candidate, goal, best, before, tried, rounds, near, where, space.is_plain, is_whole, shared)


Held = tuple[Result, Around | None]
"""A finding, with the trials around it; code that fails has none of these."""


def _held(bench: Bench, goal: Goal, worst: Sequence[Result]) -> Held | None:
    """Return the worst trial that is a finding, and holds in those around it; none: no trial is one."""
    for one in worst:
        if one.fault:
            return one, None
        if one.excess(goal) >= goal.least and (near := around(bench, goal, one)).holds:
            return one, near
    return None


def _shrunk(bench: Bench, goal: Goal, held: Held, is_over: Callable[[], bool]) -> Held:
    """Return the smallest trial found; the one that was begun with where the smaller one does not hold around it."""
    best = shrink(bench, goal, held[0], ROUNDS, is_over)
    return held if best is held[0] else _held(bench, goal, [best]) or held

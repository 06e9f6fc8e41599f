# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the studies of criteria with a candidate put in."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from perigee.engines.run.crew import Watch
from perigee.engines.run.job import Job
from perigee.errors import InputError
from perigee.evaluation.cells import again, settings_of, slug
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import HUMAN, Criterion
from perigee.evaluation.deciding import FEWEST_TO_FAIL, LOOKS, MANY, Outcome
from perigee.evaluation.further import HORIZON
from perigee.evaluation.judging import Cell, Evidence, Finding, Measured, judge, measured, not_measured, worst
from perigee.evaluation.proxied import LEFT_OUT, behind_proxy
from perigee.evaluation.rules import Verdict
from perigee.evaluation.studies import (
    Candidate,
    Order,
    conditions_of,
    experiments_of,
    key_of,
    references,
    share_left_out,
    study_of,
)
from perigee.evaluation.tables import Tables
from perigee.keeper.kept import Bar, Say, results_folder, results_of

NOT_CHOSEN = "It was not chosen (--criterion)."
FURTHER, FURTHER_LARGE = 4, 1
"""Runs of further rounds at most, as a multiple of those of all cells, and so of studies whose reduced size lacks
cells: cells beyond that stay undecided."""
ALONE = "One cell alone: its P is not corrected for the other cells. With another --seed it is a test of its own."
ONE_CELL = "left open: one cell alone, which is not beyond; the others decide as well"
SEEDS_APART = 1_000_000
"""A seed times this number is the seed of a study's further rounds, plus the number of rounds before.

First rounds beyond the study's own, as by `--rounds`, so have other draws than the evaluation's further rounds.
"""


def choose(ids: Collection[str]) -> tuple[str, ...]:
    """Return ids of criteria, checked, each once.

    Raises:
        InputError: there is no such criterion, or nothing measures any of them.

    Examples:
        >>> choose(["7.5", "5.1.1", "7.5"])
        ('7.5', '5.1.1')
    """
    known = {criterion.id: criterion for criterion in CRITERIA}
    for one in ids:
        if one not in known:
            listed = ", ".join(known)
            raise InputError(f"--criterion {one}: RFC 9743 has no such criterion; the criteria are: {listed}")
    if ids and not any(known[one].study for one in ids):
        one = next(iter(ids))
        raise InputError(f"--criterion {one}: it is not measured: {known[one].reason} Give one more that is measured")
    return tuple(dict.fromkeys(ids))


def evaluate(order: Order, bar: Bar, say: Say) -> list[Finding]:
    """Run the studies of the chosen criteria and judge them; every criterion has a finding.

    Args:
        order: what to evaluate.
        bar: shows progress.
        say: prints notes.

    Raises:
        InputError: the candidate cannot be run, or the folder has something else in it.
        RunError: a run failed, as where the candidate crashes.
        StorageError: the results cannot be written.
        InterruptedRunError: the user stopped it, and what is done is kept.
        NothingKeptError: the user stopped it, and there is no folder to keep results in.
    """
    findings: list[Finding] = []
    with results_folder(order.keep) as folder:
        for criterion in CRITERIA:
            if order.chosen and criterion.id not in order.chosen:
                findings.append(not_measured(criterion, HUMAN if criterion.reason == HUMAN else NOT_CHOSEN))
            elif order.candidate.over_quic and criterion.only_tcp:
                findings.append(not_measured(criterion, criterion.only_tcp))
            elif criterion.id == HORIZON and not (order.horizon_s or order.chosen):
                findings.append(not_measured(criterion, criterion.reason))
            elif criterion.follows:
                findings.append(_following(criterion, findings))
            elif not criterion.study:
                findings.append(not_measured(criterion, criterion.reason))
            else:
                with bar(f"{criterion.id} {criterion.title}") as watch:
                    found = _repeatable(order, left_open(order, _measured(order, criterion, folder, watch, say)))
                if order.behind_proxy:
                    behind = left_open(order, _behind(order, criterion, folder, bar, say))
                    found = dataclasses.replace(found, behind=behind)
                findings.append(found)
    return findings


def subject_of(order: Order, criterion: Criterion) -> str:
    """Return the candidate's name in figures."""
    return _name(order.candidate, criterion)


def _name(one: Candidate, criterion: Criterion) -> str:
    """Return a name in figures; a reference has one only, and is compared with itself."""
    return one.value if one.value in references(criterion) else one.label


def _tables(order: Order, criterion: Criterion, job: Job, watch: Watch, say: Say, **how: Any) -> Tables:
    """Carry out a job, and return its tables; `how` is for them."""
    names = {one.value: _name(one, criterion) for one in _alike(order, criterion)}
    return Tables(results_of(job, watch, say), names, **how)


def _alike(order: Order, criterion: Criterion) -> Sequence[Candidate]:
    """Return the congestion controls that are put into one study, the candidate among them."""
    return order.several.alike(order.candidate, criterion) if order.several else [order.candidate]


def _behind(order: Order, criterion: Criterion, folder: Path, bar: Bar, say: Say) -> Finding:
    """Return the verdict behind a proxy that uses the candidate."""
    if criterion.id in LEFT_OUT:
        return not_measured(criterion, LEFT_OUT[criterion.id])
    values = list(dict.fromkeys([*references(criterion), order.candidate.value]))
    study = behind_proxy(criterion, study_of(criterion), key_of(criterion), values)
    # Without further rounds of single cells: as many of all as a fail takes.
    settings = [*experiments_of(order, criterion), f"seed={order.seed}", f"rounds={FEWEST_TO_FAIL}"]
    job = order.job(study, settings, folder / "behind-proxy" / criterion.id)
    with bar(f"{criterion.id} behind a proxy") as watch:
        tables = _tables(order, criterion, job, watch, say, behind_proxy=True)
    return judge(criterion, tables, subject_of(order, criterion), scalable=order.candidate.scalable)


def _following(criterion: Criterion, findings: Sequence[Finding]) -> Finding:
    """Return the worst verdict of the criteria from which this one follows."""
    followed = [one for one in findings if one.criterion.id in criterion.follows]
    verdict = worst(one.verdict for one in followed)
    deciding = [one for one in followed if one.verdict is verdict]
    is_open = deciding and all(one.left_open for one in deciding)
    left = f"left open, as {', '.join(one.criterion.id for one in deciding)}" if is_open else ""
    return Finding(criterion, verdict, criterion.reason, left_open=left)


def left_open(order: Order, found: Finding) -> Finding:
    """Return a finding in which nothing passes on a part of the cells: at the reduced size other cells may fail."""
    if found.verdict is not Verdict.PASS:
        return found
    if order.cell:
        return dataclasses.replace(found, verdict=Verdict.UNDECIDED, left_open=ONE_CELL)
    if not order.quick or not share_left_out(found.criterion):
        return found
    share = 100 * (1 - share_left_out(found.criterion))
    left = f"left open: the reduced size has {share:.0f} % of the cells, none beyond; the whole size decides"
    return dataclasses.replace(found, verdict=Verdict.UNDECIDED, left_open=left)


def _repeatable(order: Order, found: Finding) -> Finding:
    """Return a finding with the command that measures the deciding cell again, with more rounds where that is open.

    One cell alone is that command already.
    """
    if order.cell:
        return dataclasses.replace(found, reason=" ".join(filter(None, (found.reason, ALONE))))
    nearest = None if found.verdict is Verdict.PASS or found.left_open else found.nearest
    if nearest is None or not (cell := nearest.deciding) or not cell.distance:
        return found
    more = cell.distance.rounds_to_decide if cell.outcome is Outcome.OPEN else math.inf
    rounds = int(more) if more <= MANY else None
    return dataclasses.replace(found, again=again(order, found.criterion, cell.words, rounds))


def _measured(order: Order, criterion: Criterion, folder: Path, watch: Watch, say: Say) -> Finding:
    """Run the study of a criterion, then further rounds of the cells that are near their thresholds; judge them."""
    only = settings_of(order, criterion, Cell(order.cell, {}, {})) if order.cell else experiments_of(order, criterion)
    settings = [*only, f"seed={order.seed}", *([f"rounds={order.rounds}"] if order.rounds else [])]
    conditions = conditions_of(order, criterion)
    settings += conditions
    known, asked = references(criterion), [one.value for one in _alike(order, criterion)]
    if not order.cell:
        settings += (f"vary.{key_of(criterion)}=+{value}" for value in sorted({*asked} - {*known}))
    scalable, scavenger = order.candidate.scalable, order.candidate.scavenger
    evidence = Evidence(criterion, subject_of(order, criterion), scalable=scalable, scavenger=scavenger)
    taken: dict[Path, Measured] = order.several.taken if order.several else {}

    def run(out: Path, settings: list[str], first_round: int = 0, left: float = math.inf) -> int:
        """Return the number of runs that were carried out: all, or none where they are more than what is left."""
        job = order.job(study_of(criterion), settings, out)
        count = len(job.plan.runs)
        if count > left:
            return 0
        if out not in taken:
            taken[out] = measured(criterion, _tables(order, criterion, job, watch, say, first_round=first_round))
        evidence.add(taken[out])
        return count

    own, every = len({*known, order.candidate.value}), len({*known, *asked})
    first = order.several.first_rounds(order.candidate, criterion) if order.several else folder
    runs = run(first / criterion.id, settings) * own // every
    further = FURTHER if order.quick or not share_left_out(criterion) else FURTHER_LARGE
    left = math.inf if order.cell else runs * further
    while cell := _next_cell(found := evidence.finding()):
        done = _rounds(cell)
        rounds = next(look for look in LOOKS if look > done) - done
        seeded = [f"seed={order.seed * SEEDS_APART + done}", f"rounds={rounds}"]
        pinned = [*settings_of(order, criterion, cell), *conditions, *seeded]
        count = run(folder / "further-rounds" / f"{slug(criterion, cell)}-{done}", pinned, done, left)
        if not count:
            break
        left -= count
    return found


def _next_cell(found: Finding) -> Cell | None:
    """Return the cell near its threshold that most likely is beyond and may have further rounds; none: no cell may."""
    return next((cell for _, cell in found.near if _rounds(cell) < LOOKS[-1]), None)


def _rounds(cell: Cell) -> int:
    return cell.distance.rounds if cell.distance else 0

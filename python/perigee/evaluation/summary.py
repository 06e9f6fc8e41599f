# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An evaluation in a few sentences, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perigee.evaluation.confirm import Repeated
from perigee.evaluation.criteria import VERSION
from perigee.evaluation.deciding import Distance, Outcome
from perigee.evaluation.judging import Cell, Figure, Finding, Judged
from perigee.evaluation.rules import CUBIC, RENO, Verdict
from perigee.evaluation.running import NOT_CHOSEN
from perigee.evaluation.studies import Candidate
from perigee.numbers import counted, decimals, for_json, number, with_spread

FORMAT = 2
"""Version of the JSON."""
MANY = 1000
"""Rounds of which no more is said."""
LEAST = 0.0001
"""Figures closer to 0 are said to be."""
CLOSED_BY = "The same command without --quick decides it (all criteria: Reno 5 min of a core, others a third more)."
"""Says how to decide what the reduced size leaves open; times as in `docs/guide/evaluate-and-attack.md`."""
SAFETY = ("5", "6.1")
"""Sections without which nothing can be said of deployment."""


@dataclass(frozen=True)
class Summary:
    """The facts that a reader wants to know first.

    Attributes:
        deploy: may it be deployed?
        where: where it holds, and where not.
        missing: what is not known.
    """

    deploy: str
    where: str
    missing: str


def summarize(candidate: Candidate, findings: Sequence[Finding]) -> Summary:
    """Return the answers of an evaluation to: may it be deployed, where, and what is missing?"""
    of = {verdict: [one for one in findings if one.verdict is verdict] for verdict in Verdict}
    near, left = ([one for one in of[Verdict.UNDECIDED] if bool(one.left_open) == is_left] for is_left in (False, True))
    unknown = [one for one in of[Verdict.UNKNOWN] if one.reason == NOT_CHOSEN]
    if of[Verdict.FAIL]:
        count = sum(one.verdict.is_judged for one in findings)
        no = "Not on the Internet: it needs ECN, and networks made for it" if candidate.scalable else "No"
        failed = of[Verdict.FAIL]
        deploy = f"{no}. {candidate.called} fails {len(failed)} of {count} criteria: {_listed(failed)}."
    elif any(one.criterion.id.startswith(SAFETY) for one in unknown):
        measured = sum(one.verdict.is_judged for one in findings)
        were = "was" if measured == 1 else "were"
        deploy = (
            f"Not judged as a whole: of {len(findings)} criteria {measured} {were} measured for {candidate.called}: "
            f"{_counts(of)}."
        )
    elif any(one.criterion.id.startswith(SAFETY) for one in near):
        deploy = f"Undecided: {candidate.called} fails no criterion, and is near a threshold of safety that scatters."
    elif left:
        deploy = f"Not decided at the reduced size. {candidate.called} fails none of its cells."
    elif candidate.name in (CUBIC, RENO) and not candidate.sha256:
        deploy = f"It is a standard. {candidate.called} fails no criterion that is measured here."
    else:
        use = "In experiments, as a scavenger" if candidate.scavenger else "In experiments"
        deploy = (
            f"{use}. {candidate.called} fails no criterion that is measured here. RFC 9743 asks for evidence "
            "from the Internet before its status can be more than Experimental."
        )
    environments = [one for one in findings if one.criterion.id[0] in "67" and one.verdict.is_judged]
    holds = sum(one.verdict is Verdict.PASS for one in environments)
    where = []
    if environments:
        where.append(f"It meets the thresholds of {holds} of {counted(len(environments), 'measured environment')}.")
    if of[Verdict.DOCUMENT]:
        where.append(f"Not met, and to be documented: {_listed(of[Verdict.DOCUMENT])}.")
    missing = [f"Not measured: {_listed(of[Verdict.UNKNOWN])}."] if of[Verdict.UNKNOWN] else ["Nothing."]
    if of[Verdict.NOT_JUDGED]:
        missing.append(f"Measured and not judged, as a scavenger's own: {_listed(of[Verdict.NOT_JUDGED])}.")
    if near:
        missing.append(f"Undecided, with an interval about a threshold: {_listed(near)}.")
    if left:
        missing.append(left_words(left))
    return Summary(deploy, " ".join(where), " ".join(missing))


def left_words(findings: Sequence[Finding]) -> str:
    """Return which criteria the reduced size leaves open, and what closes them; empty: none."""
    left = [one for one in findings if one.left_open]
    return f"Left open, since the reduced size has a part of the cells: {_listed(left)}. {CLOSED_BY}" if left else ""


def key_figure(found: Finding) -> str:
    """Return the figure of the measure that the verdict rests on, with what is allowed; why there is none.

    It is that of the worst cell. Where another one decides, that comes first.
    """
    nearest = found.nearest
    if nearest is None or nearest.worst is None or nearest.measure.rule is None:
        return found.left_open or found.reason
    decides = nearest.deciding
    is_other = decides is not None and decides is not nearest.worst
    if decides and is_other and decides.outcome is Outcome.BEYOND:
        is_open = ", undecided" if nearest.worst.outcome is Outcome.OPEN else ""
        furthest = f"{nearest.worst.words}: {_beside_allowed(nearest, nearest.worst)}"
        return (
            f"{nearest.measure.title}: decided by {_of_cell(nearest, decides)}; "
            f"worst mean of {counted(found.tested, 'cell')}{is_open}: {furthest}"
        )
    said = f"{nearest.measure.title}: {_beside_allowed(nearest, nearest.worst)}"
    if certainty := certainty_of(nearest.worst):
        said += f"; worst of {counted(found.tested, 'cell')}, {certainty}"
    if found.left_open:
        return f"{said}; {found.left_open}"
    if decides and is_other and decides.outcome is Outcome.OPEN:
        return f"{said}; undecided in {_of_cell(nearest, decides)}"
    return said


def decided_by(judged: Judged) -> str:
    """Return the cell that decides that a measure is beyond its threshold; a dash where none does."""
    cell = judged.deciding
    if cell is None or cell.outcome is not Outcome.BEYOND:
        return "–"
    return "the worst case" if cell is judged.worst else _of_cell(judged, cell)


def _of_cell(judged: Judged, cell: Cell) -> str:
    return f"{cell.words}: {_beside_allowed(judged, cell)}, {certainty_of(cell)}"


def _beside_allowed(judged: Judged, cell: Cell) -> str:
    unit = f" {judged.measure.unit}" if judged.measure.unit else ""
    return f"{figure_of(cell.figures[judged.subject])}{unit}; allowed: {allowed(judged, cell)}{unit}"


def beyond_of(judged: Judged) -> str:
    """Return in how many cells the subject is beyond its threshold: decided, and by its mean only."""
    more = f", {judged.beyond_by_mean} by mean only" if judged.beyond_by_mean else ""
    return f"{judged.beyond} decided{more}, of {len(judged.cells)}"


def longest_run_s(findings: Sequence[Finding]) -> float:
    """Return the length of the longest run that was carried out, s; 0: none was."""
    return max((one.longest_s for found in findings for one in (found, found.behind) if one), default=0.0)


def scope(findings: Sequence[Finding]) -> str:
    """Return what an evaluation covered: version of the criteria, cells, rounds, and the longest run."""
    far = [cell.distance for found in findings for one in found.measures for cell in one.cells if cell.distance]
    if not far:
        return f"Criteria, version {VERSION}."
    fewest, most = (pick(one.rounds for one in far) for pick in (min, max))
    rounds = f"{fewest} to {most}" if most > fewest else str(most)
    longest = longest_run_s(findings)
    lasted = f", the longest run {number(longest, 0)} s" if longest else ""
    return f"Criteria, version {VERSION}: {counted(len(far), 'cell')}, {rounds} rounds each{lasted}."


def alike(candidate: Candidate, findings: Sequence[Finding]) -> str:
    """Return in how many cells the candidate's figures are those of a standard, to all digits; empty if in few."""
    cells = [(one, cell) for found in findings for one in found.measures for cell in one.cells]
    for name in (CUBIC, RENO):
        both = [(one, cell) for one, cell in cells if name in cell.figures and one.subject in cell.figures]
        same = sum(cell.figures[name] == cell.figures[one.subject] for one, cell in both)
        if name != candidate.value and 2 * same > len(both):
            return f"As {name} in {same} of {len(both)} cells."
    return ""


def certainty_of(cell: Cell) -> str:
    """Return how sure the outcome of a cell is: its rounds, P, and for an open one the rounds that would decide it.

    Examples:
        >>> certainty_of(Cell("", {}, {}, 1.0, Distance(0.1, 0.5, 24, 0.3)))
        '24 rounds, P = 0.30; undecided: about 136 rounds would decide it'
        >>> certainty_of(Cell("", {}, {}, 1.0, Distance(-0.9, 0.0, 3, 1.0)))
        '3 rounds, all alike'
        >>> certainty_of(Cell("", {}, {}, 1.0, Distance(-0.9, 0.1, 3, 1.0)))
        '3 rounds'
    """
    far = cell.distance
    if far is None or far.p is None:
        return ""
    if far.deviation == 0:
        return f"{far.rounds} rounds, all alike"
    if far.outcome is Outcome.WITHIN:
        return f"{far.rounds} rounds"
    p = "< 0.001" if far.p < 0.001 else f"= {number(far.p, 3 if far.p < 0.1 else 2)}"
    said = f"{far.rounds} rounds, P {p}"
    if far.outcome is Outcome.BEYOND:
        return said
    rounds = far.rounds_to_decide
    many = f"about {rounds:.0f}" if rounds <= MANY else f"more than {MANY}"
    return f"{said}; undecided: {many} rounds would decide it"


def allowed(judged: Judged, cell: Cell) -> str:
    """Return the bound of a figure in a cell; empty without one.

    Examples:
        >>> from perigee.evaluation.criterion import Measure
        >>> from perigee.evaluation.rules import Rule
        >>> measure = Measure("Wait", "ms", lambda tables: tables, Rule("at most 5 ms", limit=5))
        >>> allowed(Judged(measure, "mine", []), Cell("", {}, {}, 5.0))
        'at most 5.0'
    """
    rule = judged.measure.rule
    if rule is None or cell.bound is None:
        return ""
    return f"{'at most' if rule.at_most else 'at least'} {figure_of(Figure(cell.bound, None, 1))}"


def figure_of(value: Figure) -> str:
    """Return a mean with its interval; with the range of its rounds where that interval, and no round, is below 0.

    Examples:
        >>> figure_of(Figure(12.345, 0.1, 3)), figure_of(Figure(0.0, None, 1)), figure_of(Figure(2.7e-5, None, 1))
        ('12.3 ± 0.1', '0.0', '<0.0001')
        >>> figure_of(Figure(39.8, 110.6, 3, (10.0, 91.25)))
        '39.8 (10.0 to 91.2)'
    """
    if not math.isfinite(value.mean):
        return "–"
    if value.half_width is None and 0 < abs(value.mean) < LEAST:
        return f"<{LEAST}"
    if value.ends and value.half_width is not None and value.ends[0] >= 0 > value.mean - value.half_width:
        digits = decimals(1, value.mean)
        least, most = (number(end, digits) for end in value.ends)
        return f"{number(value.mean, digits)} ({least} to {most})"
    return with_spread(value.mean, value.half_width)


def times(value: float) -> str:
    """Return a multiple of the threshold for people.

    Examples:
        >>> times(0.5), times(2.7e-5), times(123.4), times(math.inf)
        ('0.50', '<0.01', '123', 'beyond any')
    """
    if not math.isfinite(value):
        return "beyond any"
    return "<0.01" if 0 < value < 0.01 else number(value, 0 if value >= 10 else 2)


def exit_code(findings: Sequence[Finding]) -> int:
    """Return the exit code for automatic checks: 1 if a criterion fails."""
    return int(any(one.verdict is Verdict.FAIL for one in findings))


def as_json(
    candidate: Candidate, findings: Sequence[Finding], *, quick: bool, repeated: Sequence[Repeated] = ()
) -> dict[str, Any]:
    """Return an evaluation as plain data; without repeated cells it has nothing of the time, the host or a path."""
    summary = summarize(candidate, findings)
    return {
        "format": FORMAT,
        "evaluates": "RFC 9743",
        "criteria_version": VERSION,
        "longest_run_s": for_json(longest_run_s(findings)) or None,
        "transport": candidate.transport,
        "candidate": {"name": candidate.name, "title": candidate.title, "sha256": candidate.sha256 or None},
        "size": "quick" if quick else "whole",
        "verdicts": {str(verdict): sum(one.verdict is verdict for one in findings) for verdict in Verdict},
        "may_be_deployed": summary.deploy,
        "where": summary.where,
        "missing": summary.missing,
        "criteria": [_finding(one) for one in findings],
        "emulated": [_repeated(one) for one in repeated],
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "id": found.criterion.id,
        "title": found.criterion.title,
        "level": found.criterion.level,
        "asks": found.criterion.asks,
        "study": found.criterion.study or None,
        "verdict": str(found.verdict),
        "cells_tested": found.tested,
        "reason": found.reason or None,
        "left_open": found.left_open or None,
        "measures": [_judged(one) for one in found.measures],
        "behind_proxy": _behind(found.behind) if found.behind else None,
    }


def _behind(found: Finding) -> dict[str, Any]:
    return {
        "verdict": str(found.verdict),
        "reason": found.reason or None,
        "measures": [_judged(one) for one in found.measures],
    }


def _repeated(one: Repeated) -> dict[str, Any]:
    return {
        "criterion": one.criterion.id,
        "measure": one.judged.measure.title,
        "unit": one.judged.measure.unit,
        "subject": one.judged.subject,
        "kernel": one.kernel,
        "agrees": one.agrees,
        "said": one.sentence,
        "simulated": _cell(one.simulated),
        "emulated": _cell(one.emulated) if one.emulated else None,
    }


def _judged(judged: Judged) -> dict[str, Any]:
    rule = judged.measure.rule
    return {
        "title": judged.measure.title,
        "unit": judged.measure.unit,
        "threshold": rule.words if rule else None,
        "owner": rule.owner if rule else None,
        "verdict": str(judged.verdict) if judged.verdict else None,
        "reason": judged.reason or None,
        "subject": judged.subject,
        "worst_cell": judged.worst.words if judged.worst else None,
        "deciding_cell": judged.deciding.words if judged.deciding else None,
        "cells_beyond": judged.beyond,
        "cells_beyond_by_mean_only": judged.beyond_by_mean,
        "cells": [_cell(cell) for cell in judged.cells],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "cell": cell.words,
        "figures": {name: _figure(figure) for name, figure in cell.figures.items()},
        "times_threshold": {name: for_json(times) for name, times in cell.times_beyond.items()},
        "threshold": for_json(cell.bound),
        "beyond": _distance(cell.distance) if cell.distance else None,
    }


def _distance(far: Distance) -> dict[str, Any]:
    """Return how far a figure is beyond its threshold, with the interval that decides."""
    return {
        "outcome": str(far.outcome),
        "mean": for_json(far.mean),
        "half_width": for_json(far.half_width),
        "level": for_json(1 - 2 * far.level),
        "p": for_json(far.p),
        "rounds": far.rounds,
        "rounds_to_decide": for_json(far.rounds_to_decide) if far.outcome is Outcome.OPEN else None,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    half = for_json(figure.half_width)
    return {"mean": for_json(figure.mean), "half_width_95": half, "rounds": figure.rounds}


def _counts(of: Mapping[Verdict, Sequence[Finding]]) -> str:
    """Return how many criteria have each verdict."""
    words = {
        Verdict.PASS: "passed",
        Verdict.FAIL: "failed",
        Verdict.DOCUMENT: "not met, to be documented",
        Verdict.UNDECIDED: "undecided",
    }
    return "; ".join(f"{len(of[verdict])} {word}" for verdict, word in words.items())


def _listed(findings: Sequence[Finding]) -> str:
    return ", ".join(one.criterion.id for one in findings)

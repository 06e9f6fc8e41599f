# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An evaluation in a few sentences, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perigee.evaluation.confirm import Repeated
from perigee.evaluation.criteria import VERSION
from perigee.evaluation.deciding import FEWEST_TO_FAIL, MANY, Distance, Outcome
from perigee.evaluation.judging import Cell, Figure, Finding, Judged
from perigee.evaluation.rules import CUBIC, RENO, Verdict
from perigee.evaluation.running import ALONE, NOT_CHOSEN, ONE_CELL
from perigee.evaluation.studies import Candidate
from perigee.numbers import counted, decimals, for_json, number, with_spread
from perigee.version import __version__

FORMAT = 2
"""Version of the JSON."""
LEAST = 0.0001
"""Figures closer to 0 are said to be."""
MOST_SHOWN = 3
"""Findings with a sentence on the first screen."""
CLOSED_BY = "The same command without --quick decides it (all criteria: Reno 5 min of a core, others a third more)."
"""Says how to decide what the reduced size leaves open; times as in `docs/guide/evaluate-and-attack.md`."""
P_OF = "P: the chance of a figure as far beyond if it lay at its threshold"
P_IS = f"{P_OF}, for all figures of its criterion (Holm)."
SAFETY = ("5", "6.1")
"""Sections without which nothing can be said of an algorithm as a whole."""
THRESHOLDS = (
    "RFC 9743 sets no thresholds, and leaves to its community what follows from a figure. Thresholds are this tool's, "
    "some after documents, which the tables of a page name."
)
CONTROLLED = "It needs ECN, and networks made for it (RFC 9743, 4, to which these criteria might not apply)."
EXPERIMENTAL = (
    "Nothing here is evidence from the Internet, without which RFC 9743 (3.2) has an algorithm for general use seek "
    "Experimental status."
)


@dataclass(frozen=True)
class Summary:
    """The facts that a reader wants to know first.

    Attributes:
        answer: what it fails, or why that is not known. It is no word on deployment: that is the community's.
        where: where it holds, and where not.
        missing: what is not known.
    """

    answer: str
    where: str
    missing: str


def summarize(candidate: Candidate, findings: Sequence[Finding]) -> Summary:
    """Return what a reader asks of an evaluation first: what fails, where it holds, and what is missing."""
    of = {verdict: [one for one in findings if one.verdict is verdict] for verdict in Verdict}
    near, left = ([one for one in of[Verdict.UNDECIDED] if bool(one.left_open) == is_left] for is_left in (False, True))
    environments = [one for one in findings if one.criterion.id[0] in "67" and one.verdict.is_judged]
    holds = sum(one.verdict is Verdict.PASS for one in environments)
    where = []
    if special := [one for one in of[Verdict.FAIL] if one.criterion.id[0] == "7"]:
        where.append(
            f"In special cases ({_listed(special)}) the community MAY let it progress nonetheless (RFC 9743, 7)."
        )
    if environments:
        where.append(f"It meets the thresholds of {holds} of {counted(len(environments), 'measured environment')}.")
    if of[Verdict.DOCUMENT]:
        where.append(f"Not met, and to be documented: {_listed(of[Verdict.DOCUMENT])}.")
    missing = [f"Not measured: {_listed(of[Verdict.UNKNOWN])}."] if of[Verdict.UNKNOWN] else ["Nothing."]
    if of[Verdict.NOT_JUDGED]:
        missing.append(f"Measured and not judged, as a scavenger's own: {_listed(of[Verdict.NOT_JUDGED])}.")
    if near:
        missing.append(f"Undecided, with an interval about a threshold: {_listed(near)}.")
    missing.append(left_words(left))
    return Summary(_answer(candidate, findings, of, near, left), " ".join(where), " ".join(filter(None, missing)))


def _answer(
    candidate: Candidate,
    findings: Sequence[Finding],
    of: Mapping[Verdict, Sequence[Finding]],
    near: Sequence[Finding],
    left: Sequence[Finding],
) -> str:
    """Return what an algorithm fails; `near` and `left` are undecided by an interval, and by the cells that lack."""
    called = f"{candidate.called} as a scavenger" if candidate.scavenger else candidate.called
    not_chosen = [one for one in of[Verdict.UNKNOWN] if one.reason == NOT_CHOSEN]
    if of[Verdict.FAIL]:
        lead = f"{CONTROLLED} " if candidate.scalable else ""
        return f"{lead}{called} {_failed(of[Verdict.FAIL], findings)}"
    if any(one.criterion.id.startswith(SAFETY) for one in not_chosen):
        measured = sum(one.verdict.is_judged for one in findings)
        were = "was" if measured == 1 else "were"
        counts = f"of {len(findings)} criteria {measured} {were} measured for {called}: {_counts(of)}"
        return f"Not judged as a whole: {counts}."
    if any(one.criterion.id.startswith(SAFETY) and _may_fail(one) for one in near):
        return f"Undecided: {called} fails no criterion, and is near a threshold of safety that scatters."
    if left:
        return f"Not decided at the reduced size. {called} fails none of its cells."
    if candidate.name in (CUBIC, RENO) and not candidate.sha256:
        return f"{called} is on the standards track, and fails no criterion that is measured here."
    lead = f"{CONTROLLED} " if candidate.scalable else ""
    return f"{lead}{called} fails no criterion that is measured here. {EXPERIMENTAL}"


def _may_fail(found: Finding) -> bool:
    """Return whether a figure is open that would fail, and not be one to document."""
    rules = (one.measure.rule for one in found.measures if one.verdict is Verdict.UNDECIDED)
    return any(rule.missed is Verdict.FAIL for rule in rules if rule)


def _failed(failed: Sequence[Finding], findings: Sequence[Finding]) -> str:
    """Return which criteria fail, those of the RFC apart from further ones; one that follows from others is no more."""
    own = [one for one in failed if not one.criterion.follows]
    of_rfc, further = ([one for one in own if one.criterion.is_further == is_one] for is_one in (False, True))
    measured = [
        one for one in findings if one.verdict.is_judged and not one.criterion.is_further and not one.criterion.follows
    ]
    said = (
        [f"fails {len(of_rfc)} of {len(measured)} measured criteria of RFC 9743: {_listed(of_rfc)}"] if of_rfc else []
    )
    if len(own) < len(failed):
        said.append(f"and so {_listed([one for one in failed if one.criterion.follows])}")
    if further:
        said.append(f"{'and ' if of_rfc else 'fails '}{_listed(further)} beside the RFC")
    return f"{', '.join(said)}."


def left_words(findings: Sequence[Finding]) -> str:
    """Return which criteria the reduced size leaves open, and what closes them; empty: none."""
    left = [one for one in findings if one.left_open and one.left_open != ONE_CELL]
    return f"Left open, since the reduced size has a part of the cells: {_listed(left)}. {CLOSED_BY}" if left else ""


def foremost(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings to look at first: a few that fail; where none does, that are open, else to be documented."""
    return _ordered(findings)[:MOST_SHOWN]


def not_shown(findings: Sequence[Finding]) -> str:
    """Return how many more than the foremost there are, and how those were chosen; empty: none."""
    ordered = _ordered(findings)
    left = ordered[MOST_SHOWN:]
    if not left:
        return ""
    chosen = (
        f"Shown are the first {MOST_SHOWN} of {len(ordered)}: those of the RFC, the furthest beyond its threshold first"
    )
    return f"{chosen}. {_listed(left)}: each with its command on the page, further down."


def _ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of the gravest verdict: those of the RFC first, then those furthest beyond thresholds."""
    for verdict in (Verdict.FAIL, Verdict.UNDECIDED, Verdict.DOCUMENT):
        of_it = [one for one in findings if one.verdict is verdict and not one.left_open]
        measured = [(one, judged.times) for one in of_it if (judged := one.nearest)]
        if measured:
            return [one for one, _ in sorted(measured, key=lambda pair: (pair[0].criterion.is_further, -pair[1]))]
    return []


def repeats(findings: Sequence[Finding]) -> list[str]:
    """Return the commands that measure again the cells of what is to be looked at first."""
    return [f"{one.criterion.id}, that cell again: {one.again}" for one in foremost(findings) if one.again]


def key_figure(found: Finding, *, is_brief: bool = False) -> str:
    """Return the figure of the measure that the verdict rests on, with what is allowed; why there is none.

    It is that of the worst cell. Where another one decides, that comes first; in brief the worst one has no words.
    """
    nearest = found.nearest
    if nearest is None or nearest.worst is None or nearest.measure.rule is None:
        return found.left_open or found.reason
    decides = nearest.deciding
    is_other = decides is not None and decides is not nearest.worst
    tested = counted(found.tested, "figure")
    if decides and is_other and decides.outcome is Outcome.BEYOND:
        sure = f"surest of {tested}: {decides.words}, {_certainty(nearest, decides)}"
        worst = f"worst mean{_open_yet(nearest.worst)}: {_beside_allowed(nearest, nearest.worst)}"
        where = "" if is_brief else f", {nearest.worst.words}"
        return f"{nearest.measure.title}: {_beside_allowed(nearest, decides)}; {sure}; {worst}{where}"
    said = f"{nearest.measure.title}: {_beside_allowed(nearest, nearest.worst)}"
    if certainty := _certainty(nearest, nearest.worst):
        said += f"; worst of {tested}: {nearest.worst.words}, {certainty}"
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
    return f"{cell.words}: {_beside_allowed(judged, cell)}, {_certainty(judged, cell)}"


def _open_yet(cell: Cell) -> str:
    """Return why a cell is open; empty where it is not. Rounds that change no verdict are not added."""
    if cell.outcome is not Outcome.OPEN or not cell.distance:
        return ""
    few = cell.distance.rounds < FEWEST_TO_FAIL
    return f", of {cell.distance.rounds} rounds only" if few else ", undecided"


def _certainty(judged: Judged, cell: Cell) -> str:
    """Return how sure an outcome is, with the distance that is tested where the figure's interval has the threshold.

    The test is one-sided, and rounds of the candidate and its reference are alike: the distance scatters less.
    """
    said, far = certainty_of(cell), cell.distance
    figure = cell.figures.get(judged.subject)
    if far is None or figure is None or not figure.half_width or cell.bound is None or far.outcome is Outcome.OPEN:
        return said
    if abs(figure.mean - cell.bound) > figure.half_width:
        return said
    side, half = ("within", far.half_width_within) if far.outcome is Outcome.WITHIN else ("beyond", far.half_width)
    unit = f" {judged.measure.unit}" if judged.measure.unit else ""
    return f"{said}, tested distance {with_spread(abs(far.mean), half)}{unit} {side}"


def _beside_allowed(judged: Judged, cell: Cell) -> str:
    unit = f" {judged.measure.unit}" if judged.measure.unit else ""
    said = f"{figure_of(cell.figures[judged.subject])}{unit}; allowed: {allowed(judged, cell)}{unit}"
    rule = judged.measure.rule
    if rule is None or rule.of_cubic is None or cell.bound is None:
        return said
    # The reference that the bound is a multiple of: 30 % may be allowed since a standard loses 15 % there.
    sets = (
        "its own figure sets that" if name == judged.subject else f"{name}: {figure_of(cell.figures[name])}"
        for name in rule.references
        if name in cell.figures and math.isclose(rule.of_cubic * cell.figures[name].mean, cell.bound)
    )
    return f"{said} ({one})" if (one := next(sets, "")) else said


def beyond_of(judged: Judged) -> str:
    """Return in how many cells the subject is beyond its threshold: decided, and by its mean only."""
    more = f", {judged.beyond_by_mean} by mean only" if judged.beyond_by_mean else ""
    return f"{judged.beyond} decided{more}, of {len(judged.cells)}"


def longest_run_s(findings: Sequence[Finding]) -> float:
    """Return the length of the longest run that was carried out, s; 0: none was."""
    return max((one.longest_s for found in findings for one in (found, found.behind) if one), default=0.0)


def scope(findings: Sequence[Finding]) -> str:
    """Return what an evaluation covered: version of the criteria, cells, rounds, the longest run, and what P is."""
    judged = [
        (found.criterion.id, cell.words, cell.distance)
        for found in findings
        for one in found.measures
        for cell in one.cells
        if cell.distance
    ]
    far = [distance for _, _, distance in judged]
    made = f"Simulated by Perigee {__version__}; criteria, version {VERSION}"
    if not far:
        return f"{made}."
    fewest, most = (pick(one.rounds for one in far) for pick in (min, max))
    rounds = f"{fewest} to {most}" if most > fewest else str(most)
    longest = longest_run_s(findings)
    lasted = f", the longest run {number(longest, 0)} s" if longest else ""
    cells = counted(len({(section, words) for section, words, _ in judged}), "cell")
    p_is = f"{P_OF}, for the figures of this cell." if any(ALONE in one.reason for one in findings) else P_IS
    return f"{made}: {counted(len(far), 'figure')} of {cells}, {rounds} rounds each{lasted}. {p_is}"


def alike(candidate: Candidate, findings: Sequence[Finding]) -> str:
    """Return in how many cells the candidate's figures are those of a standard, to all digits; empty if in few."""
    cells = [(one, cell) for found in findings for one in found.measures for cell in one.cells]
    for name in (CUBIC, RENO):
        both = [(one, cell) for one, cell in cells if name in cell.figures and one.subject in cell.figures]
        same = sum(cell.figures[name] == cell.figures[one.subject] for one, cell in both)
        if name != candidate.value and 2 * same > len(both):
            return f"As {name} in {same} of {len(both)} cells."
    return ""


def by_construction(candidate: Candidate, findings: Sequence[Finding]) -> str:
    """Return how many figures of a reference are held against themselves, which it cannot miss; empty of others."""
    measures = (one for found in findings for one in found.measures for cell in one.cells if cell.distance)
    judged = [one.measure.rule for one in measures if one.measure.rule]
    own = sum(candidate.value in rule.references for rule in judged)
    if not own:
        return ""
    return f"{own} of {len(judged)} figures are held against its own: it passes those by construction."


def certainty_of(cell: Cell) -> str:
    """Return how sure the outcome of a cell is: its rounds, P, and for an open one the rounds that would decide it.

    Examples:
        >>> certainty_of(Cell("", {}, {}, 1.0, Distance(0.1, 0.5, 24, 0.3)))
        '24 rounds, P = 0.30; undecided: if that is its mean, about 251 rounds would decide it'
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
    # A mean within its threshold has nothing beyond it to be sure of.
    said = f"{far.rounds} rounds, P {p}" if far.mean > 0 else f"{far.rounds} rounds"
    if far.outcome is Outcome.BEYOND:
        return said
    rounds = far.rounds_to_decide
    if rounds > MANY:
        return f"{said}; undecided: it lies at its threshold, and more than {MANY} rounds would decide it"
    return f"{said}; undecided: if that is its mean, about {rounds:.0f} rounds would decide it"


def allowed(judged: Judged, cell: Cell) -> str:
    """Return the bound of a figure in a cell; empty without one.

    Examples:
        >>> from perigee.evaluation.criterion import Measure
        >>> from perigee.evaluation.rules import Rule
        >>> measure = Measure("Wait", "ms", lambda tables: tables, Rule("at most 5 ms", limit=5))
        >>> allowed(Judged(measure, "mine", []), Cell("", {}, {}, 5.0))
        'at most 5.0'
        >>> allowed(Judged(measure, "mine", []), Cell("", {}, {}, 1.25))
        'at most 1.25'
    """
    rule = judged.measure.rule
    if rule is None or cell.bound is None:
        return ""
    return f"{'at most' if rule.at_most else 'at least'} {_bound_of(cell.bound)}"


def _bound_of(bound: float) -> str:
    """Return a bound to a thousandth of itself, so that no figure seems to be on its other side."""
    least, said = (figure_of(Figure(bound, None, 1)), (number(bound, digits) for digits in range(1, 5)))
    exact = (text for digits, text in enumerate(said, 1) if abs(round(bound, digits) - bound) <= abs(bound) / 1000)
    return next(exact, least)


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
    candidate: Candidate,
    findings: Sequence[Finding],
    *,
    quick: bool,
    repeated: Sequence[Repeated] = (),
    cell: str = "",
    rounds: int | None = None,
) -> dict[str, Any]:
    """Return an evaluation as plain data; without repeated cells it has nothing of the time or the host.

    Args:
        candidate: the congestion control.
        findings: of all criteria.
        quick: whether the studies had their reduced sizes.
        repeated: cells that were repeated on the emulator.
        cell: the only cell that was measured, in words; empty: all.
        rounds: number of its first rounds, where that was given.
    """
    summary = summarize(candidate, findings)
    return {
        "format": FORMAT,
        "evaluates": "RFC 9743",
        "program": f"Perigee {__version__}",
        "criteria_version": VERSION,
        "longest_run_s": for_json(longest_run_s(findings)) or None,
        "transport": candidate.transport,
        "candidate": {"name": candidate.name, "title": candidate.title, "sha256": candidate.sha256 or None},
        "size": "cell" if cell else "quick" if quick else "whole",
        "cell": cell or None,
        "rounds": rounds,
        "verdicts": {str(verdict): sum(one.verdict is verdict for one in findings) for verdict in Verdict},
        "answer": summary.answer,
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
        "again": found.again or None,
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

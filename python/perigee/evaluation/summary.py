# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An evaluation in a few sentences, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perigee.evaluation.confirm import Repeated
from perigee.evaluation.judging import Cell, Figure, Finding, Judged
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import NOT_CHOSEN, Candidate

FORMAT = 1
"""Version of the JSON."""
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
    unknown = [one for one in of[Verdict.UNKNOWN] if one.reason == NOT_CHOSEN]
    if of[Verdict.FAIL]:
        deploy = f"No. {candidate.name} fails {_listed(of[Verdict.FAIL])}."
    elif any(one.criterion.id.startswith(SAFETY) for one in unknown):
        measured = len(findings) - len(of[Verdict.UNKNOWN])
        deploy = (
            f"Undecided: {measured} of {len(findings)} criteria were measured, and {candidate.name} fails none of them."
        )
    else:
        deploy = (
            f"In experiments. {candidate.name} fails no criterion that is measured here. RFC 9743 asks for evidence "
            "from the Internet before its status can be more than Experimental."
        )
    environments = [one for one in findings if one.criterion.id[0] in "67"]
    holds = [one for one in environments if one.verdict is Verdict.PASS]
    warned = of[Verdict.DOCUMENT]
    where = [f"Thresholds are met for {_listed(holds)}." if holds else "It meets the thresholds of no environment."]
    if warned:
        where.append(f"Not met, and to be documented: {_listed(warned)}.")
    missing = [f"Not measured: {_listed(of[Verdict.UNKNOWN], short=True)}."] if of[Verdict.UNKNOWN] else ["Nothing."]
    near = [one for one in findings if one.near]
    if near:
        missing.append(f"Close to a threshold, within 10\u00a0%: {_listed(near, short=True)}.")
    return Summary(deploy, " ".join(where), " ".join(missing))


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
        "close": found.near,
        "reason": found.reason or None,
        "measures": [_judged(one) for one in found.measures],
        "behind_proxy": _behind(found.behind) if found.behind else None,
    }


def _behind(found: Finding) -> dict[str, Any]:
    return {
        "verdict": str(found.verdict),
        "close": found.near,
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
        "close": judged.near,
        "subject": judged.subject,
        "worst_cell": judged.worst.words if judged.worst else None,
        "cells_beyond": judged.beyond,
        "cells": [_cell(cell) for cell in judged.cells],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "cell": cell.words,
        "figures": {name: _figure(figure) for name, figure in cell.figures.items()},
        "times_threshold": {name: _number(times) for name, times in cell.times_beyond.items()},
    }


def _figure(figure: Figure) -> dict[str, Any]:
    half = None if figure.half_width is None else _number(figure.half_width)
    return {"mean": _number(figure.mean), "half_width_95": half, "rounds": figure.rounds}


def _number(value: float) -> float | None:
    """Return a number of six digits, which JSON can have; none for what is not finite.

    Examples:
        >>> _number(1.23456789), _number(math.inf)
        (1.23457, None)
    """
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _listed(findings: Sequence[Finding], *, short: bool = False) -> str:
    return ", ".join(one.criterion.id if short else f"{one.criterion.id} {one.criterion.title}" for one in findings)

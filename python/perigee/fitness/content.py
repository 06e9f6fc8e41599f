# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A score for programs: plain data, the same for the same file, without times, hosts or seeds."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from statistics import fmean
from typing import Any

from perigee.evaluation.rules import OURS
from perigee.fitness.marks import Marked, criteria_failed, score_of
from perigee.fitness.references import digest
from perigee.fitness.running import SCORED, Scored
from perigee.numbers import for_json
from perigee.version import __version__

FORMAT = 1
"""Version of the JSON."""


def content(scored: Scored) -> dict[str, Any]:
    """Return a candidate's score; `docs/reference/score.md` says what each key is."""
    is_whole = scored.status == SCORED
    return {
        "format": FORMAT,
        "version": __version__,
        "cells": digest(),
        "file": scored.file,
        "name": scored.name or None,
        "title": scored.title or None,
        "sha256": scored.sha256 or None,
        "status": scored.status,
        "error": scored.error or None,
        "place": scored.place or None,
        "compiles_for_kernel": scored.for_kernel,
        "messages": [asdict(one) for one in scored.messages],
        "score": for_json(score_of(scored.found)) if is_whole else None,
        "fails": criteria_failed(scored.found),
        "criteria": [
            _criterion(criterion, list(found))
            for criterion, found in groupby(scored.found, lambda one: one.cell.criterion)
        ],
        "harm": _harm(scored),
    }


def _criterion(criterion: str, found: list[Marked]) -> dict[str, Any]:
    return {
        "id": criterion,
        "score": for_json(fmean(one.score for one in found)),
        "figures": [_figure(one) for one in found],
    }


def _figure(found: Marked) -> dict[str, Any]:
    return {
        "cell": found.cell.name,
        "name": found.mark.name,
        "title": found.mark.title,
        "unit": found.mark.unit or None,
        "better": "lower" if found.mark.rule.at_most else "higher",
        "mean": for_json(fmean(found.values)),
        "rounds": [for_json(value) for value in found.values],
        "threshold": found.mark.rule.words,
        "owner": found.mark.rule.owner or OURS,
        "bound": for_json(found.bound),
        "verdict": str(found.verdict),
        "margin": for_json(found.margin),
        "score": for_json(found.score),
        "relative": {name: for_json(value) for name, value in found.relative.items()},
    }


def _harm(scored: Scored) -> dict[str, Any] | None:
    if scored.harm is None:
        return None
    shown = scored.harm.marked
    return {
        "criterion": shown.cell.criterion,
        "cell": shown.cell.name,
        "figure": shown.mark.name,
        "length_s": scored.harm.length_s,
        "sentence": scored.harm.sentence,
        "study": scored.harm.study,
    }

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One cell of a criterion's study, as settings of that study."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perigee.engines.plan.native import native_plan
from perigee.errors import InputError
from perigee.evaluation.criterion import OTHER, Criterion, Measure
from perigee.evaluation.further import HORIZON
from perigee.evaluation.studies import SCAVENGERS, key_of, study_of
from perigee.evaluation.tables import CANDIDATES, words_of
from perigee.store.points import EXPERIMENT, as_text, named

if TYPE_CHECKING:
    from perigee.evaluation.judging import Cell
    from perigee.evaluation.studies import Order

MOST_LISTED = 6
"""Cells that a message has."""


def settings_of(order: Order, criterion: Criterion, cell: Cell, measure: Measure | None = None) -> list[str]:
    """Return the settings that leave of a study one cell, the candidate, and what sets its thresholds.

    Args:
        order: what is evaluated.
        criterion: whose study it is.
        cell: the cell.
        measure: the measure that needs the cell, with the values that it compares; none: all measures of the criterion.

    Raises:
        InputError: its words are those of no cell, or of several.
    """
    point = _point(order, criterion, cell.words)
    compared = {one.compares for one in ([measure] if measure else criterion.measures)}
    references = itertools.chain.from_iterable(one.rule.references for one in criterion.measures if one.rule)
    twin = [str(value) for each, value in point.items() if each == "flows.other.cc" and OTHER in compared]
    candidates = dict.fromkeys([order.candidate.value, *references, *twin])
    settings = [f"vary.{key_of(criterion)}={','.join(candidates)}"]
    for each, value in named(point).items():
        if each == EXPERIMENT:
            settings.append(f"experiments={value}")
        elif each not in CANDIDATES and each not in compared:
            settings.append(f"vary.{each}={as_text(value)}")
    return settings


def again(order: Order, criterion: Criterion, words: str, rounds: int | None = None) -> str:
    """Return the command that measures one cell again, with the same seed, in the folder where that was given.

    Its first rounds are those of the evaluation; `--rounds` beyond these have other draws than the evaluation's further
    rounds.

    Args:
        order: what was evaluated, and how.
        criterion: whose cell it is.
        words: the cell.
        rounds: number of its first rounds; none: the study's, and as many more as decide it, as in the evaluation.
    """
    one = order.candidate
    options = {
        "--criterion": criterion.id,
        "--cell": words,
        "--rounds": rounds,
        "--seed": None if order.seed == 1 else order.seed,
        "--horizon": f"{order.horizon_s:g}s" if criterion.id == HORIZON and order.horizon_s else None,
        "--transport": "quic" if one.over_quic else None,
        **order.limits,
    }
    given = itertools.chain.from_iterable((each, str(value)) for each, value in options.items() if value is not None)
    more = ["--scavenger"] if one.scavenger and one.name not in SCAVENGERS else []
    return shlex.join(["perigee", "cc", "evaluate", one.written or one.name, *given, *more])


def _point(order: Order, criterion: Criterion, words: str) -> Mapping[str, Any]:
    """Return the point of a study that has a cell; of the values that a measure compares the first."""
    points = [one["point"] for one in native_plan(study_of(criterion), [], order.quick).laid_out()["points"]]
    found = [one for one in points if set(words.split(", ")) <= set(words_of(one).split(", "))]
    compared = {one.compares for one in criterion.measures}

    def cells_of(some: Sequence[Mapping[str, Any]]) -> list[str]:
        return list(dict.fromkeys(words_of({key: one[key] for key in one if key not in compared}) for one in some))

    if len(cells_of(found)) != 1:
        which, cells = ("several cells", cells_of(found)) if found else ("no cell", cells_of(points))
        more = f"; and {len(cells) - MOST_LISTED} more" if len(cells) > MOST_LISTED else ""
        listed = "; ".join(cells[:MOST_LISTED])
        raise InputError(
            f"--cell {words!r}: {criterion.id} has {which} of these words{': ' if found else '; it has '}{listed}{more}"
        )
    return found[0]


def slug(criterion: Criterion, cell: Cell) -> str:
    """Return a cell's name for a folder."""
    return f"{criterion.id}-{re.sub(r'[^0-9A-Za-z.]+', '-', cell.words)}"

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One cell of a criterion's study, as settings of that study."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perigee.engines.plan.native import native_plan
from perigee.evaluation.criterion import OTHER, Criterion, Measure
from perigee.evaluation.studies import key_of, study_of
from perigee.evaluation.tables import CANDIDATES, words_of
from perigee.store.points import EXPERIMENT, as_text, named

if TYPE_CHECKING:
    from perigee.evaluation.judging import Cell
    from perigee.evaluation.studies import Order


def settings_of(order: Order, criterion: Criterion, cell: Cell, measure: Measure | None = None) -> list[str]:
    """Return the settings that leave of a study one cell, the candidate, and what sets its thresholds.

    Args:
        order: what is evaluated.
        criterion: whose study it is.
        cell: the cell.
        measure: the measure that needs the cell, with the values that it compares; none: all measures of the criterion.
    """
    plan = native_plan(study_of(criterion), [], order.quick)
    point: Mapping[str, Any] = next(
        run["point"]
        for run in plan.laid_out()["points"]
        if set(cell.words.split(", ")) <= set(words_of(run["point"]).split(", "))
    )
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


def slug(criterion: Criterion, cell: Cell) -> str:
    """Return a cell's name for a folder."""
    return f"{criterion.id}-{re.sub(r'[^0-9A-Za-z.]+', '-', cell.words)}"

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The smallest study that shows the first harm: the shortest of a cell's lengths at which it still fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from perigee.fitness.cells import ROUNDS
from perigee.fitness.marks import REFERENCES, Marked, marked
from perigee.fitness.references import Kept, key_of
from perigee.fitness.trying import Figures, Trying
from perigee.numbers import number


@dataclass(frozen=True)
class Harm:
    """A criterion that a candidate fails, shown small.

    Attributes:
        marked: the figure of the small study, of all rounds.
        length_s: its length.
        sentence: what it shows, by the rounds that the study has.
        study: the study as text: the candidate and the references that set the threshold, one run of each where that
            shows it.
    """

    marked: Marked
    length_s: float
    sentence: str
    study: str


def first_harm(file: str, called: str, found: Sequence[Marked], kept: Kept, trying: Trying) -> Harm | None:
    """Return the first failed criterion as a small study; none: nothing fails.

    Args:
        file: the candidate, as the study is to name it.
        called: what distinguishes it from other candidates, in the name of the study.
        found: its figures, in the order of the criteria.
        kept: the figures of the references.
        trying: carries cells out.

    Raises:
        EndedError: the code did not get through a shorter cell.
        StoppedError: nobody waits for it any more.
    """
    first = next((one for one in found if one.fails), None)
    if first is None:
        return None
    cell = first.cell

    def beside(length_s: float) -> dict[str, Figures]:
        return {name: kept[name][key_of(cell.name, length_s)] for name in REFERENCES}

    shown, length = first, cell.lengths_s[0]
    for length_s in reversed(cell.lengths_s[1:]):
        short = marked(cell, trying.figures(cell, length_s), beside(length_s))[cell.marks.index(first.mark)]
        if short.fails:
            shown, length = short, length_s
            break
    rule = shown.mark.rule
    own, bound, rounds = fmean(shown.values), shown.bound, ROUNDS
    first_bound = rule.bound([beside(length)[name][shown.mark.name][0] for name in rule.references])
    if rule.times_of(shown.values[0], first_bound) > 1:
        own, bound, rounds = shown.values[0], first_bound, 1
    sentence = _sentence(shown, own, bound)
    algorithms = [file, *(rule.references or REFERENCES[1:2])]
    study = cell.study(algorithms, length_s=length, name=f"harm-{called}-{cell.name}", title=sentence, rounds=rounds)
    return Harm(shown, length, sentence, study)


def _sentence(shown: Marked, own: float, bound: float | None) -> str:
    """Say what a figure is in the study, and what is allowed there."""
    unit = f" {shown.mark.unit}" if shown.mark.unit else ""
    limit = "nothing" if bound is None else f"{_short(bound)}{unit}"
    most = "at most" if shown.mark.rule.at_most else "at least"
    return f"{shown.cell.criterion}: {shown.mark.title}: {_short(own)}{unit}; allowed: {most} {limit}"


def _short(value: float) -> str:
    return number(value, 0 if abs(value) >= 100 else 2)

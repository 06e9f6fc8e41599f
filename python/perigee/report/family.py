# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""All tests of a page, corrected together: a sentence and a table have the same p for the same difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from perigee.groups.group import Group
from perigee.report.context import Context
from perigee.report.headline import Headline, headlines
from perigee.report.ranking import ALGORITHM, Ranking, against_reference, comparable, of_switch, rankings
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import Comparison, Corrected, compare_groups, corrected, share_draws

FEW_VALUES = 4
"""A setting of words with more values than this is not the compared factor."""

Pair = tuple[Metric, Group, Group]
"""A comparison: quantity, first group, second group."""


@dataclass(frozen=True)
class Tested:
    """A comparison of the page.

    Attributes:
        comparison: its values and test; None if a group has no value.
        p: of the t test, corrected for all tests of the page; None without a test.
        p_wilcoxon: the same of Wilcoxon's test.
    """

    comparison: Comparison | None
    p: float | None
    p_wilcoxon: float | None


class Family:
    """The tests of a page, or of one experiment's chapter.

    Attributes:
        found: the headline quantities, each with its rankings.
        marks: rankings of the summary's columns.
        size: number of tests that are corrected together.
        tested: the comparisons with a test.
    """

    def __init__(self, context: Context) -> None:
        tests: dict[tuple[str, int, int], tuple[Comparison | None, float | None]] = {}
        self.found: list[tuple[Headline, list[Ranking]]] = [
            (one, rankings(context, one.groups, _factor(context, one.groups), [one.metric], tests))
            for one in headlines(context)
        ]
        columns = context.metrics(context.settings.summary) if _shows(context, "summary") else []
        self.marks: list[Ranking] = rankings(context, context.groups, ALGORITHM, columns, tests)
        every = [one for _, found in self.found for one in found] + self.marks
        self._tests = _made(context, [*(pair for one in every for pair in one.pairs), *_of_tables(context)])
        tests.update({key: (one.comparison, one.p) for key, one in self._tests.items()})
        known = {_unordered(key): one for key, one in self._tests.items() if one.p is not None}
        self.size: int = len(known)
        self.tested: list[Comparison] = [one.comparison for one in known.values() if one.comparison is not None]

    def of(self, pair: Pair) -> Tested:
        """Return a comparison of the page."""
        metric, first, second = pair
        return self._tests[metric.name, first.number, second.number]


def family(context: Context) -> Family:
    """Return the tests of a page; they are made once."""
    if context not in _FAMILIES:
        _FAMILIES[context] = Family(context)
    return _FAMILIES[context]


_FAMILIES: WeakKeyDictionary[Context, Family] = WeakKeyDictionary()


def _made(context: Context, pairs: Iterable[Pair]) -> dict[tuple[str, int, int], Tested]:
    """Return the comparisons by metric and numbers of the groups; a pair is one test in either order."""
    draws = share_draws(context.results, context.results)
    found: dict[tuple[str, int, int], Comparison | None] = {}
    for metric, first, second in pairs:
        key = (metric.name, first.number, second.number)
        if key not in found:
            found[key] = compare_groups(
                context.with_metric(first, metric.name), context.with_metric(second, metric.name), metric.name,
                shared_draws=draws, confidence=context.settings.confidence,
            )  # fmt: skip
    once = {_unordered(key): one for key, one in found.items() if one is not None}
    level = context.settings.confidence
    made = dict(zip(once, corrected(list(once.values()), level), strict=True))
    return {key: _in_order(one, made.get(_unordered(key))) for key, one in found.items()}


def _in_order(own: Comparison | None, made: Corrected | None) -> Tested:
    """Return what was tested once of a pair, in the order in which it was asked for."""
    if own is None or made is None:
        return Tested(None, None, None)
    if own.contrast and made.comparison.contrast:
        own = replace(own, contrast=replace(own.contrast, half_width=made.comparison.contrast.half_width))
    return Tested(own, made.p, made.p_wilcoxon)


def _unordered(key: tuple[str, int, int]) -> tuple[str, int, int]:
    name, first, second = key
    return name, min(first, second), max(first, second)


def _of_tables(context: Context) -> list[Pair]:
    """Return the comparisons of the tables of differences and of tests."""
    groups: list[tuple[Group, Group]] = []
    values = context.varied.get(context.settings.between or "", [])
    if len(values) == 2 and _shows(context, "differences"):
        groups += of_switch(context, values)
    if context.settings.reference and _shows(context, "tests"):
        groups += against_reference(context)
    return [(metric, *pair) for metric in context.metrics(context.settings.tests) for pair in groups] if groups else []


def _shows(context: Context, section: str) -> bool:
    return not context.settings.sections or section in context.settings.sections


def _factor(context: Context, groups: Sequence[Group]) -> str:
    """Return the compared factor: the key of `between`, else algorithms, or with one algorithm the first varied key."""
    if context.settings.between and comparable(context, groups, context.settings.between):
        return context.settings.between
    return ALGORITHM if comparable(context, groups) else _first_that_varies(context)


def _first_that_varies(context: Context) -> str:
    """Return the first varied key that is a number or has few values, in preference to another flow's algorithm."""
    numbers = {column.key for column in context.results.points.columns if column.is_number}
    few = [
        key
        for key, values in context.varied.items()
        if len(values) > 1 and (len(values) <= FEW_VALUES or key in numbers)
    ]
    return min(few, key=lambda key: key.endswith(".cc"), default="")

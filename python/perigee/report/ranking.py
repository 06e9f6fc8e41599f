# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Comparable groups, which differ in one factor only. Algorithms have a best one; settings do not."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from perigee.groups.group import FILE, Group
from perigee.numbers import number
from perigee.report.context import Context
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import Comparison, Verdict, verdict

ALGORITHM, FLOW = "cc", "flow"
"""Factors of all groups: their congestion control and name."""

Against = Literal["best", "reference", "first"]
"""The reference of a ranking's groups: the best one, the reference, or the first value of a setting."""


@dataclass(frozen=True)
class Rival:
    """A group compared with the first one of its ranking.

    Attributes:
        group: the group.
        mean: its value.
        comparison: comparison of the first group's flows with its own; None for a ratio of means, which has no test.
        p: p value of the t test, corrected for all tests of the page; None without a test.
        verdict: the judgement on its difference from the first one.
    """

    group: Group
    mean: float
    comparison: Comparison | None = None
    p: float | None = None
    verdict: Verdict = "untested"

    @property
    def is_tested(self) -> bool:
        """True if a test exists."""
        return self.p is not None


Tests = Mapping[tuple[str, int, int], tuple[Comparison | None, float | None]]
"""Comparisons and their corrected p by metric and numbers of the groups."""


@dataclass(frozen=True)
class Ranking:
    """Groups that differ in one factor only.

    Algorithms are ordered by the metric. Values of a setting are conditions without a winner: they keep their order.
    Of numbers only the lowest and the highest are compared, for the key of `between` the first and the second value.

    Attributes:
        factor: the factor in which they differ, a key of `Group.factors`.
        metric: metric of the comparison.
        against: what the first group is.
        ordered: the groups with their values; the others are compared with the first, the next best first.
        level: level of intervals and tests.
        tests: the tests of the page, which are there once all rankings are.
    """

    factor: str
    metric: Metric
    against: Against
    ordered: Sequence[tuple[Group, float]]
    level: float
    tests: Tests

    @property
    def first(self) -> Group:
        """The group that the others are compared with."""
        return self.ordered[0][0]

    @property
    def mean(self) -> float:
        """Its value."""
        return self.ordered[0][1]

    @property
    def pairs(self) -> list[tuple[Metric, Group, Group]]:
        """The comparisons to be made: metric, first group, other group."""
        return [] if self.metric.of_means else [(self.metric, self.first, other) for other, _ in self.ordered[1:]]

    @functools.cached_property
    def rivals(self) -> list[Rival]:
        """The groups compared with the first one."""
        rivals = []
        for group, value in self.ordered[1:]:
            found, p = self.tests.get((self.metric.name, self.first.number, group.number), (None, None))
            rivals.append(Rival(group, value, found, p, verdict(self.mean, value, found, p, self.level)))
        return rivals

    @property
    def best(self) -> Group | None:
        """The algorithm that is clearly best; None of settings, and if no difference from the next is shown.

        Against a reference, it is the algorithm with the best mean if it differs from the reference.
        """
        if self.against == "first":
            return None
        sign = 1 if self.metric.higher_is_better else -1
        top = max(self.rivals, key=lambda rival: sign * rival.mean)
        if self.against == "reference" and sign * top.mean > sign * self.mean:
            return top.group if self.is_clear(top) else None
        return self.first if self.is_clear(top) else None

    def is_clear(self, rival: Rival) -> bool:
        """True if a rival differs from the first group significantly, or without a test as printed."""
        digits = self.metric.digits
        is_visible = number(self.mean, digits) != number(rival.mean, digits)
        return rival.verdict == "significant" or (rival.verdict == "untested" and is_visible)


def comparable(context: Context, groups: Sequence[Group], factor: str = ALGORITHM) -> list[list[Group]]:
    """Return the sets of two or more groups that differ in a factor only; empty for captures.

    Flows of different names are comparable if their requests and links are equal.
    """
    setup = context.results.setup()
    alike: dict[tuple[object, ...], list[Group]] = {}
    for group in groups:
        if (
            FILE in group.factors
            or context.results.is_analysis
            or group.flows.is_empty()
            or factor not in group.factors
        ):
            continue
        varied = tuple(sorted((key, value) for key, value in group.factors.items() if key not in (factor, FLOW)))
        alike.setdefault((varied, _conditions(context, setup, group)), []).append(group)
    return [part for part in alike.values() if len({group.factors[factor] for group in part}) == len(part) > 1]


def _conditions(context: Context, setup: Mapping[str, Any], group: Group) -> object:
    """Return the request and links of a flow in words; its name if they are unknown."""
    row = group.rows.row(0, named=True)
    flows = {flow["name"]: dict(flow["properties"]) for flow in setup.get("flows", [])}
    path = context.network.path(row)
    if row["flow"] not in flows or not path:
        return row["flow"]
    links = {link["name"]: dict(link["properties"]) for link in setup.get("links", [])}
    asked = {key: text for key, text in flows[row["flow"]].items() if key not in ("way", "congestion control")}
    taken = [{key: text for key, text in links.get(name, {}).items() if key != "way"} for name in path]
    if any("(varied" in text for link in taken for text in link.values()):
        return repr(asked), tuple(path)
    return repr(asked), repr(taken)


def rankings(
    context: Context, groups: Sequence[Group], factor: str, metrics: Sequence[Metric], tests: Tests
) -> list[Ranking]:
    """Return the order of comparable groups by each metric that has a better direction.

    Args:
        context: the results.
        groups: the groups, of which the comparable ones are ranked.
        factor: the factor of the comparison.
        metrics: the quantities.
        tests: where the tests of the page will be.
    """
    found: list[Ranking] = []
    wanted, level = context.settings.reference, context.settings.confidence
    for metric, part in itertools.product(metrics, comparable(context, groups, factor)):
        means = [(group, context.value(group, metric)) for group in part]
        known = [(group, mean) for group, mean in means if mean == mean]
        if metric.higher_is_better is None or len(known) < 2:
            continue
        ordered = _ordered(context, factor, metric, known)
        if factor != ALGORITHM or not wanted:
            found.append(Ranking(factor, metric, "best" if factor == ALGORITHM else "first", ordered, level, tests))
            continue
        names = [{group.name, group.cc, context.algorithm(group.rows.row(0, named=True))} for group, _ in ordered]
        place = next((at for at, own in enumerate(names) if wanted in own), None)
        if place is not None:
            first = [ordered[place], *ordered[:place], *ordered[place + 1 :]]
            found.append(Ranking(factor, metric, "reference", first, level, tests))
    return found


def against_reference(context: Context) -> list[tuple[Group, Group]]:
    """Return the groups to test, each with its reference, from which it differs in one factor only.

    If the reference is an algorithm, each group's reference is the otherwise equal group of that algorithm.
    """
    wanted = context.settings.reference
    named = context.group(wanted or "")
    references = [named] if named else [group for group in context.groups if group.cc == wanted]
    pairs = []
    for group in context.groups:
        apart = [(reference, _differences(group, reference)) for reference in references]
        if named is None:
            apart = [(reference, keys) for reference, keys in apart if keys == {"cc"}]
        pairs += [(group, reference) for reference, keys in apart if len(keys) == 1][:1]
    return pairs


def _differences(one: Group, other: Group) -> set[str]:
    """Return the factors in which two groups differ."""
    keys = one.factors.keys() | other.factors.keys()
    return {key for key in keys if one.factors.get(key) != other.factors.get(key)}


def of_switch(context: Context, values: Sequence[str]) -> list[tuple[Group, Group]]:
    """Return the pairs of groups that differ in the key of `between` only: first value, second value."""
    key, (first, second) = context.settings.between or "", values
    others = {without(group, key): group for group in context.groups if group.factors.get(key) == second}
    ours = [group for group in context.groups if group.factors.get(key) == first]
    return [(group, others[without(group, key)]) for group in ours if without(group, key) in others]


def without(group: Group, key: str, context: Context | None = None) -> str:
    """Return the label of a group without a key: as in data, or with a context for readers."""
    rest = {name: value for name, value in group.factors.items() if name not in (key, "cc", "flow")}
    if context is None:
        return ", ".join([group.cc or group.factors.get("flow", ""), *(f"{name} = {rest[name]}" for name in rest)])
    own = context.algorithm(group.rows.row(0, named=True)) if group.cc else group.factors.get("flow", "")
    return ", ".join([own, *(context.said(name, value) for name, value in rest.items())])


def _ordered(
    context: Context, factor: str, metric: Metric, means: Sequence[tuple[Group, float]]
) -> list[tuple[Group, float]]:
    """Return the groups of a comparison with their values: the best first, or in the order of a setting."""
    if factor != ALGORITHM:
        levels = next((list(zip(one.values, one.texts, strict=True)) for one in context.results.points.columns
                       if one.key == factor and one.is_number), [])  # fmt: skip
        number_of = {text: float(value) for value, text in levels}
        in_order = sorted(means, key=lambda pair: number_of.get(pair[0].factors[factor], 0.0))
        if factor == context.settings.between:
            # The printed difference is the first value minus the second.
            return in_order[::-1]
        return [in_order[0], in_order[-1]] if number_of else in_order
    return sorted(means, key=lambda pair: -pair[1] if metric.higher_is_better else pair[1])

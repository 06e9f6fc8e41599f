# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Comparable groups, which differ in one factor only. Algorithms have a best one; settings do not."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perigee.groups.group import FILE, Group
from perigee.numbers import number
from perigee.report.context import Context
from perigee.statistics.estimates import ALPHA
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import Comparison, compare_groups, corrected, share_draws

ALGORITHM, FLOW = "cc", "flow"
"""Factors of all groups: their congestion control and name."""


@dataclass(frozen=True)
class Rival:
    """A group compared with the first one of its ranking.

    Attributes:
        group: the group.
        mean: its value.
        comparison: comparison of the first group's flows with its own; None for a ratio of means, which has no test.
        p: p value of the t test, corrected for all comparisons of the ranking; None without a test.
    """

    group: Group
    mean: float
    comparison: Comparison | None
    p: float | None

    @property
    def is_tested(self) -> bool:
        """True if a test exists."""
        return self.p is not None

    @property
    def is_significant(self) -> bool:
        """True if its difference from the first one is significant."""
        return self.p is not None and self.p < ALPHA


@dataclass(frozen=True)
class Ranking:
    """Groups that differ in one factor only.

    Algorithms are ordered by the metric. Values of a setting are conditions without a winner: they keep their order.
    Of numbers only the lowest and the highest are compared, for the key of `between` the first and the second value.

    Attributes:
        factor: the factor in which they differ, a key of `Group.factors`.
        metric: metric of the comparison.
        first: the best group; for a setting, the group of its lowest or first value.
        mean: its value.
        rivals: groups compared with it, the next best first.
    """

    factor: str
    metric: Metric
    first: Group
    mean: float
    rivals: Sequence[Rival]

    @property
    def is_visible(self) -> bool:
        """True if the printed first value differs from the next one."""
        digits = self.metric.digits
        return number(self.mean, digits) != number(self.rivals[0].mean, digits)

    @property
    def is_clear(self) -> bool:
        """True if the first one differs from the next significantly, or without a test as printed."""
        next_best = self.rivals[0]
        return self.is_visible and (next_best.is_significant or not next_best.is_tested)


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


@dataclass(frozen=True)
class Question:
    """The input of rankings.

    Attributes:
        groups: the groups, of which the comparable ones are ranked.
        factor: the factor of the comparison.
        metrics: the quantities; only those with a better direction are ranked.
    """

    groups: Sequence[Group]
    factor: str
    metrics: Sequence[Metric]


def rankings(context: Context, questions: Sequence[Question]) -> list[Ranking]:
    """Return the order of comparable groups by each metric.

    The first of each set is tested against the others; p is corrected for all tests of all questions.
    """
    draws = share_draws(context.results, context.results)
    drafts: list[tuple[str, Metric, list[tuple[Group, float]]]] = []
    for question in questions:
        for metric, part in itertools.product(question.metrics, comparable(context, question.groups, question.factor)):
            means = [(group, context.value(group, metric)) for group in part]
            known = [(group, mean) for group, mean in means if mean == mean]
            if metric.higher_is_better is None or len(known) < 2:
                continue
            drafts.append((question.factor, metric, _ordered(context, question.factor, metric, known)))
    pairs = [
        None
        if metric.of_means
        else compare_groups(
            context.with_metric(ordered[0][0], metric.name), context.with_metric(group, metric.name), metric.name,
            shared_draws=draws, confidence=context.settings.confidence,
        )
        for _, metric, ordered in drafts
        for group, _ in ordered[1:]
    ]  # fmt: skip
    results = iter(corrected([one for one in pairs if one is not None]))
    each = iter([(one, next(results)[0]) if one is not None else (None, None) for one in pairs])
    return [
        Ranking(factor, metric, *ordered[0], [Rival(group, mean, *next(each)) for group, mean in ordered[1:]])
        for factor, metric, ordered in drafts
    ]


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

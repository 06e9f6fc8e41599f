# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which groups can be compared: those that differ in one thing only. Of algorithms one is best; settings have none."""

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
"""Factors of every group: its own congestion control and its name."""


@dataclass(frozen=True)
class Rival:
    """A group held against the first one of its ranking.

    Attributes:
        group: the group.
        mean: its value.
        comparison: the first group's flows against its own; none for a ratio of means, which has no test.
        p: of the t test, corrected for all comparisons of the ranking; none where there is no test.
    """

    group: Group
    mean: float
    comparison: Comparison | None
    p: float | None

    @property
    def is_tested(self) -> bool:
        """Whether there is a test."""
        return self.p is not None

    @property
    def is_significant(self) -> bool:
        """Whether the first one's difference from it is significant."""
        return self.p is not None and self.p < ALPHA


@dataclass(frozen=True)
class Ranking:
    """Groups that differ in one factor only.

    Algorithms are ordered by the metric. Values of a setting are conditions, of which none wins: they keep their order,
    and of numbers only the lowest and the highest are compared; of the key of `between`, the first with the second.

    Attributes:
        factor: what they differ in, a key of `Group.factors`.
        metric: by what they are compared.
        first: the best group; of a setting, that of its lowest or first value.
        mean: its value.
        rivals: those it is compared with, the next best first.
    """

    factor: str
    metric: Metric
    first: Group
    mean: float
    rivals: Sequence[Rival]

    @property
    def is_visible(self) -> bool:
        """Whether the first value can be told from the next one as it is printed."""
        digits = self.metric.digits
        return number(self.mean, digits) != number(self.rivals[0].mean, digits)

    @property
    def is_clear(self) -> bool:
        """Whether the first one differs from the next: significantly, and where nothing can be tested, as printed."""
        next_best = self.rivals[0]
        return self.is_visible and (next_best.is_significant or not next_best.is_tested)


def comparable(context: Context, groups: Sequence[Group], factor: str = ALGORITHM) -> list[list[Group]]:
    """Return the sets of groups that differ in a factor only, each of two or more; captures have none.

    Flows of different names are compared where they ask for the same, over links that are the same.
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
    """Return what a flow asks for and the links that it takes, in words; the flow's name where that is not known."""
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
    """What is compared.

    Attributes:
        groups: the groups; those of them that can be compared are.
        factor: what those that are compared differ in.
        metrics: the quantities; those that tell better from worse are answered.
    """

    groups: Sequence[Group]
    factor: str
    metrics: Sequence[Metric]


def rankings(context: Context, questions: Sequence[Question]) -> list[Ranking]:
    """Return how groups that can be compared are ordered by each metric.

    The first of each set is tested against the others that are compared with it; p is corrected for all tests of all
    questions.
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
    """Return groups to compare, with their values: the best first, or in the order of a setting."""
    if factor != ALGORITHM:
        levels = next((list(zip(one.values, one.texts, strict=True)) for one in context.results.points.columns
                       if one.key == factor and one.is_number), [])  # fmt: skip
        number_of = {text: float(value) for value, text in levels}
        in_order = sorted(means, key=lambda pair: number_of.get(pair[0].factors[factor], 0.0))
        if factor == context.settings.between:
            # What is shown is the first value minus the second.
            return in_order[::-1]
        return [in_order[0], in_order[-1]] if number_of else in_order
    return sorted(means, key=lambda pair: -pair[1] if metric.higher_is_better else pair[1])

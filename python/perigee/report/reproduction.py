# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How far the results reproduce a publication: each number and ordering with its verdict, fitted ones apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perigee.groups.group import Group
from perigee.numbers import number, signed
from perigee.report.context import Context
from perigee.report.model import Link
from perigee.report.published import Ordering, Published, PublishedTable, PublishedValue
from perigee.statistics.metrics import group_spread, sample


@dataclass(frozen=True)
class Comparison:
    """One published number and the simulated one.

    Attributes:
        value: its definition.
        group: its group.
        published: the published number.
        published_sd: its standard deviation; NaN: not published.
        simulated: the simulated number.
        simulated_sd: its standard deviation over flows; NaN: none.
    """

    value: PublishedValue
    group: Group
    published: float
    published_sd: float
    simulated: float
    simulated_sd: float

    @property
    def error_percent(self) -> float:
        """Relative error of the simulated number, in %."""
        return 100 * (self.simulated / self.published - 1) if self.published else float("nan")

    @property
    def is_met(self) -> bool | None:
        """True if the error is within the bound; None if nothing was simulated."""
        if self.simulated != self.simulated:
            return None
        if not self.published:
            return self.simulated == 0
        return bool(abs(self.error_percent) <= 100 * self.value.within)

    @property
    def error(self) -> str:
        """The error for people; of shares in percentage points."""
        if self.simulated != self.simulated:
            return "–"
        if self.value.unit == "%":
            return f"{signed(self.simulated - self.published, self.value.digits)} pp"
        return f"{signed(self.error_percent)} %"

    @property
    def pair(self) -> tuple[str, str]:
        """The published and the simulated number for people."""
        return number(self.published, self.value.digits), number(self.simulated, self.value.digits)

    def anchor(self, published: Published) -> str:
        """Name of its cell for links within the page: by the places of its table and column in the publication."""
        table, column = next(
            (table, column)
            for table, one in enumerate(published.tables)
            for column, value in enumerate(one.values)
            if value is self.value
        )
        return f"published-{table}-{column}-{self.group.number}"


def compare(context: Context, table: PublishedTable) -> list[list[Comparison]]:
    """Return the comparisons of a published table: a list per column, an entry per published group."""
    return [
        [_compare(context, value, group) for group in context.groups if group.name in value.values]
        for value in table.values
    ]


def _compare(context: Context, value: PublishedValue, group: Group) -> Comparison:
    flows = context.with_metric(group, value.metric.name)
    seen = sample(flows, value.metric.name)
    spread = float("nan")
    if len(seen) == 0:
        simulated = float("nan")
    elif value.statistic == "zero_percent":
        simulated = 100 * float(np.mean(seen == 0))
    elif value.statistic == "below_percent":
        simulated = 100 * float(np.mean(seen < value.below))
    elif value.statistic == "max":
        simulated = float(seen.max())
    else:
        simulated = context.value(group, value.metric)
        deviation = group_spread(flows, value.metric)
        spread = float("nan") if deviation is None else deviation
    published = value.values[group.name]
    return Comparison(value, group, published, value.sd.get(group.name, float("nan")), simulated, spread)


@dataclass(frozen=True)
class Checked:
    """An ordering, checked on the simulated means.

    Attributes:
        number: its place in the publication's file, from 0.
        ordering: the ordering.
        holds: whether it holds.
        means: the simulated means by group.
        is_fitted: whether a link was fitted to the metric of the order.
    """

    number: int
    ordering: Ordering
    holds: bool
    means: dict[str, float]
    is_fitted: bool

    @property
    def anchor(self) -> str:
        """Name of its row for links within the page."""
        return f"ordering-{self.number}"


def checks(context: Context, published: Published) -> list[Checked]:
    """Return the orderings whose groups and metric these results have."""
    fitted = {value.metric.name for table in published.tables if table.calibrated for value in table.values}
    found = []
    for place, ordering in enumerate(published.orderings):
        checked = _check(context, ordering)
        if checked is not None:
            found.append(Checked(place, ordering, *checked, ordering.metric.name in fitted))
    return found


def judged(context: Context, published: Published) -> list[tuple[PublishedTable, Comparison]]:
    """Return all published numbers that these results have, with their tables."""
    return [
        (table, one)
        for table in published.tables
        for column in compare(context, table)
        for one in column
        if one.is_met is not None
    ]


def summary(context: Context) -> tuple[str, list[Link]]:
    """Return how much is met, fitted and not fitted, and a link to each number or ordering that is not."""
    published = context.published
    if published is None:
        return "", []
    numbers, orderings = judged(context, published), checks(context, published)
    fitted = [one for table, one in numbers if table.calibrated]
    others = [one for table, one in numbers if not table.calibrated]
    parts = [_counted("Fitted", fitted), _counted("Not fitted" if fitted else "Published numbers", others)]
    if orderings:
        parts.append(f"Orderings: {sum(one.holds for one in orderings)} of {len(orderings)}.")
    misses = [
        Link(f"{one.group.label}, {one.value.heading}: {one.pair[1]}, published {one.pair[0]}", one.anchor(published))
        for _, one in numbers
        if not one.is_met
    ]
    misses += [Link(f"{one.ordering.claim}.", one.anchor) for one in orderings if not one.holds]
    return " ".join(part for part in parts if part), misses


def _counted(noun: str, numbers: Sequence[Comparison]) -> str:
    if not numbers:
        return ""
    bounds = {one.value.within for one in numbers}
    within = f"within {100 * min(bounds):g} %" if len(bounds) == 1 else "within their bounds"
    return f"{noun}: {sum(bool(one.is_met) for one in numbers)} of {len(numbers)} {within}."


def _check(context: Context, ordering: Ordering) -> tuple[bool, dict[str, float]] | None:
    """Return whether an ordering holds and the means; None if a group or its metric is missing."""
    means: dict[str, float] = {}
    for key in (key for tier in ordering.tiers for key in tier):
        group = context.group(key)
        mean = context.value(group, ordering.metric) if group else float("nan")
        if mean != mean:
            return None
        means[key] = mean
    pairs = zip(ordering.tiers, ordering.tiers[1:], strict=False)
    return all(means[high] > means[low] for upper, lower in pairs for high in upper for low in lower), means

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Two results folders of the same study beside each other, cell by cell: two engines, versions or settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from perigee.errors import InputError
from perigee.numbers import decimals
from perigee.report.context import Context, Group
from perigee.statistics.metrics import Metric, metric, with_metric
from perigee.statistics.pairing import Comparison, compare_groups, corrected, is_one_sample, method, share_draws
from perigee.store.outcomes import in_words
from perigee.store.results import Results

METRICS = (
    "goodput_mbps", "steady_goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms", "rtt_p95_ms", "retransmitted_percent",
    "duration_s",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One cell: a quantity of a group of flows in A and in B.

    Attributes:
        groups: the groups in A and in B.
        metric: the quantity.
        comparison: B's values against A's; where they are paired, of the rounds that both have.
        p: of the t test, corrected for all cells; none where there is no test.
        p_wilcoxon: of Wilcoxon's test, corrected for all cells; none where the values are not paired.
    """

    groups: tuple[Group, Group]
    metric: Metric
    comparison: Comparison
    p: float | None = None
    p_wilcoxon: float | None = None

    @property
    def label(self) -> str:
        """What people call the group, or both where they are not called the same."""
        return label_of(self.groups)

    @property
    def a(self) -> float:
        """Mean in A."""
        return float(self.comparison.second.mean())

    @property
    def b(self) -> float:
        """Mean in B."""
        return float(self.comparison.first.mean())

    @property
    def difference(self) -> float:
        """B minus A."""
        return self.comparison.difference

    @property
    def half_width(self) -> float:
        """Of the difference's 95 % confidence interval; NaN where there is no test."""
        return self.comparison.contrast.half_width if self.comparison.contrast else float("nan")

    @property
    def digits(self) -> int:
        """With how many decimals it is written, so that both means and the difference can be read."""
        least = self.metric.digits
        values = (decimals(least, self.a), decimals(least, self.b))
        return max(*values, decimals(least, self.difference, self.half_width))

    @property
    def percent(self) -> float:
        """The difference in % of A; NaN where A is zero."""
        return 100 * self.difference / self.a if self.a else float("nan")


def compare(a: Results, b: Results, metrics: Sequence[str] = METRICS) -> list[Difference]:
    """Compare two results of the same study.

    Flows of the same round are compared as pairs where both results took the same random draws, see
    `perigee.statistics.pairing.compare_groups`; flows that failed are left out.

    Args:
        a: the first.
        b: the second.
        metrics: what to compare; a quantity that one side lacks is left out.

    Returns:
        A cell per group and quantity, in the order of the study.

    Raises:
        InputError: the folders have no group of flows in common.
    """
    draws = share_draws(a, b)
    cells = []
    for ours, theirs in pairs(a, b):
        for name in metrics:
            mine, other = with_metric(ours.flows, name, a), with_metric(theirs.flows, name, b)
            found = compare_groups(other, mine, name, shared_draws=draws)
            if found is not None:
                cells.append(Difference((ours, theirs), metric(name), found))
    results = corrected([cell.comparison for cell in cells])
    return [replace(cell, p=p, p_wilcoxon=ranks) for cell, (p, ranks) in zip(cells, results, strict=True)]


def pairs(a: Results, b: Results) -> list[tuple[Group, Group]]:
    """Return the groups of flows that both results have, A's and B's, in the order of A.

    Groups belong together that are of one flow at one point of the study; of those left over, groups of the same flow
    and algorithm where all else that varies is the same; then those of the same algorithm.

    Raises:
        InputError: there is none.
    """
    ours, theirs = Context(a).all_groups, Context(b).all_groups
    found: dict[int, Group] = {}
    for identity in (_point, _factors, _algorithm):
        left = [group for group in ours if group.number not in found]
        taken = {group.number for group in found.values()}
        found |= _matches(left, [group for group in theirs if group.number not in taken], identity)
    common = [(group, found[group.number]) for group in ours if group.number in found]
    if not common:
        raise InputError(
            f"{a.path} ({a.study}) and {b.path} ({b.study}) have no flows in common; give two results of the same study"
        )
    return common


def label_of(groups: tuple[Group, Group]) -> str:
    """Return what people call a group in A and in B."""
    ours, theirs = (group.label for group in groups)
    return ours if ours == theirs else f"{ours} in A, {theirs} in B"


def remarks(a: Results, b: Results, cells: Sequence[Difference]) -> list[str]:
    """Return what is to be known of the cells, a sentence or two each."""
    settings = [", ".join(one.manifest["settings"]) or "none" for one in (a, b)]
    found = [f"Settings changed: {settings[0]} in A; {settings[1]} in B."] if settings[0] != settings[1] else []
    found += [
        f"{name}: all rounds gave the same results, nothing random came to bear: they are one sample, without a spread."
        for name, one in (("A", a), ("B", b))
        if is_one_sample(one.table("flows"))
    ]
    for ours, theirs in pairs(a, b):
        endings = [f"{name} {words}" for name, group in (("A", ours), ("B", theirs)) if (words := in_words(group.rows))]
        if endings:
            found.append(f"{label_of((ours, theirs))}: {'; '.join(endings)}. Flows that failed are in no mean.")
    return [*found, method([cell.comparison for cell in cells])]


def as_frame(cells: Sequence[Difference]) -> pl.DataFrame:
    """Return the cells as a table.

    Its columns are `group` (its name in A), `quantity, unit, a, b, difference, difference_percent, half_width_95,
    paired, values_a, values_b, p` (of the t test), `p_holm` (the same, corrected for all cells), `p_wilcoxon,
    p_wilcoxon_holm, remark, group_b` (its name in B).
    """
    rows = [
        {
            "group": cell.groups[0].name,
            "quantity": cell.metric.name,
            "unit": cell.metric.unit,
            "a": cell.a,
            "b": cell.b,
            "difference": cell.difference,
            "difference_percent": cell.percent,
            "half_width_95": cell.half_width,
            "paired": cell.comparison.is_paired,
            "values_a": len(cell.comparison.second),
            "values_b": len(cell.comparison.first),
            "p": cell.comparison.contrast and cell.comparison.contrast.p,
            "p_holm": cell.p,
            "p_wilcoxon": cell.comparison.contrast and cell.comparison.contrast.p_wilcoxon,
            "p_wilcoxon_holm": cell.p_wilcoxon,
            "remark": cell.comparison.reason,
            "group_b": cell.groups[1].name,
        }
        for cell in cells
    ]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None))


def _matches(
    ours: Sequence[Group], theirs: Sequence[Group], identity: Callable[[Group], Hashable]
) -> Iterator[tuple[int, Group]]:
    """Return the number of each of our groups and their group of the same identity, which no other has."""
    counts = [Counter(identity(group) for group in groups) for groups in (ours, theirs)]
    others = {identity(group): group for group in theirs}
    for group in ours:
        key = identity(group)
        if key is not None and all(count[key] == 1 for count in counts):
            yield group.number, others[key]


def _point(group: Group) -> Hashable:
    row = group.rows.row(0, named=True)
    return row["point"], row["flow"]


def _factors(group: Group) -> Hashable:
    return tuple(sorted({**group.factors, "cc": group.cc}.items()))


def _algorithm(group: Group) -> Hashable:
    return group.cc or None

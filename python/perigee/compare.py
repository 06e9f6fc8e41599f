# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Two results folders of the same study beside each other, cell by cell: two engines, versions or settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from perigee.errors import InputError
from perigee.metrics import Metric, metric, sample, with_metric
from perigee.report.context import Context, Group
from perigee.results import Results
from perigee.statistics import difference_interval, t_test

METRICS = (
    "goodput_mbps", "steady_goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms", "rtt_p95_ms", "retransmitted_percent",
    "duration_s",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One cell: a quantity of a group of flows in A and in B.

    Attributes:
        group: the group's key.
        label: what people call it.
        metric: the quantity.
        a: mean in A.
        b: mean in B.
        difference: B minus A.
        half_width: of the difference's 95 % confidence interval (Welch), NaN with fewer than two flows.
        p: of a two-tailed Welch t test, none where neither varies or there are fewer than two flows.
    """

    group: str
    label: str
    metric: Metric
    a: float
    b: float
    difference: float
    half_width: float
    p: float | None

    @property
    def percent(self) -> float:
        """The difference in % of A; NaN where A is zero."""
        return 100 * self.difference / self.a if self.a else float("nan")


def compare(a: Results, b: Results, metrics: Sequence[str] = METRICS) -> list[Difference]:
    """Compare two results of the same study.

    Args:
        a: the first.
        b: the second.
        metrics: what to compare; a quantity that one side lacks is left out.

    Returns:
        A cell per group and quantity, in the order of the study.

    Raises:
        InputError: the folders have no group of flows in common.
    """
    cells = []
    for ours, theirs in pairs(a, b):
        for name in metrics:
            mine = sample(with_metric(ours.flows, name, a), name)
            other = sample(with_metric(theirs.flows, name, b), name)
            if len(mine) == 0 or len(other) == 0:
                continue
            difference, half = difference_interval(other, mine)
            test = t_test(other, mine, welch=True)
            means = float(mine.mean()), float(other.mean())
            p = None if test is None else test.p
            cells.append(Difference(ours.key, ours.label, metric(name), *means, difference, half, p))
    return cells


def pairs(a: Results, b: Results) -> list[tuple[Group, Group]]:
    """Return the groups of flows that both results have, A's and B's, in the order of A.

    Raises:
        InputError: there is none.
    """
    ours, theirs = _groups(a), _groups(b)
    common = [(group, theirs[key]) for key, group in ours.items() if key in theirs]
    if not common:
        raise InputError(
            f"{a.path} ({a.study}) and {b.path} ({b.study}) have no flows in common; give two results of the same study"
        )
    return common


def as_frame(cells: Sequence[Difference]) -> pl.DataFrame:
    """Return the cells as a table: `group, quantity, unit, a, b, difference, percent, half_width_95, p`."""
    rows = [
        {
            "group": cell.group,
            "quantity": cell.metric.name,
            "unit": cell.metric.unit,
            "a": cell.a,
            "b": cell.b,
            "difference": cell.difference,
            "difference_percent": cell.percent,
            "half_width_95": cell.half_width,
            "p": cell.p,
        }
        for cell in cells
    ]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None))


def _groups(results: Results) -> dict[str, Group]:
    """Return the groups of flows, those that shared a link too."""
    context = Context(results)
    found = {group.key: group for group in context.groups}
    for (point, flow), part in context.shared.partition_by(
        ["point", "flow"], as_dict=True, maintain_order=True
    ).items():
        key = f"{point} {flow}"
        found.setdefault(key, Group(key, f"{part['cc'][0]} ({flow} of {point})", part, next(iter(found.values())).look))
    return found

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A section of the flows of one kind, with what a table of their own has of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from perigee.numbers import number
from perigee.report.context import Context, Group
from perigee.report.model import Block, Cell, Section, Table
from perigee.report.panels import roles
from perigee.report.sections import sweep
from perigee.statistics.metrics import Metric, mean, metric


@dataclass(frozen=True)
class OfKind:
    """Flows of one kind.

    Attributes:
        kind: the kind, which is the name of the section too.
        table: the table of results that has a row for each of them.
        title: the title of the section.
        caption: the caption of its table.
        columns: the metrics of the table.
    """

    kind: str
    table: str
    title: str
    caption: str
    columns: Sequence[str]

    def section(self, context: Context) -> Section | None:
        """Return a table of the means over flows per group, and lines over what varies; none without such flows."""
        groups = [group for group in context.groups_of(self.kind) if not group.flows.is_empty()]
        if not groups or not context.results.has(self.table):
            return None
        metrics = [metric(name) for name in self.columns]
        rows, data = [], []
        for group in groups:
            values = [mean(context.with_metric(group, one.name)[one.name]) for one in metrics]
            shown = [Cell(number(value, one.digits)) for value, one in zip(values, metrics, strict=True)]
            rows.append([Cell(group.label), *shown])
            data.append({"group": group.name, **dict(zip(self.columns, values, strict=True))})
        table = Table(
            name=self.kind,
            caption=self.caption,
            head=["", *(one.heading for one in metrics)],
            rows=rows,
            data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
        )
        return Section(self.kind, self.title, [*_over_what_varies(context, groups, metrics), table])


def _over_what_varies(context: Context, groups: list[Group], metrics: list[Metric]) -> list[Block]:
    place = sweep.with_x(roles(context.factors(groups)))
    known = [one for one in metrics if any(context.with_metric(group, one.name)[one.name].count() for group in groups)]
    return sweep.blocks(context, groups, known, place) if place.x is not None and known else []

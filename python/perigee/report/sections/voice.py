# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Voice flows: delay, jitter, what was not played, and how good the calls were."""

from __future__ import annotations

import polars as pl

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Section, Table
from perigee.report.panels import roles
from perigee.report.sections import sweep
from perigee.statistics.metrics import Metric, mean, metric

COLUMNS = (
    "voice_delay_ms",
    "voice_jitter_ms",
    "voice_lost_percent",
    "unplayed_percent",
    "mouth_to_ear_ms",
    "r_factor",
    "mos",
)
"""The metrics of the table."""


def section(context: Context) -> Section | None:
    """Return a table of delay, jitter, loss and opinion score of voice flows per group, and lines over what varies."""
    groups = [group for group in context.groups_of("voice") if not group.flows.is_empty()]
    if not groups or not context.results.has("voice"):
        return None
    metrics = [metric(name) for name in COLUMNS]
    rows, data = [], []
    for group in groups:
        values = [mean(context.with_metric(group, one.name)[one.name]) for one in metrics]
        shown = [Cell(number(value, one.digits)) for value, one in zip(values, metrics, strict=True)]
        rows.append([Cell(group.label), *shown])
        data.append({"group": group.name, **dict(zip(COLUMNS, values, strict=True))})
    table = Table(
        name="voice",
        caption="Voice flows: means over flows",
        head=["", *(one.heading for one in metrics)],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )
    return Section("voice", "Calls", [*_over_what_varies(context, metrics), table])


def _over_what_varies(context: Context, metrics: list[Metric]) -> list[Block]:
    groups = [group for group in context.groups_of("voice") if not group.flows.is_empty()]
    place = sweep.with_x(roles(context.factors(groups)))
    heard = [one for one in metrics if any(context.with_metric(group, one.name)[one.name].count() for group in groups)]
    return sweep.blocks(context, groups, heard, place) if place.x is not None and heard else []

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Durations of requests with their responses, and of pings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.kinds import kinds_of
from perigee.numbers import number
from perigee.report.charts.cumulative import Curve, CurvePanel, cumulative_figure, data_of
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.sections import sweep
from perigee.statistics.estimates import cumulative
from perigee.statistics.metrics import EXCHANGE, metric, sample_of

KINDS = kinds_of("exchanges")

TITLES = {"request": "Mean duration of a request", "ping": "Mean round trip of a ping"}
"""Quantity drawn over factors: mean over the exchanges of each flow."""

MOST_PANELS = 12
"""Maximum panels of a figure."""


def section(context: Context) -> Section | None:
    """Return a table of durations per group and their cumulative distributions."""
    groups = context.pooled(context.groups_of(*KINDS))
    if not groups or not context.results.has("exchanges"):
        return None
    exchanges = context.results.table("exchanges")
    rows, data = [], []
    for group in groups:
        own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        took = sample_of(own["duration_ms"])
        lost = own.height - len(took)
        numbers = [float("nan")] * 7
        if len(took):
            # The last is what ping prints as `mdev`: the deviation of all, not of a sample.
            numbers = [float(v) for v in (took.mean(), *np.percentile(took, [50, 95, 99, 0, 100]), took.std())]
        rows.append(
            [Cell.naming(group), Cell(str(own.height)), *(Cell(number(value, 0)) for value in numbers), Cell(str(lost))]
        )
        mean, median, p95, p99, least, most, mdev = numbers
        data.append(
            {"group": group.name, "exchanges": own.height, "mean_ms": mean, "median_ms": median, "p95_ms": p95,
             "p99_ms": p99, "least_ms": least, "most_ms": most, "mdev_ms": mdev, "unanswered": lost}
        )  # fmt: skip
    table = Table(
        name="exchanges",
        caption="Requests until their response's last byte, and pings: duration (ms); mdev, as ping prints it, is the "
        "standard deviation",
        head=[
            "",
            "exchanges",
            "mean",
            "median",
            "95th percentile",
            "99th percentile",
            "least",
            "most",
            "mdev",
            "unanswered",
        ],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )
    lines: list[Block] = []
    for kind in KINDS:
        those = [group for group in context.pooled(context.groups_of(kind)) if not group.flows.is_empty()]
        lines += sweep.over_what_varies(context, those, [replace(metric(EXCHANGE), title=TITLES[kind])])
    return Section("exchanges", "Requests and pings", [*lines, table, *_distributions(context, exchanges)])


def _distributions(context: Context, exchanges: pl.DataFrame) -> Sequence[Block]:
    blocks: list[Block] = []
    for kind in KINDS:
        panels, words = [], []
        kept, left_out = context.panels(context.pooled(context.groups_of(kind)), MOST_PANELS)
        for panel in kept:
            curves = []
            for group, text in zip(panel.groups, panel.labels, strict=True):
                own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
                took = sample_of(own["duration_ms"])
                if len(took):
                    curves.append(Curve(text, group.look, *cumulative(took)))
                    words.append(f"{group.label}: median {number(float(np.median(took)), 0)} ms")
            panels += [CurvePanel(panel.title, "", curves)] if curves else []
        if panels:
            of = {"request": "requests", "ping": "pings"}[kind]
            name = "exchanges" if kind == "request" else "pings"
            blocks.append(
                Plot.of(
                    f"{name}-distribution",
                    f"Cumulative distribution of the durations of {of}. {left_out}".strip(),
                    "; ".join(words),
                    partial(cumulative_figure, panels, "Duration (ms)", of, 1.0, begins_at_zero=False),
                    data=data_of(panels, "duration_ms"),
                )
            )
    return blocks

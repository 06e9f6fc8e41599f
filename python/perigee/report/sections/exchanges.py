# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Requests and their responses, and pings: how long each took."""

from __future__ import annotations

import numpy as np
import polars as pl

from perigee.numbers import number
from perigee.report.context import MOST_DRAWN, Context
from perigee.report.legends import legend_above
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.style import figure
from perigee.statistics.estimates import cumulative
from perigee.statistics.metrics import sample_of


def section(context: Context) -> Section | None:
    """Return a table of durations per group and their cumulative distributions."""
    groups = context.groups_of("request", "ping")
    if not groups or not context.results.has("exchanges"):
        return None
    exchanges = context.results.table("exchanges")
    rows, data, curves = [], [], []
    for group in groups:
        own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        took = sample_of(own["duration_ms"])
        lost = own.height - len(took)
        numbers = [float(took.mean()), *(float(v) for v in np.percentile(took, [50, 95, 99]))] if len(took) else []
        numbers += [float("nan")] * (4 - len(numbers))
        rows.append(
            [Cell(group.label), Cell(str(own.height)), *(Cell(number(value, 0)) for value in numbers), Cell(str(lost))]
        )
        mean, median, p95, p99 = numbers
        data.append(
            {"group": group.name, "exchanges": own.height, "mean_ms": mean, "median_ms": median, "p95_ms": p95,
             "p99_ms": p99, "unanswered": lost}
        )  # fmt: skip
        if len(took):
            curves.append((group, took))
    table = Table(
        name="exchanges",
        caption="Requests until their response's last byte, and pings: duration (ms)",
        head=["", "exchanges", "mean", "median", "95th percentile", "99th percentile", "unanswered"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )
    blocks: list[Block] = [table]
    if curves and len(groups) <= MOST_DRAWN:
        drawing = figure(3.3)
        axes = drawing.subplots()
        for group, took in curves:
            x, share = cumulative(took)
            axes.step(x, share, where="post", color=group.look.color, ls=group.look.dash, label=group.legend)
        axes.set_xlabel("Duration (ms)")
        axes.set_ylabel("Share of exchanges")
        axes.set_ylim(0, 1.01)
        legend_above(drawing, axes)
        alt = "; ".join(f"{group.label}: median {number(float(np.median(took)), 0)} ms" for group, took in curves)
        blocks.append(Plot("exchanges", "Cumulative distribution of the durations.", alt, drawing))
    return Section("exchanges", "Requests and pings", blocks)

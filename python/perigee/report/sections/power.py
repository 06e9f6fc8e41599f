# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Power, throughput over delay, in each phase: more throughput or less delay makes more of it."""

from __future__ import annotations

import numpy as np

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.legends import legend_above
from perigee.report.model import Plot, Section
from perigee.report.ranking import ALGORITHM, Question, rankings
from perigee.report.sections.summary import metric_table
from perigee.report.style import INK, figure, from_zero


def section(context: Context) -> Section | None:
    """Return the table of power by phase, the best of each marked, and a figure of it."""
    metrics = context.metrics(["power", "steady_power", "startup_power"])
    if not metrics:
        return None
    caption = "Power: mean throughput (Mbit/s) over mean round-trip time (s), a ratio of means, which has no spread"
    found = rankings(context, [Question(context.groups, ALGORITHM, metrics)])
    table = metric_table(context, metrics, "power", caption, found)
    drawing = figure(2.8)
    axes = drawing.subplots()
    groups = context.drawn
    width = 0.8 / len(groups)
    words = []
    for number_of_group, group in enumerate(groups):
        power = np.array([context.value(group, one) for one in metrics])
        at = np.arange(len(metrics)) + (number_of_group - (len(groups) - 1) / 2) * width
        bars = axes.bar(
            at, power, width * 0.9, color=group.look.color, hatch=group.look.hatch, edgecolor=INK, lw=0.5, alpha=0.85,
            label=group.legend,
        )  # fmt: skip
        axes.bar_label(bars, [number(value, 0) for value in power], fontsize=7.5, padding=1)
        words += [f"{group.label} {one.title.lower()} {number(v, 0)}" for one, v in zip(metrics, power, strict=True)]
    axes.set_xticks(range(len(metrics)), [one.title.removesuffix(" power") for one in metrics])
    axes.set_ylabel("Power (Mbit/s per s)")
    axes.grid(visible=False, axis="x")
    from_zero([axes])
    legend_above(drawing, axes)
    plot = Plot("power", "Power by phase.", "; ".join(words), drawing)
    return Section("power", "Power", [table, plot])

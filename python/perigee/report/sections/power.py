# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Power (throughput divided by delay) in each phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from perigee.groups.panels import Panel
from perigee.numbers import number
from perigee.report.charts.few import with_few
from perigee.report.charts.grid import row
from perigee.report.charts.scales import with_direction
from perigee.report.context import Context
from perigee.report.model import Plot, Section
from perigee.report.ranking import ALGORITHM, Question, untested
from perigee.report.sections.summary import metric_table
from perigee.report.style import COLUMN_IN, INK, from_zero

MOST_PANELS = 6


def section(context: Context) -> Section | None:
    """Return the table of power by phase, the best of each marked, and a figure of it."""
    metrics = context.metrics(["power", "steady_power", "startup_power"])
    if not metrics:
        return None
    caption = "Power: mean throughput (Mbit/s) over mean round-trip time (s), a ratio of means, which has no spread"
    found = untested(context, [Question(context.groups, ALGORITHM, metrics)])
    table = metric_table(context, metrics, "power", caption, found)
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    values = {group.number: [context.value(group, one) for one in metrics] for group in context.drawn}
    words = [
        f"{group.label} {one.title.lower()} {number(value, 0)}"
        for panel in kept
        for group in panel.groups
        for one, value in zip(metrics, values[group.number], strict=True)
    ]
    ticks = [one.title.removesuffix(" power") for one in metrics]
    few, grey = with_few(kept, {group: power[0] for group, power in values.items()}, context.yardsticks)
    caption = " ".join(filter(None, ("Power by phase.", grey, left_out)))
    plot = Plot.of("power", caption, "; ".join(words), partial(_figure, few, values, ticks))
    return Section("power", "Power", [plot, replace(table, folded=True)])


def _figure(
    kept: Sequence[Panel], values: Mapping[int, Sequence[float]], ticks: Sequence[str], width_in: float
) -> Figure:
    laid = row(width_in, kept, 2.1 if len(kept) == 1 else 1.7)
    for (_, column), axes in laid.panels.items():
        width = 0.8 / len(kept[column].groups)
        for place, (group, text) in enumerate(kept[column].labelled()):
            power = values[group.number]
            at = np.arange(len(ticks)) + (place - (len(kept[column].groups) - 1) / 2) * width
            bars = axes.bar(
                at, power, width * 0.9, color=group.look.color, hatch=group.look.hatch, edgecolor=INK, lw=0.5,
                alpha=0.85, label=text or None,
            )  # fmt: skip
            if len(kept) == 1 and width_in > COLUMN_IN:
                axes.bar_label(bars, [number(value, 0) for value in power], fontsize=7.5, padding=1)
        axes.set_xticks(range(len(ticks)), list(ticks))
        axes.grid(visible=False, axis="x")
    from_zero(list(laid.panels.values()))
    laid.label("", [with_direction("Power (Mbit/s per s)", higher_is_better=True)])
    laid.legend_of_lines()
    return laid.figure

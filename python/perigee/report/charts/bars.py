# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Means as bars with confidence intervals: at each level of a factor one per level of another, panels for a third."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from perigee.groups.factors import Factor
from perigee.report.charts.grid import grid
from perigee.report.charts.sample import Sample, by_levels, texts
from perigee.report.charts.scales import with_direction
from perigee.report.style import INK, from_zero
from perigee.statistics.metrics import Metric


def bars(
    sample_: Sample, metric: Metric, x: Factor | None, hue: Factor | None, panel: Factor | None, width_in: float
) -> Figure:
    """Draw means of a metric as bars.

    Args:
        sample_: the flows.
        metric: the quantity.
        x: factor of the horizontal axis; None: nothing but the hue varies.
        hue: factor of the bars that stand together.
        panel: factor of the panels.
        width_in: width of the figure.
    """
    titles = [panel.said(text) if panel else "" for text in texts(panel)]
    laid = grid(
        width_in, 1, titles, [(0, place) for place in range(len(titles))], labels=sample_.names(hue),
        height_in=1.9 if len(titles) > 1 else 2.5, narrowest_in=2.6,
    )  # fmt: skip
    width = 0.84 / len(texts(hue))
    for (_, place), axes in laid.panels.items():
        found = by_levels(sample_.of(sample_.part({panel: texts(panel)[place]})), metric, [x, hue])
        for number, level in enumerate(texts(hue)):
            look, shift = sample_.look(level), (number - (len(texts(hue)) - 1) / 2) * width
            for tick, text in enumerate(texts(x)):
                if (mean := found.get((text, level))) is None:
                    continue
                axes.bar(
                    tick + shift, mean.mean, 0.92 * width, yerr=mean.half_width if mean.half_width > 0 else None,
                    color=look.color, edgecolor=INK, hatch=look.hatch, lw=0.5,
                    error_kw={"elinewidth": 0.8, "capsize": 1.5, "ecolor": INK},
                )  # fmt: skip
        axes.set_xticks(range(len(texts(x))), texts(x))
        axes.grid(visible=False, axis="x")
    from_zero(list(laid.panels.values()), metric.unit)
    laid.label(x.title if x else "", [with_direction(metric.heading, metric.higher_is_better)])
    looks = [sample_.look(level) for level in texts(hue) if sample_.name(hue, level)]
    handles = [Patch(facecolor=one.color, edgecolor=INK, hatch=one.hatch, lw=0.5) for one in looks]
    laid.legend(handles, sample_.names(hue))
    return laid.figure

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Short-time goodput: payload per second, over a window of ten seconds that slides by one (Caini 2009)."""

from __future__ import annotations

import numpy as np
import polars as pl

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.legends import legend_above
from perigee.report.model import Plot, Section
from perigee.report.style import figure, from_zero
from perigee.statistics.estimates import Array, sliding_mean

WINDOW_S = 10.0


def section(context: Context) -> Section | None:
    """Return the short-time goodput of the typical flow of each group over time."""
    if not context.results.has("series"):
        return None
    drawing = figure(3.2)
    axes = drawing.subplots()
    words = []
    for group in context.drawn:
        t, goodput = short_time(context.series(*context.typical[group.number]))
        if not len(t):
            continue
        axes.plot(t, goodput, color=group.look.color, ls=group.look.dash, label=group.legend, rasterized=len(t) > 4000)
        words.append(f"{group.label}: {number(float(goodput.min()), 2)} to {number(float(goodput.max()), 2)} Mbit/s")
    if not words:
        return None
    axes.set_xlabel("Time since the flow began (s)")
    axes.set_ylabel("Short-time goodput (Mbit/s)")
    axes.set_xlim(left=0)
    from_zero([axes])
    legend_above(drawing, axes)
    caption = (
        f"Payload that the receiver had got, in order or not, in the {WINDOW_S:g} s before each instant. At the "
        "sender's side it counts when its acknowledgement, selective or not, comes."
    )
    return Section("short-time", "Short-time goodput", [Plot("short-time", caption, "; ".join(words), drawing)])


def short_time(series: pl.DataFrame) -> tuple[Array, Array]:
    """Return the ends of the windows (s) and the goodput in each (Mbit/s) of a flow's series."""
    t = series["t_s"].to_numpy().astype(np.float64)
    if len(t) < 2:
        return np.empty(0), np.empty(0)
    length = np.diff(t, prepend=max(0.0, t[0] - float(np.median(np.diff(t)))))
    return t, sliding_mean(t, length, series["goodput_mbps"].to_numpy().astype(np.float64), WINDOW_S)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Short-time goodput: payload per second, over a sliding window of ten seconds in steps of one (Caini 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.group import Group
from perigee.groups.looks import Look
from perigee.numbers import number
from perigee.report.charts.few import with_few
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.charts.scales import with_direction
from perigee.report.context import Context
from perigee.report.model import Plot, Section
from perigee.statistics.acknowledged import Flow, acknowledged
from perigee.statistics.estimates import Array, mean_band, percent
from perigee.statistics.metrics import SHORT_TIME_S, short_time

MOST_PANELS = 6


@dataclass(frozen=True)
class Mean:
    """The mean short-time goodput of a group's flows, and half of its confidence interval: none of a single flow."""

    t_s: Array
    mbps: Array
    half_mbps: Array | None
    flows: int


def section(context: Context) -> Section | None:
    """Return the mean short-time goodput of the flows of each group over time."""
    if not context.results.has("series"):
        return None
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    flows = [group.flows.select("run", "flow", "start_s") for panel in kept for group in panel.groups]
    if not flows:
        return None
    known = acknowledged(context.results, pl.concat(flows))
    curves = {group.number: _curve(context, group, known) for panel in kept for group in panel.groups}
    kept = [panel for panel in kept if any(len(curves[group.number].t_s) for group in panel.groups)]
    if not kept:
        return None
    drawn = [group for panel in kept for group in panel.groups if len(curves[group.number].t_s)]
    words = []
    for group in drawn:
        goodput = curves[group.number].mbps
        words.append(f"{group.label}: {number(float(goodput.min()), 2)} to {number(float(goodput.max()), 2)} Mbit/s")
    most = max(curves[group.number].flows for group in drawn)
    level = percent(context.settings.confidence)
    bands = f" Means of up to {most} flows while all last, with {level} confidence bands." if most > 1 else ""
    means = {group.number: float(curves[group.number].mbps.mean()) for group in drawn}
    few, grey = with_few(kept, means, context.yardsticks)
    caption = (
        f"Payload that was acknowledged, selectively or not, in the {SHORT_TIME_S:g} s before each instant; of a split "
        f"flow by its receiver.{bands} {grey} {left_out}"
    )
    panels = [
        TimePanel(panel.title, [[_drawn(curves[group.number], group.look, text) for group, text in panel.labelled()]])
        for panel in few
    ]
    heading = with_direction("Short-time goodput (Mbit/s)", higher_is_better=True)
    draw = partial(over_time, panels, [heading], "Time since the flow began (s)", narrowest_in=2.2)
    plot = Plot.of("short-time", caption.strip(), "; ".join(words), draw, data=_data(drawn, curves))
    return Section("short-time", "Short-time goodput", [plot])


def _curve(context: Context, group: Group, known: Mapping[Flow, pl.DataFrame]) -> Mean:
    flows = [(int(run), str(flow)) for run, flow in group.flows.select("run", "flow").iter_rows()]
    found = [curve for flow in flows if flow in known if len((curve := short_time(known[flow]))[0])]
    length = min((len(t) for t, _ in found), default=0)
    if not length:
        return Mean(np.empty(0), np.empty(0), None, 0)
    seen = np.array([goodput[:length] for _, goodput in found])
    t = found[0][0][:length]
    if len(seen) == 1:
        return Mean(t, seen[0], None, 1)
    return Mean(t, *mean_band(seen, context.settings.confidence), len(seen))


def _drawn(curve: Mean, look: Look, label: str) -> Curve:
    half = curve.half_mbps
    band = None if half is None else (curve.mbps - half, curve.mbps + half)
    return Curve(label, look, curve.t_s, curve.mbps, band)


def _data(drawn: Sequence[Group], curves: Mapping[int, Mean]) -> pl.DataFrame:
    tables = []
    for group in drawn:
        curve = curves[group.number]
        half = [None] * len(curve.t_s) if curve.half_mbps is None else curve.half_mbps
        tables.append(
            pl.DataFrame(
                {"group": group.name, "t_s": curve.t_s, "goodput_mbps": curve.mbps,
                 "half_width_mbps": pl.Series(half, dtype=pl.Float64), "flows": curve.flows}
            )
        )  # fmt: skip
    return pl.concat(tables)

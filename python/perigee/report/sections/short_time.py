# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Short-time goodput: payload per second, over a sliding window of ten seconds in steps of one (Caini 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.group import Group
from perigee.groups.panels import Panel
from perigee.numbers import number
from perigee.report.charts.few import with_few
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.charts.scales import with_direction
from perigee.report.context import Context
from perigee.report.model import Plot, Section
from perigee.statistics.acknowledged import Flow, acknowledged
from perigee.statistics.estimates import mean_band, percent
from perigee.statistics.metrics import SHORT_TIME_S, short_time

MOST_PANELS = 6

AXIS = with_direction("Short-time goodput (Mbit/s)", higher_is_better=True)


def section(context: Context) -> Section | None:
    """Return the mean short-time goodput of the flows of each group over time."""
    if not context.results.has("series"):
        return None
    panels, left_out = context.panels(context.drawn, MOST_PANELS)
    every = [group for panel in panels for group in panel.groups]
    if not every:
        return None
    known = acknowledged(context.results, pl.concat(group.flows.select("run", "flow", "start_s") for group in every))
    found = {group.number: _curve(context, group, known) for group in every}
    # Flows that are shorter than the window have no curve.
    curves = {place: curve for place, curve in found.items() if not curve.is_empty()}
    kept = [panel for panel in panels if any(group.number in curves for group in panel.groups)]
    if not kept:
        return None
    drawn = [group for panel in kept for group in panel.groups if group.number in curves]
    rates = {group.number: curves[group.number]["goodput_mbps"].to_numpy() for group in drawn}
    words = [
        f"{group.label}: {number(float(rates[group.number].min()), 2)} to "
        f"{number(float(rates[group.number].max()), 2)} Mbit/s"
        for group in drawn
    ]
    most = max(int(curves[group.number]["flows"][0]) for group in drawn)
    level = percent(context.settings.confidence)
    bands = f" Means of up to {most} flows while all last, with {level} confidence bands." if most > 1 else ""
    few, grey = with_few(kept, {place: float(values.mean()) for place, values in rates.items()}, context.yardsticks)
    caption = (
        f"Payload that was acknowledged, selectively or not, in the {SHORT_TIME_S:g} s before each instant; of a split "
        f"flow by its receiver.{bands} {grey} {left_out}"
    )
    plot = Plot.of(
        "short-time", caption.strip(), "; ".join(words),
        partial(
            over_time, _panels(few, curves), [AXIS], "Time since the flow began (s)", narrowest_in=2.2,
            height_in=2.4 if len(few) == 1 else 1.8,
        ),
        data=pl.concat([curves[group.number] for group in drawn]),
    )  # fmt: skip
    return Section("short-time", "Short-time goodput", [plot])


def _curve(context: Context, group: Group, known: Mapping[Flow, pl.DataFrame]) -> pl.DataFrame:
    """Return `group`, `t_s`, the mean `goodput_mbps`, `half_width_mbps`, of a single flow null, and `flows`."""
    flows = [(int(run), str(flow)) for run, flow in group.flows.select("run", "flow").iter_rows()]
    found = [curve for flow in flows if flow in known if len((curve := short_time(known[flow]))[0])]
    length = min((len(t) for t, _ in found), default=0)
    if not length:
        return pl.DataFrame()
    seen = np.array([goodput[:length] for _, goodput in found])
    mean, half = (seen[0], None) if len(seen) == 1 else mean_band(seen, context.settings.confidence)
    return pl.DataFrame(
        {"group": group.name, "t_s": found[0][0][:length], "goodput_mbps": mean,
         "half_width_mbps": pl.Series([None] * length if half is None else half, dtype=pl.Float64), "flows": len(seen)}
    )  # fmt: skip


def _panels(few: Sequence[Panel], curves: Mapping[int, pl.DataFrame]) -> list[TimePanel]:
    made = []
    for panel in few:
        row = []
        for group, text in panel.labelled():
            if (part := curves.get(group.number)) is not None:
                mean, half = part["goodput_mbps"], part["half_width_mbps"]
                band = (mean - half, mean + half) if half.count() else None
                row.append(Curve(text, group.look, part["t_s"], mean, band, width=1.4))
        made.append(TimePanel(panel.title, [row]))
    return made

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figures with a row per algorithm, for studies of many: marks on scales side by side, and curves over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.factors import Factor, capital, lowered
from perigee.groups.group import Group
from perigee.groups.looks import Look
from perigee.numbers import decimals, number
from perigee.report.charts.few import UNMARKED
from perigee.report.charts.gallery import Scale, overview
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.charts.sample import by_levels, means, texts
from perigee.report.context import Context
from perigee.report.model import Plot
from perigee.report.sections.representative import rtt_of
from perigee.statistics.metrics import Metric, mean, sample_of

REFERENCE = "cubic"
"""Algorithm drawn behind every other one."""

QUANTITIES = (
    ("cwnd_packets", "Window (packets)"), ("rtt_ms", "Round-trip time (ms)"), ("goodput_mbps", "Throughput (Mbit/s)"),
)  # fmt: skip
LOST = Look("#c2410c", "", "|", "")
"""How intervals with retransmissions are marked."""
TAIL_PERCENT = 99
"""Share of the values within a scale; windows beyond are cut off."""


def dots(
    context: Context, groups: Sequence[Group], metrics: Sequence[Metric], hue: Factor, marks: Factor | None,
    facet: Factor | None,
) -> Plot:  # fmt: skip
    """Return a row per level of `hue`, a mark per level of `marks`, and a scale per metric and level of `facet`."""
    sample = context.sample(groups, metrics, hue)
    scales, words = [], []
    for one in metrics:
        found = by_levels(sample, one, [facet, marks, hue])
        for text in texts(facet):
            where = f"{facet.said(text)}: " if facet else ""
            here = {
                (mark, row): found[text, mark, row].mean if (text, mark, row) in found else float("nan")
                for mark in texts(marks)
                for row in texts(hue)
            }
            known = [value for value in here.values() if value == value]
            if known:
                scales.append(
                    Scale(
                        f"{where}{one.heading}", here, from_zero=min(known) >= 0, higher_is_better=one.higher_is_better
                    )
                )
                digits = decimals(0, max(known))
                words.append(
                    f"{where}{one.title} {number(min(known), digits)} to {number(max(known), digits)} {one.unit}"
                )
    factors = [factor for factor in (hue, marks, facet) if factor is not None]
    shown = capital(" and ".join(lowered(one.title) for one in metrics))
    caption = f"{shown}: means over rounds, a row per {hue.title.lower()}"
    caption += ", marks by what the legend names." if marks else "."
    draw = partial(overview, context.looks(hue), texts(marks), scales)
    return Plot.of("dots", caption, "; ".join(words), draw, data=means(sample, metrics, factors))


def rows_over_time(context: Context, title: str, groups: Sequence[Group], labels: Sequence[str]) -> Plot:
    """Return window, round-trip time and throughput over time, a row per group, one of each in its typical run."""
    shown = {}
    for group, label in zip(groups, labels, strict=True):
        run, flow = context.typical[group.number]
        series = context.series(run, flow)
        shown[label or group.label] = group, series.with_columns(rtt_of(series).alias("rtt_ms"))
    behind = next((series for group, series in shown.values() if group.cc == REFERENCE), None)
    panels: list[TimePanel] = []
    tops: list[float] = []
    for name, heading in QUANTITIES:
        values = np.concatenate([sample_of(series[name]) for _, series in shown.values()])
        high = 1.1 * (float(np.percentile(values, TAIL_PERCENT)) if len(values) else 0.0) or 1.0
        rows = []
        for group, series in shown.values():
            curves = [Curve("", group.look, series["t_s"], series[name])]
            if behind is not None and series is not behind:
                curves.insert(0, Curve("", UNMARKED, behind["t_s"], behind[name]))
            if not panels:
                resent = series.filter(pl.col("retransmitted_packets") > 0)["t_s"]
                curves.append(Curve("", LOST, resent, np.full(len(resent), 0.03 * high), form="points"))
            rows.append(curves)
        panels.append(TimePanel(heading, rows))
        tops.append(high)
    words = [
        f"{label} {number(mean(series['goodput_mbps']))} Mbit/s at {number(mean(series['rtt_ms']), 0)} ms"
        for label, (_, series) in shown.items()
    ]
    data = pl.concat(
        [
            series.select(
                pl.lit(group.name).alias("group"), "t_s", *(name for name, _ in QUANTITIES), "retransmitted_packets"
            )
            for group, series in shown.values()
        ]
    )
    caption = "Marks under a window are intervals with retransmissions; what is beyond a scale is cut off."
    caption += f" Grey: {context.label(REFERENCE)}." if behind is not None else ""
    of = f"{title}. " if title else ""
    draw = partial(
        over_time, panels, list(shown), "Time since the flow began (s)", narrowest_in=1.0, height_in=0.66,
        tops=[tops] * len(shown), named=True,
    )  # fmt: skip
    return Plot.of(f"rows-{title or 'all'}", f"{of}{caption}", "; ".join(words), draw, data=data)

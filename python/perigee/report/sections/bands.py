# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Mean throughput over time with its confidence band: flows that share a link, their sum, and single flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from perigee.groups.group import Group
from perigee.groups.looks import Look, other
from perigee.groups.names import without_number
from perigee.numbers import number
from perigee.report.charts.grid import grid
from perigee.report.context import Context
from perigee.report.model import Block, Plot, Section, Text
from perigee.report.sections.sharing import Combination, combinations
from perigee.report.style import INK, from_zero
from perigee.statistics.estimates import Array, mean_band, percent

MOST_PANELS = 12
"""Maximum number of combinations, or groups of single flows, in the figure."""

SUM = "sum"


@dataclass(frozen=True)
class Curve:
    """A mean over time.

    Attributes:
        name: name of the flow, or `sum`.
        label: label in the legend.
        style: its look.
        rates_mbps: throughput of each repetition in each interval, shape (repetitions, intervals).
    """

    name: str
    label: str
    style: Look
    rates_mbps: Array


@dataclass(frozen=True)
class Bands:
    """Curves of the same flows, repetition after repetition.

    Attributes:
        title: their label.
        curves: a curve per flow, and their sum.
    """

    title: str
    curves: Sequence[Curve]


def section(context: Context) -> Section | None:
    """Return means over time with confidence bands; None without series or repetitions."""
    if not context.results.has("series"):
        return None
    found = [_of_combination(context, one) for one in combinations(context) if len(one.meetings) > 1]
    found += [_of_groups(context, groups) for groups in _repeated(context)]
    shown = [one for one in found if one.curves and one.curves[0].rates_mbps.shape[1] > 1]
    if not shown:
        return None
    kept = shown[:MOST_PANELS]
    blocks: list[Block] = []
    if len(kept) < len(shown):
        blocks.append(Text(f"Shown are the first {len(kept)} of {len(shown)} combinations; the data file has all."))
    return Section("bands", "Mean throughput over time", [*blocks, _plot(context, shown, kept)])


def _of_combination(context: Context, one: Combination) -> Bands:
    starts = [meeting.from_s for meeting in one.meetings]
    lengths = [meeting.until_s - meeting.from_s for meeting in one.meetings]
    intervals = int(min(lengths) / context.interval_s + 1e-6)
    curves: list[Curve] = []
    for place, row in enumerate(one.rows[0]):
        flows = [(int(of_round[place]["run"]), str(of_round[place]["flow"])) for of_round in one.rows]
        began = [float(of_round[place]["start_s"]) for of_round in one.rows]
        rates = np.array(
            [
                _rates(context, flow, start - begin, intervals)
                for flow, start, begin in zip(flows, starts, began, strict=True)
            ]
        )
        label = context.algorithm(row) if row["cc"] else one.names[place]
        style = context.look_of(row)
        is_same = any(label == curve.label for curve in curves)
        curves.append(
            Curve(one.names[place], "another of the same" if is_same else label, other(0) if is_same else style, rates)
        )
    total = np.asarray(sum(curve.rates_mbps for curve in curves), dtype=np.float64)
    return Bands(one.title, [*curves, Curve(SUM, SUM, Look(INK, "-", "", ""), total)])


def _repeated(context: Context) -> list[list[Group]]:
    """Return the groups of single flows that are repeated, in rounds or within a run."""
    alike: dict[tuple[str, ...], list[Group]] = {}
    for group in context.drawn:
        row = group.flows.row(0, named=True)
        key = (str(row["point"]), without_number(row["flow"]), row["cc"], row["cc_params"])
        alike.setdefault(key, []).append(group)
    return [groups for groups in alike.values() if sum(group.flows.height for group in groups) > 1]


def _of_groups(context: Context, groups: Sequence[Group]) -> Bands:
    flows = pl.concat([group.flows.select("run", "flow", "duration_s") for group in groups])
    intervals = int(float(flows["duration_s"].min()) / context.interval_s + 1e-6)  # type: ignore[arg-type]
    rates = np.array([_rates(context, (int(run), str(flow)), 0.0, intervals) for run, flow, _ in flows.iter_rows()])
    first = groups[0]
    label = first.label if len(groups) == 1 else context.algorithm(first.flows.row(0, named=True)) or first.label
    return Bands(label, [Curve(without_number(first.flows["flow"][0]), label, first.look, rates)])


def _rates(context: Context, flow: tuple[int, str], from_s: float, intervals: int) -> Array:
    """Return a flow's throughput in each interval from an instant on, `from_s` after it began, in Mbit/s."""
    part = context.series(*flow)
    step = context.interval_s
    edges = np.concatenate([[0.0], part["t_s"].to_numpy()])
    carried = np.concatenate([[0.0], np.cumsum(part["goodput_mbps"].to_numpy() * np.diff(edges))])
    wanted = from_s + step * np.arange(intervals + 1)
    return np.asarray(np.diff(np.interp(wanted, edges, carried)) / step, dtype=np.float64)


def _plot(context: Context, every: Sequence[Bands], kept: Sequence[Bands]) -> Plot:
    level = context.settings.confidence
    data = pl.concat([_data(context, one, curve) for one in every for curve in one.curves])
    counts = sorted({len(one.curves[0].rates_mbps) for one in kept})
    times = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    caption = (
        f"Mean throughput in intervals of {number(context.interval_s, 1)} s over {times} repetitions, with "
        f"{percent(level)} confidence bands (Student's t; of each interval for itself, repetitions independent)."
    )
    means = [
        ", ".join(f"{curve.label} {number(float(curve.rates_mbps.mean()))} Mbit/s" for curve in one.curves)
        for one in kept
    ]
    alt = "; ".join(f"{one.title}: {mean}" for one, mean in zip(kept, means, strict=True))
    draw = partial(_figure, kept, context.interval_s, level)
    return Plot.of("bands", caption, alt, draw, data=data)


def _data(context: Context, one: Bands, curve: Curve) -> pl.DataFrame:
    mean, half = mean_band(curve.rates_mbps, context.settings.confidence)
    return pl.DataFrame(
        {"together": one.title, "flow": curve.name, "t_s": context.interval_s * np.arange(1, len(mean) + 1),
         "goodput_mbps": mean, f"half_width_{100 * context.settings.confidence:g}_mbps": half,
         "repetitions": len(curve.rates_mbps)}
    )  # fmt: skip


def _figure(kept: Sequence[Bands], interval_s: float, level: float, width_in: float) -> Figure:
    labels = list(dict.fromkeys(curve.label for one in kept for curve in one.curves))
    laid = grid(
        width_in, 1, [one.title for one in kept], [(0, place) for place in range(len(kept))], labels=labels,
        height_in=1.7 if len(kept) > 1 else 2.4, narrowest_in=2.8,
    )  # fmt: skip
    for (_, place), axes in laid.panels.items():
        for curve in kept[place].curves:
            mean, half = mean_band(curve.rates_mbps, level)
            t = interval_s * np.arange(1, len(mean) + 1)
            axes.plot(t, mean, color=curve.style.color, ls=curve.style.dash, lw=1.0, label=curve.label)
            axes.fill_between(t, mean - half, mean + half, color=curve.style.color, alpha=0.2, lw=0, rasterized=True)
        axes.set_xlim(left=0)
    from_zero(list(laid.panels.values()))
    laid.label("Time since all were under way (s)", ["Throughput (Mbit/s)"])
    laid.legend_of_lines()
    return laid.figure

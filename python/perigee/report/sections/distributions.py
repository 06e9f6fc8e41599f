# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Box plots of throughput percentiles; cumulative distributions of round-trip time and retransmitted share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.group import Group
from perigee.groups.panels import roles
from perigee.numbers import decimals, number
from perigee.report.charts import boxes, equal
from perigee.report.charts.boxes import FEW, BoxPanel, Column
from perigee.report.charts.cumulative import Curve, CurvePanel, cumulative_figure, data_of, said_if_equal, with_few
from perigee.report.charts.scales import with_direction
from perigee.report.context import Context
from perigee.report.measured import round_trips
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.statistics.estimates import WHISKER_IQR, Array, Box, box, cumulative
from perigee.statistics.metrics import Metric, metric, sample

Kind = tuple[str, Callable[[Group], tuple[Array, Array] | None]]
"""Title, and the ascending values of a group with the share at or below each."""

BoxRow = tuple[Group, str, str, Box, Array]
"""Group, quantity and its title, the box, and the values."""

MOST_PANELS = 12
"""Maximum panels of a figure; further groups have tables only, which the caption mentions."""

MOST_WORDS = 40
"""Maximum number of groups in the alternative text of a figure."""

PERCENTILES = (
    ("goodput_p10_mbps", "10th percentile"),
    ("goodput_p50_mbps", "50th percentile"),
    ("goodput_p90_mbps", "90th percentile"),
    ("goodput_mbps", "mean"),
)


def throughput(context: Context) -> Section | None:
    """Return percentiles (10, 50, 90) and mean of throughput of each flow, as boxes or points."""
    return _percentiles(context, "throughput", "Throughput", PERCENTILES)


def steady(context: Context) -> Section | None:
    """Return the same of the flows' steady phases."""
    names = [(f"steady_{name}", title) for name, title in PERCENTILES]
    return _percentiles(context, "steady", "Throughput in steady state", names)


def _percentiles(context: Context, section: str, heading: str, names: Sequence[tuple[str, str]]) -> Section | None:
    shown = [(name, title) for name, title in names if context.metrics([name])]
    if not shown:
        return None
    rows = [
        (group, name, title, box(seen), seen)
        for group in context.drawn
        for name, title in shown
        if len(seen := sample(context.with_metric(group, name), name))
    ]
    if _are_lines(context):
        caption = "Percentiles and mean of each flow's throughput per second, over flows (Mbit/s)"
        return Section(section, heading, [replace(_table_of_boxes(rows, section), caption=caption)])
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    panels = [
        BoxPanel(
            panel.title,
            [Column(text, group.look, [sample(context.with_metric(group, name), name) for name, _ in shown])
             for group, text in zip(panel.groups, panel.labels, strict=True)],
        )
        for panel in kept
    ]  # fmt: skip
    alt = "; ".join(f"{g.label}, {title}: median {number(b.median)} Mbit/s" for g, _, title, b, _ in rows[:MOST_WORDS])
    few, grey = boxes.with_few(panels, context.yardsticks)
    label = with_direction("Throughput (Mbit/s)", higher_is_better=True)
    plot = Plot.of(
        f"{section}-boxes",
        " ".join(filter(None, (_caption_of_boxes([len(seen) for *_, seen in rows]), grey, left_out))),
        alt,
        lambda width_in: boxes.boxes_figure(
            few, [title for _, title in shown], "percentile or mean of a flow's throughput per second", label, width_in,
        ),
        instead=_said_if_equal(context, context.metrics([name for name, _ in shown])),
        data=pl.DataFrame([
            {"group": g.name, "quantity": name, "unit": "Mbit/s", "value": float(value)}
            for g, name, _, _, seen in rows for value in seen
        ]),
    )  # fmt: skip
    return Section(section, heading, [plot, _table_of_boxes(rows, section)])


def _said_if_equal(context: Context, metrics: Sequence[Metric]) -> str:
    """Return the sentence in the place of a figure of all groups; empty if they differ in one of the metrics."""
    return equal.instead(context.sample(context.drawn, metrics, None), metrics)


def _are_lines(context: Context) -> bool:
    """Return True if the figures over what varies show means and intervals of a few flows, which need no other."""
    if context.settings.sections or any(group.flows.height >= FEW for group in context.drawn):
        return False
    place = roles(context.factors(context.drawn))
    return bool(place.x or place.facets) and not context.results.is_analysis


def _caption_of_boxes(sizes: Sequence[int]) -> str:
    caption = ["Distribution over flows of each flow's 10th, 50th and 90th percentile and mean of throughput."]
    if max(sizes) >= FEW:
        caption.append(
            f"Boxes: quartiles and median; whiskers: last value within {WHISKER_IQR} interquartile ranges of the box; "
            "circles: outliers."
        )
    if min(sizes) < FEW:
        caption.append(f"Fewer than {FEW} flows are points, with a line at their mean.")
    return " ".join(caption)


def _table_of_boxes(rows: Sequence[BoxRow], section: str) -> Table:
    return Table(
        name=f"{section}-boxes",
        caption="The figure in numbers: throughput (Mbit/s)",
        head=["", "of each flow", "lower whisker", "lower quartile", "median", "upper quartile", "upper whisker",
              "outliers"],
        rows=[
            [Cell.naming(g), Cell(title), *_numbers_of(b), Cell(str(len(b.outliers)))]
            for g, _, title, b, _ in rows
        ],
        data=pl.DataFrame(
            [
                {"group": g.name, "quantity": name, "unit": "Mbit/s", "whisker_low": b.low, "q1": b.q1,
                 "median": b.median, "q3": b.q3, "whisker_high": b.high, "outliers": len(b.outliers),
                 "flows": len(seen)}
                for g, name, _, b, seen in rows
            ]
        ),
        words=(1,),
        folded=True,
    )  # fmt: skip


def _numbers_of(one: Box) -> list[Cell]:
    digits = decimals(1, one.median)
    return [Cell(number(value, digits)) for value in (one.low, one.q1, one.median, one.q3, one.high)]


def delay(context: Context) -> Section | None:
    """Return cumulative distributions of round-trip time: overall and steady state."""
    blocks: list[Block] = []
    if context.results.has("rtt"):
        blocks.append(_rtt_samples(context))
    elif context.metrics(["rtt_mean_ms"]):
        blocks.append(_cumulative_of_flows(context, ("rtt_mean_ms", "steady_rtt_mean_ms"), "rtt-flows", 1))
    return Section("delay", "Round-trip time", blocks) if blocks else None


def _rtt_samples(context: Context) -> Plot:
    bins, measured = context.results.table("rtt"), round_trips(context.results)
    phases = [(phase, title) for phase, title in (("all", "Overall"), ("steady", "Steady state"))
              if phase in bins["phase"].unique()]  # fmt: skip
    # Of many settings with few flows each, the whole flows are enough.
    phases = phases[:1] if _are_lines(context) and len(context.panels(context.drawn, MOST_PANELS)[0]) > 1 else phases

    def seen(group: Group, phase: str) -> tuple[Array, Array] | None:
        own = bins.filter(pl.col("phase") == phase).join(
            group.flows.select("run", "flow"), on=["run", "flow"], how="semi"
        )
        counts = own.group_by("rtt_ms").agg(pl.col("count").sum()).sort("rtt_ms")
        return None if counts.is_empty() else cumulative(counts["rtt_ms"].to_numpy(), counts["count"].to_numpy())

    return _cumulative_plot(
        context,
        [(title, partial(seen, phase=phase)) for phase, title in phases],
        Words(
            name="rtt-distribution",
            label="Round-trip time (ms)",
            quantity="rtt_ms",
            caption=f"Cumulative distribution of the round-trip time of {measured.of}, of all flows; the highest "
            "0.1\u00a0% lie beyond the right edge.",
            digits=0,
            unit="ms",
            of=measured.each,
        ),
        upper_share=0.999,
    )


_SHARES = ("mean (%)", "largest (%)", "flows with none (%)", "flows below one percent (%)")
"""Columns of the table of retransmissions, for each phase."""


def retransmissions(context: Context) -> Section | None:
    """Return cumulative distributions over flows of the retransmitted share, and the shares in numbers."""
    names = tuple(one.name for one in context.metrics(["retransmitted_percent", "steady_retransmitted_percent"]))
    if not names:
        return None
    has_any = any(sample(context.with_metric(g, name), name).any() for g in context.drawn for name in names)
    is_drawn = has_any and not _are_lines(context)
    plots = [_cumulative_of_flows(context, names, "retransmission-distribution", 2)] if is_drawn else []
    rows, data = [], []
    for group in context.pooled(context.groups):
        cells = [Cell.naming(group)]
        for name in names:
            seen = sample(context.with_metric(group, name), name)
            if len(seen) == 0:
                cells += [Cell("–")] * 4
                continue
            none, under = 100 * float(np.mean(seen == 0)), 100 * float(np.mean(seen < 1))
            mean, most = context.value(group, metric(name)), float(seen.max())
            cells += [Cell(number(mean, 2)), Cell(number(most, 2)), Cell(number(none, 0)), Cell(number(under, 0))]
            data.append(
                {"group": group.name, "quantity": name, "unit": "%", "mean": mean, "max": most,
                 "flows_with_none_percent": none, "flows_below_1_percent_percent": under, "flows": len(seen)}
            )  # fmt: skip
        rows.append(cells)
    table = Table(
        name="retransmissions",
        caption="Retransmitted share of the data packets sent",
        head=["", *_SHARES * len(names)],
        groups=[("", 1), *((metric(name).title, 4) for name in names)],
        rows=rows,
        data=pl.DataFrame(data),
        folded=is_drawn,
    )
    return Section("retransmissions", "Retransmissions", [*plots, table])


def _cumulative_of_flows(context: Context, names: tuple[str, ...], name: str, digits: int) -> Plot:
    if all(group.flows.height < FEW for group in context.drawn):
        return _points(context, context.metrics(names), name)

    def seen(group: Group, wanted: str) -> tuple[Array, Array] | None:
        values = sample(context.with_metric(group, wanted), wanted)
        return None if len(values) == 0 else cumulative(values)

    metrics = context.metrics(names)
    unit = metrics[0].unit
    kind = "Retransmitted share" if unit == "%" else "Round-trip time"
    return _cumulative_plot(
        context,
        [(one.title.split(", ")[-1].capitalize(), partial(seen, wanted=one.name)) for one in metrics],
        Words(
            name=name,
            label=f"{kind} ({unit})",
            quantity="retransmitted_percent" if unit == "%" else "rtt_ms",
            caption=f"Cumulative distribution over flows of each flow's {kind.lower()}.",
            digits=digits,
            unit=unit,
            of="flows",
        ),
        upper_share=1.0,
    )


def _points(context: Context, metrics: Sequence[Metric], name: str) -> Plot:
    """Return a figure of a point per flow, for groups of too few flows for a distribution."""
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    values = {
        group.number: [sample(context.with_metric(group, one.name), one.name) for one in metrics]
        for group in context.drawn
    }
    panels = [
        BoxPanel(
            panel.title,
            [
                Column(text, group.look, values[group.number])
                for group, text in zip(panel.groups, panel.labels, strict=True)
            ],
        )
        for panel in kept
    ]
    kind = "Retransmitted share" if metrics[0].unit == "%" else "Round-trip time"
    alts = [
        f"{group.label}, {one.title}: mean {number(float(seen.mean()), one.digits)} {one.unit}"
        for group in context.drawn
        for one, seen in zip(metrics, values[group.number], strict=True)
        if len(seen)
    ]
    ticks = [one.title.split(", ")[-1].capitalize() for one in metrics]
    few, grey = boxes.with_few(panels, context.yardsticks)
    unit, label = metrics[0].unit, with_direction(f"{kind} ({metrics[0].unit})", higher_is_better=False)
    return Plot.of(
        name,
        " ".join(filter(None, (f"{kind} of each flow, with a line at the mean of several.", grey, left_out))),
        "; ".join(alts[:MOST_WORDS]),
        partial(boxes.boxes_figure, few, ticks, "", label, unit=unit),
        instead=_said_if_equal(context, metrics),
        data=pl.DataFrame(
            [
                {"group": group.name, "quantity": one.name, "unit": one.unit, "value": float(value)}
                for group in context.drawn
                for one, seen in zip(metrics, values[group.number], strict=True)
                for value in seen
            ]
        ),
    )


@dataclass(frozen=True)
class Words:
    """Texts of a figure of cumulative distributions.

    Attributes:
        name: name of its files.
        label: label of the horizontal axis.
        quantity: its column in the data.
        caption: its caption.
        digits: decimals of a median.
        unit: unit of the quantity.
        of: the objects that shares refer to.
    """

    name: str
    label: str
    quantity: str
    caption: str
    digits: int
    unit: str
    of: str


def _cumulative_plot(context: Context, kinds: Sequence[Kind], words: Words, upper_share: float) -> Plot:
    """Return a figure of cumulative distributions: kinds side by side, or stacked if factors have columns."""
    kept, left_out = context.panels(context.drawn, MOST_PANELS // len(kinds))
    panels, alts = [], []
    for kind, seen_of in kinds:
        for panel in kept:
            found = [(group, text, seen_of(group)) for group, text in zip(panel.groups, panel.labels, strict=True)]
            curves = [Curve(text, group.look, *seen) for group, text, seen in found if seen is not None]
            title, row = (panel.title, kind) if len(kept) > 1 else (kind, "")
            panels += [CurvePanel(title, row, curves)] if curves else []
            named = [", ".join(word for word in (kind, panel.title, one.label) if word) for one in curves]
            alts += [
                f"{name}: median {number(curve.at(0.5), words.digits)} {words.unit}"
                for name, curve in zip(named, curves, strict=True)
            ]
    caption = words.caption
    titles = {panel.title for panel in panels}
    if len(kept) > 1 and len(titles) == 1:
        # A word that the panels have in common tells them not apart.
        (title,) = titles
        without = " and ".join(panel.title for panel in kept if panel.title != title)
        caption += f" Only {title}: flows {without} have no such values."
        panels = [replace(panel, title=panel.row, row="") for panel in panels]
    few, grey = with_few(panels, context.yardsticks)
    label = with_direction(words.label, higher_is_better=False)
    return Plot.of(
        words.name,
        " ".join(filter(None, (caption, grey, left_out))),
        "; ".join(alts[:MOST_WORDS]),
        partial(cumulative_figure, few, label, words.of, upper_share, begins_at_zero=words.unit == "%"),
        data=data_of(panels, words.quantity),
        instead=said_if_equal(panels, words.label.partition(" (")[0], words.unit, words.digits),
    )

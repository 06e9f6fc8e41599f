# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Box plots of throughput percentiles; cumulative distributions of round-trip time and retransmitted share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import polars as pl

from perigee.groups.group import Group
from perigee.groups.looks import Look
from perigee.groups.panels import Panel, roles
from perigee.numbers import decimals, number
from perigee.report.charts import boxes, equal
from perigee.report.charts.boxes import FEW, BoxPanel, Column
from perigee.report.charts.cumulative import Curve, CurvePanel, cumulative_figure, data_of, said_if_equal, with_few
from perigee.report.charts.scales import with_direction
from perigee.report.context import Context
from perigee.report.measured import round_trips
from perigee.report.measures import GROUP, Fact, Measure, measures
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.statistics.estimates import WHISKER_IQR, Array, box, cumulative
from perigee.statistics.metrics import metric, sample

Kind = tuple[str, Callable[[Group], tuple[Array, Array] | None]]
"""Title, and the ascending values of a group with the share at or below each."""

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

STEADY_PERCENTILES = (
    ("steady_goodput_p10_mbps", "10th percentile"),
    ("steady_goodput_p50_mbps", "50th percentile"),
    ("steady_goodput_p90_mbps", "90th percentile"),
    ("steady_goodput_mbps", "mean"),
)


@dataclass(frozen=True)
class Words:
    """Texts of a figure of distributions.

    Attributes:
        name: name of its files.
        label: label of the horizontal axis.
        quantity: its column in the data.
        caption: its caption.
        digits: decimals of a median.
        unit: unit of the quantity.
        of: the objects that shares refer to.
        higher_is_better: which end of the axis is the better one.
    """

    name: str
    label: str
    quantity: str
    caption: str
    digits: int
    unit: str
    of: str
    higher_is_better: bool | None = False

    @property
    def directed(self) -> str:
        """The label with an arrow to the better end."""
        return with_direction(self.label, self.higher_is_better)


def throughput(context: Context) -> Section | None:
    """Return percentiles (10, 50, 90) and mean of throughput of each flow, as boxes or points."""
    return _percentiles(context, "throughput", "Throughput", PERCENTILES)


def steady(context: Context) -> Section | None:
    """Return the same of the flows' steady phases."""
    return _percentiles(context, "steady", "Throughput in steady state", STEADY_PERCENTILES)


def _percentiles(context: Context, section: str, heading: str, names: Sequence[tuple[str, str]]) -> Section | None:
    shown = [(name, title) for name, title in names if context.metrics([name])]
    if not shown:
        return None
    boxed = _table_of_boxes(context, section, shown)
    if _are_lines(context):
        caption = "Percentiles and mean of each flow's throughput per second, over flows (Mbit/s)"
        return Section(section, heading, [replace(boxed, caption=caption)])
    panels, left_out = context.panels(context.drawn, MOST_PANELS)
    sizes = boxed.data["flows"].to_list()
    words = Words(
        f"{section}-boxes", "Throughput (Mbit/s)", "", _caption_of_boxes(sizes), 1, "Mbit/s", "flows",
        higher_is_better=True,
    )  # fmt: skip
    x = "percentile or mean of a flow's throughput per second"
    return Section(section, heading, [box_plot(context, panels, shown, words, left_out, x), boxed])


def box_plot(
    context: Context, panels: Sequence[Panel], shown: Sequence[tuple[str, str]], words: Words, left_out: str = "",
    x: str = "", looks: Mapping[str, Look] = MappingProxyType({}), groups: Sequence[Group] | None = None,
) -> Plot:  # fmt: skip
    """Return a figure of boxes, or of points of few flows: metrics with what they are called below their boxes.

    Args:
        context: the results.
        panels: the panels that are drawn.
        shown: the metrics, each with its name in the figure.
        words: its texts; `quantity` is in the data of each value.
        left_out: what is said of groups that are not drawn.
        x: label of the horizontal axis.
        looks: how the labels of the panels are drawn; empty: as their groups.
        groups: all groups, for the data; None: those that a report draws.
    """
    every = context.drawn if groups is None else groups
    values = {
        (group.number, name): sample(context.with_metric(group, name), name) for group in every for name, _ in shown
    }
    drawn = [
        BoxPanel(
            panel.title,
            [Column(text, looks.get(text, group.look), [values[group.number, name] for name, _ in shown])
             for group, text in zip(panel.groups, panel.labels, strict=True)],
        )
        for panel in panels
    ]  # fmt: skip
    known = [(group, name, title, seen) for group in every for name, title in shown
             if len(seen := values[group.number, name])]  # fmt: skip
    alts = [
        ", ".join(filter(None, (group.label, title)))
        + f": median {number(float(np.median(seen)), words.digits)} {words.unit}".rstrip()
        for group, _, title, seen in known
    ]
    few, grey = boxes.with_few(drawn, context.yardsticks)
    metrics = context.metrics([name for name, _ in shown])
    return Plot.of(
        words.name,
        " ".join(filter(None, (words.caption, grey, left_out))),
        "; ".join(alts[:MOST_WORDS]),
        partial(boxes.boxes_figure, few, [title for _, title in shown], x, words.directed, unit=words.unit),
        instead=equal.instead(context.sample(every, metrics, None), metrics),
        data=pl.concat(
            pl.DataFrame({"group": group.name, "quantity": name, "unit": words.unit, "value": seen})
            for group, name, _, seen in known
        ),
    )


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


def _table_of_boxes(context: Context, section: str, shown: Sequence[tuple[str, str]]) -> Table:
    facts = []
    titles = dict(shown)
    for group, name in itertools.product(context.drawn, titles):
        if len(seen := sample(context.with_metric(group, name), name)):
            one = box(seen)
            facts.append({
                "group": group, "quantity": name, "unit": "Mbit/s", "whisker_low": one.low, "q1": one.q1,
                "median": one.median, "q3": one.q3, "whisker_high": one.high, "outliers": len(one.outliers),
                "flows": len(seen),
            })  # fmt: skip

    def with_digits(name: str) -> Callable[[Fact], str]:
        return lambda fact: number(fact[name], decimals(1, fact["median"]))

    heads = {"whisker_low": "lower whisker", "q1": "lower quartile", "median": "median", "q3": "upper quartile",
             "whisker_high": "upper whisker"}  # fmt: skip
    columns = [GROUP, Measure("quantity", "of each flow", words=lambda fact: titles[fact["quantity"]])]
    columns += [Measure(name, head, 1, words=with_digits(name)) for name, head in heads.items()]
    columns.append(Measure("outliers", "outliers", 0))
    caption = "The figure in numbers: throughput (Mbit/s)"
    return measures(f"{section}-boxes", caption, columns, facts, folded=True)


def delay(context: Context) -> Section | None:
    """Return cumulative distributions of round-trip time: overall and steady state."""
    blocks: list[Block] = []
    if context.results.has("rtt"):
        # Logs of a dish have round trips of pings, none of the flows that are drawn.
        blocks += filter(None, [_rtt_samples(context)])
    elif context.metrics(["rtt_mean_ms"]):
        blocks.append(_of_flows(context, ("rtt_mean_ms", "steady_rtt_mean_ms"), "rtt-flows", 1))
    return Section("delay", "Round-trip time", blocks) if blocks else None


def _rtt_samples(context: Context) -> Plot | None:
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

    kinds = [(title, partial(seen, phase=phase)) for phase, title in phases]
    if all(seen_of(group) is None for _, seen_of in kinds for group in context.drawn):
        return None
    return _cumulative(
        context,
        kinds,
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
    plots = [_of_flows(context, names, "retransmission-distribution", 2)] if is_drawn else []
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


def _of_flows(context: Context, names: Sequence[str], name: str, digits: int) -> Plot:
    """Return the distributions over flows of metrics: points of groups of few flows, else cumulative ones."""
    metrics = context.metrics(names)
    unit = metrics[0].unit
    kind = "Retransmitted share" if unit == "%" else "Round-trip time"
    shown = [(one.name, one.title.split(", ")[-1].capitalize()) for one in metrics]
    words = Words(
        name, f"{kind} ({unit})", "retransmitted_percent" if unit == "%" else "rtt_ms",
        f"{kind} of each flow, with a line at the mean of several.", digits, unit, "flows",
    )  # fmt: skip
    if all(group.flows.height < FEW for group in context.drawn):
        panels, left_out = context.panels(context.drawn, MOST_PANELS)
        return box_plot(context, panels, shown, words, left_out)
    caption = f"Cumulative distribution over flows of each flow's {kind.lower()}."
    kinds = [(title, of_flows(context, name)) for name, title in shown]
    return _cumulative(context, kinds, replace(words, caption=caption))


def of_flows(context: Context, name: str) -> Callable[[Group], tuple[Array, Array] | None]:
    """Return what gives the distribution of a metric over the flows of a group."""

    def seen(group: Group) -> tuple[Array, Array] | None:
        values = sample(context.with_metric(group, name), name)
        return cumulative(values) if len(values) else None

    return seen


def curves_of(
    panels: Sequence[Panel], kinds: Sequence[Kind], looks: Mapping[str, Look] = MappingProxyType({})
) -> list[CurvePanel]:
    """Return the curves of panels: kinds side by side, or stacked if there are several panels."""
    made = []
    for (kind, seen_of), panel in itertools.product(kinds, panels):
        found = [(group, text, seen_of(group)) for group, text in zip(panel.groups, panel.labels, strict=True)]
        curves = [Curve(text, looks.get(text, group.look), *seen) for group, text, seen in found if seen is not None]
        title, row = (panel.title, kind) if len(panels) > 1 else (kind, "")
        made += [CurvePanel(title, row, curves)] if curves else []
    return made


def cumulative_plot(
    context: Context, panels: Sequence[CurvePanel], words: Words, left_out: str = "", upper_share: float = 1.0
) -> Plot:
    """Return a figure of cumulative distributions, whose axes end where the curves reach a share."""
    alts = [
        (", ".join(filter(None, (panel.row, panel.title, curve.label))) or "All")
        + f": median {number(curve.at(0.5), words.digits)} {words.unit}".rstrip()
        for panel in panels
        for curve in panel.curves
    ]
    few, grey = with_few(panels, context.yardsticks)
    return Plot.of(
        words.name,
        " ".join(filter(None, (words.caption, grey, left_out))),
        "; ".join(alts[:MOST_WORDS]),
        partial(
            cumulative_figure, few, words.directed, words.of, upper_share, begins_at_zero=words.unit == "%"
        ),
        data=data_of(panels, words.quantity),
        instead=said_if_equal(panels, words.label.partition(" (")[0], words.unit, words.digits),
    )  # fmt: skip


def _cumulative(context: Context, kinds: Sequence[Kind], words: Words, upper_share: float = 1.0) -> Plot:
    """Return the cumulative distributions of all groups."""
    kept, left_out = context.panels(context.drawn, MOST_PANELS // len(kinds))
    panels = curves_of(kept, kinds)
    if len(kept) > 1 and len({panel.title for panel in panels}) == 1:
        # A word that the panels have in common tells them not apart.
        title = panels[0].title
        without = " and ".join(panel.title for panel in kept if panel.title != title)
        words = replace(words, caption=f"{words.caption} Only {title}: flows {without} have no such values.")
        panels = [replace(panel, title=panel.row, row="") for panel in panels]
    return cumulative_plot(context, panels, words, left_out, upper_share)

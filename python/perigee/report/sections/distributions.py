# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Box plots of throughput percentiles; cumulative distributions of round-trip time and retransmitted share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from perigee.numbers import decimals, number
from perigee.report.context import Context, Group
from perigee.report.legends import legend_above, legend_of
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.style import INK, figure, from_zero
from perigee.statistics.estimates import WHISKER_IQR, Array, Box, box, cumulative
from perigee.statistics.metrics import metric, sample

Curve = tuple[Array, Array]
"""Values in rising order, and the share at or below each."""

Panel = tuple[str, Callable[[Group], Curve | None]]
"""Title, and the curve of a group."""

PERCENTILES = (
    ("goodput_p10_mbps", "10th percentile"),
    ("goodput_p50_mbps", "50th percentile"),
    ("goodput_p90_mbps", "90th percentile"),
    ("goodput_mbps", "mean"),
)


def throughput(context: Context) -> Section | None:
    """Return box plots of each flow's 10th, 50th and 90th percentile and mean of throughput."""
    shown = [(name, title) for name, title in PERCENTILES if context.metrics([name])]
    if not shown:
        return None
    drawing = figure(3.3)
    axes = drawing.subplots()
    groups = context.drawn
    width = 0.8 / len(groups)
    rows = []
    for place, (name, title) in enumerate(shown):
        for number_of_group, group in enumerate(groups):
            seen = sample(group.flows, name)
            if len(seen) == 0:
                continue
            one = box(seen)
            at = place + (number_of_group - (len(groups) - 1) / 2) * width
            _draw_box(axes, one, at, width * 0.8, group)
            rows.append((group, name, title, one, len(seen)))
    axes.set_xticks(range(len(shown)), [title for _, title in shown])
    axes.set_xlabel("of each flow's throughput per second")
    axes.set_ylabel("Throughput (Mbit/s)")
    axes.grid(visible=False, axis="x")
    from_zero([axes])
    # A box of equal values is a line, which the edge of the figure would cut.
    axes.set_ylim(top=1.03 * axes.get_ylim()[1])
    handles = [Patch(facecolor=g.look.color, edgecolor=INK, alpha=0.75, hatch=g.look.hatch) for g in groups]
    legend_of(drawing, handles, [group.legend for group in groups])
    caption = (
        "Distribution over flows of each flow's 10th, 50th and 90th percentile and mean of throughput. Boxes: "
        f"quartiles and median; whiskers: last value within {WHISKER_IQR} interquartile ranges of the box; circles: "
        "outliers."
    )
    alt = "; ".join(f"{g.label}, {title}: median {number(b.median)} Mbit/s" for g, _, title, b, _ in rows)
    table = Table(
        name="throughput-boxes",
        caption="The boxes in numbers: throughput (Mbit/s)",
        head=["", "of each flow", "lower whisker", "lower quartile", "median", "upper quartile", "upper whisker",
              "outliers"],
        rows=[
            [Cell(g.label), Cell(title), *_numbers_of(b), Cell(str(len(b.outliers)))]
            for g, _, title, b, _ in rows
        ],
        data=pl.DataFrame(
            [
                {"group": g.name, "quantity": name, "unit": "Mbit/s", "whisker_low": b.low, "q1": b.q1,
                 "median": b.median, "q3": b.q3, "whisker_high": b.high, "outliers": len(b.outliers), "flows": n}
                for g, name, _, b, n in rows
            ]
        ),
        words=(1,),
        folded=True,
    )  # fmt: skip
    return Section("throughput", "Throughput", [Plot("throughput-boxes", caption, alt, drawing), table])


def _numbers_of(one: Box) -> list[Cell]:
    digits = decimals(1, one.median)
    return [Cell(number(value, digits)) for value in (one.low, one.q1, one.median, one.q3, one.high)]


def _draw_box(axes: Axes, numbers: Box, at: float, width: float, group: Group) -> None:
    stats = {
        "whislo": numbers.low, "q1": numbers.q1, "med": numbers.median, "q3": numbers.q3,
        "whishi": numbers.high, "fliers": numbers.outliers,
    }  # fmt: skip
    axes.bxp(
        [stats],
        positions=[at],
        widths=width,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": group.look.color, "edgecolor": INK, "alpha": 0.75, "hatch": group.look.hatch, "lw": 0.7},
        medianprops={"color": INK, "lw": 1.6},
        whiskerprops={"color": INK, "lw": 0.8},
        capprops={"color": INK, "lw": 0.8},
        flierprops={"marker": "o", "ms": 2.5, "mfc": "none", "mec": group.look.color, "mew": 0.7},
    )


def delay(context: Context) -> Section | None:
    """Return cumulative distributions of round-trip time: overall and steady state."""
    blocks: list[Block] = []
    if context.results.has("rtt"):
        blocks.append(_rtt_samples(context))
    elif context.metrics(["rtt_mean_ms"]):
        blocks.append(_cumulative_of_flows(context, ("rtt_mean_ms", "steady_rtt_mean_ms"), "rtt-flows", 1))
    return Section("delay", "Round-trip time", blocks) if blocks else None


def _rtt_samples(context: Context) -> Plot:
    bins = context.results.table("rtt")
    phases = [(phase, title) for phase, title in (("all", "Overall"), ("steady", "Steady state"))
              if phase in bins["phase"].unique()]  # fmt: skip

    def seen(group: Group, phase: str) -> Curve | None:
        own = bins.filter(pl.col("phase") == phase).join(
            group.flows.select("run", "flow"), on=["run", "flow"], how="semi"
        )
        counts = own.group_by("rtt_ms").agg(pl.col("count").sum()).sort("rtt_ms")
        return None if counts.is_empty() else cumulative(counts["rtt_ms"].to_numpy(), counts["count"].to_numpy())

    return _cumulative_plot(
        context,
        [(title, partial(seen, phase=phase)) for phase, title in phases],
        name="rtt-distribution",
        label="Round-trip time (ms)",
        caption="Cumulative distribution of the round-trip time of every acknowledgement of all flows; the highest "
        "0.1 % lie beyond the right edge.",
        digits=0,
        unit="ms",
        of="acknowledgements",
        upper_share=0.999,
    )


def retransmissions(context: Context) -> Section | None:
    """Return cumulative distributions over flows of the retransmitted share, and the shares in numbers."""
    names = tuple(one.name for one in context.metrics(["retransmitted_percent", "steady_retransmitted_percent"]))
    if not names:
        return None
    plot = _cumulative_of_flows(context, names, "retransmission-distribution", 2)
    rows, data = [], []
    for group in context.groups:
        cells = [Cell(group.label)]
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
        head=[
            "",
            *(head for _ in names for head in ("mean %", "largest %", "flows with none %", "flows below 1 % (%)")),
        ],
        groups=[("", 1), *((metric(name).title, 4) for name in names)],
        rows=rows,
        data=pl.DataFrame(data),
    )
    return Section("retransmissions", "Retransmissions", [plot, table])


def _cumulative_of_flows(context: Context, names: tuple[str, ...], name: str, digits: int) -> Plot:
    def seen(group: Group, wanted: str) -> Curve | None:
        values = sample(context.with_metric(group, wanted), wanted)
        return None if len(values) == 0 else cumulative(values)

    metrics = context.metrics(names)
    kind = "Retransmitted share" if metrics[0].unit == "%" else "Round-trip time"
    return _cumulative_plot(
        context,
        [(one.title.split(", ")[-1].capitalize(), partial(seen, wanted=one.name)) for one in metrics],
        name=name,
        label=f"{kind} ({metrics[0].unit})",
        caption=f"Cumulative distribution over flows of each flow's {kind.lower()}.",
        digits=digits,
        unit=metrics[0].unit,
        of="flows",
        upper_share=1.0,
    )


def _cumulative_plot(
    context: Context, panels: list[Panel], *, name: str, label: str, caption: str, digits: int, unit: str, of: str,
    upper_share: float,
) -> Plot:  # fmt: skip
    drawing = figure(3.1)
    all_axes = drawing.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    words = []
    for axes, (title, seen_of) in zip(all_axes, panels, strict=True):
        right = 0.0
        for group in context.drawn:
            seen = seen_of(group)
            if seen is None:
                continue
            x, share = seen
            low = 0.0 if x[0] >= 0 and unit == "%" else x[0]
            axes.step(
                np.concatenate([[low], x]), np.concatenate([[0], share]), where="post", color=group.look.color,
                ls=group.look.dash, label=group.legend,
            )  # fmt: skip
            right = max(right, float(x[np.searchsorted(share, upper_share - 1e-9)]))
            median = float(x[np.searchsorted(share, 0.5)])
            words.append(f"{title}, {group.label}: median {number(median, digits)} {unit}")
        axes.set_title(title)
        axes.set_xlabel(label)
        axes.set_ylim(0, 1.01)
        axes.set_xlim(right=right * 1.02 if right else 1.0)
        if unit == "%":
            axes.set_xlim(left=-0.01 * max(right, 1e-6))
    all_axes[0].set_ylabel(f"Share of {of}")
    legend_above(drawing, all_axes[0])
    return Plot(name, caption, "; ".join(words), drawing)

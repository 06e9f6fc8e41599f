# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Transfers in turn: alternating transfers with two algorithms, and their differences pair by pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from perigee.groups.looks import Look
from perigee.groups.names import without_number
from perigee.numbers import between, number, signed, with_interval
from perigee.report.charts.grid import grid
from perigee.report.charts.scales import at_least
from perigee.report.context import Context
from perigee.report.model import Cell, Plot, Section, Table
from perigee.report.style import INK
from perigee.statistics.estimates import Array, at_level, mean_interval, percent, spread
from perigee.store.outcomes import has_failed

MOST_PANELS = 6
"""Maximum number of pairs in the figure; the table has all."""

LEAST_PAIRS = 2
"""Minimum number of pairs for a spread."""

MOST_BINS = 30


@dataclass(frozen=True)
class Turns:
    """Alternating transfers of two flows.

    Attributes:
        title: label of the pair.
        labels: labels of the two.
        looks: looks of the two.
        goodputs_mbps: throughput of both, pair by pair, shape (pairs, 2).
        sample_sds_mbps: standard deviations of the throughput of both in each interval of `series`, if there are any.
    """

    title: str
    labels: tuple[str, str]
    looks: tuple[Look, Look]
    goodputs_mbps: Array
    sample_sds_mbps: tuple[float | None, float | None]

    @property
    def differences_mbps(self) -> Array:
        """The first less the second, pair by pair, shape (pairs,)."""
        return np.asarray(self.goodputs_mbps[:, 0] - self.goodputs_mbps[:, 1], dtype=np.float64)


def section(context: Context) -> Section | None:
    """Return a table of alternating transfers and histograms of their differences; None without any."""
    found = turns(context)
    return Section("in_turn", "Transfers in turn", [_table(context, found), _plot(found)]) if found else None


def turns(context: Context) -> list[Turns]:
    """Return the pairs of flows whose transfers alternate in every run, in the order of the study."""
    found = []
    for _, rows in context.bulk.filter(~has_failed()).group_by("point", maintain_order=True):
        named = rows.with_columns(base=pl.col("flow").map_elements(without_number, return_dtype=pl.String))
        for names in itertools.combinations(named["base"].unique(maintain_order=True), 2):
            pairs = [pair for _, run in named.group_by("run", maintain_order=True) for pair in _of_run(run, names)]
            if len(pairs) < LEAST_PAIRS:
                continue
            one, other = (named.filter(pl.col("base") == name).row(0, named=True) for name in names)
            labels = (context.algorithm(one) or names[0], context.algorithm(other) or names[1])
            looks = (context.look_of(one), context.look_of(other))
            apart = [_of_samples(context, named.filter(pl.col("base") == name)) for name in names]
            title = f"{labels[0]}, then {labels[1]}"
            found.append(Turns(title, labels, looks, np.array(pairs), (apart[0], apart[1])))
    return found


def _of_samples(context: Context, rows: pl.DataFrame) -> float | None:
    if not context.results.has("series"):
        return None
    flows = rows.select("run", "flow").iter_rows()
    return spread(np.concatenate([context.series(int(run), flow)["goodput_mbps"].to_numpy() for run, flow in flows]))


def _of_run(rows: pl.DataFrame, names: tuple[str, str]) -> Iterator[tuple[float, float]]:
    """Yield the throughputs of two flows' transfers in a run, pair by pair; nothing if they do not alternate."""
    one, other = (rows.filter(pl.col("base") == name).sort("start_s") for name in names)
    if one.height != other.height or one.is_empty() or rows["goodput_mbps"].has_nulls():
        return
    order = pl.concat([one.with_columns(turn=0), other.with_columns(turn=1)]).sort("start_s")
    ends = (order["start_s"] + order["duration_s"]).to_list()[:-1]
    alternate = order["turn"].to_list() == [0, 1] * one.height
    if alternate and all(end <= start for end, start in zip(ends, order["start_s"].to_list()[1:], strict=True)):
        yield from zip(one["goodput_mbps"], other["goodput_mbps"], strict=True)


def _table(context: Context, found: Sequence[Turns]) -> Table:
    level = context.settings.confidence
    rows, data = [], []
    for one in found:
        deviations = [spread(one.goodputs_mbps[:, place]) for place in (0, 1)]
        means = [mean_interval(one.goodputs_mbps[:, place], level) for place in (0, 1)]
        difference, half = mean_interval(one.differences_mbps, level)
        deviation = spread(one.differences_mbps)
        cells = [
            Cell(f"{with_interval(mean, half_width)} (± {number(apart)})")
            for (mean, half_width), apart in zip(means, deviations, strict=True)
        ]
        ends = between((difference - half, difference + half)) if half == half else ""
        change = Cell(f"{signed(difference)} {ends} (± {number(deviation)})")
        larger = 100 * float((one.differences_mbps > 0).mean())
        samples = Cell(", ".join(number(apart) for apart in one.sample_sds_mbps))
        counts = [Cell(number(larger, 0)), Cell(str(len(one.goodputs_mbps)))]
        rows.append([Cell(one.title), *cells, change, samples, *counts])
        data.append(
            {"pair": one.title, "first_mbps": means[0][0], at_level("first_half_width", level): means[0][1],
             "first_sd": deviations[0], "second_mbps": means[1][0],
             at_level("second_half_width", level): means[1][1], "second_sd": deviations[1],
             "difference_mbps": difference, at_level("difference_half_width", level): half,
             "difference_sd": deviation, "first_sample_sd": one.sample_sds_mbps[0],
             "second_sample_sd": one.sample_sds_mbps[1], "first_larger_percent": larger,
             "pairs": len(one.goodputs_mbps)}
        )  # fmt: skip
    return Table(
        name="in-turn",
        caption=f"Throughput of transfers in turn in Mbit/s, and the first less the second pair by pair: means, "
        f"{percent(level)} confidence intervals (± standard deviation), pairs taken as independent; and the standard "
        f"deviations of both in intervals of {number(context.interval_s, 1)} s",
        head=["", "First", "Second", "First less second", "SD of intervals", "First larger (% of pairs)", "Pairs"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )


def _plot(found: Sequence[Turns]) -> Plot:
    shown = found[:MOST_PANELS]
    data = pl.concat(
        [
            pl.DataFrame(
                {
                    "pair": one.title,
                    "first_mbps": one.goodputs_mbps[:, 0],
                    "second_mbps": one.goodputs_mbps[:, 1],
                    "difference_mbps": one.differences_mbps,
                }
            )
            for one in found
        ]
    )
    caption = "Histograms of the throughput of transfers in turn, and of its differences in pairs; dashed: their mean."
    if len(shown) < len(found):
        caption += f" Shown are the first {len(shown)} of {len(found)} pairs; the table has all."
    alt = "; ".join(
        f"{one.title}: {number(float(one.goodputs_mbps[:, 0].mean()))} and "
        f"{number(float(one.goodputs_mbps[:, 1].mean()))} Mbit/s, "
        f"difference {signed(float(one.differences_mbps.mean()))}"
        for one in found
    )
    return Plot.of("in-turn", caption, alt, partial(_figure, shown), data=data)


def bins(*samples: Array) -> Array:
    """Return the edges of a histogram's bins over all samples, at the narrowest width that any sample alone would have.

    The rule is that of Freedman and Diaconis; there are at most `MOST_BINS` bins.

    Examples:
        >>> bins(np.arange(8.0), np.arange(100.0, 108.0))[[0, -1]].tolist(), len(bins(np.full(5, 3.0)))
        ([0.0, 107.0], 2)
    """
    every = np.concatenate(samples)
    widths = [float(np.diff(np.histogram_bin_edges(sample, "fd"))[0]) for sample in samples if np.ptp(sample) > 0]
    count = int(np.ceil(np.ptp(every) / min(widths))) if widths else 1
    return np.asarray(np.histogram_bin_edges(every, max(1, min(count, MOST_BINS))), dtype=np.float64)


def _figure(shown: Sequence[Turns], width_in: float) -> Figure:
    labels = list(dict.fromkeys(label for one in shown for label in one.labels))
    there = [(row, column) for row in range(2) for column in range(len(shown))]
    laid = grid(
        width_in, 2, [one.title for one in shown], there, labels=labels, height_in=1.6, narrowest_in=2.2,
        share_x=False, is_stacked=True,
    )  # fmt: skip
    for (row, column), axes in laid.panels.items():
        one = shown[column]
        if row == 0:
            edges = bins(one.goodputs_mbps[:, 0], one.goodputs_mbps[:, 1]).tolist()
            for place in (0, 1):
                style = one.looks[place]
                axes.hist(one.goodputs_mbps[:, place], edges, color=style.color, alpha=0.55, hatch=style.hatch,
                          label=one.labels[place])  # fmt: skip
        else:
            axes.hist(one.differences_mbps, bins(one.differences_mbps).tolist(), color="#8a929b")
            axes.axvline(float(one.differences_mbps.mean()), color=INK, lw=1, ls=(0, (4, 3)))
            axes.set_xlabel("First less second (Mbit/s)")
    for (row, _), axes in laid.panels.items():
        beside = [other.get_xlim() for (own, _), other in laid.panels.items() if own == row]
        axes.set_xlim(at_least(min(map(min, beside)), max(map(max, beside))))
        if row == 0:
            axes.set_xlabel("Throughput (Mbit/s)")
    for begin in laid.first:
        laid.panels[begin].set_ylabel("Transfers" if begin[0] == 0 else "Pairs")
    laid.legend_of_lines()
    return laid.figure

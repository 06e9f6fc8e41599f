# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Transfers in turn: alternating transfers with two algorithms, and their differences pair by pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.looks import other
from perigee.groups.names import without_number
from perigee.numbers import between, number, signed, with_interval
from perigee.report.charts.cumulative import Curve, CurvePanel, cumulative_figure
from perigee.report.context import Context
from perigee.report.measures import Fact, Measure, measures
from perigee.report.model import Plot, Table
from perigee.statistics.estimates import at_level, cumulative, mean_interval, percent, spread
from perigee.store.outcomes import has_failed

LEAST_PAIRS, MOST_PANELS = 2, 6
"""Pairs for a spread, and panels of the figure; the table has all."""


def in_turn(context: Context) -> list[Table | Plot]:
    """Return a table of alternating transfers and distributions of their throughput and differences."""
    level = context.settings.confidence
    half_width = at_level("half_width", level)
    facts, panels, data = [], [], []
    for first, second, pairs in _turns(context):
        both = [context.algorithm(one.row(0, named=True)) or one["base"][0] for one in (first, second)]
        title = f"{both[0]}, then {both[1]}"
        parts = {"first": pairs[:, 0], "second": pairs[:, 1], "difference": pairs[:, 0] - pairs[:, 1]}
        fact: dict[str, object] = {"pair": title}
        for name, values in parts.items():
            mean, half = mean_interval(values, level)
            fact |= {f"{name}_mbps": mean, f"{name}_{half_width}": half, f"{name}_sd": spread(values)}
        samples = [_of_samples(context, one) for one in (first, second)]
        larger = 100 * float((parts["difference"] > 0).mean())
        facts.append({
            **fact, "first_sample_sd": samples[0], "second_sample_sd": samples[1], "first_larger_percent": larger,
            "pairs": len(pairs),
        })  # fmt: skip
        looks = [context.look_of(one.row(0, named=True)) for one in (first, second)]
        curves = [Curve(both[at], looks[at], *cumulative(pairs[:, at])) for at in (0, 1)]
        panels.append(CurvePanel(title, "", curves))
        apart = Curve("first less second", other(0), *cumulative(parts["difference"]))
        panels.append(CurvePanel(f"{title}: pair by pair", "", [apart]))
        data.append(pl.DataFrame({"pair": title, **{f"{name}_mbps": values for name, values in parts.items()}}))
    if not facts:
        return []

    def said(name: str, fact: Fact) -> str:
        mean, half = fact[f"{name}_mbps"], fact[f"{name}_{half_width}"]
        ends = f" {between((mean - half, mean + half))}" if half == half else ""
        text = f"{signed(mean)}{ends}" if name == "difference" else with_interval(mean, half)
        return f"{text} (± {number(fact[f'{name}_sd'])})"

    heads = {"first": "First", "second": "Second", "difference": "First less second"}
    table = measures(
        "in-turn",
        f"Throughput of transfers in turn in Mbit/s, and the first less the second pair by pair: means, "
        f"{percent(level)} confidence intervals (± standard deviation), pairs taken as independent; and the standard "
        f"deviations of both in intervals of {number(context.interval_s, 1)} s",
        [
            Measure("pair"),
            *(Measure(f"{name}_mbps", head, 1, words=partial(said, name)) for name, head in heads.items()),
            Measure("first_sample_sd", "SD of intervals", 1, words=lambda fact: ", ".join(
                number(fact[f"{name}_sample_sd"]) for name in ("first", "second"))),
            Measure("first_larger_percent", "First larger (% of pairs)", 0),
            Measure("pairs", "Pairs", 0),
        ],
        facts,
    )  # fmt: skip
    draw = partial(cumulative_figure, panels[:MOST_PANELS], "Throughput (Mbit/s)", "transfers", 1.0,
                   begins_at_zero=False)  # fmt: skip
    caption = "Cumulative distributions of the throughput of transfers in turn, and of its differences pair by pair."
    alt = "; ".join(f"{row[0].text}: {row[3].text} Mbit/s" for row in table.rows)
    return [table, Plot.of("in-turn", caption, alt, draw, data=pl.concat(data))]


def _turns(context: Context) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, np.ndarray]]:
    """Yield the transfers of two flows that alternate in every run, and their throughputs, shape (pairs, 2)."""
    for _, rows in context.bulk.filter(~has_failed()).group_by("point", maintain_order=True):
        named = rows.with_columns(base=pl.col("flow").map_elements(without_number, return_dtype=pl.String))
        for names in itertools.combinations(named["base"].unique(maintain_order=True), 2):
            pairs = [pair for _, run in named.group_by("run", maintain_order=True) for pair in _of_run(run, names)]
            if len(pairs) >= LEAST_PAIRS:
                one, other = (named.filter(pl.col("base") == name) for name in names)
                yield one, other, np.array(pairs)


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

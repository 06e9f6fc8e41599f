# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figures over time: windows of single flows, means over repetitions, transfers over hours, and what losses cost."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.factors import ALGORITHM
from perigee.groups.group import Group
from perigee.groups.looks import Look, other
from perigee.groups.names import without_number
from perigee.groups.panels import hue_of
from perigee.numbers import number, with_interval
from perigee.report.charts.over_time import PLAIN, Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.measures import Fact, Measure, measures
from perigee.report.model import Cell, Plot, Table
from perigee.report.sections.sharing import Combination, combinations
from perigee.statistics.estimates import Array, at_level, mean_band, mean_interval, percent, spread
from perigee.statistics.metrics import largest
from perigee.statistics.over_time import AVERAGE_S, STEP_S, joined, named_share, reductions
from perigee.store.outcomes import has_failed

MOST_FLOWS, MOST_PANELS, IN_A_FIGURE = 4, 12, 2
"""Points with flows of their own, panels of a figure, and flows side by side."""

MOST_POINTS = 6000
"""Points of a window over time; more are invisible in print."""

LEAST_TRANSFERS = 3
"""Transfers that follow each other, from which on they are a campaign."""

_Trace = tuple[Group, Look, int, pl.DataFrame]
"""A flow over time: its group, its look, its run, and its series."""


def window(context: Context) -> list[Plot]:
    """Return the congestion window and the retransmissions of the typical flow of each group, algorithms together."""
    if not context.results.has("series"):
        return []
    looks = context.looks(hue_of(context.factors(context.drawn)))
    found = []
    for panel in context.panels(context.drawn, MOST_FLOWS)[0]:
        several = zip(panel.groups, panel.labels, strict=True)
        traces = [(group, looks.get(label, group.look), *_window(context, group)) for group, label in several]
        if kept := [one for one in traces if one[3]["cwnd_packets"].count()]:
            found.append((panel.title, kept))
    parts = [found[begin : begin + IN_A_FIGURE] for begin in range(0, len(found), IN_A_FIGURE)]
    return [_windows(place, part, context.interval_s) for place, part in enumerate(parts, 1)]


def _window(context: Context, group: Group) -> tuple[int, pl.DataFrame]:
    """Return a run, and `t_s`, `cwnd_packets`, `retransmitted_packets` and `cwnd_bytes`, the payload of that many."""
    run, flow = context.typical[group.number]
    series = context.series(run, flow)
    first_sent = (pl.col("sent_packets") - pl.col("retransmitted_packets")).sum()
    payload = pl.when(first_sent > 0).then(pl.col("acked_bytes").max() / first_sent)
    in_bytes = (pl.col("cwnd_packets") * payload).round().cast(pl.Int64).alias("cwnd_bytes")
    return run, series.select("t_s", "cwnd_packets", "retransmitted_packets", in_bytes)


def _windows(place: int, drawn: Sequence[tuple[str, Sequence[_Trace]]], interval_s: float) -> Plot:
    every = [one for _, traces in drawn for one in traces]
    is_in_bytes = all(series["cwnd_bytes"].count() for *_, series in every)
    name, unit, scale = ("cwnd_bytes", "MB", 1e-6) if is_in_bytes else ("cwnd_packets", "packets", 1)
    words, panels, data = [], [], []
    for title, traces in drawn:
        rows: tuple[list[Curve], list[Curve]] = [], []
        for group, style, run, series in traces:
            again = int(series["retransmitted_packets"].fill_null(0).sum())
            most = number(largest(series["cwnd_packets"]), 0)
            words.append(f"{group.label}: window of up to {most} packets, {again} retransmissions (run {run})")
            y, resent = (series[one].fill_null(0) for one in (name, "retransmitted_packets"))
            label = group.label if len(every) == len(traces) else group.levels[ALGORITHM]
            rows[0].append(Curve(label if len(traces) > 1 else "", style, series["t_s"], y * scale))
            rows[1].append(Curve("", style, series["t_s"], resent, form="strokes"))
            data.append(series.select(pl.lit(group.name).alias("group"), pl.all()))
        panels.append(TimePanel(title or (traces[0][0].label if len(traces) == 1 else ""), rows))
    caption = f"Congestion window at the end of each interval of {number(interval_s, 1)} s, and retransmissions. "
    caption += "MB: at the mean payload of a packet. " if is_in_bytes else ""
    draw = partial(over_time, panels, [f"Window ({unit})", "Retransmitted (packets)"], "Time since the flow began (s)")
    return Plot.of(f"window-{place}", f"{caption}{'; '.join(words)}.", "; ".join(words), draw, data=pl.concat(data))


@dataclass(frozen=True)
class _Mean:
    """A mean over time of repetitions: its flow, its label and look, and the throughput, shape (repetitions, n)."""

    flow: str
    label: str
    look: Look
    rates_mbps: Array


def bands(context: Context) -> list[Plot]:
    """Return mean throughput over time with confidence bands: of flows that share a link, and of single ones."""
    if not context.results.has("series"):
        return []
    found = [_of_combination(context, one) for one in combinations(context) if len(one.meetings) > 1]
    found += [_of_groups(context, groups) for groups in _repeated(context)]
    found = [(title, means) for title, means in found if means[0].rates_mbps.shape[1] > 1]
    if not found:
        return []
    level, step = context.settings.confidence, context.interval_s
    panels, data, words = [], [], []
    for title, means in found:
        curves = []
        for one in means:
            mean, half = mean_band(one.rates_mbps, level)
            t = step * np.arange(1, len(mean) + 1)
            label = one.label if len(means) > 1 else ""
            curves.append(Curve(label, one.look, t, mean, (mean - half, mean + half)))
            data.append(pl.DataFrame({
                "together": title, "flow": one.flow, "t_s": t, "goodput_mbps": mean,
                f"half_width_{100 * level:g}_mbps": half, "repetitions": len(one.rates_mbps),
            }))  # fmt: skip
        panels.append(TimePanel(title, [curves]))
        said = (f"{one.label} {number(float(one.rates_mbps.mean()))} Mbit/s" for one in means)
        words.append(f"{title}: {', '.join(said)}")
    counts = sorted({len(means[0].rates_mbps) for _, means in found})
    times = " to ".join(dict.fromkeys((str(counts[0]), str(counts[-1]))))
    caption = (
        f"Mean throughput in intervals of {number(step, 1)} s over {times} repetitions, with {percent(level)} "
        "confidence bands (Student's t; of each interval for itself, repetitions independent)."
    )
    caption += f" The data file has all {len(panels)} combinations." if len(panels) > MOST_PANELS else ""
    draw = partial(over_time, panels[:MOST_PANELS], ["Throughput (Mbit/s)"], "Time since all were under way (s)")
    return [Plot.of("bands", caption, "; ".join(words), draw, data=pl.concat(data))]


def _of_combination(context: Context, one: Combination) -> tuple[str, list[_Mean]]:
    intervals = int(min(meeting.until_s - meeting.from_s for meeting in one.meetings) / context.interval_s + 1e-6)
    means: list[_Mean] = []
    for place, row in enumerate(one.rows[0]):
        rates = np.array([
            _rates(context, of_round[place]["run"], of_round[place]["flow"],
                   meeting.from_s - of_round[place]["start_s"], intervals)
            for of_round, meeting in zip(one.rows, one.meetings, strict=True)
        ])  # fmt: skip
        label, style = context.algorithm(row) if row["cc"] else one.names[place], context.look_of(row)
        if any(label == other.label for other in means):
            label, style = "another of the same", other(0)
        means.append(_Mean(one.names[place], label, style, rates))
    total = np.sum([mean.rates_mbps for mean in means], axis=0)
    return one.title, [*means, _Mean("sum", "sum", PLAIN, total)]


def _repeated(context: Context) -> list[list[Group]]:
    """Return the groups of single flows that are repeated, in rounds or within a run."""
    alike: dict[tuple[str, ...], list[Group]] = {}
    for group in context.drawn:
        row = group.flows.row(0, named=True)
        key = (str(row["point"]), without_number(row["flow"]), row["cc"], row["cc_params"])
        alike.setdefault(key, []).append(group)
    return [groups for groups in alike.values() if sum(group.flows.height for group in groups) > 1]


def _of_groups(context: Context, groups: Sequence[Group]) -> tuple[str, list[_Mean]]:
    flows = pl.concat([group.flows.select("run", "flow", "duration_s") for group in groups])
    intervals = int(float(flows["duration_s"].min()) / context.interval_s + 1e-6)  # type: ignore[arg-type]
    rates = np.array([_rates(context, run, flow, 0.0, intervals) for run, flow, _ in flows.iter_rows()])
    first = groups[0]
    label = first.label if len(groups) == 1 else context.algorithm(first.flows.row(0, named=True)) or first.label
    return label, [_Mean(without_number(first.flows["flow"][0]), label, first.look, rates)]


def _rates(context: Context, run: int, flow: str, from_s: float, intervals: int) -> Array:
    """Return a flow's throughput in each interval from an instant on, `from_s` after it began, in Mbit/s."""
    part = context.series(run, flow)
    edges = np.concatenate([[0.0], part["t_s"].to_numpy()])
    carried = np.concatenate([[0.0], np.cumsum(part["goodput_mbps"].to_numpy() * np.diff(edges))])
    wanted = from_s + context.interval_s * np.arange(intervals + 1)
    return np.asarray(np.diff(np.interp(wanted, edges, carried)) / context.interval_s, dtype=np.float64)


def campaign(context: Context) -> list[Table | Plot]:
    """Return a table of transfers that follow each other over hours, and their throughput over time."""
    found = list(_campaigns(context))
    if not found:
        return []
    level, hours = context.settings.confidence, f"{AVERAGE_S / 3600:g} h"
    facts, panels, curves = [], [], []
    for label, style, flows, course in found:
        mean, half = mean_interval(flows["goodput_mbps"].to_numpy(), level)
        deviation = spread(flows["goodput_mbps"].to_numpy())
        fact = {"campaign": label, "run": int(flows["run"][0]), "goodput_mbps": mean,
                at_level("half_width", level): half, "sd_mbps": deviation, "transfers": flows.height}  # fmt: skip
        for name, place in (("lowest", np.argmin), ("highest", np.argmax)):
            at = int(place(course["average_mbps"]))
            fact |= {f"{name}_average_mbps": course["average_mbps"][at], f"{name}_at_h": course["t_s"][at] / 3600}
        facts.append(fact)
        curves.append(course.select(pl.lit(label).alias("campaign"), pl.all()))
        seen = course.filter(~pl.col("is_interpolated"))
        panels.append(TimePanel(label, [[
            Curve("", style, course["t_s"] / 3600, course["goodput_mbps"], width=0.4),
            Curve("", Look(style.color, "-", ".", ""), seen["t_s"] / 3600, seen["goodput_mbps"], form="points"),
            Curve("", PLAIN, course["t_s"] / 3600, course["average_mbps"], width=1.3),
        ]]))  # fmt: skip
    half_width = at_level("half_width", level)

    def extreme(name: str, fact: Fact) -> str:
        return f"{number(fact[f'{name}_average_mbps'])} at {number(fact[f'{name}_at_h'])} h"

    table = measures(
        "campaign",
        f"Throughput of the transfers of each campaign in Mbit/s: mean with its {percent(level)} confidence "
        f"interval, standard deviation; and the extremes of the moving average over {hours}",
        [
            Measure("campaign"),
            Measure("goodput_mbps", "Mean (Mbit/s)", 1,
                    words=lambda fact: with_interval(fact["goodput_mbps"], fact[half_width])),
            Measure("sd_mbps", "SD (Mbit/s)", 1),
            *(Measure(f"{name}_average_mbps", f"{name.capitalize()} average", 1, words=partial(extreme, name))
              for name in ("lowest", "highest")),
            Measure("transfers", "Transfers", 0),
        ],
        facts,
    )  # fmt: skip
    caption = (
        f"Throughput in steps of {STEP_S:g} s (points), gaps between transfers interpolated linearly (thin line), and "
        f"its moving average over the last {hours} (black), at the beginning over what there is."
    )
    draw = partial(over_time, panels[:MOST_PANELS], ["throughput (Mbit/s)"], "Time since the run began (h)", below=True)
    alt = "; ".join(f"{row[0].text}: {row[1].text} Mbit/s" for row in table.rows)
    return [table, Plot.of("campaign", caption, alt, draw, data=pl.concat(curves))]


def _campaigns(context: Context) -> Iterator[tuple[str, Look, pl.DataFrame, pl.DataFrame]]:
    """Yield label, look, flows and course of the campaigns in the first run of each point."""
    done = context.bulk.filter(~has_failed(), pl.col("goodput_mbps").is_not_null())
    for _, rows in done.group_by("point", maintain_order=True):
        named = _with_base(rows.filter(pl.col("run") == rows["run"].min()))
        bases = named["base"].unique(maintain_order=True)
        for base in bases:
            own = named.filter(pl.col("base") == base).sort("start_s")
            spans = list(zip(own["start_s"], own["start_s"] + own["duration_s"], strict=True))
            follow = all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
            if own.height < LEAST_TRANSFERS or not follow:
                continue
            parts = []
            for row, (start, end) in zip(own.iter_rows(named=True), spans, strict=True):
                has_series = context.results.has("series")
                series = context.series(row["run"], row["flow"]) if has_series else pl.DataFrame()
                edges = [end] if series.is_empty() else series["t_s"] + start
                rates = [row["goodput_mbps"]] if series.is_empty() else series["goodput_mbps"].to_list()
                parts.append(([start, *edges], rates))
            row = own.row(0, named=True)
            label = context.algorithm(row) or base
            yield f"{label} ({base})" if len(bases) > 1 else label, context.look_of(row), own, joined(parts)


def _with_base(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(base=pl.col("flow").map_elements(without_number, return_dtype=pl.String))


def kept(context: Context) -> list[Table | Plot]:
    """Return how much of its window a sender kept at each loss, from its log, as a table and over the window."""
    found = [(group, *one) for group in context.some(MOST_FLOWS)[0] if (one := _kept(context, group))]
    if not found:
        return []
    counts = {group.number: Counter(made["kept"]) for group, _, _, made in found}
    together = sum(counts.values(), Counter[str]())
    kinds = list(dict.fromkeys([*context.settings.kept, *(name for name, _ in together.most_common())]))
    shares = ", ".join(f"{name} {number(100 * share, 0)} %" for name, share in context.settings.kept.items())
    table = Table(
        name="reductions",
        caption="How often a sender kept which share of its window when a loss set its threshold"
        + (f" ({shares})" if shares else ""),
        head=["", *kinds, "All"],
        rows=[
            [Cell.naming(group), *(Cell(str(counts[group.number][kind])) for kind in kinds), Cell(str(made.height))]
            for group, _, _, made in found
        ],
        data=pl.DataFrame(
            [
                {"group": group.name, "run": run, "kept": kind, "times": counts[group.number][kind]}
                for group, run, _, _ in found
                for kind in kinds
            ]
        ),
    )
    panels = []
    for group, _, course, made in found:
        curves = [Curve("window", PLAIN, course["t_s"], course["cwnd_packets"], width=0.7)]
        for place, kind in enumerate(kinds):
            part = made.filter(pl.col("kept") == kind)
            curves.append(Curve(kind, other(place), part["t_s"], part["before_packets"], form="points"))
        panels.append(TimePanel(group.label, [curves]))
    runs = ", ".join(str(run) for _, run, _, _ in found)
    caption = f"The window of one flow of each, and the share of it that was kept at each loss (runs {runs})."
    draw = partial(over_time, panels, ["window (packets)"], "Time since the flow began (s)", below=True)
    data = pl.concat([made.select(pl.lit(group.name).alias("group"), pl.all()) for group, _, _, made in found])
    alt = "; ".join(f"{group.label}: {dict(counts[group.number])}" for group, _, _, _ in found)
    return [table, Plot.of("reductions", caption, alt, draw, data=data)]


def _kept(context: Context, group: Group) -> tuple[int, pl.DataFrame, pl.DataFrame] | None:
    """Return a run, the window over time, and the reductions with the names of their shares."""
    run, flow = context.typical[group.number]
    if not context.results.has("events"):
        return None
    rows = context.results.table("events").filter((pl.col("run") == run) & (pl.col("flow") == flow))
    if rows.is_empty():
        return None
    start = group.flows.row(by_predicate=(pl.col("run") == run) & (pl.col("flow") == flow), named=True)["start_s"]
    rows = rows.sort("t_s", maintain_order=True).with_columns(pl.col("t_s") - start)
    made = reductions(rows)
    names = [named_share(share, context.settings.kept) for share in made["share"]]
    course = rows.gather_every(max(1, rows.height // MOST_POINTS)).select("t_s", "cwnd_packets")
    return run, course, made.with_columns(kept=pl.Series(names, dtype=pl.String))

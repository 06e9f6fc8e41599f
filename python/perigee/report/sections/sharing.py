# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows that shared a link: shares and fairness while all of them were active."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from perigee.groups.group import varied_in_words
from perigee.groups.looks import Look
from perigee.groups.names import distinct, without_number
from perigee.groups.network import Meeting
from perigee.numbers import number, with_spread
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.sections.timeline import capacity
from perigee.report.style import INK
from perigee.report.utilisation import utilisation
from perigee.statistics.estimates import Array, jain, most_typical, spread
from perigee.statistics.metrics import mean

MOST_PANELS = 12
"""Maximum number of combinations in the figure; the table has all."""

SAME = 0.99
"""Common share of a flow's time above which the flow counts as common throughout."""


@dataclass(frozen=True)
class Combination:
    """A combination of flows that share a link, round after round.

    Attributes:
        title: its label.
        names: names of the flows, without number if repeated in a run.
        meetings: one per round, or per repetition for flows repeated in a run.
        rows: rows of `flows` by round and flow; a list per meeting.
        goodputs_mbps: goodput while all were active, shape (rounds, flows).
        link: the directed link they share, the most utilised of several; None: unknown.
        used_percent: its utilisation in that time, mean over rounds; NaN: unknown.
    """

    title: str
    names: Sequence[str]
    meetings: Sequence[Meeting]
    rows: Sequence[Sequence[Mapping[str, Any]]]
    goodputs_mbps: Array
    link: str | None
    used_percent: float

    @property
    def shares_percent(self) -> Array:
        """Share of each flow in the sum, shape (rounds, flows)."""
        total = self.goodputs_mbps.sum(axis=1, keepdims=True)
        return np.asarray(100 * self.goodputs_mbps / np.where(total > 0, total, np.nan), dtype=np.float64)

    @property
    def fairness(self) -> Array:
        """Jain's index of each round, shape (rounds,)."""
        return np.array([jain(rates) for rates in self.goodputs_mbps])

    @functools.cached_property
    def typical(self) -> int:
        """The round nearest to the medians."""
        return most_typical(np.column_stack([self.goodputs_mbps, self.fairness]))


def section(context: Context) -> Section | None:
    """Return a table of shares and fairness, and throughput over time of one round each; None without sharing."""
    found = combinations(context)
    if not found:
        return None
    blocks: list[Block] = [_table(context, found)]
    if context.results.has("series"):
        blocks.append(_plot(context, found))
    return Section("sharing", "Flows that share a link", blocks)


def combinations(context: Context) -> list[Combination]:
    """Return the combinations of flows that met on a link, in the order of the study."""
    flows = {(row["run"], row["flow"]): row for row in context.bulk.iter_rows(named=True)}
    alike: dict[tuple[int, ...], list[Meeting]] = {}
    for meeting in context.meetings:
        numbers = tuple(flows[meeting.run, name]["group"] for name in meeting.flows)
        alike.setdefault(numbers, []).append(meeting)
    alike = _with_repetitions(alike, flows)
    titles = _titles(context, [flows[one[0].run, name] for one in alike.values() for name in one[0].flows], alike)
    made = []
    for title, meetings in zip(titles, alike.values(), strict=True):
        rows = [[flows[meeting.run, name] for name in meeting.flows] for meeting in meetings]
        goodputs = np.array(
            [
                [_goodput(context, row, meeting) for row in of_round]
                for meeting, of_round in zip(meetings, rows, strict=True)
            ]
        )
        link, used = _busiest(context, meetings)
        is_repeated = len({row["flow"] for row in (of_round[0] for of_round in rows)}) > 1
        names = [without_number(row["flow"]) if is_repeated else row["flow"] for row in rows[0]]
        made.append(Combination(title, names, meetings, rows, goodputs, link, used))
    return made


def _with_repetitions(
    alike: Mapping[tuple[int, ...], list[Meeting]], flows: Mapping[tuple[int, str], Mapping[str, Any]]
) -> dict[tuple[int, ...], list[Meeting]]:
    """Join consecutive meetings in a run of flows that differ in their number only."""
    of_kind: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    for numbers, meetings in alike.items():
        rows = [flows[meetings[0].run, name] for name in meetings[0].flows]
        kind = tuple((row["point"], without_number(row["flow"]), row["cc"], row["cc_params"]) for row in rows)
        of_kind.setdefault(kind, []).append(numbers)
    joined: dict[tuple[int, ...], list[Meeting]] = {}
    for several in of_kind.values():
        together = [meeting for numbers in several for meeting in alike[numbers]]
        if _are_apart(together):
            joined[several[0]] = together
        else:
            joined |= {numbers: alike[numbers] for numbers in several}
    return joined


def _are_apart(meetings: Sequence[Meeting]) -> bool:
    """True if no two meetings of a run overlap or share a flow."""
    ordered = sorted(meetings, key=lambda one: (one.run, one.from_s))
    pairs = [(one, other) for one, other in itertools.pairwise(ordered) if one.run == other.run]
    return all(one.until_s <= other.from_s and set(one.flows).isdisjoint(other.flows) for one, other in pairs)


def _titles(
    context: Context, rows: Sequence[Mapping[str, Any]], alike: Mapping[tuple[int, ...], Sequence[Meeting]]
) -> list[str]:
    """Name combinations by their algorithms, and by what else their flows have in common if these are ambiguous."""
    of_group = {row["group"]: row for row in rows}
    own = [[of_group[one] for one in numbers] for numbers in alike]
    titles = [_counted([context.label(row["cc"]) or row["flow"] for row in several]) for several in own]
    if len(set(titles)) == len(titles):
        return titles
    common = [
        [context.said(key, text) for key, text in varied_in_words(several[0]) if key in _alike(several)]
        for several in own
    ]
    several_algorithms = len({row["cc"] for row in rows}) > 1
    made = [
        ", ".join([*([title] if several_algorithms or not words else []), *words])
        for title, words in zip(titles, common, strict=True)
    ]
    if len(set(made)) == len(made):
        return made
    names = [_counted([without_number(row["flow"]) for row in several]) for several in own]
    return distinct([f"{name}: {title}" for name, title in zip(names, made, strict=True)], "{} ({})".format)


def _counted(names: Sequence[str]) -> str:
    """Return names with "and" between them; more than two that are the same as their number.

    Examples:
        >>> _counted(["cubic", "bbr"]), _counted(["cubic", "cubic"]), _counted(["cubic"] * 4 + ["bbr"])
        ('cubic and bbr', 'cubic and cubic', '4 x cubic and bbr')
    """
    counts = Counter(names)
    words = [[name] * count if count < 3 else [f"{count} x {name}"] for name, count in counts.items()]
    return " and ".join(word for part in words for word in part)


def _alike(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the keys that vary beside the flows' own algorithms, and have one value for all of them."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for key, text in varied_in_words(row):
            values.setdefault(key, set()).add(text)
    return {key for key, seen in values.items() if len(seen) == 1}


def _goodput(context: Context, row: Mapping[str, Any], meeting: Meeting) -> float:
    """Return a flow's goodput while all were active, in Mbit/s; NaN: unknown."""
    length = meeting.until_s - meeting.from_s
    if not context.results.has("series"):
        goodput = row["goodput_mbps"]
        return float(goodput) if goodput is not None and length >= SAME * row["duration_s"] else math.nan
    series = context.series(row["run"], row["flow"])
    if series.is_empty():
        return math.nan
    ends = series["t_s"].to_numpy() + row["start_s"]
    begins = np.concatenate([[max(row["start_s"], ends[0] - context.interval_s)], ends[:-1]])
    common = np.minimum(ends, meeting.until_s) - np.maximum(begins, meeting.from_s)
    return float((series["goodput_mbps"].to_numpy() * np.maximum(common, 0.0)).sum() / length)


def _busiest(context: Context, meetings: Sequence[Meeting]) -> tuple[str | None, float]:
    """Return the most utilised common link, or the one set, and its utilisation, in %."""
    links = list(meetings[0].links) if context.results.has("links") else []
    if context.settings.link in links:
        links = [context.settings.link]
    spans = [(meeting.run, meeting.from_s, meeting.until_s) for meeting in meetings]
    used = {link: mean(utilisation(context, link, spans)) for link in links}
    known = {link: percent for link, percent in used.items() if percent == percent}
    busiest = max(known, key=lambda link: known[link], default=None)
    return busiest, known[busiest] if busiest else math.nan


def _table(context: Context, found: Sequence[Combination]) -> Table:
    rows, data = [], []
    for one in found:
        shares, fairness = one.shares_percent, one.fairness
        together = [Cell(_with_spread(fairness, 2)), Cell(number(one.used_percent)), Cell(str(len(one.meetings)))]
        for places in _replicas(one):
            own = [of_round[place] for of_round in one.rows for place in places]
            delay, high = (_mean([flow[name] for flow in own]) for name in ("rtt_mean_ms", "rtt_p95_ms"))
            row = one.rows[0][places[0]]
            name, flow_name = context.label(row["cc"]), one.names[places[0]]
            if len(places) > 1:
                flow_name = f"{len(places)} flows {without_number(flow_name)}, each"
            rows.append(
                [Cell(one.title), Cell(f"{name} ({flow_name})" if name else flow_name),
                 Cell(_with_spread(one.goodputs_mbps[:, places], 1)), Cell(_with_spread(shares[:, places], 0)),
                 Cell(number(delay)), Cell(number(high)), *(together if places[0] == 0 else [Cell("")] * 3)]
            )  # fmt: skip
        for place, row in enumerate(one.rows[0]):
            own = [of_round[place] for of_round in one.rows]
            delay, high = (_mean([flow[name] for flow in own]) for name in ("rtt_mean_ms", "rtt_p95_ms"))
            flow_name = one.names[place]
            data.append(
                {"together": one.title, "link": one.link, "flow": flow_name, "cc": row["cc"],
                 "goodput_mbps": float(one.goodputs_mbps[:, place].mean()),
                 "goodput_sd_mbps": spread(one.goodputs_mbps[:, place]),
                 "share_percent": float(shares[:, place].mean()), "share_sd_percent": spread(shares[:, place]),
                 "rtt_mean_ms": delay, "rtt_p95_ms": high, "jain": float(fairness.mean()), "jain_sd": spread(fairness),
                 "utilisation_percent": one.used_percent, "rounds": len(one.meetings)}
            )  # fmt: skip
    return Table(
        name="sharing",
        caption="Flows that share a link, while all of them are under way: throughput and its share, Jain's fairness "
        "index (1: equal), capacity of the link in use; means ± standard deviation over rounds, where they vary. "
        "Round-trip times are of the whole flow; where flows are repeated in a run, each time is a round",
        head=["Together", "Flow", "Throughput (Mbit/s)", "Share (%)", "Mean RTT (ms)", "95th percentile (ms)", "Jain",
              "Capacity in use (%)", "Rounds"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
        words=(1,),
        lead=2,
    )  # fmt: skip


def _replicas(one: Combination) -> list[list[int]]:
    """Return the places of flows of one algorithm that differ in their number only; two are not pooled."""
    alike: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(one.rows[0]):
        alike.setdefault((without_number(row["flow"]), f"{row['cc']} {row['cc_params']}"), []).append(place)
    return [part for places in alike.values() for part in ([places] if len(places) > 2 else [[at] for at in places])]


def _mean(values: Sequence[float | None]) -> float:
    return mean(pl.Series(values, dtype=pl.Float64))


def _with_spread(values: Array, digits: int) -> str:
    return with_spread(float(values.mean()), spread(values), digits)


def _plot(context: Context, found: Sequence[Combination]) -> Plot:
    shown = found[:MOST_PANELS]
    links = sorted({context.link_said(one.link) for one in shown if one.link})
    caption = "Throughput of flows that share a link, in the round of each combination that is nearest to its medians"
    caption += f"; grey: capacity of {'; '.join(links)}." if links else "."
    if len(shown) < len(found):
        caption += f" Shown are the first {len(shown)} of {len(found)} combinations; the table has all."
    series = [(one, row, _series(context, one, row)) for one in shown for row in one.rows[one.typical]]
    data = pl.concat(
        [
            part.select(
                pl.lit(one.title).alias("together"), pl.lit(row["flow"]).alias("flow"), pl.lit(row["cc"]).alias("cc"),
                "t_s", pl.col("goodput_mbps").cast(pl.Float64),
            )
            for one, row, part in series
        ]
    )  # fmt: skip
    alt = "Throughput over time of: " + "; ".join(one.title for one in shown)
    left = math.floor(min(row["start_s"] for one in shown for row in one.rows[one.typical]))
    panels = [_panel(context, one) for one in shown]
    draw = functools.partial(over_time, panels, ["Throughput (Mbit/s)"], "Time (s)", left=left)
    return Plot.of("sharing", caption, alt, draw, data=data)


def _series(context: Context, one: Combination, row: Mapping[str, Any]) -> pl.DataFrame:
    """Return a flow's throughput in the typical round, in time of the run."""
    part = context.series(one.meetings[one.typical].run, row["flow"])
    return part.with_columns(pl.col("t_s") + row["start_s"])


def _panel(context: Context, one: Combination) -> TimePanel:
    """Return the flows of the typical round, each in the look of its algorithm, over the capacity of their link."""
    run = one.meetings[one.typical].run
    curves = [capacity(context.link_series(run, one.link), 0.0)] if one.link else []
    for row in one.rows[one.typical]:
        part, style = _series(context, one, row), context.look_of(row)
        label = context.algorithm(row) if row["cc"] else str(row["flow"])
        if any(label == curve.label for curve in curves):
            label, style = "another of the same", Look(INK, (0, (2, 1)), "", "")
        curves.append(Curve(label, style, part["t_s"], part["goodput_mbps"]))
    return TimePanel(one.title, [curves])

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Share of the window that senders kept at each loss, drawn over the window: the decisions of an algorithm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from matplotlib.figure import Figure

from perigee.groups.group import Group
from perigee.groups.looks import other
from perigee.numbers import number
from perigee.report.charts.grid import grid
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table, Text
from perigee.report.sections.representative import DENSE
from perigee.report.style import FAINT, INK, from_zero
from perigee.statistics.reductions import named_share, reductions

MOST_PANELS = 4
"""Maximum number of points with drawn flows."""

MOST_POINTS = 6000
"""Maximum points of a window over time; more are invisible in print."""

MOST_KINDS = 6
"""Maximum number of distinct shares in a figure; the table has all."""


@dataclass(frozen=True)
class Decisions:
    """A flow's window and its reductions.

    Attributes:
        group: its group.
        run: its run.
        window: `t_s` since the flow began, `cwnd_packets`.
        made: reductions: `t_s`, `state`, `before_packets`, `after_packets`, `share` and `kept`, the name of the share.
    """

    group: Group
    run: int
    window: pl.DataFrame
    made: pl.DataFrame


def section(context: Context) -> Section | None:
    """Return a table of the shares of the window kept and the window with its reductions; none without a log of TCP."""
    if not context.results.has("events"):
        return None
    some, left_out = context.some(MOST_PANELS)
    found = [one for group in some if (one := _decisions(context, group)) is not None]
    if not found:
        return None
    named = context.settings.kept
    text = "The share of its window that a sender kept each time it set its threshold because of a loss, from its log. "
    if named:
        shares = ", ".join(f"{name} {number(100 * share, 0)} %" for name, share in named.items())
        text += f"The names are those that the study gives to shares: {shares}. "
    counts = Counter(name for one in found for name in one.made["kept"])
    kinds = list(dict.fromkeys([*named, *(name for name, _ in counts.most_common())]))
    blocks: list[Block] = [Text((text + left_out).strip()), _table(found, kinds), _plot(found, kinds)]
    return Section("reductions", "What was kept of the window at each loss", blocks)


def _decisions(context: Context, group: Group) -> Decisions | None:
    run, flow = context.typical[group.number]
    rows = context.results.table("events").filter((pl.col("run") == run) & (pl.col("flow") == flow))
    if rows.is_empty():
        return None
    start = group.flows.row(by_predicate=(pl.col("run") == run) & (pl.col("flow") == flow), named=True)["start_s"]
    rows = rows.sort("t_s", maintain_order=True).with_columns(pl.col("t_s") - start)
    made = reductions(rows)
    names = [named_share(share, context.settings.kept) for share in made["share"]]
    made = made.with_columns(kept=pl.Series(names, dtype=pl.String))
    window = rows.gather_every(max(1, rows.height // MOST_POINTS)).select("t_s", "cwnd_packets")
    return Decisions(group, run, window, made)


def _table(found: Sequence[Decisions], kinds: Sequence[str]) -> Table:
    rows, data = [], []
    for one in found:
        counts = Counter(one.made["kept"])
        rows.append([Cell.naming(one.group), *(Cell(str(counts[kind])) for kind in kinds), Cell(str(one.made.height))])
        data += [{"group": one.group.name, "run": one.run, "kept": kind, "times": counts[kind]} for kind in kinds]
    return Table(
        name="reductions",
        caption="How often a sender kept which share of its window at a loss",
        head=["", *kinds, "All"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
    )


def _plot(found: Sequence[Decisions], kinds: Sequence[str]) -> Plot:
    told = list(kinds[:MOST_KINDS])
    data = pl.concat([one.made.select(pl.lit(one.group.name).alias("group"), pl.all()) for one in found])
    alt = "; ".join(
        f"{one.group.label}: " + ", ".join(f"{count} {name}" for name, count in Counter(one.made["kept"]).most_common())
        for one in found
    )
    caption = "The congestion window of one flow of each, and the share of it that was kept at each loss"
    caption += " (runs " + ", ".join(str(one.run) for one in found) + ")."
    return Plot.of("reductions", caption, alt, lambda width_in: _figure(found, told, width_in), data=data)


def _figure(found: Sequence[Decisions], kinds: Sequence[str], width_in: float) -> Figure:
    laid = grid(
        width_in, len(found), [""], [(row, 0) for row in range(len(found))], labels=["window", *kinds],
        height_in=2.0, is_stacked=True, share_y=False,
    )  # fmt: skip
    for (row, _), axes in laid.panels.items():
        one = found[row]
        t, window = one.window["t_s"].to_numpy(), one.window["cwnd_packets"].to_numpy()
        axes.plot(t, window, color=INK, lw=0.7, label="window", rasterized=len(t) > DENSE)
        for place, kind in enumerate(kinds):
            part, style = one.made.filter(pl.col("kept") == kind), other(place)
            axes.plot(
                part["t_s"].to_numpy(), part["before_packets"].to_numpy(), ls="", marker=style.marker, ms=3.5,
                color=style.color, markeredgecolor=FAINT, markeredgewidth=0.3, label=kind,
            )  # fmt: skip
        axes.set_xlim(left=0)
    from_zero(list(laid.panels.values()))
    laid.label("Time since the flow began (s)", [f"{one.group.label}: window (packets)" for one in found])
    laid.legend_of_lines()
    return laid.figure

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Durations of requests with their responses, and of pings; pings without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from perigee.groups.kinds import kinds_of
from perigee.numbers import number
from perigee.report.charts.cumulative import (
    Curve,
    CurvePanel,
    cumulative_figure,
    data_of,
    said_if_equal,
    tail_data,
    tail_figure,
    with_few,
)
from perigee.report.charts.scales import with_direction
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.sections import sweep
from perigee.statistics.estimates import cumulative
from perigee.statistics.metrics import EXCHANGE, metric, sample_of

KINDS = kinds_of("exchanges")

TITLES = {"request": "Mean duration of a request", "ping": "Mean round trip of a ping"}
"""Quantity drawn over factors: mean over the exchanges of each flow."""

MOST_PANELS = 12
"""Maximum panels of a figure."""


def section(context: Context) -> Section | None:
    """Return a table of durations per group and their cumulative distributions."""
    groups = context.pooled(context.groups_of(*KINDS))
    if not groups or not context.results.has("exchanges"):
        return None
    exchanges = context.results.table("exchanges")
    rows, data = [], []
    for group in groups:
        own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        took = sample_of(own["duration_ms"])
        lost = own.height - len(took)
        numbers = [float("nan")] * 7
        if len(took):
            # The last is what ping prints as `mdev`: the deviation of all, not of a sample.
            numbers = [float(v) for v in (took.mean(), *np.percentile(took, [50, 95, 99, 0, 100]), took.std())]
        rows.append(
            [Cell.naming(group), Cell(str(own.height)), *(Cell(number(value, 0)) for value in numbers), Cell(str(lost))]
        )
        mean, median, p95, p99, least, most, mdev = numbers
        data.append(
            {"group": group.name, "exchanges": own.height, "mean_ms": mean, "median_ms": median, "p95_ms": p95,
             "p99_ms": p99, "least_ms": least, "most_ms": most, "mdev_ms": mdev, "unanswered": lost}
        )  # fmt: skip
    table = Table(
        name="exchanges",
        caption="Requests until their response's last byte, and pings: duration (ms); mdev, as ping prints it, is the "
        "standard deviation",
        head=[
            "",
            "exchanges",
            "mean",
            "median",
            "95th percentile",
            "99th percentile",
            "least",
            "most",
            "mdev",
            "unanswered",
        ],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )
    lines: list[Block] = []
    for kind in KINDS:
        those = [group for group in context.pooled(context.groups_of(kind)) if not group.flows.is_empty()]
        lines += sweep.over_what_varies(context, those, [replace(metric(EXCHANGE), title=TITLES[kind])])
    tables = [table, *_unanswered(context, exchanges)]
    return Section("exchanges", "Requests and pings", [*lines, *tables, *_distributions(context, exchanges)])


def _unanswered(context: Context, exchanges: pl.DataFrame) -> list[Table]:
    """Return a table of pings without an answer, alone and in a row; none if all were answered."""
    rows, data = [], []
    for group in context.pooled(context.groups_of("ping")):
        own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        bursts = bursts_of(own)
        lost, single = int(bursts.sum()), int((bursts == 1).sum())
        if not lost:
            continue
        shares = [100 * lost / own.height, 100 * single / lost]
        several, longest = int((bursts > 1).sum()), int(bursts.max())
        texts = [str(own.height), str(lost), number(shares[0], 3), number(shares[1], 0), str(several), str(longest)]
        rows.append([Cell.naming(group), *map(Cell, texts)])
        data.append(
            {"group": group.name, "pings": own.height, "unanswered": lost, "unanswered_percent": shares[0],
             "single_percent": shares[1], "events_of_several": several, "longest": longest}
        )  # fmt: skip
    if not rows:
        return []
    head = ["", "pings", "unanswered", "% of pings", "single, % of these", "events of several", "longest"]
    caption = (
        "Pings without an answer: the share whose neighbours were answered, how often several in a row have none, and "
        "how many at most"
    )
    return [Table(name="unanswered", caption=caption, head=head, rows=rows, data=pl.DataFrame(data))]


def bursts_of(pings: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many pings in a row had no answer, for each such event, in rows of the table `exchanges`."""
    in_order = pings.sort("run", "flow", "number")
    lost = pl.col("duration_ms").is_null()
    events = in_order.with_columns(lost=lost, event=pl.struct("run", "flow", lost).rle_id())
    lengths = events.filter(pl.col("lost")).group_by("event", maintain_order=True).len()
    return lengths["len"].cast(pl.Int64).to_numpy()


def _distributions(context: Context, exchanges: pl.DataFrame) -> Sequence[Block]:
    blocks: list[Block] = []
    for kind in KINDS:
        panels, words = [], []
        kept, left_out = context.panels(context.pooled(context.groups_of(kind)), MOST_PANELS)
        for panel in kept:
            curves = []
            for group, text in zip(panel.groups, panel.labels, strict=True):
                own = exchanges.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
                took = sample_of(own["duration_ms"])
                if len(took):
                    curves.append(Curve(text, group.look, *cumulative(took)))
                    words.append(f"{group.label}: median {number(float(np.median(took)), 0)} ms")
            panels += [CurvePanel(panel.title, "", curves)] if curves else []
        if panels:
            of = {"request": "requests", "ping": "pings"}[kind]
            name = "exchanges" if kind == "request" else "pings"
            shown, grey = with_few(panels, context.yardsticks)
            label = with_direction("Duration (ms)", higher_is_better=False)
            caption = (f"Cumulative distribution of the durations of {of}.", grey, left_out)
            blocks.append(
                Plot.of(
                    f"{name}-distribution",
                    " ".join(filter(None, caption)),
                    "; ".join(words),
                    partial(cumulative_figure, shown, label, of, 1.0, begins_at_zero=False),
                    data=data_of(panels, "duration_ms"),
                    instead=said_if_equal(panels, "duration", "ms"),
                )
            )
        if panels and kind == "ping":
            blocks.append(
                Plot.of(
                    "pings-tail",
                    " ".join(filter(None, ("Share of pings with a longer round trip.", grey, left_out))),
                    "; ".join(words),
                    partial(tail_figure, shown, label, "pings"),
                    data=tail_data(panels, "duration_ms"),
                )
            )
    return blocks

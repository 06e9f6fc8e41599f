# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""UDP flows: rate, loss, delay and jitter."""

from __future__ import annotations

import polars as pl

from perigee.groups.kinds import kinds_of
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.statistics.metrics import mean


def section(context: Context) -> Section | None:
    """Return a table of rate, loss, delay and jitter per group."""
    groups = context.pooled(context.groups_of(*kinds_of("datagrams")))
    if not groups:
        return None
    rows, data = [], []
    for group in groups:
        sent, lost = float(group.flows["sent_packets"].sum()), float(group.flows["lost_packets"].sum())
        known = group.flows["lost_packets"].count() > 0
        share = 100 * lost / sent if sent and known else float("nan")
        goodput, delay = mean(group.flows["goodput_mbps"]), mean(group.flows["delay_mean_ms"])
        jitter = mean(group.flows["jitter_ms"])
        shown = [(goodput, 2), (share, 3), (delay, 1), (jitter, 2)]
        rows.append([Cell.naming(group), *(Cell(number(value, digits)) for value, digits in shown)])
        data.append(
            {"group": group.name, "goodput_mbps": goodput, "lost_percent": share, "delay_mean_ms": delay,
             "jitter_ms": jitter}
        )  # fmt: skip
    table = Table(
        name="datagrams",
        caption="UDP flows: means over flows",
        head=["", "Rate that arrived (Mbit/s)", "Lost (%)", "One-way delay (ms)", "Jitter (ms)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
    )
    return Section("datagrams", "UDP flows", [table])

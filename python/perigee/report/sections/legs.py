# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The legs of flows that proxies split, and the bytes that the proxies hold."""

from __future__ import annotations

import polars as pl

from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table


def section(context: Context) -> Section | None:
    """Return the tables of legs and of proxies; None without proxies."""
    legs = context.results.legs("flows")
    if legs.is_empty():
        return None
    tables = [_legs(context, legs)]
    if context.results.has("proxies"):
        tables.append(_proxies(context))
    return Section("legs", "Legs and proxies", tables)


def _legs(context: Context, legs: pl.DataFrame) -> Table:
    rows, data = [], []
    for group in context.pooled(context.groups):
        mine = legs.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        for (leg,), part in mine.partition_by("leg", as_dict=True).items():
            first = part.row(0, named=True)
            sent, again = int(part["sent_packets"].sum()), int(part["retransmitted_packets"].sum())
            share = 100 * again / sent if sent else None
            fact = {
                "group": group.name, "leg": leg, "from_node": first["from_node"], "to_node": first["to_node"],
                "cc": first["cc"], "goodput_mbps": part["goodput_mbps"].mean(),
                "rtt_mean_ms": part["rtt_mean_ms"].mean(), "retransmitted_percent": share, "flows": part.height,
            }  # fmt: skip
            data.append(fact)
            rows.append(
                [
                    Cell.naming(group),
                    Cell(f"{leg}: {first['from_node']} to {first['to_node']}"),
                    Cell(first["cc"]),
                    *(Cell(number(fact[name], 2)) for name in ("goodput_mbps", "rtt_mean_ms", "retransmitted_percent")),
                ]
            )
    return Table(
        name="legs",
        caption="Legs in the direction of the data, means over flows; the round trip is that of the leg, by its sender",
        head=["", "Leg", "Algorithm of the leg", "Goodput (Mbit/s)", "Round trip (ms)", "Retransmitted (%)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        words=(1, 2),
    )


def _proxies(context: Context) -> Table:
    runs = context.rows.select("run", "point").unique()
    states = context.results.table("proxies").join(runs, on="run")
    found = states.group_by("proxy", maintain_order=True).agg(
        pl.max("connections"), pl.max("unread_bytes"), pl.max("held_max_bytes"), pl.mean("held_bytes")
    )
    rows = [
        [
            Cell(row["proxy"]),
            Cell(str(row["connections"])),
            *(Cell(number(row[name] / 1e6, 2)) for name in ("held_bytes", "held_max_bytes", "unread_bytes")),
        ]
        for row in found.iter_rows(named=True)
    ]
    return Table(
        name="proxies",
        caption="Proxies over all runs: most connections at once, payload held for the next leg (mean and most), and "
        "most payload unread in receive buffers",
        head=["", "connections", "held (MB)", "most held (MB)", "most unread (MB)"],
        rows=rows,
        data=found,
    )

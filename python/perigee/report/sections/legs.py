# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The legs of flows that proxies split, and the bytes that the proxies hold."""

from __future__ import annotations

import polars as pl

from perigee.report.context import Context
from perigee.report.measures import GROUP, Measure, measures
from perigee.report.model import Section, Table


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
    facts = []
    for group in context.pooled(context.groups):
        mine = legs.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        for (leg,), part in mine.partition_by("leg", as_dict=True).items():
            first = part.row(0, named=True)
            sent, again = int(part["sent_packets"].sum()), int(part["retransmitted_packets"].sum())
            facts.append({
                "group": group, "leg": leg, "from_node": first["from_node"], "to_node": first["to_node"],
                "cc": first["cc"], "goodput_mbps": part["goodput_mbps"].mean(),
                "rtt_mean_ms": part["rtt_mean_ms"].mean(),
                "retransmitted_percent": 100 * again / sent if sent else None, "flows": part.height,
            })  # fmt: skip
    return measures(
        "legs",
        "Legs in the direction of the data, means over flows; the round trip is that of the leg, by its sender",
        [
            GROUP, Measure("leg", "Leg", words=lambda leg: f"{leg['leg']}: {leg['from_node']} to {leg['to_node']}"),
            Measure("cc", "Algorithm of the leg"), Measure("goodput_mbps", "Goodput (Mbit/s)", 2),
            Measure("rtt_mean_ms", "Round trip (ms)", 2), Measure("retransmitted_percent", "Retransmitted (%)", 2),
        ],
        facts,
    )  # fmt: skip


def _proxies(context: Context) -> Table:
    runs = context.rows.select("run", "point").unique()
    states = context.results.table("proxies").join(runs, on="run")
    found = states.group_by("proxy", maintain_order=True).agg(
        pl.max("connections"), pl.max("unread_bytes"), pl.max("held_max_bytes"), pl.mean("held_bytes")
    )
    heads = {"held_bytes": "held (MB)", "held_max_bytes": "most held (MB)", "unread_bytes": "most unread (MB)"}
    columns = [Measure("proxy"), Measure("connections", "connections", 0)]
    columns += [Measure(name, head, 2, scale=1e-6) for name, head in heads.items()]
    caption = (
        "Proxies over all runs: most connections at once, payload held for the next leg (mean and most), and most "
        "payload unread in receive buffers"
    )
    return measures("proxies", caption, columns, found.to_dicts())

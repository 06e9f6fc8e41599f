# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""UDP flows: rate, loss, delay and jitter."""

from __future__ import annotations

from perigee.groups.kinds import kinds_of
from perigee.report.context import Context
from perigee.report.measures import GROUP, Measure, measures
from perigee.report.model import Section
from perigee.statistics.metrics import mean


def section(context: Context) -> Section | None:
    """Return a table of rate, loss, delay and jitter per group."""
    groups = context.pooled(context.groups_of(*kinds_of("datagrams")))
    if not groups:
        return None
    facts = []
    for group in groups:
        sent, lost = float(group.flows["sent_packets"].sum()), float(group.flows["lost_packets"].sum())
        known = group.flows["lost_packets"].count() > 0
        facts.append({
            "group": group, "goodput_mbps": mean(group.flows["goodput_mbps"]),
            "lost_percent": 100 * lost / sent if sent and known else None,
            "delay_mean_ms": mean(group.flows["delay_mean_ms"]), "jitter_ms": mean(group.flows["jitter_ms"]),
        })  # fmt: skip
    columns = [
        GROUP, Measure("goodput_mbps", "Rate that arrived (Mbit/s)", 2), Measure("lost_percent", "Lost (%)", 3),
        Measure("delay_mean_ms", "One-way delay (ms)", 1), Measure("jitter_ms", "Jitter (ms)", 2),
    ]  # fmt: skip
    table = measures("datagrams", "UDP flows: means over flows", columns, facts)
    return Section("datagrams", "UDP flows", [table])

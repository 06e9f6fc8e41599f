# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The quantities that answer a study's question: `headline` of `report.toml`, else by the kinds of its flows.

Lists of results show the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perigee.groups.factors import lowered
from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
from perigee.groups.names import without_number
from perigee.groups.settings import metric_and_flow
from perigee.report.context import Context
from perigee.report.ranking import FLOW
from perigee.statistics.metrics import EXCHANGE, RESPONSES, Metric, metric, numeric

MOST = 4
"""Maximum number of quantities, a line each."""

BY_KIND = {
    "video": ("stalled_percent", "bitrate_mbps"),
    "call": ("on_time_percent",),
    "voice": ("mos",),
    "pages": ("page_load_ms",),
    "web": (RESPONSES,),
    "transactions": (RESPONSES,),
    "request": (EXCHANGE,),
    "": ("goodput_mbps", "rtt_mean_ms", "retransmitted_percent"),
    "ping": (EXCHANGE,),
    "udp": ("lost_percent",),
}
"""Quantities by the kind of flows, that which users feel first; an empty kind is that of bulk transfers."""

NOUNS = {
    "goodput_mbps": "throughput",
    "steady_goodput_mbps": "steady-state throughput",
    "startup_goodput_mbps": "start-up throughput",
    "rtt_mean_ms": "mean round-trip time",
    "retransmitted_percent": "retransmitted share",
    "stalled_percent": "time in stalls",
    "bitrate_mbps": "bit rate of the video",
    "on_time_percent": "frames of a call on time",
    EXCHANGE: "mean response time",
    RESPONSES: "mean response time of users",
}
"""Metrics in sentences, where that is not their title."""


@dataclass(frozen=True)
class Headline:
    """A quantity of some flows.

    Attributes:
        metric: the quantity.
        groups: the groups of these flows.
        noun: its name in a sentence.
    """

    metric: Metric
    groups: Sequence[Group]
    noun: str


def headlines(context: Context) -> list[Headline]:
    """Return the quantities that these results have, in order, at most `MOST`; none of captures.

    Raises:
        InputError: `headline` names a flow that does not exist.
    """
    if context.results.is_analysis:
        return []
    wanted = [_chosen(context, text) for text in context.settings.headline]
    if not wanted:
        kinds = set(context.rows["kind"])
        names = [(kind, name) for kind, of_kind in BY_KIND.items() for name in of_kind]
        wanted = [
            _headline(context, metric(name), _groups(context, kind), "round trip of a ping" if kind == "ping" else "")
            for kind, name in names
            if (kind in kinds if kind else context.has_bulk)
        ]
    return [one for one in wanted if _has_value(context, one)][:MOST]


def _chosen(context: Context, text: str) -> Headline:
    name, flow = metric_and_flow(text)
    chosen = metric(name, numeric(context.rows))
    if flow:
        groups, noun = context.groups_named([flow]), NOUNS.get(chosen.name, lowered(chosen.title))
        named = noun if _is_alone(context, groups) else f"{noun} ({context.label(flow)})"
        return _headline(context, chosen, groups, named)
    candidates = [context.groups, *(context.groups_of(kind) for kind in SECTION_OF)]
    makers = (_headline(context, chosen, groups) for groups in candidates)
    return next((one for one in makers if _has_value(context, one)), _headline(context, chosen, []))


def _is_alone(context: Context, groups: Sequence[Group]) -> bool:
    """True if no other flow is of the same kind."""
    kinds = {str(group.rows["kind"][0]) for group in groups}
    every, own = (
        {without_number(group.factors[FLOW]) for group in some} for some in (context.groups_of(*kinds), groups)
    )
    return every <= own


def _groups(context: Context, kind: str) -> list[Group]:
    return context.groups_of(kind) if kind else context.groups


def _headline(context: Context, one: Metric, groups: Sequence[Group], noun: str = "") -> Headline:
    return Headline(one, pooled(context, groups), noun or NOUNS.get(one.name, lowered(one.title)))


def _has_value(context: Context, one: Headline) -> bool:
    return any(context.with_metric(group, one.metric.name)[one.metric.name].count() for group in one.groups)


def pooled(context: Context, groups: Sequence[Group]) -> list[Group]:
    """Return groups in which flows of one `count` are together, under a number that no group of single flows has."""
    single = {group.number: group for group in groups}
    joined = context.pooled(groups)
    return [one if one is single[one.number] else replace(one, number=-1 - one.number) for one in joined]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The quantities that answer a study's question: `headline` of `report.toml`, else by the kinds of its flows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
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
            _headline(metric(name), _groups(context, kind), "round trip of a ping" if kind == "ping" else "")
            for kind, name in names
            if (kind in kinds if kind else context.has_bulk)
        ]
    return [one for one in wanted if _has_value(context, one)][:MOST]


def _chosen(context: Context, text: str) -> Headline:
    name, flow = metric_and_flow(text)
    chosen = metric(name, numeric(context.rows))
    if flow:
        groups, noun = context.groups_named([flow]), NOUNS.get(chosen.name, _lowered(chosen.title))
        return _headline(chosen, groups, noun if _is_alone(context, groups) else f"{noun} ({context.label(flow)})")
    candidates = [context.groups, *(context.groups_of(kind) for kind in SECTION_OF)]
    makers = (_headline(chosen, groups) for groups in candidates)
    return next((one for one in makers if _has_value(context, one)), _headline(chosen, []))


def _is_alone(context: Context, groups: Sequence[Group]) -> bool:
    """True if no other flow is of the same kind."""
    kinds = {str(group.rows["kind"][0]) for group in groups}
    return {_base(group) for group in context.groups_of(*kinds)} <= {_base(group) for group in groups}


def _groups(context: Context, kind: str) -> list[Group]:
    return context.groups_of(kind) if kind else context.groups


def _headline(one: Metric, groups: Sequence[Group], noun: str = "") -> Headline:
    return Headline(one, _pooled(groups), noun or NOUNS.get(one.name, _lowered(one.title)))


def _has_value(context: Context, one: Headline) -> bool:
    return any(context.with_metric(group, one.metric.name)[one.metric.name].count() for group in one.groups)


def _pooled(groups: Sequence[Group]) -> list[Group]:
    """Return groups in which flows of one `count` are together."""
    found: dict[tuple[object, ...], list[Group]] = {}
    for group in groups:
        base = _base(group)
        rest = tuple(sorted((key, value) for key, value in group.factors.items() if key != FLOW))
        found.setdefault((base, rest), []).append(group)
    return [part[0] if len(part) == 1 else _together(part) for part in found.values()]


def _together(part: Sequence[Group]) -> Group:
    first, base = part[0], _base(part[0])
    own = first.factors[FLOW]
    return replace(
        first,
        # No other group has it: those of single flows keep theirs.
        number=-1 - first.number,
        name=first.name.replace(own, base),
        label=first.label.replace(own, base),
        factors={**first.factors, FLOW: base},
        levels={**first.levels, FLOW: base},
        rows=pl.concat(group.rows for group in part),
    )


def _base(group: Group) -> str:
    return re.sub(r"\.\d+$", "", group.factors[FLOW])


def _lowered(title: str) -> str:
    """Return a title within a sentence; an abbreviation keeps its capitals.

    Examples:
        >>> _lowered("Page load time"), _lowered("RTT")
        ('page load time', 'RTT')
    """
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]

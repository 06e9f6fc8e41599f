# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""For which share of its time each cause limited a flow: a table, and a sentence on the flows that carried the most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
from perigee.groups.limited import shares_of
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.measures import GROUP, Fact, Measure, measures
from perigee.report.model import Block, Section, Table, Text
from perigee.statistics.limits import CAUSES, HOW, HOW_BY_SERIES, sentence

NAME, TITLE = "limits", "What limited each flow"


def section(context: Context) -> Section | None:
    """Return a table of what limited the flows of each group, and a sentence; where that is not known, it says so."""
    known = shares_of(context.results)
    groups = context.pooled([*context.all_groups, *context.groups_of(*SECTION_OF)])
    facts = [fact for group in groups for fact in _facts(group, known)]
    if facts:
        blocks: list[Block] = [Text(_of_largest(facts)), _table(context, facts)]
    elif context.groups:
        lacks = "windows and round trips in their series" if context.results.has("series") else "series"
        blocks = [Text(f"This is not known: these results have no {lacks} (`measure.series`).")]
    else:
        return None
    return Section(NAME, TITLE, blocks)


def table(columns: Sequence[Measure], facts: Sequence[Fact], caption: str, notes: Sequence[str]) -> Table:
    """Return a table of shares, with the causes that some row has.

    Args:
        columns: those before the shares.
        facts: a row each, with the share by cause under `limits`; empty: unknown.
        caption: its caption.
        notes: notes below it.
    """
    rows = [
        {key: value for key, value in fact.items() if key != "limits"}
        | {f"{cause}_share": fact["limits"].get(cause, 0.0) if fact["limits"] else None for cause in CAUSES}
        for fact in facts
    ]
    causes = [cause for cause in CAUSES if any(fact["limits"].get(cause) for fact in facts)]
    shares = [Measure(f"{cause}_share", CAUSES[cause][0], 0, scale=100) for cause in causes]
    return measures(NAME, caption, [*columns, *shares], rows, notes=notes)


def _facts(group: Group, known: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the mean shares of a group's flows, or of each of their legs; nothing where they are unknown."""
    flows = group.flows.select("run", "flow", "received_bytes")
    own = known.join(flows, on=["run", "flow"])
    facts = []
    for (leg,), part in own.sort("leg", maintain_order=True).partition_by("leg", as_dict=True).items():
        count = part.select("run", "flow").n_unique()
        sums = dict(part.group_by("cause").agg(pl.sum("share")).iter_rows())
        found = {cause: sums[cause] / count for cause in CAUSES if cause in sums}
        carried = part.unique(["run", "flow"])["received_bytes"].mean()
        facts.append({"group": group, "leg": leg, "flows": count, "received_bytes": carried, "limits": found})
    return facts


def _table(context: Context, facts: Sequence[Fact]) -> Table:
    is_split = any(fact["leg"] is not None for fact in facts)
    leg = Measure("leg", "Leg", words=lambda fact: "" if fact["leg"] is None else str(fact["leg"]))
    caption = "Share of its time for which each limited a flow (%), means over flows"
    notes = [HOW if context.results.is_analysis else HOW_BY_SERIES.format(number(1e3 * context.interval_s, 0))]
    return table([GROUP, *([leg] if is_split else [])], facts, caption, notes)


def _of_largest(facts: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on the flows that carried the most; split ones have that of the leg that waited least."""
    largest = max(facts, key=lambda fact: (fact["received_bytes"] or 0.0, -fact["limits"].get("proxy", 0.0)))
    group: Group = largest["group"]
    where = "" if largest["leg"] is None else f" In its leg {largest['leg']}:"
    of_several = "" if len({fact["group"].number for fact in facts}) == 1 else f"{group.label} carried the most."
    return f"{of_several}{where} {sentence(largest['limits'])}".strip()

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Groups with flows that failed, or did not complete before the end of the run."""

from __future__ import annotations

import polars as pl

from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.store.outcomes import FAILED, INCOMPLETE, in_words

MOST_CUT = 12
"""Groups with a row each that the time limit cut off in all rounds; more are often without an end by design."""


def section(context: Context) -> Section | None:
    """Return a table of outcomes, a row per group; None if all flows completed."""
    troubled = [(group, words) for group in _groups(context) if (words := in_words(group.rows))]
    if not troubled or context.results.is_analysis:
        return None
    outcomes = ["completed", *INCOMPLETE, *FAILED]
    data = [
        {"group": group.name, "flows": group.rows.height}
        | {name: group.rows.filter(pl.col("outcome") == name).height for name in outcomes}
        for group, _ in troubled
    ]
    cut = {group.number: group.rows.height for group, _ in troubled if _was_cut(group)}
    if len(cut) <= MOST_CUT:
        cut = {}
    rows = [
        [Cell.naming(group), Cell(words[0].upper() + words[1:], "bad")]
        for group, words in troubled
        if group.number not in cut
    ]
    if cut:
        ended = f"All {sum(cut.values())} flows lasted until the time limit of their runs"
        rows.append([Cell(f"{len(cut)} groups of flows"), Cell(ended)])
    table = Table(
        name="outcomes",
        caption="Flows that did not complete; means of throughput, round-trip time and the like are taken over the "
        "flows that did not fail, those cut off included",
        head=["", "What happened"],
        rows=rows,
        data=pl.DataFrame(data),
        words=(1,),
    )
    return Section("outcomes", "Flows that failed or were cut off", [table])


def _was_cut(group: Group) -> bool:
    """Return whether the time limit ended a group's flows in every round."""
    return bool((group.rows["outcome"] == "time_limit").all())


def _groups(context: Context) -> list[Group]:
    return context.all_groups + (context.groups_of(*SECTION_OF) if context.has_bulk else [])

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Groups with flows that failed, or did not complete before the end of the run."""

from __future__ import annotations

import polars as pl

from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
from perigee.report.context import Context
from perigee.report.model import Cell, Section, Table
from perigee.store.outcomes import FAILED, INCOMPLETE, in_words


def section(context: Context) -> Section | None:
    """Return a table of outcomes, a row per group; None if all flows completed."""
    troubled = [(group, words) for group in _groups(context) if (words := in_words(group.rows))]
    if not troubled or context.results.is_analysis:
        return None
    counted = ["completed", *INCOMPLETE, *FAILED]
    data = [
        {"group": group.name, "flows": group.rows.height}
        | {name: group.rows.filter(pl.col("outcome") == name).height for name in counted}
        for group, _ in troubled
    ]
    table = Table(
        name="outcomes",
        caption="Flows that did not complete; means of throughput, round-trip time and the like are taken over the "
        "flows that did not fail, those cut off included",
        head=["", "What happened"],
        rows=[[Cell.naming(group), Cell(words[0].upper() + words[1:], "bad")] for group, words in troubled],
        data=pl.DataFrame(data),
        words=(1,),
    )
    return Section("outcomes", "Flows that failed or were cut off", [table])


def _groups(context: Context) -> list[Group]:
    return context.all_groups + (context.groups_of(*SECTION_OF) if context.has_bulk else [])

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files of the same minutes: when each begins and ends, and pings without load apart from those beside transfers."""

from __future__ import annotations

import polars as pl

from perigee.analysis.together import EDGE_S, Placed, beside, in_words
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Section, Table, Text
from perigee.store.schema import empty_table

_HEAD = ("Pings", "Load", "Sent", "Lost", "Median (ms)", "95 % (ms)")


def section(context: Context) -> Section | None:
    """Return the files in their order, and the table of pings by load; None where neither can be told."""
    files = _files(context)
    blocks: list[Block] = [Text(f"{said[0].upper()}{said[1:]}.") for said in in_words(files)]
    if found := beside(files):
        rows = [
            [
                f"{one.file}, {one.flow}", name, str(pings.sent), str(pings.lost),
                *("-" if value is None else number(value, 1) for value in (pings.median_ms, pings.p95_ms)),
            ]
            for one in found
            for name, pings in one.phases.items()
        ]  # fmt: skip
        blocks.append(
            Table(
                "together",
                "Round trips without load (before all transfers), beside transfers, and after them",
                _HEAD,
                [[Cell(text) for text in row] for row in rows],
                pl.DataFrame(rows, list(_HEAD), orient="row"),
                notes=[
                    f"Pings within {EDGE_S:g} s of a begin or end are in none. Files are placed by the times of day in "
                    "them, as the clocks of their hosts were set."
                ],
            )
        )
    return Section("together", "Files side by side", blocks) if blocks else None


def _files(context: Context) -> list[Placed]:
    flows, exchanges = context.results.table("flows"), empty_table("exchanges")
    if context.results.has("exchanges"):
        exchanges = context.results.table("exchanges")
    return [
        Placed(
            about["name"], about["system"], about["began_s"],
            flows.filter(pl.col("run") == place), exchanges.filter(pl.col("run") == place),
        )
        for place, about in enumerate(context.results.files())
        if "began_s" in about
    ]  # fmt: skip

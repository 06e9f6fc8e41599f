# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What was run: the links, the hosts, the flows, and the study file itself."""

from __future__ import annotations

from typing import Any

import polars as pl

from perigee.report.context import Context
from perigee.report.model import Block, Cell, Listing, Section, Table


def section(context: Context) -> Section | None:
    """Return the links and hosts as the engine resolved them, and the study file."""
    blocks: list[Block] = []
    plan = context.results.plan()
    if plan:
        blocks += _tables(plan[0])
    if kept := context.results.file("study.toml"):
        blocks.append(Listing("study.toml", kept[1]))
    return Section("setup", "Links, hosts and flows", blocks) if blocks else None


def _tables(run: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    if links := run.get("links"):
        blocks.append(_facts("setup-links", "The links, each direction", "Link", links))
    if hosts := run.get("hosts"):
        blocks.append(_facts("setup-hosts", "The hosts' TCP", "Host", hosts))
    return blocks


def _facts(name: str, caption: str, what: str, things: list[dict[str, Any]]) -> Table:
    """Return a table with a column per thing and a row per property, alike things joined."""
    joined: dict[str, list[str]] = {}
    for thing in things:
        body = repr(sorted((key, str(value)) for key, value in thing.items() if key != "name"))
        joined.setdefault(body, []).append(str(thing.get("name", "")))
    firsts = {", ".join(names): next(t for t in things if t.get("name") == names[0]) for names in joined.values()}
    keys = list(dict.fromkeys(key for thing in firsts.values() for key in thing if key != "name"))
    rows = [[Cell(_say(key)), *(Cell(_say(thing.get(key, "–"))) for thing in firsts.values())] for key in keys]
    data = pl.DataFrame(
        [
            {what.lower(): str(thing.get("name", "")), "property": key, "value": _say(thing[key])}
            for thing in things
            for key in thing
            if key != "name"
        ]
    )
    return Table(name, caption, [what, *firsts], rows, data, words=range(1, len(firsts) + 1))


def _say(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(_say(one) for one in value)
    return str(value).replace("_", " ")

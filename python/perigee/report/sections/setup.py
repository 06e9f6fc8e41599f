# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The setup: links, hosts, flows, and the study file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from perigee.report.context import Context
from perigee.report.model import Block, Cell, Listing, Section, Table
from perigee.store.points import as_text


def section(context: Context) -> Section | None:
    """Return the links, hosts and flows of all points, and the study file."""
    setup = context.results.setup()
    captions = {
        "links": "The links, each direction",
        "hosts": _hosts(str(context.results.manifest["engine"]), str(setup.get("kernel", ""))),
        "flows": "The flows",
        "proxies": "The proxies",
        "routes": "Routes that hold at times",
    }
    varied = context.varied
    blocks: list[Block] = [_varied(varied)] if varied else []
    blocks += [_properties(kind, caption, setup[kind]) for kind, caption in captions.items() if setup.get(kind)]
    if kept := context.results.file("study.toml"):
        blocks.append(Listing("study.toml", kept[1]))
    blocks += [Listing(name, text) for name, text in context.results.authored()]
    return Section("setup", "Links, hosts and flows", blocks) if blocks else None


def _hosts(engine: str, kernel: str) -> str:
    """Describe the origin of the hosts' settings."""
    if engine == "emu":
        return f"The hosts' TCP: sysctls of the nodes' namespaces, as the kernel (Linux {kernel}) had them"
    if engine == "live":
        return f"The hosts' TCP: sysctls of this host (Linux {kernel}); those of other hosts are not known"
    return "The hosts' TCP"


def _varied(varied: Mapping[str, Sequence[str]]) -> Table:
    """Return a table with a row per varied key, and its values in the order of the study."""
    return Table(
        name="setup-varied",
        caption="What varies",
        head=["", "values"],
        rows=[[Cell(key), Cell("; ".join(map(_plain, values)))] for key, values in varied.items()],
        data=pl.DataFrame([{"key": key, "value": value} for key, values in varied.items() for value in values]),
        words=(1,),
    )


def _plain(value: str) -> str:
    """Return the text of a varied value; name and parameters for an algorithm with parameters.

    Examples:
        >>> _plain('{"name": "bbr", "extra_acked": false}'), _plain("0.3 MB")
        ('bbr, extra_acked = false', '0.3 MB')
    """
    return as_text(json.loads(value)) if value.startswith("{") else value


def _properties(kind: str, caption: str, things: list[dict[str, Any]]) -> Table:
    """Return a table with a row per property and a column per object; equal objects share one."""
    joined: dict[str, tuple[list[str], dict[str, str]]] = {}
    for thing in things:
        properties = dict(thing["properties"])
        way = properties.pop("way", "")
        name = f"{thing['name']} ({way})" if way else thing["name"]
        joined.setdefault(repr(properties), ([], properties))[0].append(name)
    columns = list(joined.values())
    keys = list(dict.fromkeys(key for _, properties in columns for key in properties))
    return Table(
        name=f"setup-{kind}",
        caption=caption,
        head=["", *(", ".join(names) for names, _ in columns)],
        rows=[[Cell(key), *(Cell(properties.get(key, "–")) for _, properties in columns)] for key in keys],
        data=pl.DataFrame(
            [
                {"kind": kind.removesuffix("s"), "name": thing["name"], "property": key, "value": value}
                for thing in things
                for key, value in thing["properties"]
            ]
        ),
        words=range(1, len(columns) + 1),
    )

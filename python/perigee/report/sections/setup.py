# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The setup: links, hosts, flows, and the study file."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from perigee.core import native
from perigee.groups.names import link_in_words
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Listing, Section, Table, Text
from perigee.store.points import as_text

START = "start"
"""Property in which flows of a `count` may differ and yet stand together."""

MOST_OPEN_ROWS = 8
"""Rows of the longest table of settings that is not folded."""

LONG = 60
"""Letters of a cell from which a table of settings is folded."""

_PLAIN_STUDY = """
name = "plain"
nodes = ["a", "b"]
links = [{ name = "l", between = ["a", "b"], rate = "1 Mbit/s", delay = "1 ms" }]
flows = [{ name = "f", from = "a", to = "b", size = "1 kB" }]
"""


def section(context: Context) -> Section | None:
    """Return the links, hosts and flows of all points, and the study file."""
    setup = context.results.setup()
    captions = {
        "links": "The links, each direction",
        "flows": "The flows",
        "proxies": "The proxies",
        "routes": "Routes that hold at times",
    }
    varied = context.varied
    blocks: list[Block] = [_varied(varied)] if varied else []
    blocks += [_properties(kind, caption, setup[kind]) for kind, caption in captions.items() if setup.get(kind)]
    if hosts := setup.get("hosts"):
        blocks += _hosts(str(context.results.manifest["engine"]), str(setup.get("kernel", "")), hosts)
    if kept := context.results.file("study.toml"):
        blocks.append(Listing("study.toml", kept[1]))
    blocks += [Listing(name, text) for name, text in context.results.authored()]
    return Section("setup", "Links, hosts and flows", blocks) if blocks else None


def _hosts(engine: str, kernel: str, hosts: list[dict[str, Any]]) -> list[Block]:
    """Return what the hosts' TCP has that is not the default, and folded all of it."""
    if engine == "emu":
        text = f"The hosts' TCP: sysctls of the nodes' namespaces, as the kernel (Linux {kernel}) had them"
    elif engine == "live":
        text = f"The hosts' TCP: sysctls of this host (Linux {kernel}); those of other hosts are not known"
    else:
        text = "The hosts' TCP, all settings"
    every = _properties("hosts", text, hosts, folded=True)
    if engine != "sim":
        return [every]
    usual = _usual()
    other = [
        {**host, "properties": [[key, value] for key, value in host["properties"] if value != usual.get(key)]}
        for host in hosts
    ]
    system = usual["system"]
    if not any(host["properties"] for host in other):
        return [Text(f"The hosts' TCP has the defaults of {system} in all settings."), every]
    changed = _properties("hosts-changed", f"The hosts' TCP where it is not the default of {system}", other)
    return [changed, every]


@functools.cache
def _usual() -> dict[str, str]:
    """Return the settings of a host that a study says nothing of."""
    hosts = native.Plan(_PLAIN_STUDY, "plain.toml", [], False, [], "").setup()["hosts"]
    return dict(hosts[0]["properties"])


def _varied(varied: Mapping[str, Sequence[str]]) -> Table:
    """Return a table with a row per varied key, and its values in the order of the study."""
    return Table(
        name="setup-varied",
        caption="What varies",
        head=["Setting", "Values"],
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


def _properties(kind: str, caption: str, things: list[dict[str, Any]], *, folded: bool = False) -> Table:
    """Return a table with a row per property and a column per object, or the other way round if objects are more.

    Equal objects share a row or column, and so do those of a `count` that differ in their start only.
    """
    joined: dict[str, tuple[list[str], dict[str, str], list[str]]] = {}
    for thing in things:
        properties = {key: _in_words(value) for key, value in thing["properties"]}
        way = properties.pop("way", "")
        base, number = _parted(thing["name"])
        start = properties.pop(START, "") if number else ""
        own = joined.setdefault(repr((properties, base if start else "")), ([], properties, []))
        name = link_in_words(thing["name"]) if kind == "links" else thing["name"]
        own[0].append(f"{name} ({way})" if way else name)
        own[2].append(start)
    columns = [
        (_together(names), {**properties, **({START: _range(starts)} if starts[0] else {})})
        for names, properties, starts in joined.values()
    ]
    keys = list(dict.fromkeys(key for _, properties in columns for key in properties))
    if len(columns) > len(keys):
        head = ["Name", *(key[:1].upper() + key[1:] for key in keys)]
        rows = [[Cell(name), *(Cell(properties.get(key, "–")) for key in keys)] for name, properties in columns]
    else:
        head = ["Setting", *(name for name, _ in columns)]
        rows = [[Cell(key), *(Cell(properties.get(key, "–")) for _, properties in columns)] for key in keys]
    return Table(
        name=f"setup-{kind}",
        caption=caption,
        head=head,
        rows=rows,
        data=pl.DataFrame(
            [
                {"kind": kind.removesuffix("s"), "name": thing["name"], "property": key, "value": value}
                for thing in things
                for key, value in thing["properties"]
            ]
        ),
        words=range(1, len(head)),
        folded=folded or len(rows) > MOST_OPEN_ROWS or any(len(cell.text) > LONG for row in rows for cell in row),
    )


def _parted(name: str) -> tuple[str, str]:
    """Return the name of a flow of a `count` without its number, and the number; empty without one."""
    base, _, number = name.rpartition(".")
    return (base, number) if base and number.isdecimal() else (name, "")


def _together(names: Sequence[str]) -> str:
    """Return names in a row; those that differ in their number only as a range.

    Examples:
        >>> _together(["a.1 (x)", "a.2 (x)", "a.3 (x)"]), _together(["a", "b"]), _together(["a.1", "b.1", "b.2"])
        ('a.1 to a.3 (x)', 'a, b', 'a.1, b.1 to b.2')
    """
    runs: list[list[str]] = []
    for name in names:
        base = _parted(name.partition(" ")[0])
        if base[1] and runs and _parted(runs[-1][0].partition(" ")[0])[0] == base[0]:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0].partition(' ')[0]} to {run[-1]}" if len(run) > 1 else run[0] for run in runs)


def _range(starts: Sequence[str]) -> str:
    known = list(dict.fromkeys(starts))
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _in_words(value: str) -> str:
    """Return a property with the parameters of algorithms in words.

    Examples:
        >>> _in_words('cubic, vivace {"exponent":1,"latency":2} (varied)')
        'cubic, vivace (exponent 1, latency 2) (varied)'
    """
    return re.sub(r"\{[^{}]*\}", _parameters, value)


def _parameters(found: re.Match[str]) -> str:
    try:
        pairs: dict[str, Any] = json.loads(found[0])
    except ValueError:
        return found[0]
    words = (f"{key.replace('_', ' ')} {as_text(value)}" for key, value in pairs.items())
    return f"({', '.join(words)})"

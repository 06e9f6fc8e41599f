# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The settings of a study as a form shows them: in groups, each with words, key, value, and whether it varies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from perigee.laboratory.own_studies import schema

GROUPS = ("Runs", "Links", "Hosts", "Flows", "Measuring")
OF_TABLE = {"links": "Links", "hosts": "Hosts", "flows": "Flows", "measure": "Measuring"}
"""The group of each table of a study."""
WORDS = {
    "rounds": "Rounds",
    "seed": "Seed",
    "time_limit": "Longest run",
    "rate": "Rate",
    "delay": "One-way delay",
    "queue": "Queue",
    "loss": "Loss",
    "profile": "Link profile",
    "cc": "Congestion control",
    "size": "Size",
    "duration": "Duration",
    "start": "Start",
    "start_jitter": "Random delay of the start",
    "count": "Number of flows",
    "kind": "Kind",
    "like": "System",
    "series": "Interval of values over time",
    "startup": "End of the startup phase",
    "steady": "Steady phase",
    "goodput_bin": "Bin of the throughput percentiles",
    "mss": "Largest segment",
    "initial_window": "Initial window",
}
"""Names of common keys in forms; others begin their description in the reference."""
NOT_SET = ("name", "between", "from", "to", "title", "about", "nodes")
"""Keys that say what something is, which no setting changes."""
MOST_WORDS = 60


@dataclass(frozen=True)
class Setting:
    """A setting of a study.

    Attributes:
        key: as `--set` takes it.
        words: what it is.
        value: as a form has it; values that vary are separated by commas.
        varies: whether it takes several values.
    """

    key: str
    words: str
    value: str
    varies: bool = False

    @property
    def field(self) -> str:
        """The name of its field in the form."""
        return f"vary.{self.key}" if self.varies else f"set.{self.key}"


def settings_of(content: Mapping[str, Any]) -> dict[str, list[Setting]]:
    """Return the settings of a study by group; what varies comes first in its group.

    Examples:
        >>> flow = {"name": "main", "size": "1 MB", "cc": "cubic"}
        >>> groups = settings_of({"flows": [flow], "vary": {"flows.main.cc": ["cubic", "bbr"]}})
        >>> [(each.key, each.value, each.varies) for each in groups["Flows"]]
        [('flows.main.cc', 'cubic,bbr', True), ('flows.main.size', '1 MB', False)]
    """
    groups: dict[str, list[Setting]] = {group: [] for group in GROUPS}
    varied = dict(varying(content))
    for key, values in varied.items():
        groups[_group(key)].append(Setting(key, words_of(key), values, varies=True))
    for key in ("rounds", "seed", "time_limit"):
        if key in content or key != "time_limit":
            groups["Runs"].append(Setting(key, words_of(key), _text(content.get(key, 1 if key == "rounds" else ""))))
    for key, value in _plain(content):
        if key not in varied:
            groups[_group(key)].append(Setting(key, words_of(key), value))
    return {group: found for group, found in groups.items() if found}


def varying(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the keys that vary over plain values, and these as a form has them."""
    vary = content.get("vary")
    return [
        (key, ",".join(map(_text, values)))
        for key, values in (vary.items() if isinstance(vary, dict) else ())
        if isinstance(values, list) and all(isinstance(value, str | int | float) for value in values)
    ]


def words_of(key: str) -> str:
    """Return what a key is in words.

    Examples:
        >>> words_of("links.satellite.down.rate"), words_of("flow.cc")
        ('Rate of satellite, down', 'Congestion control')
    """
    parts = key.split(".")
    table, last = parts[0], parts[-1]
    words = WORDS.get(last) or _described().get((table, last)) or last.replace("_", " ").capitalize()
    of = ", ".join(parts[1:-1])
    return f"{words} of {of}" if of else words


def _plain(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys with one plain value of links, hosts, flows and measuring, and that value."""
    for table in OF_TABLE:
        found = content.get(table)
        if isinstance(found, dict):
            yield from _below(table, found)
        for one in found if isinstance(found, list) else ():
            if isinstance(one, dict) and isinstance(one.get("name"), str):
                yield from _below(f"{table}.{one['name']}", one)


def _below(path: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if key in NOT_SET:
            continue
        if isinstance(value, str | int | float):
            yield f"{path}.{key}", _text(value)
        elif isinstance(value, dict) and key in ("down", "up"):
            yield from _below(f"{path}.{key}", value)


def _group(key: str) -> str:
    table = key.partition(".")[0]
    return OF_TABLE.get(table, "Flows" if table == "flow" else "Links" if table == "link" else "Runs")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _described() -> dict[tuple[str, str], str]:
    """Return the first clause of what the reference says of each key of a table."""
    whole = json.loads(schema())
    found = {}
    for table in OF_TABLE:
        node = whole["properties"][table]
        for each in _with_properties(whole, node):
            for key, of in each.items():
                text = of.get("description", "").replace("`", "").partition(". ")[0].partition(" (")[0].rstrip(".")
                if text and len(text) <= MOST_WORDS:
                    found[table, key] = text
    return found


def _with_properties(whole: dict[str, Any], node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in node:
        node = whole["$defs"][node["$ref"].rpartition("/")[2]]
    for each in (node, node.get("items", {}), *node.get("anyOf", ()), *node.get("oneOf", ())):
        if "$ref" in each:
            yield from _with_properties(whole, each)
        elif "properties" in each:
            yield each["properties"]

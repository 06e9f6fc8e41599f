# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Completions for `--set` and `--vary`: key paths of studies and profiles, and values, from their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.errors import PerigeeError
from perigee.places import find_study, profiles

if TYPE_CHECKING:
    from perigee._core import Parameter

Node = Mapping[str, Any]
"""A part of a JSON schema."""

SCHEMAS = Path(__file__).resolve().parent.parent / "data" / "schema"

TABLES = {"flow": "flows", "proxy": "proxies", "route": "routes"}
"""Heads of key paths that mean all tables of a list."""

PLAIN = ("seed", "rounds", "time_limit", "measure")
"""Keys of a study that are set by their own path."""


class Settings:
    """The key paths that can be set.

    Args:
        schema: the JSON schema, for its `$defs`.
        root: a schema of what can be set, key by key.
        nodes: names of the study's nodes.
    """

    def __init__(self, schema: Node, root: Node, nodes: Sequence[str] = ()) -> None:
        self._schema = schema
        self._root = root
        self._nodes = nodes

    def words(self, unfinished: str, *, several: bool = False) -> tuple[bool, list[tuple[str, str]]]:
        """Return the completions of an unfinished `KEY=VALUE`, each with its meaning.

        Args:
            unfinished: as it stands on the line.
            several: values are a list with commas.

        Returns:
            Whether the words are keys, which end in `=` or `.`, and are not whole; and the words.
        """
        path, equals, value = unfinished.partition("=")
        *above, last = path.split(".")
        if not equals:
            prefix = "".join(f"{part}." for part in above)
            return True, list(self._keys(above, prefix, last))
        parts = self._parts(self._at([*above, last]))
        earlier = value.rpartition(",")[0] + "," if several and "," in value else ""
        values = ((f"{path}={earlier}{word}", meaning) for word, meaning in self._values(parts, last))
        return False, [offer for offer in values if offer[0].startswith(unfinished)]

    def _keys(self, above: Sequence[str], prefix: str, last: str) -> Iterator[tuple[str, str]]:
        below = self._below(self._parts(self._at(above)))
        for key in sorted(key for key in below if key.startswith(last)):
            parts = self._parts(below[key])
            meaning = next((part["description"] for part in below[key] if "description" in part), "")
            if any(part.get("type") != "object" for part in parts):
                yield f"{prefix}{key}=", first_sentence(meaning)
            if self._below(parts):
                yield f"{prefix}{key}.", first_sentence(meaning)

    def _at(self, path: Sequence[str]) -> list[Node]:
        """Return the forms of the value at a key path; none where there is no such key."""
        found: list[Node] = [self._root]
        for key in path:
            found = self._below(self._parts(found)).get(key, [])
        return found

    def _parts(self, forms: Sequence[Node]) -> list[Node]:
        """Return all forms that a value can have: references and alternatives followed."""
        found: list[Node] = []
        for form in forms:
            if "$ref" in form:
                found += self._parts([self._schema["$defs"][form["$ref"].rpartition("/")[2]]])
            elif "anyOf" in form:
                found += self._parts(form["anyOf"])
            else:
                found.append(form)
        return found

    def _below(self, parts: Sequence[Node]) -> dict[str, list[Node]]:
        """Return the forms of each key of a table."""
        below: dict[str, list[Node]] = {}
        for part in parts:
            for key, form in part.get("properties", {}).items():
                below.setdefault(key, []).append(form)
        return below

    def _values(self, parts: Sequence[Node], key: str) -> Iterator[tuple[str, str]]:
        if key == "cc":
            from perigee.cc.catalog import algorithms

            yield from ((one.name, one.title) for one in algorithms())
        elif key == "profile":
            yield from ((name, "") for name in sorted(profiles()))
        elif key in ("from", "to", "node"):
            yield from ((name, "") for name in self._nodes)
        for part in parts:
            known = part.get("enum", [part["const"]] if "const" in part else [])
            switch = ["true", "false"] if part.get("type") == "boolean" else []
            yield from ((str(word), "") for word in (*known, *switch))


def of_study(name: str) -> Settings:
    """Return the settings of a study; if it cannot be read, those that need none of its names.

    Args:
        name: its name, folder or file; empty where it is not known.
    """
    schema = _schema("study")
    try:
        head = find_study(name).content if name else {}
    except PerigeeError:
        head = {}
    of = schema["properties"]
    nodes = [node for node in head.get("nodes", ()) if isinstance(node, str)]
    keys: dict[str, Any] = {key: of[key] for key in PLAIN}
    for single, table in TABLES.items():
        if table == "flows" or head.get(table):
            keys[single] = _without_name(of[table])
    for table in ("flows", "links", "proxies"):
        if names := [str(one["name"]) for one in _tables(head, table) if "name" in one]:
            keys[table] = _object(of[table]["description"], dict.fromkeys(names, _without_name(of[table])))
    hosts = of["hosts"]["additionalProperties"]["properties"]
    by_node = dict.fromkeys(nodes, _object("TCP settings of this node.", hosts))
    keys["hosts"] = _object(of["hosts"]["description"], {**hosts, **by_node})
    servers = _object("", {node: {"type": "string"} for node in nodes})
    keys["live"] = _object(of["live"]["description"], {**of["live"]["properties"], "servers": servers})
    if inputs := head.get("inputs"):
        keys["inputs"] = _object(
            of["inputs"]["description"], {key: {"type": "string", "description": str(inputs[key])} for key in inputs}
        )
    if experiments := [str(one["name"]) for one in _tables(head, "experiments") if "name" in one]:
        keys["experiments"] = {"enum": experiments, "description": of["experiments"]["description"]}
    keys |= _variants(head)
    return Settings(schema, {"properties": keys}, nodes)


def of_profile() -> Settings:
    """Return the settings of a link profile."""
    schema = _schema("profile")
    keys = {key: schema["properties"][key] for key in ("link", "down", "up")}
    return Settings(schema, {"properties": keys})


def of_algorithm(name: str) -> Settings:
    """Return the parameters of a congestion control; none for an unknown one.

    Args:
        name: its name or its C file, of which nothing is executed.
    """
    from perigee.cc.catalog import algorithm_of, algorithms
    from perigee.cc.kernel import is_file

    try:
        known = [algorithm_of(Path(name))[0]] if is_file(name) else [one for one in algorithms() if one.name == name]
    except PerigeeError:
        known = []
    return Settings({}, {"properties": {param.name: _parameter(param) for one in known for param in one.params}})


def first_sentence(text: str) -> str:
    """Return the first sentence of a description.

    Examples:
        >>> first_sentence("Limit in bytes, e.g. 3 MB. The packet in service counts.")
        'Limit in bytes, e.g. 3 MB.'
    """
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", text.strip(), maxsplit=1)[0]


def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _parameter(one: Parameter) -> Node:
    """Return a parameter as a part of a schema: a switch has its limits as values, a choice the names of its unit."""
    names = [one.max, one.min] if one.unit == "switch" else one.unit.split("|")
    values = {"enum": names} if names[1:] else {}
    return {"description": f"{one.doc} ({one.default} unless set)", **values}


def _object(description: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": properties}


def _without_name(table: Node) -> dict[str, Any]:
    """Return a table of a list, as a setting reaches into it."""
    keys = {key: form for key, form in table["items"]["properties"].items() if key != "name"}
    return _object(table["description"], keys)


def _tables(head: Node, name: str) -> Iterator[Node]:
    found = head.get(name, ())
    yield from (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def _variants(head: Node) -> dict[str, Any]:
    """Return the keys of a study's own under `[vary]`, whose values are variants with names."""
    vary = head.get("vary", {})
    lists = vary.items() if isinstance(vary, dict) else ()
    return {
        key: {"enum": [str(one["name"]) for one in values], "description": "Variants of this study."}
        for key, values in lists
        if key != "linked"
        and isinstance(values, list)
        and all(isinstance(one, dict) and "name" in one for one in values)
    }

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The settings of a study as a form shows them: in groups, each with words, key, value or values, and choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from perigee.cc import catalog
from perigee.errors import InputError
from perigee.laboratory.own_studies import keys
from perigee.places import profiles
from perigee.toml import inline, setting

GROUPS = ("Runs", "Links", "Hosts", "Flows", "Measuring")
OF_TABLE = {"links": "Links", "hosts": "Hosts", "flows": "Flows", "measure": "Measuring"}
"""The group of each table of a study."""
SEVERAL = {"link": "links", "flow": "flows", "proxy": "proxies", "route": "routes"}
"""Words that stand for all of a table in a key."""
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
    "enabled": "Proxy",
    "bdp": "in bandwidth-delay products",
    "round_trip": "round trip of its length",
    "to": "Receiver",
    "from": "Sender",
    "tcp": "TCP",
    "warmup": "Warm-up",
}
"""Names of common keys in forms; others begin their description in the reference."""
NOT_SET = ("name", "between", "from", "to", "title", "about", "nodes")
"""Keys that say what something is, which no setting changes."""
SWITCH = ("true", "false")
DIRECTIONS = ("down", "up")
LINKED = "linked"
"""The key of `vary` under which several keys vary together, without names."""
MOST_WORDS = 60
MOST_DETAIL = 120


@dataclass(frozen=True)
class Value:
    """A value of a setting that varies.

    Attributes:
        text: as `--set` takes it among others, separated by commas.
        label: what it is called.
        detail: its keys beside its name; empty for one that has none.
    """

    text: str
    label: str
    detail: str = ""


@dataclass(frozen=True)
class Setting:
    """A setting of a study.

    Attributes:
        key: as `--set` takes it.
        words: what it is.
        of: the link, flow or host that has it; empty where all have it.
        value: as a form has it; empty where it varies.
        values: those that it takes in turn; empty where it does not vary.
        choices: words that it can be; empty: any.
        is_open: whether values that are no choice, and not of the study, can be given too.
    """

    key: str
    words: str
    of: str = ""
    value: str = ""
    values: tuple[Value, ...] = ()
    choices: tuple[str, ...] = ()
    is_open: bool = True


def settings_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings of a study: for each group its `name` and `settings`, first what varies.

    Examples:
        >>> flow = {"name": "main", "size": "1 MB"}
        >>> content = {"flows": [flow], "vary": {"flow.cc": ["bbr", {"name": "cubic", "beta": "50 %"}]}}
        >>> flows = settings_of(content)[1]
        >>> [(each["key"], each["value"], len(each["values"])) for each in flows["settings"]]
        [('flow.cc', '', 2), ('flows.main.size', '1 MB', 0)]
        >>> flows["settings"][0]["values"][1]
        {'text': '{ name = "cubic", beta = "50 %" }', 'label': 'cubic', 'detail': 'beta = "50 %"'}
    """
    groups: dict[str, list[Setting]] = {group: [] for group in GROUPS}
    varied = varying(content)
    for one in varied:
        groups[_group(one.key)].append(one)
    for key in ("rounds", "seed", "time_limit"):
        if key in content or key != "time_limit":
            groups["Runs"].append(Setting(key, *words_of(key), _text(content.get(key, 1 if key == "rounds" else ""))))
    taken = {one.key for one in varied} | set(_together(content))
    for key, value in _set(content):
        if key not in taken and _of_all(key) not in taken:
            choices = SWITCH if isinstance(value, bool) else choices_of(key)
            groups[_group(key)].append(Setting(key, *words_of(key), _text(value), choices=choices))
    return [{"name": group, "settings": [asdict(one) for one in found]} for group, found in groups.items() if found]


def varying(content: Mapping[str, Any]) -> list[Setting]:
    """Return what varies: over values, inline tables, or variants that have names of the author's."""
    vary = content.get("vary")
    found = []
    for key, values in vary.items() if isinstance(vary, dict) else ():
        if key == LINKED or not isinstance(values, list):
            continue
        # A key of the author's own has variants, which a setting chooses by their names.
        is_own = "." not in key and any(isinstance(value, dict) for value in values)
        is_switch = all(isinstance(value, bool) for value in values)
        choices = () if is_own else SWITCH if is_switch else choices_of(key)
        words, of = (key.replace("_", " ").capitalize(), "") if is_own else words_of(key)
        listed = tuple(_value(value, is_own=is_own) for value in values)
        found.append(Setting(key, words, of, values=listed, choices=choices, is_open=not is_own))
    return found


def _together(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that vary together with others: a setting of one of them alone is refused."""
    experiments = content.get("experiments")
    tables = [content, *(experiments if isinstance(experiments, list) else ())]
    for vary in (table.get("vary") for table in tables if isinstance(table, dict)):
        for key, values in vary.items() if isinstance(vary, dict) else ():
            if "." not in key and isinstance(values, list):
                yield from (each for value in values if isinstance(value, dict) for each in value if each != "name")


def _of_all(key: str) -> str:
    """Return the key that stands for one of all links or flows.

    Examples:
        >>> _of_all("flows.main.cc"), _of_all("hosts.like")
        ('flow.cc', 'hosts.like')
    """
    table, *path = key.split(".")
    word = next((word for word, several in SEVERAL.items() if several == table), table)
    return key if word == table else ".".join((word, *path[1:]))


def _value(value: Any, *, is_own: bool) -> Value:
    if not isinstance(value, dict):
        return Value(_text(value, setting), _text(value))
    name, rest = str(value.get("name", "")), {key: of for key, of in value.items() if key != "name"}
    detail = ", ".join(f"{key} = {_text(of, inline)}" for key, of in rest.items())
    short = detail if len(detail) <= MOST_DETAIL else f"{detail[:MOST_DETAIL]}…"
    return Value(setting(name) if is_own else _text(value), name or detail, short if name else "")


def words_of(key: str) -> tuple[str, str]:
    """Return what a key is in words, and the link, flow or host that has it; empty where all have it.

    Examples:
        >>> words_of("links.satellite.down.rate"), words_of("flow.cc")
        (('Rate', 'satellite, down'), ('Congestion control', ''))
        >>> words_of("links.satellite.queue.bdp")
        ('Queue: in bandwidth-delay products', 'satellite')
    """
    table, *path = key.split(".")
    if not path:
        return _word(table, table), ""
    # Before the key stand the name of a link or flow, or the node of a host, and the direction.
    is_named = table in SEVERAL.values() or (table == "hosts" and (table, path[0]) not in _described())
    at = min(int(is_named), len(path) - 1)
    at += path[at] in DIRECTIONS and at + 1 < len(path)
    inner = [WORDS.get(one, one.replace("_", " ")).lower() for one in path[at + 1 :]]
    return ": ".join([_word(SEVERAL.get(table, table), path[at]), *inner]), ", ".join(path[:at])


def _word(table: str, key: str) -> str:
    return WORDS.get(key) or _described().get((table, key)) or key.replace("_", " ").capitalize()


def choices_of(key: str) -> tuple[str, ...]:
    """Return the words that the value of a key can be; empty: any.

    Examples:
        >>> choices_of("flows.video.algorithm"), choices_of("flow.size")
        (('bola', 'rate'), ())
    """
    table, *path = key.split(".")
    last = path[-1] if path else table
    if last == "cc":
        return tuple(one.name for one in catalog.algorithms())
    if last == "profile":
        return tuple(profiles())
    return _choices().get((SEVERAL.get(table, table), last), ())


def _set(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys of links, hosts, flows and measuring, and their values."""
    for table in OF_TABLE:
        found = content.get(table)
        if isinstance(found, dict):
            yield from _below(table, found)
        for one in found if isinstance(found, list) else ():
            if isinstance(one, dict) and isinstance(one.get("name"), str):
                yield from _below(f"{table}.{one['name']}", one)


def _below(path: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if key in NOT_SET:
            continue
        # Below `hosts` a table is a node's.
        if isinstance(value, dict) and (key in DIRECTIONS or path == "hosts"):
            yield from _below(f"{path}.{key}", value)
        elif isinstance(value, str | int | float | list | dict):
            yield f"{path}.{key}", value


def _group(key: str) -> str:
    table = key.partition(".")[0]
    return OF_TABLE.get(SEVERAL.get(table, table), "Runs")


def _text(value: object, written: Callable[[object], str] | None = None) -> str:
    """Return a value as a form has it; of one that no study can have what it is, for its author to see."""
    if written is None and isinstance(value, str):
        return value
    try:
        return (written or inline)(value)
    except InputError:
        return str(value)


@cache
def _choices() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the words of each key that can be nothing else, by table and key."""
    return {
        (table, one["key"]): tuple(one["values"])
        for table in OF_TABLE
        for one in keys().get(table, ())
        if one["values"] and one["is_word"]
    }


@cache
def _described() -> dict[tuple[str, str], str]:
    """Return the first clause of what the reference says of each key of a table."""
    found = {}
    for table in (*OF_TABLE, *SEVERAL.values()):
        for one in keys().get(table, ()):
            text = re.split(r"\. | \(|;", one["text"].replace("`", ""), maxsplit=1)[0].rstrip(".")
            if text and len(text) <= MOST_WORDS:
                found[table, one["key"]] = text
    return found

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The network of a study for a picture of it: nodes, and links with rate, delay and orbit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perigee.errors import InputError
from perigee.places import find_profile, profiles

GEO_MS, MEO_MS = 200.0, 60.0
"""Least one-way delays of links over these orbits."""
ORBITS = ("GEO", "MEO", "LEO")
OF_LEO = re.compile(r"leo|starlink|oneweb|kuiper|walker|iridium", re.IGNORECASE)
OF_SATELLITE = re.compile(r"sat|geo|meo|beam|dish", re.IGNORECASE)
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True)
class Link:
    """A link of a study.

    Attributes:
        name: its name.
        ends: the nodes that it connects.
        rate: towards the user, in words; empty: not known.
        delay: one way, in words; empty: not known.
        orbit: `GEO`, `MEO` or `LEO`; empty: no satellite.
    """

    name: str
    ends: tuple[str, str]
    rate: str
    delay: str
    orbit: str


def network(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of a study's `nodes` and its `links`, each with the attributes of `Link`."""
    nodes = content.get("nodes")
    return {
        "nodes": [str(node) for node in nodes] if isinstance(nodes, list) else [],
        "links": [asdict(link) for link in links_of(content)],
    }


def links_of(content: Mapping[str, Any]) -> list[Link]:
    """Return the links of a study; what is no link is left out.

    Examples:
        >>> geo = {"name": "sat", "between": ["a", "b"], "rate": "10 Mbit/s", "delay": "300 ms"}
        >>> [(link.rate, link.delay, link.orbit) for link in links_of({"links": [geo, {"between": 3}]})]
        [('10 Mbit/s', '300 ms', 'GEO')]
    """
    found = []
    for given in content.get("links", []) if isinstance(content.get("links"), list) else []:
        if not isinstance(given, dict):
            continue
        ends = given.get("between")
        if not (isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, str) for end in ends)):
            continue
        direction = _direction(given)
        name, profile = str(given.get("name", "")), str(given.get("profile", ""))
        rate, delay = _rate(direction.get("rate")), _delay(direction.get("delay"))
        found.append(Link(name, (ends[0], ends[1]), rate, delay, orbit_of(f"{name} {profile}", direction)))
    return found


def orbit_of(name: str, direction: Mapping[str, Any]) -> str:
    """Return the orbit of a link by its name and what it says of a direction; empty: no satellite.

    Examples:
        >>> orbit_of("access", {"delay": "270 ms"}), orbit_of("starlink", {"delay": "9 ms"}), orbit_of("lan", {})
        ('GEO', 'LEO', '')
    """
    delay = direction.get("delay")
    is_orbit = isinstance(delay, dict) and delay.get("kind") in ("orbit", "slots")
    delay_ms = _milliseconds(delay)
    if delay_ms >= GEO_MS:
        return "GEO"
    if is_orbit or OF_LEO.search(name):
        return "LEO"
    if delay_ms >= MEO_MS:
        return "MEO"
    return "LEO" if OF_SATELLITE.search(name) and delay_ms >= 1 else ""


def orbits_of(links: Sequence[Link]) -> list[str]:
    """Return the orbits of links, each once."""
    return [orbit for orbit in ORBITS if any(link.orbit == orbit for link in links)]


def _direction(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a link says of the direction towards the user, with what its profile says otherwise."""
    content: Mapping[str, Any] = {}
    name = given.get("profile")
    if isinstance(name, str) and name in profiles():
        try:
            content = find_profile(name).content
        except InputError:
            content = {}
    return _down(content.get("link", {}), content) | _down(given, given)


def _down(both: Any, of: Mapping[str, Any]) -> dict[str, Any]:
    one = of.get("down", {})
    return {
        key: value
        for each in (both, one)
        if isinstance(each, dict)
        for key, value in each.items()
        if key in ("rate", "delay")
    }


def _rate(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    named = next((str(value[key]) for key in ("mean", "rate", "max") if isinstance(value.get(key), str)), "")
    kinds = {"tdma": "TDMA", "acm": "ACM", "slots": "slots of 15 s"}
    return named or kinds.get(str(value.get("kind", "")), "varies")


def _delay(value: Any) -> str:
    if isinstance(value, str):
        return _time(value)
    if not isinstance(value, dict):
        return ""
    named = next((_time(value[key]) for key in ("base", "mean", "delay") if isinstance(value.get(key), str)), "")
    return f"from {named}" if named else {"orbit": "of its orbits"}.get(str(value.get("kind", "")), "varies")


def _time(text: str) -> str:
    """Return a time in the unit that suits it, with three digits; what is none as it is.

    Examples:
        >>> _time("9992 us"), _time("290 ms"), _time("varies")
        ('9.99 ms', '290 ms', 'varies')
    """
    of_ms = _milliseconds(text)
    if not of_ms:
        return text
    unit = "s" if of_ms >= 1e3 else "ms" if of_ms >= 1 else "us"
    return f"{of_ms / UNITS_MS[unit]:.3g} {unit}"


def _milliseconds(value: Any) -> float:
    """Return a delay in ms; 0 where it is none in words."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("base", "mean", "delay") if isinstance(value.get(key), str)), "")
    found = re.fullmatch(r"\s*([\d.]+)\s*(us|ms|s)\s*", value) if isinstance(value, str) else None
    try:
        return float(found[1]) * UNITS_MS[found[2]] if found else 0.0
    except ValueError:
        return 0.0

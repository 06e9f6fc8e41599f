# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The network of a study as a picture: nodes, links with rate and delay, and satellite links as dashed arcs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from perigee.errors import InputError
from perigee.places import find_profile, profiles

PARALLEL = 36.0
"""How much further down each further link between the same two nodes bends."""
GEO_MS, MEO_MS = 200.0, 60.0
"""Least one-way delays of links over these orbits."""
COLUMN, ROW, MARGIN, TOP = 168, 72, 84, 62
SMALL, SMALL_ROW, SMALL_MARGIN = 320, 52, 40
"""Width of a small picture, the height of its rows, and its margin."""
ARC = {"GEO": 50, "MEO": 38, "LEO": 26}
"""Height of the arc of a satellite link by its orbit."""
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

    @property
    def words(self) -> str:
        """Rate and delay."""
        return ", ".join(each for each in (self.rate, self.delay) if each)


def links_of(content: Mapping[str, Any]) -> list[Link]:
    """Return the links of a study; what is no link is left out.

    Examples:
        >>> geo = {"name": "sat", "between": ["a", "b"], "rate": "10 Mbit/s", "delay": "300 ms"}
        >>> [(link.words, link.orbit) for link in links_of({"links": [geo, {"between": 3}]})]
        [('10 Mbit/s, 300 ms', 'GEO')]
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
    return [orbit for orbit in ARC if any(link.orbit == orbit for link in links)]


def sketch(content: Mapping[str, Any], *, is_small: bool = False) -> Markup:
    """Return the picture of a study's network; nothing without links.

    Args:
        content: the study.
        is_small: name the ends and the satellite links only.
    """
    links = links_of(content)
    if not links:
        return Markup()
    places = _placed([str(node) for node in content.get("nodes", [])], links)
    columns = 1 + max(x for x, _ in places.values())
    rows = 1 + max(y for _, y in places.values())
    margin, column, row = MARGIN, float(COLUMN), ROW
    if is_small:
        margin, column, row = SMALL_MARGIN, (SMALL - 2 * SMALL_MARGIN) / max(columns - 1, 1), SMALL_ROW
    width, height = 2 * margin + (columns - 1) * column, TOP + (44 if rows > 1 else 30) + (rows - 1) * row
    at = {node: (margin + x * column, TOP + y * row) for node, (x, y) in places.items()}
    beside = max(Counter(frozenset(link.ends) for link in links).values()) - 1
    height += PARALLEL * beside
    degrees = Counter(end for link in links for end in link.ends)
    seen: Counter[frozenset[str]] = Counter()
    drawn = []
    for link in sorted(links, key=lambda link: -ARC.get(link.orbit, 0)):
        inner, outer = sorted(link.ends, key=lambda end: -degrees[end])
        # Where links fan out, the words of one stand below the host at its end.
        is_fan = rows > 1 and degrees[outer] == 1
        drawn.append(_drawn(link, (at[inner], at[outer]), seen[frozenset(link.ends)], is_fan=is_fan, is_small=is_small))
        seen[frozenset(link.ends)] += 1
    for node, (x, y) in at.items():
        drawn.append(Markup('<circle class="node" cx="{:g}" cy="{:g}" r="5"/>').format(x, y))
        if not is_small or places[node][0] in (0, columns - 1):
            drawn.append(Markup('<text x="{:g}" y="{:g}">{}</text>').format(x, y + 22, node))
    said = "; ".join(
        f"{link.ends[0]} to {link.ends[1]}, {link.orbit} {link.words}".replace(",  ", ", ") for link in links
    )
    head = Markup('<svg class="topology" viewBox="0 0 {:g} {:g}" width="{:g}" role="img" aria-label="Network: {}">')
    return head.format(width, height, width, said) + Markup().join(drawn) + Markup("</svg>")


Place = tuple[float, float]


def _drawn(link: Link, ends: tuple[Place, Place], before: int, *, is_fan: bool, is_small: bool) -> Markup:
    """Draw a link from its inner to its outer end; of several between two nodes each later one bends further down."""
    (x, y), (to_x, to_y) = ends
    is_level = y == to_y
    bend = (ARC.get(link.orbit, 0) * (1.0 if is_level else 0.5)) if before == 0 else -PARALLEL * before
    control = ((x + to_x) / 2, (y + to_y) / 2 - 1.6 * bend)

    def on(share: float) -> Place:
        weights = ((1 - share) ** 2, 2 * share * (1 - share), share**2)
        return (
            weights[0] * x + weights[1] * control[0] + weights[2] * to_x,
            weights[0] * y + weights[1] * control[1] + weights[2] * to_y,
        )

    kind = "air" if link.orbit else "wire"
    drawn = Markup('<path class="{}" d="M{:g},{:g}Q{:g},{:g} {:g},{:g}"/>').format(kind, x, y, *control, to_x, to_y)
    if link.orbit:
        drawn += Markup(
            '<g class="satellite" transform="translate({:.1f} {:.1f})"><rect x="-4" y="-4" width="8" height="8"/>'
            '<path d="M-13,-3h6v6h-6zM7,-3h6v6h-6z"/></g>'
        ).format(*on(0.5))
    lines = [link.rate or link.orbit] if is_small else [link.words] if is_fan or not bend else [link.rate, link.delay]
    if is_small and not link.orbit:
        lines = []
    # A wide arc leaves room below it; other lines have it above.
    above = bend >= 0 if is_small else bend == 0
    text_x, text_y = (to_x, to_y + 36) if is_fan else (on(0.5)[0], on(0.5)[1] + (-12 if above else 20))
    for place, words in enumerate(each for each in lines if each):
        drawn += Markup('<text class="says" x="{:.1f}" y="{:.1f}">{}</text>').format(text_x, text_y + 14 * place, words)
    return drawn


def _placed(nodes: Sequence[str], links: Sequence[Link]) -> dict[str, tuple[int, float]]:
    """Return column and row of each node: along the path from the first to the farthest, others beside it."""
    beside: dict[str, set[str]] = {node: set() for node in nodes}
    for link in links:
        for node, other in (link.ends, link.ends[::-1]):
            beside.setdefault(node, set()).add(other)
    names = list(beside)
    path = max(_far(beside, names[0]).values(), key=len)
    column = {node: place for place, node in enumerate(path)}
    for node in names:
        if node in column:
            continue
        way = next((each for each in sorted(_far(beside, node).values(), key=len) if each[-1] in path), [node])
        place = path.index(way[-1]) if way[-1] in path else 0
        # Hosts of a dumbbell stand on the side of their router; the first node has all that it reaches on its right.
        is_left = 0 < place < (len(path) - 1) / 2
        column[node] = place - (len(way) - 1) if is_left else place + len(way) - 1
    least = min(column.values())
    rows: Counter[int] = Counter(column.values())
    most = max(rows.values())
    used: Counter[int] = Counter()
    placed = {}
    for node in names:
        place = column[node]
        placed[node] = (place - least, used[place] + (most - rows[place]) / 2)
        used[place] += 1
    return placed


def _far(beside: Mapping[str, set[str]], start: str) -> dict[str, list[str]]:
    """Return the shortest path from a node to each that can be reached."""
    paths, agenda = {start: [start]}, [start]
    for node in agenda:
        for other in sorted(beside[node] - paths.keys()):
            paths[other] = [*paths[node], other]
            agenda.append(other)
    return paths


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
        return value
    if not isinstance(value, dict):
        return ""
    named = next((str(value[key]) for key in ("base", "mean", "delay") if isinstance(value.get(key), str)), "")
    return f"from {named}" if named else {"orbit": "of its orbits"}.get(str(value.get("kind", "")), "varies")


def _milliseconds(value: Any) -> float:
    """Return a delay in ms; 0 where it is none in words."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("base", "mean", "delay") if isinstance(value.get(key), str)), "")
    found = re.fullmatch(r"\s*([\d.]+)\s*(us|ms|s)\s*", value) if isinstance(value, str) else None
    try:
        return float(found[1]) * UNITS_MS[found[2]] if found else 0.0
    except ValueError:
        return 0.0

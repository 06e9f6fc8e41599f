# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The parameters of a written profile, for programs: value, unit, interval, and how each is known."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from perigee.fitting.intervals import Interval

_SCALES = {
    "Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3, "bit/s": 1.0, "MB": 1e6, "kB": 1e3, "B": 1.0, "s": 1.0, "ms": 1e-3,
    "us": 1e-6, "%": 1.0, "": 1.0,
}  # fmt: skip
_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?) ?([A-Za-z%/]*)")
_KEY = re.compile(r"([a-z_]+) = ")
_LEAVES = {
    "down.rate": ("down.rate", "down.rate.mean"),
    "up.rate": ("up.rate", "up.rate.mean"),
    "down.queue": ("down.queue", "down.queue.bytes"),
    "up.queue": ("up.queue", "up.queue.bytes"),
    "delay body width": (".delay.body.width", ".delay.body.sd", ".delay.body.median"),
    "delay body sigma": (".delay.body.sigma",),
    "delay memory": (".delay.memory",),
    "delay holds": (".delay.every",),
    "delay tail share": (".delay.tail.share",),
    "delay tail scale": (".delay.tail.min", ".delay.tail.median"),
    "delay tail shape": (".delay.tail.shape", ".delay.tail.sigma"),
}
"""Keys of a profile that an interval may be of, by the interval's name."""


def parameters(
    text: str, known: str, assumed: Collection[str] = (), intervals: Sequence[Interval] = ()
) -> list[dict[str, Any]]:
    r"""Return each parameter of a profile that has a comment above each of its keys.

    Args:
        text: the profile.
        known: how its values are known: `measured`, or `configured`.
        assumed: keys that are not, such as `down.queue`.
        intervals: what the values were estimated with.

    Returns:
        For each its `key`, `value` (a number, or a word), `unit` (null without one), `interval` (two ends in that unit,
        null where it is open; null: none is known), `known` (as `known`, `given` or `assumed`) and `source`.

    Examples:
        >>> parameters('[up]\n# Default.\nrate = "2 Mbit/s"\n', "measured", ["up.rate"])[0]["value"]
        2.0
    """
    document, sources = tomllib.loads(text), dict(_sources(text))
    found = []
    for way in ("down", "up"):
        for key, leaf in _leaves(way, document.get(way, {})):
            value, unit = _quantity(leaf)
            of = max(
                (own for own in sources if key == own or key.startswith((f"{own}.", f"{own}["))), key=len, default=""
            )
            source = sources.get(of, "")
            stands = "given" if source.startswith("Given with") else "assumed" if of in assumed else known
            interval = next((one for one in intervals if _is_of(one, key)), None) if isinstance(value, float) else None
            ends = None if interval is None else _ends(interval, unit or "")
            found.append(
                {"key": key, "value": value, "unit": unit, "interval": ends, "known": stands, "source": source}
            )
    return found


def estimates(intervals: Sequence[Interval]) -> list[dict[str, Any]]:
    """Return what was estimated with an interval, also what is no key of a profile; an open end is null."""
    return [
        {
            "name": one.name,
            "value": one.value if math.isfinite(one.value) else None,
            "unit": one.unit,
            "interval": [one.low, one.high],
            "rests_on": one.why,
        }
        for one in intervals
    ]


def _sources(text: str) -> Iterator[tuple[str, str]]:
    """Yield each commented key of a profile, with its comment."""
    section, said = "", []
    for line in text.splitlines():
        if line.startswith("# "):
            said.append(line[2:])
            continue
        if line.startswith("["):
            section = line.strip("[]") + "."
        elif (key := _KEY.match(line)) is not None and section:
            yield section + key[1], " ".join(said)
        said = []


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _leaves(f"{key}[{place}]", inner)
    else:
        yield key, value


def _quantity(leaf: Any) -> tuple[Any, str | None]:
    if isinstance(leaf, str) and (found := _QUANTITY.fullmatch(leaf)) is not None and found[2] in _SCALES:
        return float(found[1]), found[2] or None
    is_number = isinstance(leaf, int | float) and not isinstance(leaf, bool)
    return (float(leaf) if is_number else leaf), None


def _is_of(interval: Interval, key: str) -> bool:
    return any(key.endswith(leaf) for leaf in _LEAVES.get(interval.name.partition(",")[0], ()))


def _ends(interval: Interval, unit: str) -> list[float | None]:
    # Both are of seconds, bits per second, bytes or per cent, since a key has one kind of value.
    return [
        None if end is None else end * _SCALES[interval.unit] / _SCALES[unit] for end in (interval.low, interval.high)
    ]

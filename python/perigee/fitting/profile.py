# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The text of a profile: each value with the comment that says where it comes from."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

WIDTH = 118


@dataclass(frozen=True)
class Value:
    """A value of a profile as TOML, and its source.

    Attributes:
        toml: what stands after the key.
        source: sentences for the comment above it.
        measured: whether it was; otherwise it is a default, and the source says why.
    """

    toml: str
    source: tuple[str, ...]
    measured: bool = True


@dataclass(frozen=True)
class Way:
    """One direction of a profile; what has no value is left out."""

    rate: Value
    delay: Value
    queue: Value | None = None
    loss: Value | None = None
    burst: Value | None = None


@dataclass(frozen=True)
class Fitted:
    """A profile.

    Attributes:
        name: its name.
        sources: the files that it was made from.
        down: towards the user.
        up: away from the user.
        notes: what a reader should know of the measurements.
        unknown: parts of the link that the measurements cannot tell, with the reason.
    """

    name: str
    sources: tuple[str, ...]
    down: Way
    up: Way
    notes: tuple[str, ...] = field(default=())
    unknown: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        """The profile's file."""
        lines = [
            f"name = {quoted(self.name)}",
            f"title = {quoted(f'{self.name}: fitted to measurements of a real path')}",
            f"source = {quoted('perigee fit: ' + '; '.join(self.sources))}",
        ]
        for note in self.notes:
            lines += ["", *comment((note,))] if note == self.notes[0] else comment((note,))
        if self.unknown:
            lines += ["", *comment(tuple(f"Not known: {said}." for said in self.unknown))]
        for name, way in (("down", self.down), ("up", self.up)):
            lines += ["", f"[{name}]"]
            for key in _KEYS:
                value = getattr(way, key)
                if value is not None:
                    lines += [*comment(value.source), f"{key} = {value.toml}"]
        return "\n".join(lines) + "\n"

    @property
    def assumed(self) -> dict[str, Value]:
        """The values that were not measured, by their keys."""
        return {
            f"{name}.{key}": value
            for name, way in (("down", self.down), ("up", self.up))
            for key in _KEYS
            if (value := getattr(way, key)) is not None and not value.measured
        }


def said_of(assumed: Mapping[str, Value]) -> list[str]:
    """Return in words what stands for values that were not measured."""
    return [
        f"{key} = {value.toml}: {' '.join(value.source)}".replace(": Default: ", ": ") for key, value in assumed.items()
    ]


def quoted(text: str) -> str:
    r"""Return a string of TOML.

    Examples:
        >>> print(quoted('a "b"'))
        "a \"b\""
    """
    kept = "".join(letter if letter.isprintable() else "?" for letter in text)
    return '"' + kept.replace("\\", "\\\\").replace('"', '\\"') + '"'


def time(ms: float) -> str:
    """Return a time with its unit, of four digits or to the microsecond.

    Examples:
        >>> time(271.25), time(0.0461), time(15000.0), time(123456.0), time(0.0)
        ('"271.2 ms"', '"0.046 ms"', '"15 s"', '"123.5 s"', '"0 ms"')
    """
    value, unit = (ms / 1000, "s") if ms >= _IN_SECONDS_MS else (ms, "ms")
    return f'"{_short(round(value, 3 if value < _FOUR_DIGITS else 1))} {unit}"'


def rate(bps: float) -> str:
    """Return a rate with its unit.

    Examples:
        >>> rate(144e6), rate(2_112_345), rate(44_000)
        ('"144 Mbit/s"', '"2.112 Mbit/s"', '"44 kbit/s"')
    """
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6)):
        if bps >= scale:
            return f'"{_short(round(bps / scale, 3))} {unit}"'
    return f'"{_short(round(bps / 1e3, 3))} kbit/s"'


def size(count: float) -> str:
    """Return a size with its unit.

    Examples:
        >>> size(125_000), size(36e6), size(900)
        ('"125 kB"', '"36 MB"', '"900 B"')
    """
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f'"{_short(round(count / scale, 1))} {unit}"'
    return f'"{round(count)} B"'


def share(value: float) -> str:
    """Return a share in per cent, of three digits.

    Examples:
        >>> share(0.25), share(0.000123456), share(1.0)
        ('"25 %"', '"0.0123 %"', '"100 %"')
    """
    return f'"{_short(float(f"{100 * value:.3g}"))} %"'


def plain(value: float) -> str:
    """Return a number without a unit, of three digits."""
    return _short(float(f"{value:.3g}"))


def _short(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


def comment(sentences: tuple[str, ...]) -> list[str]:
    """Return the lines of a comment, a sentence from the begin of a line on."""
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, WIDTH, initial_indent="# ", subsequent_indent="# ")
    ]


_KEYS = ("rate", "burst", "queue", "delay", "loss")
_IN_SECONDS_MS = 10_000
_FOUR_DIGITS = 100

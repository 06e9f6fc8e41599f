# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Designs of experiments: which points of several quantities' ranges a sweep carries out."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from perigee import toml
from perigee.errors import InputError

DESIGNS = ("grid", "lhs", "sobol")
MOST_POINTS = 100_000
"""As many as a study may have."""
DIGITS = 6
"""Significant digits of a value that is drawn."""

_NUMBER = r"[+-]?[0-9]+(?:\.[0-9]+)?"
_RANGE = re.compile(
    rf"(log\s+)?({_NUMBER})\s*([^\d\s.:][^.:]*?)?\s*\.\.\s*({_NUMBER})\s*([^\d\s.:][^.:]*?)?\s*(?::\s*([0-9]+))?"
)


@dataclass(frozen=True)
class Axis:
    """A key path, and the values that it may take.

    Attributes:
        key: the key path.
        values: the values of a list; empty for a range.
        low: the smallest value of a range, in `unit`.
        high: its largest value.
        unit: of both; empty for plain numbers.
        log: whether equal ratios are equally far apart, instead of equal differences.
        levels: into how many values a grid divides the range; none: not said.
        is_whole: whether the values of a range are whole numbers, as both its ends are written.
    """

    key: str
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    log: bool = False
    levels: int | None = None
    is_whole: bool = False

    def __str__(self) -> str:
        """As `--over` writes a range.

        Examples:
            >>> str(read_axis("links.sat.loss=log 0.010 %.. 1%:5"))
            'links.sat.loss=log 0.01..1 %:5'
        """
        log, unit = "log " if self.log else "", f" {self.unit}" if self.unit else ""
        return f"{self.key}={log}{_plain(self.low)}..{_plain(self.high)}{unit}:{self.levels}"

    def at(self, share: float) -> Any:
        """Return the value at a share of the way, 0 to 1: text with its unit, a number, or one of the list.

        Examples:
            >>> read_axis("links.sat.loss=log 0.01 %..1 %").at(0.5), read_axis("flow.count=1..5").at(0.5)
            ('0.1 %', 3)
        """
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.log:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + share * (self.high - self.low)
        if self.unit:
            return f"{_plain(value)} {self.unit}"
        return round(value) if self.is_whole else float(_plain(value))

    def drawn(self, share: float) -> Any:
        """Return the value at a share, 0 to 1, of a design that is no grid: each whole number has an equal part.

        Of log ranges, whole numbers have what lies between them and the half numbers around them.

        Examples:
            >>> axis = read_axis("flow.count=1..3")
            >>> [axis.drawn(share) for share in (0.0, 0.33, 0.34, 0.66, 0.67, 1.0)]
            [1, 1, 2, 2, 3, 3]
            >>> [read_axis("flow.count=log 1..100").drawn(share) for share in (0.0, 0.2, 0.5, 1.0)]
            [1, 1, 7, 100]
        """
        if not self.is_whole or self.values or self.unit:
            return self.at(share)
        low, high = self.low - 0.5, self.high + 0.5
        value = low * (high / low) ** share if self.log else low + share * (high - low)
        return int(min(max(math.floor(value + 0.5), self.low), self.high))

    def all_levels(self) -> list[Any]:
        """Return the values of a grid.

        Raises:
            InputError: a range does not say how many, or some of its values are the same.

        Examples:
            >>> read_axis("links.sat.queue.bdp=1.0..2.0:3").all_levels()
            [1.0, 1.5, 2.0]
        """
        if self.values:
            return list(self.values)
        if self.levels is None:
            raise InputError(
                f"--over {self.key}: a grid needs the number of values; write {self.key}=A..B:5 for five of them, "
                "or give --design sobol"
            )
        levels = [self.at(level / (self.levels - 1)) for level in range(self.levels)]
        if len(set(levels)) < len(levels):
            log, low, high = "log " if self.log else "", _plain(self.low), _plain(self.high)
            found = f"--over {self.key}: of {len(levels)} values from {low} to {high}, some are the same"
            if self.is_whole:
                fractions = f"{self.key}={log}{low}.0..{high}.0:{self.levels}"
                raise InputError(f"{found} as whole numbers; write {fractions} for fractions, or fewer values")
            raise InputError(f"{found} to {DIGITS} digits; write fewer values")
        return levels


def read_axis(text: str) -> Axis:
    """Read what `--over` is given: `KEY=V1,V2`, `KEY=A..B`, `KEY=log A..B`, each range with `:N` for a grid.

    Raises:
        InputError: it is none of these.

    Examples:
        >>> read_axis("flow.cc=cubic,bbr").values
        ('cubic', 'bbr')
        >>> read_axis("links.sat.delay=10..300 ms:3").all_levels()
        ['10 ms', '155 ms', '300 ms']
        >>> read_axis("links.sat.delay=9..1 ms")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --over links.sat.delay=9..1 ms: the range is empty; write the smaller value first
    """
    key, equals, given = text.partition("=")
    key, given = key.strip(), given.strip()
    if not equals or not key or not given:
        raise InputError(f"--over {text}: the key or its values are missing; write --over links.sat.loss=0.01 %..1 %")
    found = _RANGE.fullmatch(given)
    if found is None:
        if ".." in given and "/" not in given:
            raise InputError(
                f"--over {text}: not a range; write {key}=10 ms..300 ms, with the same unit on both sides, or "
                f"{key}=log 0.01 %..1 %"
            )
        return Axis(key, tuple(_value(each) for each in _split(given)))
    log, low, first_unit, high, unit, levels = found.groups()
    unit = (unit or first_unit or "").strip()
    if first_unit and first_unit.strip() != unit:
        raise InputError(f"--over {text}: {first_unit.strip()} and {unit} are two units; write both in one")
    is_whole = not unit and "." not in low + high
    axis = Axis(key, (), float(low), float(high), unit, bool(log), int(levels) if levels else None, is_whole)
    if axis.low >= axis.high:
        raise InputError(f"--over {text}: the range is empty; write the smaller value first")
    if axis.log and axis.low <= 0:
        raise InputError(f"--over {text}: a logarithmic range begins above 0")
    if axis.levels is not None and not 2 <= axis.levels <= MOST_POINTS:
        raise InputError(f"--over {text}: {axis.levels} values; a range is divided into 2 to {MOST_POINTS}")
    return axis


def settings_of(axes: Sequence[Axis], design: str, points: int | None, seed: int = 1) -> list[str]:
    """Return a design as settings of a study.

    Args:
        axes: what varies; no two of one key.
        design: `grid`: every combination; `lhs`: a Latin hypercube, in which each range is cut into as many parts as
            there are points and each part has one (McKay, Beckman, Conover 1979); `sobol`: scrambled points of Sobol's
            sequence, which leave the smallest gaps (Sobol 1967, Owen 1998).
        points: the number of points, of a grid none.
        seed: of the drawing: the same seed gives the same points.

    Raises:
        InputError: the number of points is missing, is no power of two for `sobol`, or a key is there twice.

    Examples:
        >>> settings_of([read_axis("flow.cc=cubic,bbr"), read_axis("flow.count=1..3:3")], "grid", None)
        ['vary.flow.cc=cubic,bbr', 'vary.flow.count=1,2,3']
        >>> settings_of([read_axis("flow.count=1..3")], "sobol", 2)
        ['vary.linked=[{ "flow.count" = 1 }, { "flow.count" = 2 }]']
    """
    if design not in DESIGNS:
        raise InputError(f"--design {design}: unknown design; the designs are: {', '.join(DESIGNS)}")
    keys = [axis.key for axis in axes]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise InputError(f"--over {twice[0]}: given twice; give all its values at once")
    if design == "grid":
        if points is not None:
            raise InputError("--points: a grid has every combination of its values; write KEY=A..B:N, or leave it out")
        return [f"vary.{axis.key}={_list(axis)}" for axis in axes]
    if points is None:
        raise InputError(f"--design {design}: needs the number of points; give --points 64")
    if design == "sobol" and points & (points - 1):
        lower = 1 << (points.bit_length() - 1)
        raise InputError(
            f"--points {points}: Sobol's points fill a range by powers of two; give {lower} or {2 * lower}"
        )
    # Slow to import, and no grid needs them.
    import numpy as np

    from perigee.statistics import samples

    if design == "sobol" and len(axes) > samples.MOST_AXES:
        raise InputError(f"--design sobol: {len(axes)} keys vary, and {samples.MOST_AXES} may; take --design lhs")
    of = {"lhs": samples.latin_hypercube, "sobol": samples.sobol}[design]
    drawn = [
        {axis.key: axis.drawn(float(share)) for axis, share in zip(axes, shares, strict=True)}
        for shares in of(np.random.default_rng(seed), len(axes), points)
    ]
    return [f"vary.linked={toml.inline(drawn)}"]


def _list(axis: Axis) -> str:
    return ",".join(toml.setting(value, axis.key) for value in axis.all_levels())


def _value(text: str) -> Any:
    """Return what the command line's text is: TOML's values where it is one, otherwise text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _split(text: str) -> list[str]:
    """Split a list at the commas that are in no quotes and no brackets.

    Examples:
        >>> _split('cubic, { name = "bbr", extra_acked = false },"a,b"')
        ['cubic', '{ name = "bbr", extra_acked = false }', '"a,b"']
    """
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
            if letter == "," and depth == 0:
                parts.append("")
                continue
        parts[-1] += letter
    return [part.strip() for part in parts]


def _plain(value: float) -> str:
    """Return a number of `DIGITS` digits without an exponent.

    Examples:
        >>> _plain(0.000012345678), _plain(1234567.8), _plain(20.0)
        ('0.0000123457', '1234570', '20')
    """
    text = f"{Decimal(f'{value:.{DIGITS}g}'):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

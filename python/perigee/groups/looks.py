# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How algorithms are called and drawn, and what is no algorithm: the table `looks.toml` beside the algorithms.

Reports, figures of Python and lists of the command line read the table here. `tools/looks.py` writes it into the style
sheet of all pages and into the page's `looks.js`. A look has a number there and here: its place in the table.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perigee.places import headers


@dataclass(frozen=True)
class Look:
    """How one group is drawn, the same in every figure.

    Attributes:
        color: of line and fill.
        dash: line style.
        marker: of points.
        hatch: of boxes.
    """

    color: str
    dash: Any
    marker: str
    hatch: str


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        light: its colour on a light ground.
        dark: its colour on a dark ground.
        dash: name of its dash, see `Table.dashes`.
        marker: name of its marker.
        key: what studies call the algorithm; empty: an author's own algorithm, or none.
        name: what people call it.
    """

    light: str
    dark: str
    dash: str
    marker: str
    key: str = ""
    name: str = ""


@dataclass(frozen=True)
class Table:
    """The table of looks.

    Attributes:
        inks: colours of text, axes and grounds: on a light ground and on a dark one, by name.
        dashes: lengths of strokes and gaps by name, in widths of the line; a solid line has none.
        rows: first the algorithms, then at `own` that of an author, then what is none from `first_other`.
    """

    inks: Mapping[str, Mapping[str, str]]
    dashes: Mapping[str, Sequence[float]]
    rows: tuple[Row, ...]
    own: int

    @property
    def first_other(self) -> int:
        """The number of the first row of what is no algorithm."""
        return self.own + 1

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each algorithm that is built in, by its key and by its name."""
        rows = list(enumerate(self.rows[: self.own]))
        return {row.key: number for number, row in rows} | {row.name: number for number, row in rows}


@functools.cache
def table() -> Table:
    """Read the table."""
    read = tomllib.loads((headers() / "looks.toml").read_text(encoding="utf-8"))
    rows = tuple(Row(**row) for row in (*read["algorithms"], read["own"], *read["others"]))
    return Table(read["inks"], read["dashes"], rows, len(read["algorithms"]))


def style_sheet() -> str:
    """Return the style sheet that all pages begin with; it has the colours of the table as `--c0` and so on."""
    return (headers().parent / "look.css").read_text(encoding="utf-8")


def name_of(algorithm: str) -> str:
    """Return what people call an algorithm.

    Examples:
        >>> name_of("westwood_plus"), name_of("mine")
        ('Westwood+', 'mine')
    """
    number = table().numbers.get(algorithm)
    return algorithm if number is None else table().rows[number].name


def number_of(algorithm: str) -> int:
    """Return the number of an algorithm's look, by its key or its name; all authors' algorithms have one.

    Examples:
        >>> number_of("cubic"), number_of("Cubic"), number_of("mine") == number_of("yours") == table().own
        (0, 0, True)
    """
    return table().numbers.get(algorithm, table().own)


def look(number: int, again: int = 0) -> Look:
    """Return the look of a number; numbers beyond the table stand for more of what is no algorithm.

    Args:
        number: of `number_of`.
        again: how many of the same colour stand before it; each has another dash, marker and hatch.

    Examples:
        >>> cubic = [look(0, again) for again in range(3)]
        >>> len({one.color for one in cubic}), len({one.dash for one in cubic}), len({one.marker for one in cubic})
        (1, 3, 3)
    """
    found, dashes, markers = table(), list(table().dashes), list(_MARKERS)
    if number >= found.first_other:
        turns, place = divmod(number - found.first_other, len(found.rows) - found.first_other)
        number, again = found.first_other + place, again + turns
    row = found.rows[number]
    dash = (dashes.index(row.dash) + again) % len(dashes)
    marker = markers[(markers.index(row.marker) + again) % len(markers)]
    strokes = tuple(found.dashes[dashes[dash]])
    return Look(row.light, (0, strokes) if strokes else "-", _MARKERS[marker], _HATCHES[dash])


def other(place: int) -> Look:
    """Return the look of what is no algorithm: of a setting, a flow, a direction, by its place among its like.

    Examples:
        >>> len({(one.color, one.dash) for one in map(other, range(35))})
        35
        >>> {other(place).color for place in range(35)} & {row.light for row in table().rows[: table().first_other]}
        set()
    """
    return look(table().first_other + place)


_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "wedge": "v", "plus": "P", "cross": "X"}
_HATCHES = ("", "////", "----", "xxxx", "\\\\\\\\")
"""Patterns of boxes, in the order of the dashes."""

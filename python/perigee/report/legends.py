# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Texts that fit into their figure: legends in several columns, and wrapped lines."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D

from perigee.report.style import Drawing

POINTS_PER_IN = 72.0

_FINE = 16
"""Pixels by point in which letters are measured."""

_EDGE = 0.97
"""Share of a figure's width that a legend may take."""

_LETTERS_OF_A_GAP = 5.0
"""Gaps of a legend entry between handle, text and columns, in letter sizes."""

_UNITS = "%|pp|percentage points|ppm|BDP|[nuµm]?s|min|h|packets|[kMGT]?bit/s|[kMGT]i?B|B"
_BEFORE_A_UNIT = re.compile(rf"(?<=\d) (?:(?=(?:{_UNITS})(?![\w/]))|/ (?:s|min|h)\b)")
"""The space between a number and its unit."""

_MICROSECONDS = re.compile(r"(?<=\d[ \N{NO-BREAK SPACE}])us\b")


def legend_above(owner: Figure, axes: Axes) -> None:
    """Put the legend of `axes` above the whole figure, as `legend_of` does."""
    legend_of(owner, *axes.get_legend_handles_labels())


def legend_of(owner: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Put a legend above the whole figure, in as many columns as fit; texts longer than the figure are broken.

    An empty legend is left out.
    """
    if not labels:
        return
    size = size_of("legend.fontsize")
    room = owner.get_figwidth() * POINTS_PER_IN * _EDGE
    beside = (float(mpl.rcParams["legend.handlelength"]) + _LETTERS_OF_A_GAP) * size
    texts = [broken(label, (room - beside) / POINTS_PER_IN, size) for label in labels]
    widest = max(width_of(line, size) for text in texts for line in text.splitlines() or [""])
    fits = max(1, int(room / (widest + beside)))
    owner.legend(handles, texts, loc="outside upper center", ncols=min(fits, len(texts)))


def rows_of_legend(labels: Sequence[str], width_in: float) -> int:
    """Return how many lines `legend_of` needs in a figure of that width."""
    drawing = Drawing(figsize=(width_in, 1.0), layout="constrained")
    legend_of(drawing, [Line2D([], []) for _ in labels], labels)
    if not drawing.legends:
        return 0
    (legend,) = drawing.legends
    columns = int(legend._ncols)  # type: ignore[attr-defined]
    lines = [1 + text.get_text().count("\n") for text in legend.get_texts()]
    entries = -(-len(lines) // columns)
    return entries * max(lines)


def broken(text: str, width_in: float, size: float, weight: str = "normal") -> str:
    r"""Return a text with line breaks, no line of it wider than `width_in` in letters of that size (points).

    Its own line breaks stay. Breaks after commas come first, and a number stays with its unit.

    Examples:
        >>> broken("short", 1.0, 9), broken("a rather long text of many words", 1.0, 9)
        ('short', 'a rather long\ntext of many\nwords')
        >>> broken("loss 0.1 %, window 10", 0.9, 9)
        'loss 0.1 %,\nwindow 10'
        >>> broken("Throughput (Mbit/s)\nloss of the satellite 10 %", 1.5, 9)
        'Throughput (Mbit/s)\nloss of the satellite\n10\xa0%'
    """
    room = width_in * POINTS_PER_IN

    def fits(line: str) -> bool:
        return width_of(line, size, weight) <= room

    return "\n".join(_wrapped(line, fits) for line in text.split("\n"))


def _wrapped(text: str, fits: Callable[[str], bool]) -> str:
    if fits(text):
        return text
    *before, last = text.split(", ")
    parts = [*(f"{part}," for part in before), last]
    if all(map(fits, parts)):
        lines = parts[:1]
        for part in parts[1:]:
            if fits(f"{lines[-1]} {part}"):
                lines[-1] += f" {part}"
            else:
                lines.append(part)
        return "\n".join(lines)
    whole = with_units(text)
    letters = max(4, len(whole))
    while letters > 4:
        lines = textwrap.wrap(whole, letters) or [whole]
        if all(map(fits, lines)):
            return "\n".join(lines)
        letters = letters * 9 // 10
    return "\n".join(textwrap.wrap(whole, letters))


def with_units(text: str) -> str:
    r"""Return a text in which no line ends between a number and its unit.

    Examples:
        >>> with_units("delay = 10 us, loss 0.1 %, 3 and 4, 0.6 / s")
        'delay = 10\xa0µs, loss 0.1\xa0%, 3 and 4, 0.6\xa0/\xa0s'
    """
    return with_microseconds(_BEFORE_A_UNIT.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text))


def with_microseconds(text: str) -> str:
    """Return a text in which microseconds have their letter, which study files may write as `us`.

    Examples:
        >>> with_microseconds("10 us, and us"), with_microseconds("10us")
        ('10 µs, and us', '10us')
    """
    return _MICROSECONDS.sub("µs", text)


def size_of(parameter: str) -> float:
    """Return a size of letters of matplotlib's settings in points; `medium` and the like are sizes too.

    Examples:
        >>> size_of("legend.fontsize") > 0
        True
    """
    settings: Any = mpl.rcParams
    return float(FontProperties(size=settings[parameter]).get_size_in_points())


def broken_title(text: str, width_in: float) -> str:
    """Return `broken` for the title of axes, in the size and the weight of the style."""
    settings: Any = mpl.rcParams
    return broken(text, width_in, size_of("axes.titlesize"), str(settings["axes.titleweight"]))


def width_of(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a line of text in letters of the style's font of that size and weight, both in points.

    Examples:
        >>> width_of("wide", 9) < width_of("wider", 9) < width_of("wider", 18)
        True
        >>> width_of("wide", 9) < width_of("wide", 9, "bold")
        True
    """
    return _width_of(text, size, weight, tuple(mpl.rcParams["font.family"]))


@functools.lru_cache(maxsize=4096)
def _width_of(text: str, size: float, weight: str, family: tuple[str, ...]) -> float:
    font = get_font(findfont(FontProperties(family=list(family), weight=weight)))
    # Letters of many pixels: those of few have whole pixels, and are up to a tenth too wide.
    font.set_size(size, _FINE * POINTS_PER_IN)
    font.set_text(text.replace("\n", " "), 0.0)
    return float(font.get_width_height()[0]) / 64 / _FINE

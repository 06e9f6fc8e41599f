# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Names of lines at their ends, in the place of a legend, where they fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from perigee.report.charts.grid import Grid
from perigee.report.legends import POINTS_PER_IN, size_of, width_of

END = "_name at the end"
"""Label of a text that names a line."""

LINE_SPACING = 1.2
"""Height of a line of text, in letter sizes."""

FARTHEST = 1.5
"""How far a name stands from the end of its line at most, in lines of text."""

WIDEST = 0.2
"""Share of the figure's width for the longest name."""

WITHIN = 0.8
"""Share of a panel's height that its axes have."""


def name_ends(laid: Grid, names: Sequence[str]) -> bool:
    """Write the names of lines at their ends, beside the last panel of each line of panels; False if they do not fit.

    Args:
        laid: the panels, with their lines and limits; a line's label is its name.
        names: the names.
    """
    size = size_of("legend.fontsize")
    room = WIDEST * laid.figure.get_figwidth() * POINTS_PER_IN
    if not names or max(width_of(name, size) for name in names) > room:
        return False
    step = LINE_SPACING * size / (WITHIN * laid.height_in * POINTS_PER_IN)
    wanted = {name.strip() for name in names}
    found = []
    for place in laid.ends:
        ends = _ends(laid.panels[place])
        at = spread([y for _, y in ends], step)
        is_within = all(-step < y < 1 + step for _, y in ends)
        if at is None or not is_within or {str(line.get_label()).strip() for line, _ in ends} != wanted:
            return False
        found += [(laid.panels[place], line, y) for (line, _), y in zip(ends, at, strict=True)]
    for axes, line, y in found:
        axes.annotate(
            str(line.get_label()).strip(), (1, y), xycoords="axes fraction", xytext=(5, 0), textcoords="offset points",
            va="center", color=line.get_color(), fontsize=size, annotation_clip=False, label=END,
        )  # fmt: skip
    return True


def ends_of(figure: Figure) -> Iterator[tuple[Line2D, Text]]:
    """Return the lines of a figure that have their name at their end, with it."""
    for axes in figure.axes:
        lines = {str(line.get_label()).strip(): line for line in axes.lines}
        for text in axes.texts:
            if text.get_label() == END:
                yield lines[text.get_text()], text


def spread(ends: Sequence[float], step: float) -> list[float] | None:
    """Return where names stand: at the ends of lines, or beside them so that none touches; None if too far away.

    Args:
        ends: heights of the ends, as shares of the panel.
        step: height of a name.

    Examples:
        >>> spread([0.5, 0.52], 0.1)
        [0.46, 0.56]
        >>> spread([0.5, 0.5, 0.5, 0.5, 0.5], 0.1) is None, spread([0.2, 0.8], 0.1)
        (True, [0.2, 0.8])
    """
    # Names that touch are one block in the middle of their ends.
    blocks: list[list[int]] = []
    for place in sorted(range(len(ends)), key=lambda place: ends[place]):
        blocks.append([place])
        while (
            len(blocks) > 1
            and _middle(blocks[-1], ends) - _middle(blocks[-2], ends)
            < step * (len(blocks[-1]) + len(blocks[-2])) / 2 - 1e-9
        ):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    at = [0.0] * len(ends)
    for block in blocks:
        for number, place in enumerate(block):
            at[place] = round(_middle(block, ends) + step * (number - (len(block) - 1) / 2), 9)
    apart = max((abs(one - end) for one, end in zip(at, ends, strict=True)), default=0.0)
    return None if apart > FARTHEST * step else at


def _middle(block: Sequence[int], ends: Sequence[float]) -> float:
    return sum(ends[place] for place in block) / len(block)


def _ends(axes: Axes) -> list[tuple[Line2D, float]]:
    """Return the lines with a name, and the heights of their last points as shares of the panel."""
    axes.get_ylim()
    named = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    found = []
    for line in named:
        x, y = (np.asarray(values, dtype=float) for values in line.get_data())
        last = axes.transData.transform((x[-1], y[-1]))
        found.append((line, float(axes.transAxes.inverted().transform(last)[1])))
    return found

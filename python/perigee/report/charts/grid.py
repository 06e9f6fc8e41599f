# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Panels side by side, as many in a line as the width allows; only those that have data."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perigee.report.legends import broken, broken_title, legend_of, rows_of_legend, size_of
from perigee.report.style import figure

Place = tuple[int, int]
"""Row and column of a panel among all, before lines are broken."""

NARROWEST_IN = 1.38
"""A panel is not narrower than this."""

SIDE_BY_SIDE_IN = 3.2
"""Width of the panels of rows that have one each."""

SHARED_SCALE, OWN_SCALE = 0.84, 0.72
"""Shares of the width for each panel that are the panel's: one vertical scale on the left, or one each."""

LINE_IN = 0.17
"""Height of a line of text."""


@dataclass(frozen=True)
class Grid:
    """A figure with its panels.

    Attributes:
        figure: the figure.
        panels: the axes by row and column.
        first: the panels that begin a line, which have the label of the vertical axis.
        last: the lowest panel of each column of the drawing, which has that of the horizontal one.
        height_in: height of a panel, about.
    """

    figure: Figure
    panels: dict[Place, Axes]
    first: Sequence[Place]
    last: Sequence[Place]
    height_in: float

    def label(self, x: str, y: Sequence[str]) -> None:
        """Label the axes: the horizontal ones alike, the vertical ones by row."""
        size = size_of("axes.labelsize")
        width = 0.8 * self.figure.get_figwidth() / max(1, self._in_a_line)
        for place in self.last:
            self.panels[place].set_xlabel(broken(x, width, size))
        for place in self.first:
            self.panels[place].set_ylabel(broken(y[place[0]], 0.95 * self.height_in, size))

    @property
    def _in_a_line(self) -> int:
        return max((axes.get_subplotspec().get_gridspec().ncols for axes in self.panels.values()), default=1)  # type: ignore[union-attr]

    def legend(self, handles: Sequence[Artist], labels: Sequence[str]) -> None:
        """Put one legend above all panels; of several entries of the same text the first counts."""
        seen = {label: handle for handle, label in reversed(list(zip(handles, labels, strict=True))) if label}
        ordered = [label for label in dict.fromkeys(labels) if label]
        legend_of(self.figure, [seen[label] for label in ordered], ordered)

    def legend_of_lines(self) -> None:
        """Put one legend of all lines with a label above all panels."""
        pairs = [axes.get_legend_handles_labels() for axes in self.panels.values()]
        self.legend([one for handles, _ in pairs for one in handles], [one for _, texts in pairs for one in texts])


def grid(
    width_in: float,
    rows: int,
    titles: Sequence[str],
    there: Collection[Place],
    *,
    labels: Sequence[str] = (),
    height_in: float = 1.75,
    narrowest_in: float = NARROWEST_IN,
    share_y: bool = True,
    share_x: bool = True,
    is_stacked: bool = False,
) -> Grid:
    """Return a figure of panels in rows and columns; a row that is wider than the figure goes on in the next line.

    Rows of one panel each stand side by side.

    Args:
        width_in: of the figure.
        rows: how many rows.
        titles: of the columns.
        there: the panels that have data; others are left empty.
        labels: what the legend above will have, for its height.
        height_in: of a panel.
        narrowest_in: width of the narrowest panel.
        share_y: whether the panels of a row have one scale.
        share_x: whether all panels have one horizontal scale.
        is_stacked: whether rows of one panel each stand below each other all the same.
    """
    wanted = [[column for column in range(len(titles)) if (row, column) in there] for row in range(rows)]
    in_a_line = max(1, min(int(width_in / narrowest_in), max(len(row) for row in wanted)))
    is_broken = any(len(row) > in_a_line for row in wanted)
    if is_broken:
        longest = max(len(row) for row in wanted)
        in_a_line = math.ceil(longest / math.ceil(longest / in_a_line))
    # Columns keep their place where every row fits into a line.
    slots = range(len(titles)) if not is_broken and len(titles) <= in_a_line else None
    lines: list[list[tuple[int, Place]]] = []
    if len(titles) == 1 and rows > 1 and not is_stacked:
        in_a_line = max(1, min(rows, int(width_in / SIDE_BY_SIDE_IN)))
        alone = [(row, column) for row, columns in enumerate(wanted) for column in columns]
        lines = [list(enumerate(alone[begin : begin + in_a_line])) for begin in range(0, len(alone), in_a_line)]
        wanted = []
    for row, columns in enumerate(wanted):
        for begin in range(0, len(columns), in_a_line):
            part = columns[begin : begin + in_a_line]
            lines.append([(column if slots else place, (row, column)) for place, column in enumerate(part)])
    top = LINE_IN * rows_of_legend(labels, width_in)
    room = (SHARED_SCALE if share_y else OWN_SCALE) * width_in / in_a_line
    texts = [broken_title(title, room) for title in titles]
    tallest = max((text.count("\n") + 1 for text in texts if text), default=0)
    titled = {line for line in range(len(lines)) if slots is None or line == 0}
    height = height_in * len(lines) + top + LINE_IN * (2 + tallest * len(titled))
    drawing = figure(height, width_in)
    spec = drawing.add_gridspec(len(lines), in_a_line)
    made: dict[Place, Axes] = {}
    first, last = [], {}
    for number, line in enumerate(lines):
        for slot, place in line:
            same_row = next((axes for (row, _), axes in made.items() if row == place[0]), None)
            share = {"sharey": same_row if share_y else None, "sharex": next(iter(made.values()), None)}
            axes = drawing.add_subplot(spec[number, slot], **(share if share_x else {"sharey": share["sharey"]}))
            made[place] = axes
            if place[0] != line[0][1][0]:
                first.append(place)
            if share_y and same_row is not None and place != line[0][1]:
                axes.tick_params(labelleft=False)
            has_title = number in titled or (place[0] > 0 and (place[0] - 1, place[1]) not in there)
            if has_title and texts[place[1]]:
                axes.set_title(texts[place[1]])
            last[slot] = place
        first.append(line[0][1])
    lowest = set(last.values())
    if share_x:
        for place, axes in made.items():
            if place not in lowest:
                axes.tick_params(labelbottom=False)
    return Grid(drawing, made, first, list(lowest) if share_x else list(made), height_in - LINE_IN)

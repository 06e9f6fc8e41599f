# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Grid of panels with data, as many per line as the width allows."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perigee.report.charts.few import MOST_MARKED
from perigee.report.legends import broken, broken_title, legend_of, rows_of_legend, size_of
from perigee.report.style import figure, tint

Place = tuple[int, int]
"""Row and column of a panel among all, before lines are broken."""

Key = TypeVar("Key", bound=Hashable)

NARROWEST_IN = 1.38
"""Minimum width of a panel, inches."""

SIDE_BY_SIDE_IN = 3.2
"""Width of the panels of rows that have one each."""

LABEL_IN, GAP_IN, NUMBERS_IN = 0.35, 0.15, 0.3
"""Room for the label of a line of panels, between panels, and for the numbers of a scale, inches."""

LEAST_ROOM_IN = 0.7
"""Room for a title at the least."""

LINE_IN = 0.17
"""Height of a line of text."""

SMALL = 6.5
"""Size of the letters of a legend in a panel, in points."""

FAR_APART = 10.0
"""Ratio of the medians of panels from which each has a scale of its own."""


@dataclass(frozen=True)
class Grid:
    """A figure with its panels.

    Attributes:
        figure: the figure.
        panels: the axes by row and column.
        first: first panels of the lines, with the label of the vertical axis.
        last: lowest panel of each column, with the label of the horizontal axis.
        ends: last panels of the lines.
        height_in: approximate height of a panel.
        legend_in: height that is kept for the legend.
    """

    figure: Figure
    panels: dict[Place, Axes]
    first: Sequence[Place]
    last: Sequence[Place]
    ends: Sequence[Place]
    height_in: float
    legend_in: float

    def label(self, x: str, y: Sequence[str]) -> None:
        """Label the axes: the horizontal ones alike, the vertical ones by row."""
        size = size_of("axes.labelsize")
        width = 0.8 * self.figure.get_figwidth() / self.in_a_line
        for place in self.last:
            self.panels[place].set_xlabel(broken(x, width, size))
        for place in self.first:
            self.panels[place].set_ylabel(broken(y[place[0]], 0.95 * self.height_in, size))

    @property
    def in_a_line(self) -> int:
        """How many panels stand side by side, at least one."""
        return max((axes.get_subplotspec().get_gridspec().ncols for axes in self.panels.values()), default=1)  # type: ignore[union-attr]

    @property
    def labelled_lines(self) -> int:
        """How many lines have a labelled horizontal axis."""
        return len({self.panels[place].get_subplotspec().rowspan.start for place in self.last})  # type: ignore[union-attr]

    def legend(self, handles: Sequence[Artist], labels: Sequence[str]) -> None:
        """Put one legend above all panels; the first of entries with equal text counts."""
        seen = {label: handle for handle, label in reversed(list(zip(handles, labels, strict=True))) if label}
        ordered = [label for label in dict.fromkeys(labels) if label]
        legend_of(self.figure, [seen[label] for label in ordered], ordered)

    def legend_of_lines(self) -> None:
        """Put one legend of all lines with a label above all panels; of many lines, one into each panel."""
        pairs = [axes.get_legend_handles_labels() for axes in self.panels.values()]
        names = {text for _, texts in pairs for text in texts}
        if len(names) > MOST_MARKED >= max(len(set(texts)) for _, texts in pairs):
            for axes in self.panels.values():
                axes.legend(fontsize=SMALL, handlelength=1.6, labelspacing=0.2)
            return
        self.legend([one for handles, _ in pairs for one in handles], [one for _, texts in pairs for one in texts])


def far_apart(typical: Iterable[float], unit: str = "") -> bool:
    """Return True if typical values of panels differ so much that one scale would flatten some of them.

    Shares in percent always have one scale.

    Examples:
        >>> far_apart([600.0, 45.0]), far_apart([10.0, 25.0]), far_apart([0.0, 5.0]), far_apart([])
        (True, False, False, False)
        >>> far_apart([0.1, 45.0], "%")
        False
    """
    known = [value for value in typical if value > 0]
    return unit != "%" and len(known) > 1 and max(known) >= FAR_APART * min(known)


def together(typical: Mapping[Key, float], unit: str = "") -> list[list[Key]]:
    """Return the panels that have one scale: all, or where they are far apart those that are not.

    Args:
        typical: a typical value of each panel.
        unit: of the values.

    Examples:
        >>> together({"a": 600.0, "b": 5.0, "c": 200.0}), together({"a": 60.0, "b": 20.0})
        ([['b'], ['c', 'a']], [['a', 'b']])
    """
    if not far_apart(typical.values(), unit):
        return [list(typical)]
    parts: list[list[Key]] = []
    for place in sorted(typical, key=lambda place: typical[place]):
        if parts and not far_apart([typical[parts[-1][0]], typical[place]]):
            parts[-1].append(place)
        else:
            parts.append([place])
    return parts


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
    own_y: Collection[int] = (),
    is_stacked: bool = False,
) -> Grid:
    """Return a figure of panels in rows and columns; a row that is wider than the figure goes on in the next line.

    Rows of one panel each stand side by side.

    Args:
        width_in: of the figure.
        rows: how many rows.
        titles: of the columns.
        there: panels with data; others are left empty.
        labels: labels of the legend above, for its height.
        height_in: of a panel.
        narrowest_in: width of the narrowest panel.
        share_y: whether the panels of a row share a scale.
        share_x: whether all panels share a horizontal scale.
        own_y: rows whose panels have a vertical scale each all the same; several such panels are shaded.
        is_stacked: whether rows of one panel each stand below each other nevertheless.
    """
    wanted = [[(row, column) for column in range(len(titles)) if (row, column) in there] for row in range(rows)]
    if len(titles) == 1 and rows > 1 and not is_stacked:
        lines = _Lines.side_by_side([place for row in wanted for place in row], rows, width_in)
    else:
        lines = _Lines.below_each_other(wanted, len(titles), int(width_in / narrowest_in))
    scaled = set(own_y) if share_y else set(range(rows))
    once, each = (0.0, NUMBERS_IN) if scaled else (NUMBERS_IN, 0.0)
    room = max((width_in - LABEL_IN - once) / lines.slots - GAP_IN - each, LEAST_ROOM_IN)
    texts = [broken_title(title, room) for title in titles]
    tallest = max((text.count("\n") + 1 for text in texts if text), default=0)
    titled = range(1 if lines.titles_once else len(lines.places))
    top = LINE_IN * rows_of_legend(labels, width_in)
    drawing = figure(height_in * len(lines.places) + top + LINE_IN * (2 + tallest * len(titled)), width_in)
    made = lines.drawn(drawing, share_x=share_x, own_y=scaled)
    for number, line in enumerate(lines.places):
        for row, column in line.values():
            if texts[column] and (number in titled or (row > 0 and (row - 1, column) not in there)):
                made[row, column].set_title(texts[column])
    lowest = {slot: place for line in lines.places for slot, place in line.items()}
    if share_x:
        for place in made.keys() - set(lowest.values()):
            made[place].tick_params(labelbottom=False)
    for row in own_y:
        several = [axes for (own, _), axes in made.items() if own == row]
        for axes in several if len(several) > 1 else ():
            tint(axes)
    last = [*dict.fromkeys(lowest.values())] if share_x else [*made]
    ends = [line[max(line)] for line in lines.places]
    return Grid(drawing, made, lines.first, last, ends, height_in - LINE_IN, top)


@dataclass(frozen=True)
class _Lines:
    """The lines of a drawing.

    Attributes:
        places: the panels of each line by their slot.
        slots: the slots of a line.
        titles_once: whether the titles of the columns stand above the first line only.
    """

    places: list[dict[int, Place]]
    slots: int
    titles_once: bool

    @classmethod
    def side_by_side(cls, alone: Sequence[Place], rows: int, width_in: float) -> _Lines:
        """Return the lines of rows that have one panel each."""
        slots = max(1, min(rows, int(width_in / SIDE_BY_SIDE_IN)))
        return cls([dict(enumerate(part)) for part in _parts(alone, slots)], slots, titles_once=True)

    @classmethod
    def below_each_other(cls, wanted: Sequence[Sequence[Place]], columns: int, most: int) -> _Lines:
        """Return the lines of rows; a row of more than `most` panels is broken into lines of about the same length."""
        longest = max(len(row) for row in wanted)
        slots = max(1, min(most, longest))
        is_broken = longest > slots
        if is_broken:
            slots = math.ceil(longest / math.ceil(longest / slots))
        # Columns keep their place where every row fits into a line.
        keep = not is_broken and columns <= slots
        lines = [part for row in wanted for part in _parts(row, slots)]
        return cls(
            [{place[1] if keep else slot: place for slot, place in enumerate(line)} for line in lines], slots, keep
        )

    @property
    def first(self) -> list[Place]:
        """The panels that begin a line, and those of other rows in it."""
        lines = [list(line.values()) for line in self.places]
        return [place for begins, *rest in lines for place in (begins, *(one for one in rest if one[0] != begins[0]))]

    def drawn(self, drawing: Figure, *, share_x: bool, own_y: Collection[int]) -> dict[Place, Axes]:
        """Add the panels to a drawing.

        Those of a row have one vertical scale, with numbers where a line begins; those of `own_y` one each.
        """
        spec = drawing.add_gridspec(len(self.places), self.slots)
        made: dict[Place, Axes] = {}
        scales: dict[int, Axes] = {}
        for number, line in enumerate(self.places):
            begins = next(iter(line.values()))
            for slot, place in line.items():
                row = None if place[0] in own_y else scales.get(place[0])
                share = {"sharey": row, "sharex": next(iter(made.values()), None) if share_x else None}
                made[place] = axes = drawing.add_subplot(spec[number, slot], **share)
                if row is not None and place != begins:
                    axes.tick_params(labelleft=False)
                scales.setdefault(place[0], axes)
        return made


def _parts(row: Sequence[Place], size: int) -> Iterator[Sequence[Place]]:
    return (row[begin : begin + size] for begin in range(0, len(row), size))

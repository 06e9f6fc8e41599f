# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Where a sweep refines its points: it bisects the cells of a grid across which the response changes most.

Adaptive sampling by a loss of each interval: Nijholt, Weston, Hoofwijk, Akhmerov, "Adaptive: parallel active learning
of mathematical functions" (2019), doi:10.5281/zenodo.1182437. Differences from it:

- The loss is the change of the response alone, so that parts of the ranges where nothing changes get no points.
- Two ranges have rectangular cells, which are bisected across one range at a time, in place of triangles.
- Cells are bisected in stages that depend on the results only, never on how many runs go at a time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perigee import toml
from perigee.api.designs import MOST_POINTS, Axis
from perigee.engines.run.kept_flows import METRIC, check_column
from perigee.errors import InputError
from perigee.numbers import counted

PARTS = 64
"""Maximum parts into which an interval of the first grid is bisected, so that a jump does not take all points."""
MOST_RANGES = 2
SHARE = 0.01
"""Smaller changes, as a share of the range of the response, need no points unless the option says otherwise."""
TOGETHER = 0.5
"""A stage bisects all cells whose change is at least this share of the greatest: halves of the steepest one have it."""
NAMED = 3
"""Number of the steepest cells that are named at the end."""

Node = tuple[int, ...]
"""A point: its place on each axis, in `PARTS` of an interval of the first grid."""
Means = Mapping[str, float | None]
"""The means of a point by the words of the flow and of what else the study varies; none: no run has a value."""


@dataclass(frozen=True)
class Rule:
    """The rule of `--refine`.

    Attributes:
        points: how many points of the ranges there are at the end, at the most.
        metric: the column of the table `flows` whose changes count.
        share: smaller changes need no further points, as a share of the range of the response.
    """

    points: int
    metric: str = METRIC
    share: float = SHARE

    @classmethod
    def read(cls, text: str) -> Rule:
        """Read what `--refine` is given: a number of points, before it a column, behind it a share.

        Raises:
            InputError: it is none of these, or there is no such column of numbers.

        Examples:
            >>> Rule.read("24"), Rule.read("rtt_mean_ms 40 5 %")
            (Rule(points=24, metric='goodput_mbps', share=0.01), Rule(points=40, metric='rtt_mean_ms', share=0.05))
            >>> Rule.read("rtt_mean_ms")
            Traceback (most recent call last):
            ...
            perigee.errors.InputError: --refine rtt_mean_ms: no number of points; write "24" or "rtt_mean_ms 24"
        """
        found = re.fullmatch(
            r"\s*(?:([a-z][a-z0-9_]*)\s+)?([0-9]{1,9})(?:\s+([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%)?\s*", text
        )
        if found is None:
            raise InputError(f'--refine {text}: no number of points; write "24" or "rtt_mean_ms 24"')
        points, metric, share = int(found[2]), found[1] or METRIC, float(found[3]) / 100 if found[3] else SHARE
        if points > MOST_POINTS:
            raise InputError(f"--refine {text}: {points} points; a study has at most {MOST_POINTS}")
        if not 0 < share < 1:
            raise InputError(f"--refine {text}: the share must lie between 0 % and 100 %")
        check_column("--refine", metric)
        return cls(points, metric, share)

    def __str__(self) -> str:
        """As the option writes it, with nothing left out."""
        return f"{self.metric} {self.points} {self.share * 100:g} %"


@dataclass(frozen=True)
class Cell:
    """A box between points; of one range an interval.

    Attributes:
        low: the corner of the smallest values.
        high: that of the largest.
    """

    low: Node
    high: Node

    def edges(self, axis: int) -> Iterator[tuple[Node, Node]]:
        """Yield the ends of the edges along an axis.

        Examples:
            >>> list(Cell((0, 0), (64, 32)).edges(0))
            [((0, 0), (64, 0)), ((0, 32), (64, 32))]
        """
        ends = [(low, high) for low, high in zip(self.low, self.high, strict=True)]
        for others in itertools.product(*ends[:axis], *ends[axis + 1 :]):
            before, behind = others[:axis], others[axis:]
            yield (*before, self.low[axis], *behind), (*before, self.high[axis], *behind)

    def bisected(self, axis: int, middle: int) -> tuple[Cell, Cell]:
        """Return both parts of the cell, cut at a place of an axis."""
        before, behind = slice(axis), slice(axis + 1, None)
        return (
            Cell(self.low, (*self.high[before], middle, *self.high[behind])),
            Cell((*self.low[before], middle, *self.low[behind]), self.high),
        )


@dataclass(frozen=True)
class Change:
    """The greatest change of the response along an edge of a cell.

    Attributes:
        size: as a share of the range of the response; 1 where only one end has values.
        cell: the cell.
        axis: the axis of the edge.
        edge: the ends of the edge.
        group: the words of the flow, and of what else the study varies.
    """

    size: float
    cell: Cell
    axis: int
    edge: tuple[Node, Node]
    group: str


class Refinement:
    """A grid over one or two ranges whose cells are bisected where the response changes most.

    Args:
        axes: the ranges, each with the number of its values in the first grid.
        rule: what is asked for.

    Attributes:
        axes: as given.
        rule: as given.
        grid: the points of the first grid.
        end: why there are no more points, once there are none.

    Raises:
        InputError: there are more than two ranges, one of them is a list, or the first grid has all the points already.

    Examples:
        >>> from perigee.api.designs import read_axis
        >>> refinement = Refinement([read_axis("links.sat.loss=0..4 %:3")], Rule(5))
        >>> refinement.settings(refinement.grid)
        ['vary.links.sat.loss=0 %,2 %,4 %']
        >>> means = {node: {"flow f": node[0] > 64} for node in refinement.grid}
        >>> refinement.settings(refinement.advance(means))
        ['vary.links.sat.loss=3 %']
    """

    def __init__(self, axes: Sequence[Axis], rule: Rule) -> None:
        self.axes = tuple(axes)
        self.rule = rule
        for axis in self.axes:
            if axis.values:
                values = ",".join(toml.setting(value, axis.key) for value in axis.values)
                raise InputError(
                    f"--refine: {axis.key} has a list of values, and only ranges can be refined; let the study vary "
                    f"it: --set vary.{axis.key}={values}"
                )
        if not 1 <= len(self.axes) <= MOST_RANGES:
            raise InputError(
                f"--refine: {len(self.axes)} ranges; give one or two, or --design sobol, which fills more of them"
            )
        if len({axis.key for axis in self.axes}) < len(self.axes):
            raise InputError(f"--over {self.axes[0].key}: given twice; give all its values at once")
        intervals = [len(axis.all_levels()) - 1 for axis in self.axes]
        self._places = [count * PARTS for count in intervals]
        self.grid: list[Node] = list(itertools.product(*(range(0, last + 1, PARTS) for last in self._places)))
        if rule.points <= len(self.grid):
            raise InputError(
                f"--refine {rule.points}: the first grid has {len(self.grid)} points, which leaves none to refine; "
                "give more points, or ranges of fewer values"
            )
        lows = itertools.product(*(range(0, last, PARTS) for last in self._places))
        self._cells = dict.fromkeys(Cell(low, tuple(place + PARTS for place in low)) for low in lows)
        self._middles: dict[tuple[int, int, int], int | None] = {}
        self.end = ""

    @property
    def outlook(self) -> str:
        """Describe the stages after the first grid."""
        further = counted(self.rule.points - len(self.grid), "more point")
        return f"this is the first stage; up to {further} follow where {self.rule.metric} changes most"

    def settings(self, nodes: Iterable[Node]) -> list[str]:
        """Return points as settings of a study."""
        if len(self.axes) == 1:
            values = [self._value(0, place) for (place,) in nodes]
            return [f"vary.{self.axes[0].key}={','.join(toml.setting(value, self.axes[0].key) for value in values)}"]
        return [f"vary.linked={toml.inline([self.values(node) for node in nodes])}"]

    def values(self, node: Node) -> dict[str, Any]:
        """Return the value of each key at a point."""
        return {axis.key: self._value(number, node[number]) for number, axis in enumerate(self.axes)}

    def advance(self, means: Mapping[Node, Means]) -> list[Node]:
        """Bisect cells until points are needed whose means are not there; return these, none: it is done.

        Args:
            means: the means of all points so far.
        """
        while True:
            changes = [change for change in self._changes(means) if change.size > self.rule.share]
            where = [(change, self._middle(change)) for change in changes]
            found = [(change, middle) for change, middle in where if middle is not None]
            if not found:
                self.end = (
                    "no interval with a larger change can be bisected further"
                    if changes
                    else f"no change between neighbours is above {self.rule.share * 100:g} % of the range"
                )
                return []
            wanted: set[Node] = set()
            done = set()
            for change, middle in found:
                if change.size < TOGETHER * found[0][0].size:
                    break
                if change.cell in done:
                    continue
                parts = change.cell.bisected(change.axis, middle)
                new = {low for low, _ in parts[1].edges(change.axis)} - means.keys()
                if len(means) + len(wanted | new) <= self.rule.points:
                    wanted |= new
                    done.add(change.cell)
                    del self._cells[change.cell]
                    self._cells.update(dict.fromkeys(parts))
            if wanted:
                return sorted(wanted)
            if not done:
                self.end = "all points are used"
                return []

    def steepest(self, means: Mapping[Node, Means]) -> list[str]:
        """Say between which neighbours the response changes most, and how far apart they are."""
        groups = {group for node in means for group in means[node]}
        lines: list[str] = []
        seen: set[tuple[Node, Node]] = set()
        for change in self._changes(means):
            if change.edge in seen or change.size <= self.rule.share or len(lines) == NAMED:
                continue
            seen.add(change.edge)
            lines.append(self._words(change, means, with_group=len(groups) > 1))
        return lines

    def _words(self, change: Change, means: Mapping[Node, Means], *, with_group: bool) -> str:
        low, high = change.edge
        key = self.axes[change.axis].key
        ends = [self.values(node)[key] for node in change.edge]
        others = [f"{other} = {value}" for other, value in self.values(low).items() if other != key]
        part = PARTS / (high[change.axis] - low[change.axis])
        least = ", as short as it gets" if self._middle(change) is None else ""
        metric = [means[node][change.group] for node in change.edge]
        said = ["no value" if value is None else f"{value:.4g}" for value in metric]
        share = "" if None in metric else f", {change.size:.0%} of its range"
        where = ", ".join([f"{key} from {ends[0]} to {ends[1]}", *others, *([change.group] if with_group else [])])
        fine = "an interval of the first grid" if part == 1 else f"1/{part:.3g} of an interval of the first grid"
        return f"{where}: {self.rule.metric} from {said[0]} to {said[1]}{share} ({fine}{least})"

    def _changes(self, means: Mapping[Node, Means]) -> list[Change]:
        """Return the greatest change along each axis of each cell; the greatest first, of equal ones the longer."""
        reach = _range(means.values())
        found = []
        for cell in self._cells:
            for axis in range(len(self.axes)):
                along = [
                    Change(size, cell, axis, edge, group)
                    for edge in cell.edges(axis)
                    for group, size in _differences(means[edge[0]], means[edge[1]], reach)
                ]
                if along:
                    found.append(max(along, key=lambda change: change.size))

        def order(change: Change) -> tuple[float, int, Node, int]:
            cell, axis = change.cell, change.axis
            return -change.size, cell.low[axis] - cell.high[axis], cell.low, axis

        return sorted(found, key=order)

    def _middle(self, change: Change) -> int | None:
        low, high = change.cell.low[change.axis], change.cell.high[change.axis]
        at = (change.axis, low, high)
        if at not in self._middles:
            self._middles[at] = self._place_between(*at)
        return self._middles[at]

    def _place_between(self, axis: int, low: int, high: int) -> int | None:
        """Return the place nearest to the middle whose value is none of the ends': whole numbers have neighbours."""
        ends = [self._value(axis, place) for place in (low, high)]
        between = sorted(range(low + 1, high), key=lambda place: (abs(2 * place - low - high), place))
        return next((place for place in between if self._value(axis, place) not in ends), None)

    def _value(self, axis: int, place: int) -> Any:
        return self.axes[axis].at(place / self._places[axis])


def _range(all_means: Iterable[Means]) -> float:
    """Return the largest difference between two means of one flow.

    Examples:
        >>> _range([{"a": 1.0, "b": 10.0}, {"a": 3.0, "b": 11.0}, {"a": None}])
        2.0
    """
    values: dict[str, list[float]] = {}
    for means in all_means:
        for group, value in means.items():
            if value is not None:
                values.setdefault(group, []).append(value)
    return max((max(each) - min(each) for each in values.values()), default=0.0)


def _differences(one: Means, other: Means, reach: float) -> Iterator[tuple[str, float]]:
    """Yield the difference of each flow that two points have, as a share of the range.

    Examples:
        >>> list(_differences({"a": 1.0, "b": 2.0, "c": None}, {"a": 3.0, "c": None, "b": None}, 4.0))
        [('a', 0.5), ('b', 1.0)]
    """
    for group in [group for group in one if group in other]:
        here, there = one[group], other[group]
        if here is not None and there is not None:
            yield group, abs(here - there) / reach if reach else 0.0
        elif here is not there:
            yield group, 1.0

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which links each flow's data takes, what they add to a packet, and which flows meet on a link at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from perigee.store.results import Results

Link = str | tuple[str, str]
"""The name of a directed link, or the nodes at both ends of a path whose links are not known."""


@dataclass(frozen=True)
class Meeting:
    """Flows of one run that have a directed link in common and are all under way for some time.

    Attributes:
        run: the run.
        flows: their names, in the order of the study.
        links: the directed links that all of them take; empty between real hosts, where only the ends are known.
        from_s: when the last of them began, in the run's time.
        until_s: when the first of them ended.
    """

    run: int
    flows: tuple[str, ...]
    links: tuple[str, ...]
    from_s: float
    until_s: float


class Network:
    """The paths of a study's flows.

    Args:
        results: the results; of captures nothing is known of the paths.
    """

    def __init__(self, results: Results) -> None:
        self._is_known = not results.is_analysis
        self._everywhere: dict[str, Any] = {}
        self._of_point: dict[str, dict[str, Any]] = {}
        for network in results.setup().get("networks", []):
            if "points" in network:
                self._of_point |= dict.fromkeys(network["points"], network)
            else:
                self._everywhere = network

    def overhead_bytes(self, point: str, link: str) -> int:
        """Return what a directed link adds to each packet at a point of the study."""
        return int(self._at(point).get("overhead_bytes", {}).get(link, 0))

    def path(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the directed links that a flow's data takes; empty where they are not known."""
        return tuple(link for link in self._path(row) if isinstance(link, str))

    def takes(self, row: Mapping[str, Any], link: str) -> bool:
        """Whether a flow's data takes a directed link; taken for granted where its path is not known."""
        path = self._path(row)
        return link in path or not any(isinstance(one, str) for one in path)

    def uses(self, row: Mapping[str, Any], link: str) -> bool:
        """Whether a flow's data or, on the way back, its acknowledgements take a directed link, as far as is known."""
        name = link.rpartition(".")[0]
        return self.takes(row, link) or any(self.takes(row, f"{name}.{direction}") for direction in ("down", "up"))

    def meetings(self, flows: pl.DataFrame, least_s: float) -> list[Meeting]:
        """Return the largest sets of flows that meet on a link.

        Args:
            flows: rows of the table `flows`.
            least_s: flows that are under way together for less than this do not meet.
        """
        if not self._is_known:
            return []
        several = flows.filter(pl.len().over("run") > 1).sort("run", maintain_order=True)
        found = []
        for _, rows in itertools.groupby(several.iter_rows(named=True), key=lambda row: row["run"]):
            found += self._in_run(list(rows), least_s)
        return found

    def _in_run(self, rows: list[dict[str, Any]], least_s: float) -> list[Meeting]:
        on_link: dict[Link, list[int]] = {}
        for place, row in enumerate(rows):
            for link in self._path(row):
                on_link.setdefault(link, []).append(place)
        links_of: dict[tuple[int, ...], list[Link]] = {}
        for link, places in on_link.items():
            spans = [(rows[place]["start_s"], rows[place]["start_s"] + rows[place]["duration_s"]) for place in places]
            for together in _together(spans, least_s):
                links_of.setdefault(tuple(places[one] for one in together), []).append(link)
        largest = [one for one in links_of if not any(set(one) < set(other) for other in links_of)]
        return [
            Meeting(
                run=rows[0]["run"],
                flows=tuple(rows[place]["flow"] for place in places),
                links=tuple(link for link in links_of[places] if isinstance(link, str)),
                from_s=max(rows[place]["start_s"] for place in places),
                until_s=min(rows[place]["start_s"] + rows[place]["duration_s"] for place in places),
            )
            for places in sorted(largest)
        ]

    def _path(self, row: Mapping[str, Any]) -> Sequence[Link]:
        """Return the directed links of a flow's data; where they are not known, its ends stand for its path."""
        known = self._at(row["point"]).get("paths", {}).get(row["flow"])
        return known or [(row["from_node"], row["to_node"])]

    def _at(self, point: str) -> dict[str, Any]:
        return self._of_point.get(point, self._everywhere)


def _together(spans: Sequence[tuple[float, float]], least_s: float) -> list[tuple[int, ...]]:
    """Return the largest sets of two or more spans of time that have at least `least_s` in common.

    Examples:
        >>> _together([(0, 10), (5, 15), (12, 20), (30, 40)], 1)
        [(0, 1), (1, 2)]
        >>> _together([(0, 10), (9.5, 15)], 1)
        []
    """
    # Spans have `least_s` in common where these shorter ones have an instant in common.
    events = sorted(
        event
        for place, (start, end) in enumerate(spans)
        if end - start >= least_s
        for event in ((start, 0, place), (end - least_s, 1, place))
    )
    active: set[int] = set()
    found: list[tuple[int, ...]] = []
    has_grown = False
    for _, is_end, place in events:
        if not is_end:
            active.add(place)
            has_grown = True
            continue
        if has_grown and len(active) > 1:
            found.append(tuple(sorted(active)))
        active.remove(place)
        has_grown = False
    return found

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The runs and flows of results, called by what they are: `BBR, sat loss 0.1 %, round 1`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from perigee.errors import InputError
from perigee.groups.factors import Level, factor, of_group
from perigee.groups.group import FILE, with_variants
from perigee.groups.groups import Groups
from perigee.groups.names import distinct
from perigee.laboratory.graphs import Part
from perigee.store.points import EXPERIMENT, as_text, named
from perigee.store.results import Results
from perigee.store.room import MOST_OF_A_PAGE, check_room

COLUMNS = ("run", "round", "point", "flow", "leg", "cc", "cc_params")


@dataclass(frozen=True)
class Point:
    """A point of a study: what its runs have in common.

    Attributes:
        label: what it is called, with its experiment.
        experiment: its experiment; empty where the study has none.
        others: what varies beside congestion controls.
        runs: the run of each round, by the number of the round from 0.
    """

    label: str
    experiment: str
    others: frozenset[str]
    runs: Mapping[int, int]


@dataclass(frozen=True)
class _Run:
    """A run: the number of its point, its round, and the congestion control of each flow and leg."""

    point: int
    round: int
    flows: Mapping[Part, str]


class Runs:
    """The runs of results.

    Args:
        folder: the results.

    Attributes:
        points: the points of the study, in its order.
        rounds: how many rounds there are at most.

    Raises:
        InputError: the results are not finished, or their flows or `report.toml` cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        if (folder / "flows.parquet").is_symlink():
            raise InputError("flows.parquet: is a link; run the study again")
        try:
            check_room(folder / "flows.parquet", most=MOST_OF_A_PAGE)
            self._groups = Groups(Results(folder, check=False))
            self._read(self._groups.results)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(f"flows.parquet: cannot be read: {error}", "run the study again") from error

    def _read(self, results: Results) -> None:
        whole, legs = results.table("flows"), results.legs("flows")
        rows = whole.with_columns(leg=pl.lit(None, pl.UInt32)).select(COLUMNS)
        if not legs.is_empty():
            rows = pl.concat([rows, legs.select(COLUMNS)], how="vertical_relaxed")
        by_run: dict[int, list[dict[str, Any]]] = {}
        for row in with_variants(rows).iter_rows(named=True):
            by_run.setdefault(row["run"], []).append(row)
        numbers: dict[str, int] = {}
        runs_of: dict[int, dict[int, int]] = {}
        self._runs: dict[int, _Run] = {}
        for run, own in sorted(by_run.items()):
            number = numbers.setdefault(own[0]["point"], len(numbers))
            flows = {Part(row["flow"], row["leg"] or 0): self._groups.algorithm(row) for row in own}
            self._runs[run] = _Run(number, own[0]["round"], flows)
            runs_of.setdefault(number, {})[own[0]["round"]] = run
        firsts = [self._runs[next(iter(runs.values()))] for runs in runs_of.values()]
        read = [named(json.loads(text or "{}")) for text in numbers]
        labels = [
            ", ".join([*self._experiment(point), self._words(point, first.flows)])
            for point, first in zip(read, firsts, strict=True)
        ]
        self.points = [
            Point(
                label=label,
                experiment=str(point.get(EXPERIMENT, "")),
                others=frozenset(f"{key} = {as_text(value)}" for key, value in point.items() if not key.endswith("cc")),
                runs=runs_of[number],
            )
            for number, (point, label) in enumerate(
                zip(read, distinct(labels, lambda label, copy: f"{label} ({copy})"), strict=True)
            )
        ]
        self.rounds = max((len(point.runs) for point in self.points), default=0)

    def __contains__(self, run: int) -> bool:
        """Whether there is such a run."""
        return run in self._runs

    def first(self, count: int) -> list[int]:
        """Return runs to begin with: of the first point, and of those that differ in congestion controls only."""
        if not self.points:
            return []
        alike = [point for point in self.points if point.others == self.points[0].others]
        return [next(iter(point.runs.values())) for point in alike[:count]]

    def in_round(self, run: int, number: int) -> int:
        """Return the run of the same point in another round, from 0; the run itself if it has none."""
        return self.points[self._runs[run].point].runs.get(number, run)

    def flows(self, run: int) -> list[str]:
        """Return the names of the flows of a run."""
        return list(dict.fromkeys(part.name for part in self._runs[run].flows))

    def legs(self, run: int) -> list[Part]:
        """Return the legs of the flows of a run that proxies split."""
        return [part for part in self._runs[run].flows if part.leg]

    def all_flows(self) -> list[Part]:
        """Return the flows and legs of all runs, each once."""
        return list(dict.fromkeys(part for run in self._runs.values() for part in run.flows))

    def label(self, run: int) -> str:
        """Return what a run is called."""
        own = self._runs[run]
        point = self.points[own.point]
        numbered = [f"round {own.round + 1}"] if self.rounds > 1 else []
        return ", ".join([point.label, *numbered])

    def label_of(self, run: int, part: Part) -> str:
        """Return what a flow of a run is called: as the run, where it has no other."""
        words = [self._groups.label(part.name)] if len(self.flows(run)) > 1 else []
        return told_apart(self.label(run), [*words, *parts_of(part)])

    def algorithm(self, run: int, part: Part | None = None) -> str:
        """Return the congestion control of a flow or leg; without one, that of all flows of a run.

        Empty where they have none, or several.
        """
        flows = self._runs[run].flows
        if part is not None:
            return flows.get(part._replace(event=""), "")
        several = {algorithm for each, algorithm in flows.items() if not each.leg}
        return several.pop() if len(several) == 1 else ""

    def place_of(self, algorithm: str) -> int:
        """Return the number of the look of a congestion control in the report."""
        return self._groups.number_of_look(algorithm)

    def _experiment(self, point: Mapping[str, Any]) -> list[str]:
        return [self._groups.label(str(point[EXPERIMENT]))] if EXPERIMENT in point else []

    def _words(self, point: Mapping[str, Any], flows: Mapping[Part, str]) -> str:
        """Return what a point is called in its experiment, given the flows of a run there."""
        own = [part for part in flows if not part.leg]
        controls = list(dict.fromkeys(flows[part] for part in own))
        words: list[str] = []
        for key, value in point.items():
            if key == EXPERIMENT:
                continue
            flow = key.removesuffix(".cc").removeprefix("flows.")
            of_flow = next((flows[part] for part in own if part.name in (flow, f"{flow}.1")), "")
            if key == "flow.cc" or (key.endswith(".cc") and of_flow and len(own) == 1):
                words.insert(0, " and ".join(controls))
            elif key.endswith(".cc") and of_flow:
                words.append(f"{self._groups.label(flow)} by {of_flow}")
            elif key.endswith(".count") and value == 0:
                words.append(f"without {self._groups.label(key.split('.')[-2])}")
            else:
                words.append(self._said(key, as_text(value)))
        return ", ".join(words) or " and ".join(word for word in controls if word) or self._groups.results.study

    def _said(self, key: str, text: str) -> str:
        label = self._groups.label(of_group(key, text))
        if key == FILE or "." not in key:
            # The name of a variant says all.
            return self._groups.phrase(key, text) or label
        return self._groups.phrase(key, text) or factor(key, key, [Level(label)]).said(label)


def told_apart(label: str, words: Sequence[str]) -> str:
    """Return the label of a run with what tells one of its traces from the others.

    Examples:
        >>> told_apart("BBR, round 1", ["first", "leg 2"]), told_apart("BBR", [])
        ('BBR, round 1: first, leg 2', 'BBR')
    """
    return f"{label}: {', '.join(words)}" if words else label


def parts_of(part: Part) -> list[str]:
    """Return what tells the traces of one flow apart.

    Examples:
        >>> parts_of(Part("main", 2, "sent")), parts_of(Part("main"))
        (['leg 2', 'sent'], [])
    """
    return [*([f"leg {part.leg}"] if part.leg else []), *([part.event] if part.event else [])]

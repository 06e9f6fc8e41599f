# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The runs and flows of results, called by what they are: `BBR, sat loss 0.1 %`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from perigee.errors import InputError
from perigee.groups.factors import Level, factor, of_group
from perigee.groups.group import FILE, with_variants
from perigee.groups.groups import Groups
from perigee.groups.names import distinct
from perigee.store.points import EXPERIMENT, as_text, named
from perigee.store.results import Results
from perigee.store.room import MOST_OF_A_PAGE, check_room
from perigee.store.slices import readable

COLUMNS = ("run", "round", "point", "flow", "leg", "cc", "cc_params")


class Flow(NamedTuple):
    """A flow of a run, or a leg of one that proxies split.

    Attributes:
        name: the flow's.
        leg: its leg; 0: from end to end.
        label: what people call it.
        cc: its congestion control; empty where it has none.
        algorithm: what people call that, with parameters where they vary.
        look: number of its look; none where it has no congestion control.
    """

    name: str
    leg: int
    label: str
    cc: str
    algorithm: str
    look: int | None


@dataclass(frozen=True)
class Point:
    """A point of a study: what its runs have in common.

    Attributes:
        label: what it is called, with its experiment.
        others: what varies beside congestion controls.
        runs: the run of each round, by the number of the round from 0.
        flows: those of its first run.
    """

    label: str
    others: frozenset[str]
    runs: Mapping[int, int]
    flows: tuple[Flow, ...]


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
        with readable(folder / "flows.parquet"):
            check_room(folder / "flows.parquet", most=MOST_OF_A_PAGE)
            self._groups = Groups(Results(folder, check=False))
            self._read(self._groups.results)

    def _read(self, results: Results) -> None:
        whole, legs = results.table("flows"), results.legs("flows")
        rows = whole.with_columns(leg=pl.lit(None, pl.UInt32)).select(COLUMNS)
        if not legs.is_empty():
            rows = pl.concat([rows, legs.select(COLUMNS)], how="vertical_relaxed")
        by_run: dict[int, list[dict[str, Any]]] = {}
        for row in with_variants(rows).iter_rows(named=True):
            by_run.setdefault(row["run"], []).append(row)
        runs_of: dict[str, dict[int, int]] = {}
        self._flows: dict[int, tuple[Flow, ...]] = {}
        for run, own in sorted(by_run.items()):
            self._flows[run] = tuple(self._flow(row) for row in own)
            runs_of.setdefault(own[0]["point"], {})[own[0]["round"]] = run
        firsts = [self._flows[next(iter(runs.values()))] for runs in runs_of.values()]
        read = [named(json.loads(text or "{}")) for text in runs_of]
        labels = [
            ", ".join([*self._experiment(point), self._words(point, flows)])
            for point, flows in zip(read, firsts, strict=True)
        ]
        self.points = [
            Point(
                label=label,
                others=frozenset(f"{key} = {as_text(value)}" for key, value in point.items() if not key.endswith("cc")),
                runs=runs,
                flows=flows,
            )
            for point, runs, flows, label in zip(
                read, runs_of.values(), firsts, distinct(labels, lambda label, copy: f"{label} ({copy})"), strict=True
            )
        ]
        self.rounds = max((len(point.runs) for point in self.points), default=0)

    def __contains__(self, run: int) -> bool:
        """Whether there is such a run."""
        return run in self._flows

    def first(self, count: int) -> list[int]:
        """Return runs to begin with: of the first point, and of those that differ in congestion controls only."""
        if not self.points:
            return []
        alike = [point for point in self.points if point.others == self.points[0].others]
        return [next(iter(point.runs.values())) for point in alike[:count]]

    def flows(self, run: int) -> list[str]:
        """Return the names of the flows of a run."""
        return list(dict.fromkeys(flow.name for flow in self._flows[run]))

    def by_rounds(self) -> list[int]:
        """Return all runs: the first round of each point, then the second of each, and so on."""
        rounds = sorted({number for point in self.points for number in point.runs})
        return [point.runs[number] for number in rounds for point in self.points if number in point.runs]

    def _flow(self, row: Mapping[str, Any]) -> Flow:
        name, leg = str(row["flow"]), int(row["leg"] or 0)
        cc, algorithm = str(row["cc"] or ""), self._groups.algorithm(row)
        look = self._groups.number_of_look(algorithm) if cc else None
        return Flow(name, leg, self._groups.label(name), cc, algorithm, look)

    def _experiment(self, point: Mapping[str, Any]) -> list[str]:
        return [self._groups.label(str(point[EXPERIMENT]))] if EXPERIMENT in point else []

    def _words(self, point: Mapping[str, Any], flows: Sequence[Flow]) -> str:
        """Return what a point is called in its experiment, given the flows of a run there."""
        own = [flow for flow in flows if not flow.leg]
        controls = list(dict.fromkeys(flow.algorithm for flow in own))
        words: list[str] = []
        for key, value in point.items():
            if key == EXPERIMENT:
                continue
            flow = key.removesuffix(".cc").removeprefix("flows.")
            of_flow = next((each.algorithm for each in own if each.name in (flow, f"{flow}.1")), "")
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

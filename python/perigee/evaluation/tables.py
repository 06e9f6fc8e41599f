# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The tables of an evaluation's study: each run with its cell, round and congestion control."""

from __future__ import annotations

import json
from collections.abc import Mapping

import polars as pl

from perigee.store.points import EXPERIMENT
from perigee.store.results import Results

PROXIES = "proxies."
"""How the keys of a proxy begin, which follow the congestion control that is put in."""
CANDIDATES = ("flows.candidate.cc", "flow.cc")
"""The keys that put a congestion control into a study, which has one of them: one flow's, or that of all flows."""
FIGURES = {"cell": pl.String, "cc": pl.String, "round": pl.UInt32, "value": pl.Float64}
"""Columns of what a measure returns: a row per cell, congestion control and round."""


class Tables:
    """Tables of one study.

    Args:
        results: the finished study.
        names: names of congestion controls by their value in the study, where they differ.
        behind_proxy: whether a flow that a proxy splits is seen by its last leg, on which the proxy is the sender.
        first_round: number of the first round, where others were run before.

    Attributes:
        runs: a row per run: `run`, `round`, `cc` of the flow `candidate`, `cell` in words, `experiment`, and a column
            per key that varies, as `perigee.store.points` types it.
        longest_s: when the last flow of the longest run ended, s.
    """

    def __init__(
        self, results: Results, names: Mapping[str, str], *, behind_proxy: bool = False, first_round: int = 0
    ) -> None:
        self._results = results
        self._joined: dict[tuple[str, str], pl.DataFrame] = {}
        self._behind_proxy = behind_proxy
        flows = results.table("flows").select("run", "round", "point").unique("run", maintain_order=True)
        points = [json.loads(text) for text in flows["point"]]
        values = [str(next(point[key] for key in CANDIDATES if key in point)) for point in points]
        self.longest_s = _end_s(results.table("flows"))
        columns = [column for column in results.points.columns if not column.key.startswith(PROXIES)]
        short = {column.name: _short(column.key) for column in columns}
        typed = (
            results.points.table.select("run", *short)
            .rename(short)
            .drop("experiment", "candidate", "flow", strict=False)
        )
        self.runs = (
            flows.select("run", pl.col("round") + first_round)
            .with_columns(
                cc=pl.Series([names.get(value, value) for value in values], dtype=pl.String),
                cell=pl.Series([words_of(point) for point in points], dtype=pl.String),
                experiment=pl.Series([str(point.get(EXPERIMENT, "")) for point in points], dtype=pl.String),
            )
            .join(typed, on="run", how="left", maintain_order="left")
        )

    def table(self, name: str, experiment: str = "") -> pl.DataFrame:
        """Return a table of results with the columns of `runs`; of one experiment, or of the whole study."""
        key = name, experiment
        if key not in self._joined:
            self._joined[key] = self._join(name, experiment)
        return self._joined[key]

    def _join(self, name: str, experiment: str) -> pl.DataFrame:
        found = self._results.table(name)
        if self._behind_proxy:
            found = _by_last_leg(found, self._results.legs(name))
        clash = [column for column in found.columns if column in self.runs.columns and column != "run"]
        joined = found.drop(clash).join(self.runs, on="run", how="inner", maintain_order="left")
        return joined.filter(pl.col("experiment") == experiment) if experiment else joined

    def flows(self, experiment: str = "", flow: str = "candidate") -> pl.DataFrame:
        """Return the rows of a flow, of all its copies where it has several."""
        return self.table("flows", experiment).filter(of_flow(flow))

    def series(self, experiment: str = "", flow: str = "candidate") -> pl.DataFrame:
        """Return the time series of a flow."""
        return self.table("series", experiment).filter(of_flow(flow))

    def link(self, experiment: str = "", link: str = "path.down") -> pl.DataFrame:
        """Return the counters of a direction of a link over time."""
        return self.table("links", experiment).filter(pl.col("link") == link)


def _end_s(flows: pl.DataFrame) -> float:
    """Return when the last flow ended, in simulated seconds; 0 where none has a duration."""
    end = (flows["start_s"].fill_null(0.0) + flows["duration_s"]).max()
    return float(end) if isinstance(end, int | float) else 0.0


def _by_last_leg(table: pl.DataFrame, legs: pl.DataFrame) -> pl.DataFrame:
    """Return a table in which the rows of each split flow are those of its last leg."""
    if legs.is_empty():
        return table
    last = legs.filter(pl.col("leg") == pl.col("leg").max().over("run", "flow")).drop("leg")
    unsplit = table.join(last.select("run", "flow").unique(), on=["run", "flow"], how="anti", maintain_order="left")
    return pl.concat([unsplit, last.select(table.columns)]).sort("run", maintain_order=True)


def of_flow(name: str) -> pl.Expr:
    """Return whether a row is of the flow with this name, or of one of several: `NAME.1`."""
    return (pl.col("flow") == name) | pl.col("flow").str.starts_with(f"{name}.")


def figures(table: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """Return one value of each run, as a measure returns them."""
    found = table.group_by("run", "cell", "cc", "round", maintain_order=True).agg(value.cast(pl.Float64).alias("value"))
    return found.select(*FIGURES)


def words_of(point: Mapping[str, object]) -> str:
    """Return what varies, without the congestion control, in words.

    Examples:
        >>> words_of({"experiment": "loss", "flows.candidate.cc": "reno", "rtt": "28 ms", "flows.candidate.count": 6})
        'loss, rtt 28 ms, count 6'
    """
    words = [str(point[EXPERIMENT])] if EXPERIMENT in point else []
    for key, value in point.items():
        if key in (EXPERIMENT, *CANDIDATES) or key.startswith(PROXIES):
            continue
        # The value of a variant is a table with its name.
        text = value["name"] if isinstance(value, dict) and "name" in value else value
        words.append(f"{_short(key)} {text}")
    return ", ".join(words)


def _short(key: str) -> str:
    """Return the last part of a key; of a congestion control its flow.

    Examples:
        >>> _short("flows.other.cc"), _short("flows.candidate.count"), _short("rtt")
        ('other', 'count', 'rtt')
    """
    parts = key.split(".")
    return parts[-2] if parts[-1] == "cc" and len(parts) > 1 else parts[-1]

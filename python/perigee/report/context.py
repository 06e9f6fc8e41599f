# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The input of every section of a report: groups of flows, their quantities, and their links."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import polars as pl

from perigee.groups.factors import ALGORITHM, FLOW, Factor, of_group
from perigee.groups.group import Group
from perigee.groups.groups import Groups
from perigee.groups.looks import Look, other
from perigee.groups.names import without_number
from perigee.groups.panels import Panel, few, hue_of, panels
from perigee.report.charts.few import unmarked
from perigee.report.charts.sample import Sample
from perigee.scoring.carried_out import CarriedOut, Tables
from perigee.scoring.published import Published
from perigee.scoring.quantity import Cell
from perigee.scoring.reading import published
from perigee.scoring.score import Score, score
from perigee.statistics.estimates import most_typical
from perigee.statistics.metrics import Metric, group_value, metric, numeric, with_metric
from perigee.statistics.pairing import is_one_sample
from perigee.store.origins import ORIGINS
from perigee.store.points import as_text, named
from perigee.store.results import Results

MOST_OF_FILES = 12
"""Maximum number of captured flows in figures, largest first."""


class Context(Groups):
    """A study's results, ready for the report, see `Groups`.

    Args:
        tables: where the numbers of other tables of the report come from; for the rest see `Groups`.

    Attributes:
        is_reduced: whether the runs are of the study's reduced size, which answers no question.
        found: the word for the origin of the numbers, see `ORIGINS`.
        asides: what the command line says and the page does not: parts of `report.toml` that do not suit these results.
    """

    def __init__(
        self,
        results: Results,
        confidence: float | None = None,
        labels: Mapping[str, str] = MappingProxyType({}),
        reference: str | None = None,
        tables: Tables = lambda _experiment, _name, _columns: None,
    ) -> None:
        super().__init__(results, confidence, labels, reference)
        self._given = (confidence, labels, reference, tables)
        self._tables = tables
        self._experiments: dict[str, Context] = {}
        self.asides: list[str] = []
        self.found = ORIGINS[results.manifest["engine"]].numbers
        self.is_reduced: bool = results.manifest["reduced"]

    def of_experiment(self, name: str) -> Context:
        """Return the context of one experiment of the whole study."""
        if name not in self._experiments:
            self._experiments[name] = Context(self.results.whole.of_experiment(name), *self._given)
        return self._experiments[name]

    @functools.cached_property
    def published(self) -> Published | None:
        """The publication, if any; of the reduced size only what is cited: its results are of the whole study."""
        about = published(self.results)
        if about and self.results.experiment:
            about = about.of_experiment(self.results.experiment)
        return about.without_results() if about and self.is_reduced else about

    @functools.cached_property
    def score(self) -> Score | None:
        """The score of these results against the publication; None without one."""
        if self.published is None:
            return None
        return score(self.published, CarriedOut(self.results.whole, self._tables), self.results.experiment)

    @functools.cached_property
    def is_one_sample(self) -> bool:
        """True if all rounds gave the same results, see `pairing.is_one_sample`."""
        return is_one_sample(self.rows)

    @functools.cached_property
    def varied(self) -> dict[str, list[str]]:
        """The varied keys of a study with their values, in the order of the study."""
        if self.results.is_analysis:
            return {}
        points = [named(json.loads(point)) for point in self.rows["point"].unique(maintain_order=True) if point]
        keys = dict.fromkeys(key for point in points for key in point)
        values = {key: [_in_full(point[key]) for point in points if key in point] for key in keys}
        return {key: list(dict.fromkeys(seen)) for key, seen in values.items()}

    def panels(self, groups: Sequence[Group], most: int) -> tuple[list[Panel], str]:
        """Return at most `most` panels of groups, and a description of those left out."""
        factors = self.factors(groups)
        hue = hue_of(factors)
        return few(panels(groups, factors, hue), [one for one in factors if one is not hue], most)

    def sample(self, groups: Sequence[Group], metrics: Sequence[Metric], hue: Factor | None) -> Sample:
        """Return the flows of groups with factors and metrics as columns, and the look of each level of a hue."""
        factors = self._several(groups)
        parts = []
        for group in groups:
            flows = group.flows
            for one in metrics:
                flows = with_metric(flows, one.name, self.results)
            wanted = dict.fromkeys(name for one in metrics for name in (one.name, *(one.parts or ())))
            levels = {one.name: pl.lit(group.levels.get(one.key, "")).alias(one.name) for one in factors}
            values = (pl.col(name).cast(pl.Float64) for name in wanted if name in flows.columns)
            parts.append(flows.select("run", "round", pl.lit(group.name).alias("group"), *levels.values(), *values))
        flows = pl.concat(parts, how="diagonal") if parts else pl.DataFrame()
        return Sample(flows, self.looks(hue), self.settings.confidence, self._grey(flows, metrics, hue))

    def _grey(self, flows: pl.DataFrame, metrics: Sequence[Metric], hue: Factor | None) -> list[str]:
        """Return the levels of a hue that a figure of these flows does not tell apart, by the first metric."""
        if hue is None or not metrics:
            return []
        means = flows.group_by(hue.name).agg(pl.col(metrics[0].name).mean()).iter_rows()
        found = {name: float("nan") if mean is None else float(mean) for name, mean in means}
        return unmarked({level.text: found[level.text] for level in hue.levels if level.text in found}, self.yardsticks)

    @functools.cached_property
    def yardsticks(self) -> list[str]:
        """The algorithms that every figure names: the reference of the report, or Cubic."""
        reference = self.settings.reference or "cubic"
        return list(dict.fromkeys((self.label(reference), reference, reference.capitalize())))

    def pooled(self, groups: Sequence[Group]) -> list[Group]:
        """Return groups in which the flows of a `count` are one: those of a point and algorithm that differ in number.

        Flows that follow each other in a run, as in a campaign, count as well.
        """
        alike: dict[tuple[str, ...], list[Group]] = {}
        for group in groups:
            row = group.rows.row(0, named=True)
            flow = str(row["flow"])
            own = str(group.number) if self.results.is_analysis else f"{row['point']} {row['cc']} {row['cc_params']}"
            alike.setdefault((without_number(flow), own), []).append(group)
        return [several[0] if len(several) == 1 else _joined(several) for several in alike.values()]

    def some(self, most: int) -> tuple[list[Group], str]:
        """Return groups of at most `most` panels for a figure each, and a description of those left out."""
        found, left_out = self.panels(self.drawn, most)
        return [group for panel in found for group in panel.groups], left_out

    def group(self, name: str) -> Group | None:
        """Return the group of a name in `report.toml`."""
        return next((group for group in self.groups if group.name == name), None)

    def of_cell(self, cell: Cell) -> str:
        """Return what people call a cell of a publication, by the factors that are given."""
        columns = [column.key for column in self.results.points.columns]
        words = []
        for key, value in cell.items():
            text = of_group(key, as_text(value))
            full = next((own for own in columns if own == key or own.endswith(f".{key}")), key)
            words.append(self.label(text) if key in (ALGORITHM, FLOW) else self.said(full, text))
        return ", ".join(words) or "all flows"

    def look_of(self, row: Mapping[str, Any]) -> Look:
        """Return the look of a flow: that of its algorithm, or without one that of its group."""
        if row["cc"]:
            return self.look_of_algorithm(self.algorithm(row))
        return next((group.look for group in self.groups if group.number == row["group"]), other(0))

    def with_metric(self, group: Group, name: str) -> pl.DataFrame:
        """Return a group's flows with a metric as a column."""
        return with_metric(group.flows, name, self.results)

    def value(self, group: Group, wanted: Metric) -> float:
        """Return a metric of a group."""
        return group_value(self.with_metric(group, wanted.name), wanted)

    def metrics(self, names: Sequence[str]) -> list[Metric]:
        """Return the metrics that some flow has."""
        columns = numeric(self.rows)
        found = [metric(name, columns) for name in names]
        return [one for one in found if any(self.with_metric(g, one.name)[one.name].count() for g in self.groups)]

    @functools.cached_property
    def drawn(self) -> list[Group]:
        """The groups with a flow to draw; of captures with very many flows, the largest."""
        found = [group for group in self.pooled(self.groups) if not group.flows.is_empty()]
        if not self.results.is_analysis or len(found) <= MOST_OF_FILES:
            return found
        largest = sorted(found, key=lambda group: -float(group.flows["received_bytes"].sum()))[:MOST_OF_FILES]
        return [group for group in found if group in largest]

    @functools.cached_property
    def typical(self) -> dict[int, tuple[int, str]]:
        """The run and flow nearest to the median of each group, by the group's number."""
        names = ("goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms", "retransmitted_percent")
        chosen = {}
        for group in self.drawn:
            flows = group.flows
            for name in names:
                flows = with_metric(flows, name, self.results)
            table = flows.select(pl.col(name).cast(pl.Float64).fill_null(float("nan")) for name in names)
            known = table.select(name for name in names if not table[name].is_nan().all())
            row = flows.row(most_typical(known.to_numpy()) if known.width else 0, named=True)
            chosen[group.number] = (int(row["run"]), str(row["flow"]))
        return chosen

    def series(self, run: int, flow: str) -> pl.DataFrame:
        """Return a flow's series in order of time, `t_s` counted from the flow's beginning."""
        series, starts = self._series_of(run)
        part = series[flow,] if (flow,) in series else self.results.table("series").clear()
        return part.with_columns(pl.col("t_s") - starts.get(flow, 0.0))

    @functools.lru_cache(maxsize=8)  # noqa: B019 - a Context lives as long as the command; sections go run by run
    def _series_of(self, run: int) -> tuple[dict[tuple[object, ...], pl.DataFrame], dict[str, float]]:
        """Return the series of a run's flows in order of time, and when these began."""
        series, flows = (self.results.table(name).filter(pl.col("run") == run) for name in ("series", "flows"))
        starts = dict(flows.select("flow", "start_s").iter_rows())
        return series.sort("t_s", maintain_order=True).partition_by("flow", as_dict=True), starts

    @functools.cached_property
    def main_link(self) -> str | None:
        """The main directed link of the study: as set, else the one with the highest utilisation."""
        if not self.results.has("links"):
            return None
        links = self.results.table("links")
        if self.settings.link:
            return self.settings.link if self.settings.link in links["link"].unique() else None
        load = links.group_by("link").agg((pl.col("delivered_bytes").sum() / pl.col("rate_mbps").sum()).alias("load"))
        return str(load.sort("load", "link", descending=[True, False])["link"][0])

    def link_of(self, row: Mapping[str, Any]) -> str | None:
        """Return the bottleneck of a flow: the main link, or else the most utilised link of its path."""
        if not self.results.has("links"):
            return None
        main = self.main_link
        if main is not None and self.network.takes(row, main):
            return main
        links = self.results.table("links").filter(pl.col("run") == row["run"])
        load = links.group_by("link").agg((pl.col("delivered_bytes").sum() / pl.col("rate_mbps").sum()).alias("load"))
        ordered = load.sort("load", "link", descending=[True, False])["link"]
        return next((str(link) for link in ordered if self.network.takes(row, link)), None)

    def link_series(self, run: int, link: str) -> pl.DataFrame:
        """Return a link's rows of a run in order of time."""
        return self.results.table("links").filter((pl.col("run") == run) & (pl.col("link") == link)).sort("t_s")


def _joined(groups: Sequence[Group]) -> Group:
    """Return groups of flows that differ in their number as one."""
    first = groups[0]
    flow = first.factors[FLOW]
    base = without_number(flow)
    return replace(
        first,
        name=first.name.replace(flow, base, 1),
        label=first.label.replace(flow, base, 1),
        factors={**first.factors, FLOW: base},
        levels={**first.levels, FLOW: base},
        rows=pl.concat([group.rows for group in groups]).sort("run", "flow"),
    )


def _in_full(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

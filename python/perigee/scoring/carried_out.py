# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The numbers of a results folder: means and other statistics of flows, and the tables of its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from perigee.groups.factors import FLOW
from perigee.groups.group import factors_of
from perigee.groups.groups import Groups
from perigee.groups.names import without_number
from perigee.scoring.curve import read
from perigee.scoring.quantity import (
    UNKNOWN,
    Cell,
    Found,
    Quantity,
    check_one_kind,
    fits,
    in_words,
    is_factor,
    metric_of,
    of_rows,
)
from perigee.scoring.samples import of_sample
from perigee.statistics.estimates import mean_interval
from perigee.statistics.metrics import Metric, group_spread, group_value, sample, with_metric
from perigee.store.outcomes import has_failed
from perigee.store.points import EXPERIMENT
from perigee.store.results import Results

Tables = Callable[[str, str, frozenset[str]], pl.DataFrame | None]
"""Returns the numbers of a table or figure of the report, by experiment, name and columns; None where it has none."""


class CarriedOut:
    """Finished results, see `Source`.

    Args:
        results: the results of the whole study.
        tables: where the tables of its report come from.
    """

    def __init__(self, results: Results, tables: Tables) -> None:
        self._results = results
        self._tables = tables
        self._groups: dict[str, Groups] = {}
        self._kinds: dict[str, dict[int, Mapping[str, str]]] = {}
        self._flows: dict[tuple[str, str], pl.DataFrame] = {}
        self._unknown: dict[str, None] = {}

    @property
    def unknown(self) -> tuple[str, ...]:
        """Sentences on tables, columns, links and factors that were looked for, and that these results do not have."""
        return tuple(self._unknown)

    def find(self, quantity: Quantity, cell: Cell) -> Found | None:
        """Return a quantity in a cell, see `Source.find`."""
        experiment = str(cell.get(EXPERIMENT, ""))
        if experiment not in (self._results.experiments or ("",)):
            return None
        kinds = self._factors(experiment)
        if quantity.table:
            rows = self._tables(experiment, quantity.table, quantity.columns)
            if rows is None:
                self._note_table(quantity, experiment)
                return None
            return of_rows(rows, quantity, cell, self._named(experiment))
        self._note_factors(cell, experiment)
        if quantity.link:
            return self._of_link(quantity, cell, experiment)
        wanted = metric_of(quantity.metric)
        fitting = [number for number, factors in kinds.items() if fits(cell, factors)]
        flows = self._with(experiment, wanted)
        flows = flows.filter(pl.col("group").is_in(fitting) & pl.col(wanted.name).is_not_null())
        if flows.is_empty():
            return None
        of_kind: dict[str, list[int]] = {}
        for number in flows["group"].unique(maintain_order=True):
            own = kinds[number]
            of_kind.setdefault(in_words({**own, FLOW: without_number(own[FLOW])}), []).append(number)
        check_one_kind(len(of_kind), quantity, cell, of_kind)
        if quantity.across == "sum" and len(of_kind) > 1:
            parts = [flows.filter(pl.col("group").is_in(numbers)) for numbers in of_kind.values()]
            values = [_value(part, wanted, quantity) for part in parts]
            return Found(sum(values), flows=min(part.height for part in parts))
        return self._found(flows, wanted, quantity, experiment)

    def _of_link(self, quantity: Quantity, cell: Cell, experiment: str) -> Found | None:
        """Return what is read off a link's rows over time, of each time the mean over the runs of a cell."""
        groups, kinds = self._of(experiment), self._factors(experiment)
        fitting = [number for number, factors in kinds.items() if fits(cell, factors)]
        names = {in_words({**kinds[one], FLOW: without_number(kinds[one][FLOW])}) for one in fitting}
        check_one_kind(len(names), quantity, cell, names)
        runs = groups.rows.filter(pl.col("group").is_in(fitting))["run"].unique().to_list()
        if not groups.results.has("links") or not runs:
            return None
        every = groups.results.table("links").filter(pl.col("run").is_in(runs))
        rows = every.filter(pl.col("link") == quantity.link)
        if rows.is_empty():
            there = ", ".join(every["link"].unique().sort())
            self._note(f'`link = "{quantity.link}"`: no link of that name; there are {there}', experiment)
        curve = rows.group_by("t_s").agg(pl.col(quantity.column).mean())
        if curve.is_empty():
            return None
        value = read(curve, quantity.column, quantity.at, quantity.over_at, quantity.statistic, quantity.below)
        return Found(value, flows=len(runs))

    def _note_table(self, quantity: Quantity, experiment: str) -> None:
        """Say whether the table is missing, or columns of it."""
        named = f'`table = "{quantity.table}"`'
        rows = self._tables(experiment, quantity.table, frozenset())
        if rows is None:
            self._note(f"{named}: the report has no table or figure of that name", experiment)
            return
        missing = sorted(quantity.columns - set(rows.columns))
        self._note(f"{named} has no column `{'`, `'.join(missing)}`; it has {', '.join(rows.columns)}", experiment)

    def _note_factors(self, cell: Cell, experiment: str) -> None:
        """Say which keys of a cell do not vary; one with the value "" is one that does not vary for it."""
        groups = self._of(experiment)
        varied = [column.key for column in groups.results.points.columns]
        varied += [key for factors in self._factors(experiment).values() for key in factors]
        for key, value in cell.items():
            if value != "" and not is_factor(key, varied):
                self._note(f"`{key}` does not vary; factors are {', '.join(dict.fromkeys(varied))}", experiment)

    def _note(self, text: str, experiment: str) -> None:
        self._unknown[f"{text} (experiment {experiment})" if experiment else text] = None

    def has_none(self, metric: str, cell: Cell) -> bool | None:
        """Return whether flows of a cell have no value of a metric, see `Source.has_none`."""
        experiment = str(cell.get(EXPERIMENT, ""))
        if experiment not in (self._results.experiments or ("",)):
            return None
        wanted = metric_of(metric)
        flows = self._with(experiment, wanted)
        fitting = [number for number, factors in self._factors(experiment).items() if fits(cell, factors)]
        own = flows.filter(pl.col("group").is_in(fitting))
        if own.is_empty() or flows[wanted.name].is_null().all():
            return None
        return bool(own[wanted.name].is_null().all())

    def _found(self, flows: pl.DataFrame, wanted: Metric, quantity: Quantity, experiment: str) -> Found:
        value = _value(flows, wanted, quantity)
        if quantity.statistic != "mean":
            return Found(value, flows=flows.height)
        _, half = mean_interval(sample(flows, wanted.name), self._of(experiment).settings.confidence)
        spread = group_spread(flows, wanted)
        return Found(
            value, float("nan") if wanted.of_means else half, float("nan") if spread is None else spread, flows.height
        )

    def _of(self, experiment: str) -> Groups:
        if experiment not in self._groups:
            part = self._results.of_experiment(experiment) if experiment else self._results
            self._groups[experiment] = Groups(part)
        return self._groups[experiment]

    def _factors(self, experiment: str) -> dict[int, Mapping[str, str]]:
        """Return the factors of each group of flows, by its number."""
        if experiment not in self._kinds:
            rows = self._of(experiment).rows.unique("group", keep="first", maintain_order=True)
            self._kinds[experiment] = {row["group"]: factors_of(row) for row in rows.iter_rows(named=True)}
        return self._kinds[experiment]

    def _named(self, experiment: str) -> dict[str, Mapping[str, str]]:
        """Return the factors of the groups of bulk flows by their names, which tables have."""
        return {group.name: group.factors for group in self._of(experiment).all_groups}

    def _with(self, experiment: str, wanted: Metric) -> pl.DataFrame:
        """Return the flows that did not fail with a metric as a column."""
        key = experiment, wanted.name
        if key not in self._flows:
            groups = self._of(experiment)
            flows = with_metric(groups.rows.filter(~has_failed()), wanted.name, groups.results)
            self._flows[key] = flows
        return self._flows[key]


def _value(flows: pl.DataFrame, wanted: Metric, quantity: Quantity) -> float:
    """Return a statistic of flows that all have the metric."""
    if quantity.statistic not in ("mean", "sd", "sd_percent"):
        return of_sample(sample(flows, wanted.name), quantity.statistic, quantity.below)
    value = group_value(flows, wanted)
    if quantity.statistic == "mean":
        return value
    spread = group_spread(flows, wanted)
    scale = 1.0 if quantity.statistic == "sd" else 100 / value if value else UNKNOWN
    return UNKNOWN if spread is None else scale * spread

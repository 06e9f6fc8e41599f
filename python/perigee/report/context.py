# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What every section works on: the flows in their groups, named, ordered and with a look of their own."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from perigee.errors import InputError
from perigee.report.charts.sample import Sample
from perigee.report.factors import (
    ALGORITHM,
    FLOW,
    Factor,
    Level,
    factor,
    in_words,
    independent,
    of_design,
    of_group,
    phrase,
)
from perigee.report.kinds import SECTION_OF
from perigee.report.names import distinct
from perigee.report.network import Meeting, Network
from perigee.report.panels import Panel, few, hue_of, panels
from perigee.report.settings import Published, ReportSettings, published, report_settings
from perigee.report.style import Look, look
from perigee.statistics.estimates import most_typical
from perigee.statistics.metrics import Metric, group_value, metric, numeric, with_metric
from perigee.statistics.pairing import is_one_sample
from perigee.store.origins import ORIGINS
from perigee.store.outcomes import STOPPED, has_failed
from perigee.store.points import Value, as_text, named, own_keys, variants_of
from perigee.store.results import Results
from perigee.store.small_flows import is_small

MOST_OF_FILES = 12
"""Flows of captures that figures show: those that carried most."""


@dataclass(frozen=True)
class Group:
    """Flows that are shown together, one per round: those of one name at one point of a study, or one flow of a file.

    Attributes:
        number: which it is; unique in a `Context`.
        name: what `report.toml` and the data files call it; no other group that is shown has the same.
        label: what people call it.
        cc: its congestion control, empty without TCP.
        factors: what varies between groups, and its value here; `cc` and `flow` are among them.
        rows: its rows of `flows`.
        look: how it is drawn: as all groups of its algorithm, where several algorithms are shown.
        levels: of each factor in which the groups that are shown differ, the text of its level here.
    """

    number: int
    name: str
    label: str
    cc: str
    factors: Mapping[str, str]
    rows: pl.DataFrame
    look: Look
    levels: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def flows(self) -> pl.DataFrame:
        """Those of its flows that means are taken over: all but the failed ones."""
        return self.rows.filter(~has_failed())

    @property
    def legend(self) -> str:
        """The label for a legend: matplotlib leaves out what begins with an underscore."""
        return f" {self.label}" if self.label.startswith("_") else self.label

    @property
    def size(self) -> str:
        """How many flows means are taken over, in words."""
        if self.flows.height == self.rows.height:
            return str(self.rows.height)
        return f"{self.flows.height} of {self.rows.height}"


class Context:
    """A study's results, ready for the report.

    Args:
        results: the finished results.
        confidence: level of the confidence intervals; none: that of `report.toml`.

    Attributes:
        results: the same.
        settings: what to show.
        published: what was published, if anything.
        network: the paths of the flows.
        found: how the numbers of the results came about, in a word: see `ORIGINS`.
    """

    def __init__(self, results: Results, confidence: float | None = None) -> None:
        self.results = results
        self.found = ORIGINS[results.manifest["engine"]].numbers
        settings = report_settings(results).of(results.experiment)
        self.settings: ReportSettings = settings if confidence is None else replace(settings, confidence=confidence)
        self.published: Published | None = published(results)
        self.network = Network(results)

    @functools.cached_property
    def rows(self) -> pl.DataFrame:
        """All rows of `flows`, with `group`, the number of the group of each."""
        rows = _with_variants(self.results.table("flows"))
        if self.results.is_analysis:
            # A capture that shows how a connection ended has its figures all the same, and each is a group of its own.
            rows = rows.with_columns(outcome=pl.when(has_failed()).then(pl.lit(STOPPED)).otherwise("outcome"))
        identity = ["run", "flow"] if self.results.is_analysis else ["point", "flow", "cc"]
        numbers = rows.select(identity).unique(maintain_order=True).with_row_index("group")
        return rows.join(numbers, on=identity, how="left", maintain_order="left")

    @functools.cached_property
    def is_one_sample(self) -> bool:
        """Whether all rounds gave the same results, as `pairing.is_one_sample` says."""
        return is_one_sample(self.rows)

    @functools.cached_property
    def varied(self) -> dict[str, list[str]]:
        """The keys that vary between the points of a study, each with its values, in the order of the study."""
        if self.results.is_analysis:
            return {}
        points = [named(json.loads(point)) for point in self.rows["point"].unique(maintain_order=True) if point]
        keys = dict.fromkeys(key for point in points for key in point)
        values = {key: [_in_full(point[key]) for point in points if key in point] for key in keys}
        return {key: list(dict.fromkeys(seen)) for key, seen in values.items()}

    @functools.cached_property
    def bulk(self) -> pl.DataFrame:
        """The rows of bulk transfers, else of all flows; small connections of captures are not among them.

        Flows of a kind that has no section to itself count as bulk transfers.
        """
        bulk = self._transfers
        if self.results.is_analysis:
            bulk = bulk.filter(~is_small())
        return self.rows if bulk.is_empty() else bulk

    @property
    def has_bulk(self) -> bool:
        """Whether there are bulk transfers."""
        return not self._transfers.is_empty()

    @property
    def _transfers(self) -> pl.DataFrame:
        return self.rows.filter(~pl.col("kind").is_in(list(SECTION_OF)))

    @functools.cached_property
    def meetings(self) -> list[Meeting]:
        """Which bulk flows shared a link with each other, and when."""
        return self.network.meetings(self.bulk.filter(~has_failed()), self.interval_s)

    @functools.cached_property
    def interval_s(self) -> float:
        """The interval of the series; 0 without one."""
        if not self.results.has("series"):
            return 0.0
        steps = self.results.table("series").select(pl.col("t_s").diff().over("run", "flow").median())
        return float(steps.item() or 0.0)

    @functools.cached_property
    def groups(self) -> list[Group]:
        """The groups, those the settings name first: of bulk flows that shared no link if there are any."""
        return self._grouped(self.bulk if self._alone.is_empty() else self._alone)

    @functools.cached_property
    def all_groups(self) -> list[Group]:
        """`groups`, and those of bulk flows that shared a link."""
        numbers = [group.number for group in self.groups]
        others = self.bulk.filter(~pl.col("group").is_in(numbers))
        return self.groups + (self._grouped(others, in_full=True) if not others.is_empty() else [])

    def groups_of(self, *kinds: str) -> list[Group]:
        """Return groups of all flows of these kinds (`request`, `udp`, `ping`), in order."""
        wanted = self.rows.filter(pl.col("kind").is_in(kinds))
        return self._grouped(wanted) if not wanted.is_empty() else []

    def groups_named(self, names: Sequence[str]) -> list[Group]:
        """Return groups of the flows of these names, in order; a name stands for all of a `count` too.

        Raises:
            InputError: there is no such flow.
        """
        base = self.rows["flow"].str.replace(r"\.\d+$", "")
        there = [*base.unique(maintain_order=True), *self.rows["flow"].unique(maintain_order=True)]
        if unknown := [name for name in names if name not in there]:
            listed = ", ".join(dict.fromkeys(there))
            raise InputError(f"flows = {unknown[0]}: there is no such flow in these results; there are {listed}")
        return self._grouped(self.rows.filter(base.is_in(names) | pl.col("flow").is_in(names)))

    @functools.cached_property
    def _alone(self) -> pl.DataFrame:
        together = [(meeting.run, flow) for meeting in self.meetings for flow in meeting.flows]
        if not together:
            return self.bulk
        met = pl.DataFrame(together, schema={"run": self.bulk.schema["run"], "flow": pl.String}, orient="row")
        numbers = self.bulk.join(met, on=["run", "flow"], how="semi")["group"].unique()
        return self.bulk.filter(~pl.col("group").is_in(numbers.implode()))

    def _grouped(self, rows: pl.DataFrame, *, in_full: bool = False) -> list[Group]:
        parts = rows.partition_by("group", maintain_order=True)
        rows_of = [part.row(0, named=True) for part in parts]
        names = _names(rows_of, in_full=in_full)
        labels = dict(zip(names, self._labels(rows_of, names, in_full=in_full), strict=True))
        order = {name: place for place, name in enumerate(self.settings.order)}
        ordered = sorted(zip(names, parts, strict=True), key=lambda one: order.get(one[0], len(order)))
        plain = [
            Group(
                number=int(part["group"][0]),
                name=name,
                label=labels[name],
                cc=str(part["cc"][0]),
                factors=_factors(part.row(0, named=True)),
                rows=part.sort("run", "flow"),
                look=look(0),
            )
            for name, part in ordered
        ]
        return self._with_looks(plain)

    def _labels(self, rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, in_full: bool) -> list[str]:
        """Return what people call groups: as `labels` has their names, else in the words of what tells them apart."""
        has_flow, has_algorithm = _parts_of_names(rows, in_full=in_full)
        labels = []
        for row, name in zip(rows, names, strict=True):
            words = [self.label(str(row["flow"]))] if has_flow or not row["cc"] else []
            varied = [
                self.label(as_text(value)) if key == FILE else self.said(key, of_group(key, as_text(value)))
                for key, value in _varied(row)
            ]
            if row["cc"] and (has_algorithm or not varied):
                words.append(self.algorithm(row))
            is_plain = name in self.settings.labels or name == row["cc"]
            labels.append(self.label(name) if is_plain else ", ".join([*words, *varied]))
        return distinct(labels, lambda label, copy: f"{label} ({copy})")

    def _with_looks(self, groups: Sequence[Group]) -> list[Group]:
        levelled = [replace(group, levels=self._levels(group)) for group in groups]
        hue = hue_of(self.factors(levelled))
        made = []
        for place, group in enumerate(levelled):
            own = group.levels.get(hue.key, "") if hue else ""
            if self.results.is_analysis:
                number = place
            elif hue is None or hue.is_algorithm:
                number = self.place_of(own or group.levels[ALGORITHM])
            else:
                number = [level.text for level in hue.levels].index(own) if own else len(hue.levels)
            made.append(replace(group, look=look(number)))
        return made

    def _levels(self, group: Group) -> dict[str, str]:
        """Return the text of the level of each factor that a group may have."""
        row = group.rows.row(0, named=True)
        own = {FLOW: group.label if self.results.is_analysis else str(row["flow"]), ALGORITHM: self.algorithm(row)}
        if self.results.is_analysis:
            return own
        texts = self._texts.get(row["run"], {})
        return own | {key: self.label(of_group(key, texts[key])) for key, _ in _varied(row) if key in texts}

    @functools.cached_property
    def _texts(self) -> dict[int, dict[str, str]]:
        """By run and key: the value that varies, written alike where it is the same."""
        found: dict[int, dict[str, str]] = {}
        table = self.results.points.table
        for column in self.results.points.columns:
            text_of = dict(zip(column.values, column.texts, strict=True))
            for run, value in table.select("run", column.name).iter_rows():
                if value is not None:
                    found.setdefault(run, {})[column.key] = text_of[value]
        return found

    def factors(self, groups: Sequence[Group]) -> list[Factor]:
        """Return in what groups differ: numbers with their units, each factor once; flows of files differ as such."""
        return independent(self._several(groups), [group.levels for group in groups])

    def design(self, groups: Sequence[Group]) -> list[Factor]:
        """Return the numbers that fill ranges without being a grid; see `of_design`."""
        return of_design(self._several(groups), [group.levels for group in groups])

    def _several(self, groups: Sequence[Group]) -> list[Factor]:
        """Return the factors of which groups have several levels."""
        if len(groups) < 2:
            return []
        made = [
            factor(key, key, [Level(text) for text in dict.fromkeys(group.levels[key] for group in groups)])
            for key in ((FLOW,) if self.results.is_analysis else (FLOW, ALGORITHM))
        ]
        if not self.results.is_analysis:
            for column in self.results.points.columns:
                number_of = dict(zip(column.texts, column.values, strict=True)) if column.is_number else {}
                here = dict.fromkeys(group.levels[column.key] for group in groups if column.key in group.levels)
                there = [self.label(of_group(column.key, text)) for text in column.texts]
                levels = [Level(text, _number(number_of.get(text))) for text in dict.fromkeys(there) if text in here]
                if len(levels) < 2:
                    continue
                one = factor(column.name, column.key, levels, column.unit)
                plain = [of_group(column.key, text) for text in column.texts]
                words = {self.label(text): self.phrase(column.key, text) for text in plain}
                one = replace(one, phrases=words)
                if column.key in self._of_variants:
                    # A variant's name says all.
                    one = replace(one, word="", sets_cc=column.key in self._of_cc)
                made.append(one)
        return [self._in_order(one) if one.is_algorithm else one for one in made if len(one.levels) > 1]

    def _in_order(self, one: Factor) -> Factor:
        return replace(one, levels=tuple(sorted(one.levels, key=lambda level: self.place_of(level.text))))

    def panels(self, groups: Sequence[Group], most: int) -> tuple[list[Panel], str]:
        """Return the panels of a figure of groups, at most so many, and what was left out, in words."""
        factors = self.factors(groups)
        hue = hue_of(factors)
        return few(panels(groups, factors, hue), [one for one in factors if one is not hue], most)

    def sample(self, groups: Sequence[Group], metrics: Sequence[Metric], hue: Factor | None) -> Sample:
        """Return the flows of groups with their factors and metrics as columns, and the look of each level of a hue."""
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
        return Sample(flows, self.looks(hue), self.settings.confidence)

    def looks(self, hue: Factor | None) -> dict[str, Look]:
        """Return how each level of a hue is drawn: an algorithm the same in every figure."""
        levels = [level.text for level in hue.levels] if hue else []
        is_algorithm = hue is not None and hue.is_algorithm
        return {text: look(self.place_of(text) if is_algorithm else place) for place, text in enumerate(levels)}

    def some(self, most: int) -> tuple[list[Group], str]:
        """Return groups for figures of their own: those of at most so many panels, and what was left out, in words."""
        found, left_out = self.panels(self.drawn, most)
        return [group for panel in found for group in panel.groups], left_out

    def algorithm(self, row: Mapping[str, Any]) -> str:
        """Return what the congestion control of a flow is called, with its parameters where these vary too."""
        cc = str(row["cc"])
        name = self.label(cc)
        if len(self._parameters.get(cc, ())) < 2:
            return name
        set_values = json.loads(row["cc_params"] or "{}")
        return ", ".join([name, *(f"{key} = {as_text(value)}" for key, value in set_values.items())])

    @functools.cached_property
    def _parameters(self) -> dict[str, set[str]]:
        """The sets of parameters that each congestion control has."""
        pairs = self.rows.select("cc", "cc_params").unique().iter_rows()
        found: dict[str, set[str]] = {}
        for cc, parameters in pairs:
            found.setdefault(cc, set()).add(parameters)
        return found

    @functools.cached_property
    def _algorithms(self) -> dict[str, int]:
        """The place of each algorithm of these results: those that the settings name first, then as they come."""
        rows = self.rows.select("cc", "cc_params").unique(maintain_order=True)
        names = [self.algorithm(row) for row in rows.iter_rows(named=True) if row["cc"]]
        first = [self.label(name) for name in self.settings.order]
        ordered = [name for name in first if name in names] + [name for name in names if name not in first]
        variants = (
            text for column in self.results.points.columns if column.key in self._of_cc for text in column.texts
        )
        ordered += [self.label(text) for text in variants]
        return {name: place for place, name in enumerate(dict.fromkeys(ordered))}

    @functools.cached_property
    def _of_variants(self) -> Mapping[str, frozenset[str]]:
        """The keys that have variants, and the key paths that these set."""
        found: dict[str, frozenset[str]] = {}
        for point in self.rows["point"].drop_nulls().unique():
            for key, (_, paths) in variants_of(point).items():
                found[key] = found.get(key, frozenset()) | paths
        return found

    @functools.cached_property
    def _of_cc(self) -> frozenset[str]:
        """The keys whose variants set the congestion control of some flow."""
        return frozenset(key for key, paths in self._of_variants.items() if any(path.endswith(".cc") for path in paths))

    def place_of(self, algorithm: str) -> int:
        """Return the number of the look of an algorithm, the same in every figure."""
        return self._algorithms.get(algorithm, len(self._algorithms))

    def group(self, name: str) -> Group | None:
        """Return the group of that name, as `report.toml` and `published.toml` have it."""
        return next((group for group in self.groups if group.name == name), None)

    def label(self, name: str) -> str:
        """Return what people call a group, an algorithm or a node."""
        return self.settings.labels.get(name, name)

    def said(self, key: str, text: str) -> str:
        """Return a value of what varies in words: as `labels` has `KEY = VALUE`, else as its key suggests."""
        label = self.label(text)
        return self.phrase(key, text) or f"{in_words(key)} = {label}"

    def phrase(self, key: str, text: str) -> str:
        """Return the words for a value where there are better ones than key and value; else nothing."""
        return self.settings.labels.get(f"{key} = {text}") or phrase(key, self.label(text))

    def look_of(self, row: Mapping[str, Any]) -> Look:
        """Return how a flow is drawn: as every flow of its algorithm; without one, as its group."""
        if row["cc"]:
            return look(self.place_of(self.algorithm(row)))
        return next((group.look for group in self.groups if group.number == row["group"]), look(0))

    def with_metric(self, group: Group, name: str) -> pl.DataFrame:
        """Return a group's flows with a metric as a column."""
        return with_metric(group.flows, name, self.results)

    def value(self, group: Group, wanted: Metric) -> float:
        """Return a metric of a group."""
        return group_value(self.with_metric(group, wanted.name), wanted)

    def metrics(self, names: Sequence[str]) -> list[Metric]:
        """Return those of the metrics that some flow has."""
        columns = numeric(self.rows)
        found = [metric(name, columns) for name in names]
        return [one for one in found if any(self.with_metric(g, one.name)[one.name].count() for g in self.groups)]

    @functools.cached_property
    def drawn(self) -> list[Group]:
        """The groups that have a flow to draw; of captures with very many flows, those that carried most."""
        found = [group for group in self.groups if not group.flows.is_empty()]
        if not self.results.is_analysis or len(found) <= MOST_OF_FILES:
            return found
        largest = sorted(found, key=lambda group: -float(group.flows["received_bytes"].sum()))[:MOST_OF_FILES]
        return [group for group in found if group in largest]

    @functools.cached_property
    def typical(self) -> dict[int, tuple[int, str]]:
        """The run and flow of each group that is nearest to the group's median, by the group's number."""
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
        part = self.results.table("series").filter((pl.col("run") == run) & (pl.col("flow") == flow)).sort("t_s")
        start = self.results.table("flows").filter((pl.col("run") == run) & (pl.col("flow") == flow))["start_s"]
        return part.with_columns(pl.col("t_s") - (start[0] if len(start) else 0.0))

    @functools.cached_property
    def main_link(self) -> str | None:
        """The directed link the study turns on: as set, else the one that carried most of what it could."""
        if not self.results.has("links"):
            return None
        links = self.results.table("links")
        if self.settings.link:
            return self.settings.link if self.settings.link in links["link"].unique() else None
        load = links.group_by("link").agg((pl.col("delivered_bytes").sum() / pl.col("rate_mbps").sum()).alias("load"))
        return str(load.sort("load", "link", descending=[True, False])["link"][0])

    def link_of(self, row: Mapping[str, Any]) -> str | None:
        """Return the directed link that a flow's data fills most: the main one, or else of those it takes."""
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
        """Return a link's rows of a run in order of time, with the delivered rate in Mbit/s."""
        part = self.results.table("links").filter((pl.col("run") == run) & (pl.col("link") == link)).sort("t_s")
        step = pl.col("t_s").diff().fill_null(pl.col("t_s").first())
        return part.with_columns((pl.col("delivered_bytes") * 8e-6 / step).alias("delivered_mbps"))


FILE = "file"
"""Where results were measured from several files, this is what varies."""


def _factors(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what a flow's group differs in from others: what varied, and its flow and congestion control."""
    own = {"flow": str(row["flow"]), "cc": f"{row['cc']} {row['cc_params']}"}
    return own | {key: as_text(value) for key, value in _varied(row)}


def _varied(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return what the point of a flow varies beside the flow's own congestion control."""
    own = (*own_keys(row["flow"]), *_own_variants(row["point"], row["flow"]))
    point: dict[str, Any] = json.loads(row["point"]) if row["point"] else {}
    return ((key, value) for key, value in named(point).items() if key not in own)


def _own_variants(point: str, flow: str) -> dict[str, str]:
    """Return the variants of a point that set a flow's own congestion control: by the key that varies, the name."""
    own = own_keys(flow)
    return {key: name for key, (name, paths) in variants_of(point).items() if not paths.isdisjoint(own)}


def _with_variants(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `flows` where the name of a variant of a flow's own congestion control stands for it."""
    if "point" not in rows.columns:
        return rows
    pairs = rows.select("point", "flow").unique()
    names = [", ".join(_own_variants(point, flow).values()) or None for point, flow in pairs.iter_rows()]
    if not any(names):
        return rows
    known = pairs.with_columns(variant=pl.Series(names, dtype=pl.String))
    rows = rows.join(known, on=["point", "flow"], how="left", maintain_order="left")
    has = pl.col("variant").is_not_null()
    return rows.with_columns(
        cc=pl.coalesce("variant", "cc"), cc_params=pl.when(has).then(pl.lit("{}")).otherwise("cc_params")
    ).drop("variant")


def _names(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> list[str]:
    """Name groups, of each of which a row of `flows` is given: by the algorithm where that tells them apart.

    Otherwise (or `in_full`) by what varies too; groups that have the same words all the same are numbered.
    """
    algorithms = [str(row["cc"]) for row in rows]
    if not in_full and all(algorithms) and len(set(algorithms)) == len(rows):
        return algorithms
    has_flow, has_algorithm = _parts_of_names(rows, in_full=in_full)
    names: list[str] = []
    for row in rows:
        varied = [
            as_text(value) if key == FILE else f"{in_words(key)} = {as_text(value)}" for key, value in _varied(row)
        ]
        words = [str(row["flow"])] if has_flow or not row["cc"] else []
        if row["cc"] and (has_algorithm or not varied):
            set_values = {} if row["cc_params"] in ("", "{}") else json.loads(row["cc_params"])
            words += [str(row["cc"]), *(f"{key} = {as_text(value)}" for key, value in set_values.items())]
        names.append(", ".join([*words, *varied]))
    return distinct(names, lambda name, copy: f"{name} ({copy})")


def _parts_of_names(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> tuple[bool, bool]:
    """Return whether groups are told apart by their flows, and whether by their algorithms."""
    several = {(row["cc"], row["cc_params"]) for row in rows}
    return in_full or len({row["flow"] for row in rows}) > 1, in_full or len(several) > 1 or len(rows) == 1


def _in_full(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Value | None) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The flows of results in their groups: named, ordered, told apart by what varies, and with a look of their own."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import polars as pl

from perigee.errors import InputError
from perigee.groups.factors import (
    ALGORITHM,
    FLOW,
    Factor,
    Level,
    factor,
    in_short,
    independent,
    lowered,
    of_design,
    of_group,
    phrase,
)
from perigee.groups.group import FILE, Group, factors_of, names_of, parts_of_names, varied_of, with_variants
from perigee.groups.kinds import SECTION_OF
from perigee.groups.looks import Look, look, name_of, number_of, other, table
from perigee.groups.names import distinct, link_in_words
from perigee.groups.network import Meeting, Network
from perigee.groups.panels import hue_of
from perigee.groups.settings import ReportSettings, report_settings
from perigee.store.outcomes import STOPPED, has_failed
from perigee.store.points import PointColumn, Value, as_text, controls_of, variants_of
from perigee.store.results import Results
from perigee.store.small_flows import is_small


class Groups:
    """The groups of a study's results, or of what was measured from files.

    Args:
        results: the finished results.
        confidence: level of the confidence intervals; none: that of `report.toml`.
        labels: labels that replace those of `report.toml`.
        reference: group or algorithm that the others are compared with; none: that of `report.toml`.

    Attributes:
        results: the same.
        settings: what to show, and how to call it.
        network: the paths of the flows.
    """

    def __init__(
        self,
        results: Results,
        confidence: float | None = None,
        labels: Mapping[str, str] = MappingProxyType({}),
        reference: str | None = None,
    ) -> None:
        self.results = results
        settings = report_settings(results).of(results.experiment)
        settings = replace(settings, labels={**settings.labels, **labels})
        settings = settings if confidence is None else replace(settings, confidence=confidence)
        self.settings: ReportSettings = settings if reference is None else replace(settings, reference=reference)
        self.network = Network(results)

    @functools.cached_property
    def rows(self) -> pl.DataFrame:
        """All rows of `flows`, with `group`, the number of the group of each."""
        rows = with_variants(self.results.table("flows"))
        if self.results.is_analysis:
            # A capture that shows how a connection ended has its figures all the same, and each is a group of its own.
            rows = rows.with_columns(outcome=pl.when(has_failed()).then(pl.lit(STOPPED)).otherwise("outcome"))
        identity = ["run", "flow"] if self.results.is_analysis else ["point", "flow", "cc"]
        numbers = rows.select(identity).unique(maintain_order=True).with_row_index("group")
        return rows.join(numbers, on=identity, how="left", maintain_order="left")

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

    def factors(self, groups: Sequence[Group]) -> list[Factor]:
        """Return in what groups differ: numbers with their units, each factor once; flows of files differ as such."""
        return independent(self._several(groups), [group.levels for group in groups])

    def design(self, groups: Sequence[Group]) -> list[Factor]:
        """Return the numbers that fill ranges without being a grid; see `of_design`."""
        return of_design(self._several(groups), [group.levels for group in groups])

    def algorithm(self, row: Mapping[str, Any]) -> str:
        """Return what the congestion control of a flow is called, with its parameters where these vary too."""
        cc = str(row["cc"])
        name = self.label(cc)
        if len(self._parameters.get(cc, ())) < 2:
            return name
        set_values = json.loads(row["cc_params"] or "{}")
        return ", ".join([name, *(f"{key} = {as_text(value)}" for key, value in set_values.items())])

    def look_of_algorithm(self, algorithm: str) -> Look:
        """Return how an algorithm is drawn, here as everywhere; its variants differ in dash and marker."""
        return look(*self._number_and_turn(algorithm))

    def number_of_look(self, algorithm: str) -> int:
        """Return the number of the look of an algorithm or of a variant: its row in the table of looks."""
        return self._number_and_turn(algorithm)[0]

    def label(self, name: str) -> str:
        """Return what people call a group, an algorithm or a node."""
        return self.settings.labels.get(name) or self._names.get(name, name)

    def link_said(self, link: str) -> str:
        """Return what people call a directed link."""
        return self.settings.labels.get(link) or link_in_words(link)

    def said(self, key: str, text: str) -> str:
        """Return a value of what varies in words: as `labels` has `KEY = VALUE`, else as its key suggests."""
        return self.phrase(key, text) or f"{self.short(key)} {self.label(text)}"

    def short(self, key: str) -> str:
        """Return what varies in as few words as tell it apart from all else that varies."""
        title = self.title(key)
        return lowered(title) if title else in_short(key, [column.key for column in self.results.points.columns])

    def title(self, key: str) -> str:
        """Return the label of a key that varies, by its whole path or its last part; empty without one."""
        return self.settings.labels.get(key) or self.settings.labels.get(key.rpartition(".")[2], "")

    def phrase(self, key: str, text: str) -> str:
        """Return the words for a value where there are better ones than key and value; else nothing."""
        return self.settings.labels.get(f"{key} = {text}") or phrase(key, self.label(text))

    def looks(self, hue: Factor | None) -> dict[str, Look]:
        """Return how each level of a hue is drawn: an algorithm as everywhere; without a hue that of all flows."""
        if hue is None:
            return {"": self.look_of_algorithm(next(iter(self._places))) if len(self._places) == 1 else other(0)}
        texts = [level.text for level in hue.levels]
        if hue.is_algorithm:
            return {text: self.look_of_algorithm(text) for text in texts}
        return {text: other(place) for place, text in enumerate(texts)}

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
        names = names_of(rows_of, in_full=in_full)
        labels = dict(zip(names, self._labels(rows_of, names, in_full=in_full), strict=True))
        order = {name: place for place, name in enumerate(self.settings.order)}
        ordered = sorted(zip(names, parts, strict=True), key=lambda one: order.get(one[0], len(order)))
        plain = [
            Group(
                number=int(part["group"][0]),
                name=name,
                label=labels[name],
                cc=str(part["cc"][0]),
                factors=factors_of(part.row(0, named=True)),
                rows=part.sort("run", "flow"),
                look=other(0),
            )
            for name, part in ordered
        ]
        return self._with_looks(plain)

    def _labels(self, rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, in_full: bool) -> list[str]:
        """Return what people call groups: as `labels` has their names, else in the words of what tells them apart."""
        has_flow, has_algorithm = parts_of_names(rows, in_full=in_full)
        labels = []
        for row, name in zip(rows, names, strict=True):
            words = [self.label(str(row["flow"]))] if has_flow or not row["cc"] else []
            varied = [
                self.label(as_text(value)) if key == FILE else self.said(key, of_group(key, as_text(value)))
                for key, value in varied_of(row)
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
                drawn = other(place)
            elif hue is None or hue.is_algorithm:
                algorithm = own or group.levels[ALGORITHM]
                drawn = self.look_of_algorithm(algorithm) if algorithm else other(place)
            else:
                drawn = other([level.text for level in hue.levels].index(own) if own else len(hue.levels))
            made.append(replace(group, look=drawn))
        return made

    def _levels(self, group: Group) -> dict[str, str]:
        """Return the text of the level of each factor that a group may have."""
        row = group.rows.row(0, named=True)
        own = {FLOW: group.label if self.results.is_analysis else str(row["flow"]), ALGORITHM: self.algorithm(row)}
        if self.results.is_analysis:
            return own
        texts = self._texts.get(row["run"], {})
        return own | {key: self.label(of_group(key, texts[key])) for key, _ in varied_of(row) if key in texts}

    @functools.cached_property
    def _texts(self) -> dict[int, dict[str, str]]:
        """The value that varies, by run and key, written alike where it is the same."""
        found: dict[int, dict[str, str]] = {}
        table = self.results.points.table
        for column in self.results.points.columns:
            text_of = dict(zip(column.values, column.texts, strict=True))
            for run, value in table.select("run", column.name).iter_rows():
                if value is not None:
                    found.setdefault(run, {})[column.key] = text_of[value]
        return found

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
                here = {group.levels[column.key] for group in groups if column.key in group.levels}
                made += [self.factor_of(column, here)] if len(here) > 1 else []
        return [self._in_order(one) if one.is_algorithm else one for one in made if len(one.levels) > 1]

    def factor_of(self, column: PointColumn, here: Collection[str] | None = None) -> Factor:
        """Return a column of what varies as a factor, with the words of the settings.

        Args:
            column: the column.
            here: texts of the levels that it has; None: all.
        """
        numbers = dict(zip(column.texts, column.values, strict=True)) if column.is_number else {}
        there = dict.fromkeys(self.label(of_group(column.key, text)) for text in column.texts)
        levels = [Level(text, _number(numbers.get(text))) for text in there if here is None or text in here]
        one = factor(column.name, column.key, levels, column.unit)
        plain = [of_group(column.key, text) for text in column.texts]
        words = {self.label(text): self.phrase(column.key, text) for text in plain}
        title = self.title(column.key) or one.title
        one = replace(one, phrases=words, title=title, word=one.word and self.short(column.key))
        if column.key in self._of_variants:
            # A variant's name says all.
            one = replace(one, word="", sets_cc=column.key in self._of_cc)
        return one

    def _in_order(self, one: Factor) -> Factor:
        last = len(self._places)
        return replace(one, levels=tuple(sorted(one.levels, key=lambda level: self._places.get(level.text, last))))

    @functools.cached_property
    def _parameters(self) -> dict[str, set[str]]:
        """The sets of parameters that each congestion control has."""
        pairs = self.rows.select("cc", "cc_params").unique().iter_rows()
        found: dict[str, set[str]] = {}
        for cc, parameters in pairs:
            found.setdefault(cc, set()).add(parameters)
        return found

    @functools.cached_property
    def _places(self) -> dict[str, int]:
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
    def _numbers(self) -> dict[str, tuple[int, int]]:
        """The number of the look of each algorithm of these results, and how many of the same one stand before it."""
        rows = self.rows.select("cc", "cc_params", key=self.results.table("flows")["cc"]).unique(maintain_order=True)
        keys = {self.label(cc): cc for cc in self._names}
        for point in self.rows["point"].drop_nulls().unique():
            keys |= {self.label(name): cc for name, cc in controls_of(point).items()}
        keys |= {self.algorithm(row): row["key"] for row in rows.iter_rows(named=True) if row["cc"]}
        found: dict[str, tuple[int, int]] = {}
        count: Counter[int] = Counter()
        for name in dict.fromkeys([*self._places, *keys]):
            # A variant beside others that set a congestion control may set none.
            number = number_of(keys[name]) if name in keys else table().first_other
            found[name] = number, count[number]
            count[number] += name in self._places
        # The parameter of many variants is a setting: dashes and markers do not tell them apart.
        return {
            name: (table().first_other + again, 0) if count[number] > len(table().dashes) else (number, again)
            for name, (number, again) in found.items()
        }

    def _number_and_turn(self, algorithm: str) -> tuple[int, int]:
        return self._numbers.get(algorithm, (number_of(algorithm), 0))

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """The names for people of the algorithms of these results."""
        flows, legs = self.results.table("flows"), self.results.legs("flows")
        keys = [*flows["cc"].unique(maintain_order=True), *(legs["cc"].unique() if not legs.is_empty() else [])]
        for column in self.results.points.columns:
            if column.key.endswith(".cc"):
                keys += [of_group(column.key, text) for text in column.texts]
        return {key: name_of(key) for key in keys if key in table().numbers}

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


def _number(value: Value | None) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)

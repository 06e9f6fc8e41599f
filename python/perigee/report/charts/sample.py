# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The data of a figure: flows with factors and quantities, and means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from perigee.groups.factors import Factor
from perigee.groups.looks import Look, other
from perigee.report.charts.few import UNMARKED, said
from perigee.statistics.estimates import CONFIDENCE, at_level, mean_interval
from perigee.statistics.metrics import Metric, group_value, sample


@dataclass(frozen=True)
class Sample:
    """Flows to draw.

    Attributes:
        flows: a row per flow: a column of text per factor, under its name, and a column per metric, under its name.
        looks: how each level of the hue is drawn, by its text.
        confidence: level of the intervals of means.
        grey: levels of the hue that are drawn in grey, without a name.
    """

    flows: pl.DataFrame
    looks: Mapping[str, Look]
    confidence: float = CONFIDENCE
    grey: Sequence[str] = ()

    def of(self, flows: pl.DataFrame) -> Sample:
        """Return a sample of other flows with the same looks."""
        return replace(self, flows=flows)

    def look(self, text: str) -> Look:
        """Return the look of a level of the hue, or of everything in a figure without a hue."""
        return UNMARKED if text in self.grey else self.looks.get(text, other(0))

    def name(self, hue: Factor | None, text: str) -> str | None:
        """Return what a level of the hue is called in the figure; None: nothing."""
        entry = hue.in_legend(text) if hue and text not in self.grey else ""
        # matplotlib leaves out what begins with an underscore.
        return f" {entry}" if entry.startswith("_") else entry or None

    def names(self, hue: Factor | None) -> list[str]:
        """Return the names in the figure."""
        return [name for text in texts(hue) if (name := self.name(hue, text))]

    def said_grey(self, hue: Factor | None) -> str:
        """Return which levels are grey, for the caption; empty: none."""
        return said([hue.in_legend(text) for text in self.grey]) if hue else ""

    def in_order(self, hue: Factor | None) -> list[str]:
        """Return the levels of the hue in the order in which they are drawn: grey ones below the others."""
        return sorted(texts(hue), key=lambda text: text not in self.grey)

    def part(self, levels: Mapping[Factor, str] | Mapping[Factor | None, str]) -> pl.DataFrame:
        """Return the flows at levels of factors; None as a factor matches all."""
        chosen = [pl.col(one.name) == text for one, text in levels.items() if one is not None]
        return self.flows.filter(*chosen) if chosen else self.flows


@dataclass(frozen=True)
class Mean:
    """A quantity over flows that differ in their round only.

    Attributes:
        mean: mean over the flows, or ratio of means.
        half_width: half-width of its confidence interval; NaN: none.
        flows: number of flows.
    """

    mean: float
    half_width: float
    flows: int


def texts(one: Factor | None) -> list[str]:
    """Return the levels of a factor; for None a single one without a text."""
    return [level.text for level in one.levels] if one else [""]


def mean_of(flows: pl.DataFrame, metric: Metric, confidence: float = CONFIDENCE) -> Mean | None:
    """Return a metric of flows; None if no flow has it."""
    seen = sample(flows, metric.name)
    if len(seen) == 0:
        return None
    mean, half = mean_interval(seen, confidence)
    if metric.of_means:
        mean, half = group_value(flows, metric), float("nan")
    return Mean(mean, half, len(seen))


def by_levels(sample_: Sample, metric: Metric, factors: Sequence[Factor | None]) -> dict[tuple[str, ...], Mean]:
    """Return the means of a metric by levels of factors; None as a factor has one level without a text."""
    names = [one.name for one in factors if one is not None]
    parts = sample_.flows.partition_by(names, as_dict=True) if names else {(): sample_.flows}
    found = {}
    for key, part in parts.items():
        own, texts_of = mean_of(part, metric, sample_.confidence), iter(key)
        if own is not None:
            found[tuple("" if one is None else str(next(texts_of)) for one in factors)] = own
    return found


def means(sample_: Sample, metrics: Sequence[Metric], factors: Sequence[Factor]) -> pl.DataFrame:
    """Return the means of metrics at all combinations of levels.

    Returns:
        Columns of the factors' names (text; numbers too in `NAME_number`, in the unit of the factor), `quantity, unit,
        mean, half_width_95, flows`; the number in `half_width_95` is the level of confidence.
    """
    rows = list(_means(sample_, metrics, factors))
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None))


def _means(sample_: Sample, metrics: Sequence[Metric], factors: Sequence[Factor]) -> Iterator[dict[str, object]]:
    names = [one.name for one in factors]
    numbers = {one.name: {level.text: level.number for level in one.levels} for one in factors if one.is_number}
    parts = sample_.flows.partition_by(names, as_dict=True, maintain_order=True) if names else {(): sample_.flows}
    for metric in metrics:
        for key, part in parts.items():
            found = mean_of(part, metric, sample_.confidence)
            if found is None:
                continue
            here = dict(zip(names, key, strict=True))
            yield here | {f"{name}_number": by[str(here[name])] for name, by in numbers.items()} | {
                "quantity": metric.name, "unit": metric.unit, "mean": found.mean,
                at_level("half_width", sample_.confidence): found.half_width, "flows": found.flows,
            }  # fmt: skip

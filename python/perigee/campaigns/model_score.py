# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A link model scored on a campaign: errors by algorithm and metric, orderings, and how often its intervals hold."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from perigee.campaigns.prediction import POINT, Transfer
from perigee.numbers import number
from perigee.statistics import special
from perigee.statistics.estimates import mean_interval, spread
from perigee.statistics.metrics import Metric, metric, sample, with_metric
from perigee.statistics.pairing import compare_groups, corrected, share_draws, verdict
from perigee.store.results import Results

METRICS = (
    "goodput_mbps", "steady_goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms", "rtt_p95_ms", "retransmitted_percent",
)  # fmt: skip
LEVEL = 0.9
"""Level of the predicted intervals."""
WITHIN = 0.15
"""Relative error up to which a mean counts as met."""
BY_CHANCE = 0.05
"""Intervals whose share of hits is rarer than this under their own level do not hold as they say."""


@dataclass(frozen=True)
class Cell:
    """A quantity of one algorithm in one setting.

    Attributes:
        label: the group of the campaign.
        metric: the quantity.
        measured: mean of the campaign.
        measured_half: half of its confidence interval, of the same level as the predicted one; NaN: none.
        runs: runs of the campaign that have it.
        predicted: mean of the simulation.
        low: lower end of the predicted interval of a single run.
        high: its upper end.
        inside: runs of the campaign within it.
        varies: whether the simulation varies from round to round: without that there is no interval.
    """

    label: str
    metric: Metric
    measured: float
    measured_half: float
    runs: int
    predicted: float
    low: float
    high: float
    inside: int
    varies: bool

    @property
    def error(self) -> float | None:
        """Relative error of the predicted mean; none where nothing was measured to be relative to."""
        return None if self.measured == 0 else self.predicted / self.measured - 1

    @property
    def is_met(self) -> bool:
        """Whether the predicted mean is within `WITHIN` of the measured one, or within its confidence interval."""
        apart = abs(self.predicted - self.measured)
        return apart <= WITHIN * abs(self.measured) or apart <= self.measured_half


@dataclass(frozen=True)
class Order:
    """An ordering that the campaign shows with significance.

    Attributes:
        metric: the quantity.
        higher: label of the group with the higher mean.
        lower: label of the other.
        is_predicted: whether the model has them in this order.
    """

    metric: Metric
    higher: str
    lower: str
    is_predicted: bool


@dataclass(frozen=True)
class Coverage:
    """How often intervals had what was measured.

    Attributes:
        inside: runs within the interval of their cell.
        runs: all runs of cells that have one.
        level: what the intervals say.
        tests: tests that are made at the same time, for which `p` is corrected (Bonferroni).
    """

    inside: int
    runs: int
    level: float
    tests: int = 1

    @property
    def p(self) -> float:
        """Probability of a share as far from the level, or farther, if each run hit its interval on its own.

        Only of values of one quantity: those of several quantities of a run depend on each other.
        """
        beyond = special.binomial_beyond(self.inside - 1, self.runs, self.level)
        below = 1 - special.binomial_beyond(self.inside, self.runs, self.level)
        return min(1.0, self.tests * 2 * min(beyond, below))

    @property
    def count(self) -> str:
        """It in words, without a judgement."""
        if not self.runs:
            return "The model has no interval: nothing random came to bear in it"
        share = number(100 * self.inside / self.runs, 0)
        return (
            f"{self.inside} of {self.runs} measured values ({share} %) are within the {100 * self.level:g} % intervals"
        )

    @property
    def sentence(self) -> str:
        """It in words, and whether the intervals hold as often as they say."""
        if not self.runs:
            return f"{self.count}."
        if self.p >= BY_CHANCE:
            return f"{self.count}: they hold as often as they say."
        too = "narrow" if self.inside < self.level * self.runs else "wide"
        return f"{self.count}: they are too {too} (p = {self.p:.1g})."


@dataclass(frozen=True)
class Score:
    """A model's score.

    Attributes:
        cells: its errors.
        orders: orderings.
        level: level of its intervals.
        notes: what could not be scored, and why.
    """

    cells: tuple[Cell, ...]
    orders: tuple[Order, ...]
    level: float
    notes: tuple[str, ...]

    @property
    def coverage(self) -> Coverage:
        """How often its intervals held, over all cells: a count, since quantities of a run are not independent."""
        own = [cell for cell in self.cells if cell.varies]
        return Coverage(sum(cell.inside for cell in own), sum(cell.runs for cell in own), self.level)

    @property
    def coverage_by_metric(self) -> dict[str, Coverage]:
        """How often the intervals of each metric held; metrics without an interval are left out."""
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if cell.varies:
                found.setdefault(cell.metric.name, []).append(cell)
        return {
            name: Coverage(sum(cell.inside for cell in own), sum(cell.runs for cell in own), self.level, len(found))
            for name, own in found.items()
        }

    @property
    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Hits and all: means that are met, and orderings."""
        return {
            "means": (sum(cell.is_met for cell in self.cells), len(self.cells)),
            "orderings": (sum(order.is_predicted for order in self.orders), len(self.orders)),
        }

    def frame(self) -> pl.DataFrame:
        """Return the cells as a table."""
        rows: list[dict[str, Any]] = [
            {
                "group": cell.label, "quantity": cell.metric.name, "unit": cell.metric.unit, "measured": cell.measured,
                "measured_half_width": cell.measured_half, "runs": cell.runs, "predicted": cell.predicted,
                "error_percent": None if cell.error is None else 100 * cell.error, "is_met": cell.is_met,
                "interval_low": cell.low if cell.varies else None, "interval_high": cell.high if cell.varies else None,
                "inside": cell.inside if cell.varies else None, "level": self.level,
            }
            for cell in self.cells
        ]  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None))


def score(
    campaign: Results, wanted: Sequence[Transfer], predicted: Results, notes: Sequence[str] = (),
    metrics: Sequence[str] = METRICS, level: float = LEVEL,
) -> Score:  # fmt: skip
    """Score a prediction on the campaign that it is of.

    Args:
        campaign: what was measured.
        wanted: the transfers of it that were predicted.
        predicted: what `predict` made of them; its points are numbered alike.
        notes: notes on transfers that were not predicted.
        metrics: the quantities; one that either side lacks is left out, and named.
        level: level of the predicted intervals.
    """
    flows = predicted.table("flows")
    own = {place: flows.filter(pl.col("point") == point) for point, place in _places(flows).items()}
    cells: list[Cell] = []
    lacking: list[str] = []
    orders: list[Order] = []
    for name in metrics:
        both = [
            (one, with_metric(one.rows, name, campaign), with_metric(own[place], name, predicted))
            for place, one in enumerate(wanted)
        ]
        known = [(one, mine, theirs) for one, mine, theirs in both if _has(mine, name) and _has(theirs, name)]
        lacking += [metric(name).title] if not known else []
        cells += [_cell(one.group.label, name, mine, theirs, level) for one, mine, theirs in known]
        orders += _orders(name, known, campaign)
    left = (f"not known on both sides: {', '.join(lacking)}",) if lacking else ()
    order = {one.group.label: place for place, one in enumerate(wanted)}
    cells.sort(key=lambda cell: order[cell.label])
    return Score(tuple(cells), tuple(orders), level, (*notes, *left))


def _places(flows: pl.DataFrame) -> dict[str, int]:
    """Return of each point of a prediction which of the transfers it is of."""
    return {point: int(json.loads(point)[POINT]["name"]) for point in flows["point"].unique()}


def _has(rows: pl.DataFrame, name: str) -> bool:
    return name in rows.columns and rows[name].drop_nulls().len() > 0


def _cell(label: str, name: str, mine: pl.DataFrame, theirs: pl.DataFrame, level: float) -> Cell:
    values, simulated = sample(mine, name), sample(theirs, name)
    mean, half = mean_interval(values, level)
    predicted, count = float(simulated.mean()), len(simulated)
    deviation = spread(simulated)
    varies = deviation is not None
    # A single run is not among those that the spread is of.
    reach = 0.0
    if deviation is not None:
        reach = special.student_quantile(count - 1, (1 + level) / 2) * deviation * math.sqrt(1 + 1 / count)
    # Throughputs, round trips and shares are not negative.
    low, high = max(predicted - reach, 0.0), predicted + reach
    return Cell(
        label, metric(name), mean, half, len(values), predicted, low, high,
        int(((low <= values) & (values <= high)).sum()), varies,
    )  # fmt: skip


def _orders(name: str, known: Sequence[tuple[Transfer, pl.DataFrame, pl.DataFrame]], campaign: Results) -> list[Order]:
    """Return the orderings of a metric that the campaign shows: significant ones, corrected for all pairs of it."""
    pairs = list(itertools.combinations(known, 2))
    found = [
        compare_groups(one[1], other[1], name, shared_draws=share_draws(campaign, campaign)) for one, other in pairs
    ]
    tested = [(pair, contrast) for pair, contrast in zip(pairs, found, strict=True) if contrast is not None]
    orders = []
    for ((one, other), _), judged in zip(tested, corrected([each for _, each in tested]), strict=True):
        comparison = judged.comparison
        means = float(comparison.first.mean()), float(comparison.second.mean())
        if verdict(*means, comparison, judged.p, 0.95) != "significant":
            continue
        higher, lower = (one, other) if means[0] > means[1] else (other, one)
        predicted = float(sample(higher[2], name).mean()) > float(sample(lower[2], name).mean())
        orders.append(Order(metric(name), higher[0].group.label, lower[0].group.label, predicted))
    return orders

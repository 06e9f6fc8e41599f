# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Two groups of flows compared: in pairs where rounds share their random draws, otherwise as independent samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from perigee.statistics.estimates import (
    CONFIDENCE,
    EFFECTS,
    EQUAL_SHARE,
    Array,
    Contrast,
    at_alpha,
    bands_said,
    holm,
    holm_levels,
    level_of_tests,
    paired,
    percent,
    spread,
    welch,
)
from perigee.statistics.metrics import sample, sample_of
from perigee.store.origins import ORIGINS
from perigee.store.results import Results

Verdict = Literal["equal", "significant", "open", "untested"]
"""Practically equal; significantly different; no significant difference; without a test."""


@dataclass(frozen=True)
class Comparison:
    """One quantity of two groups of flows.

    Attributes:
        first: the values of the first group that are compared, shape (n,).
        second: the same of the second, shape (m,); where the comparison is paired, in the order of `first`.
        is_paired: whether values of the same round are compared.
        contrast: the test; none where it cannot be made, see `reason`.
    """

    first: Array
    second: Array
    is_paired: bool
    contrast: Contrast | None

    @property
    def difference(self) -> float:
        """First mean minus second."""
        return float(self.first.mean() - self.second.mean())

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the confidence interval of the difference; None without a test."""
        if self.contrast is None:
            return None
        return self.difference - self.contrast.half_width, self.difference + self.contrast.half_width

    @property
    def reason(self) -> str:
        """Why there is no test; empty where there is one."""
        if self.contrast is not None:
            return ""
        return "no variation" if min(len(self.first), len(self.second)) > 1 else "too few flows"

    @property
    def size(self) -> str:
        """How many values it rests on, in words."""
        n, m = len(self.first), len(self.second)
        return f"{n} pair{'' if n == 1 else 's'}" if self.is_paired else f"{n} and {m}"


def verdict(first: float, second: float, comparison: Comparison | None, p: float | None, confidence: float) -> Verdict:
    """Judge the difference of two means.

    A difference below `EQUAL_SHARE` of the larger mean is practically equal even if it is significant. It is open if
    its interval reaches further and it is not significant.

    Args:
        first: a mean.
        second: the other.
        comparison: their comparison, if any.
        p: its probability, corrected for all tests made together; None without a test.
        confidence: level of the intervals and tests.

    Examples:
        >>> verdict(100.0, 100.5, None, None, 0.95), verdict(100.0, 90.0, None, 0.01, 0.95)
        ('equal', 'significant')
        >>> verdict(100.0, 90.0, None, 0.07, 0.95), verdict(100.0, 90.0, None, 0.07, 0.90)
        ('open', 'significant')
    """
    bound = EQUAL_SHARE * max(abs(first), abs(second))
    is_small = abs(first - second) < bound or first == second
    is_significant = p is not None and p < level_of_tests(confidence)
    interval = comparison.interval if comparison and p is not None else None
    if is_small and (p is None or is_significant or (interval and max(map(abs, interval)) < bound)):
        return "equal"
    return "untested" if p is None else "significant" if is_significant else "open"


def share_draws(a: Results, b: Results) -> bool:
    """Whether rounds of the same seed in both results met the same link.

    Rounds of one study between real hosts did so too: their flows follow each other at once.
    """
    is_drawn = all(ORIGINS[one.manifest["engine"]].draws_by_seed for one in (a, b))
    return is_drawn or (a is b and not a.is_analysis)


def compare_groups(
    first: pl.DataFrame, second: pl.DataFrame, name: str, *, shared_draws: bool, confidence: float = CONFIDENCE
) -> Comparison | None:
    """Compare a metric of two groups of flows.

    They are compared in pairs where rounds share their draws, and at least half of the rounds of each group are in the
    other too; only these rounds count then.

    Args:
        first: flows with the metric as a column; of several of a round, their mean is compared.
        second: the same of the other group.
        name: the metric.
        shared_draws: whether rounds of the same seed met the same link.
        confidence: level of the intervals.

    Returns:
        The comparison, or none where a group has no value.
    """
    ours, theirs = (_by_round(flows, name) for flows in (first, second))
    if ours.is_empty() or theirs.is_empty():
        return None
    if shared_draws:
        keys = ["round", "seed"]
        pairs = ours.select(*keys, name).join(theirs.select(*keys, pl.col(name).alias("other")), on=keys).sort(keys)
        if 2 * pairs.height >= max(ours.height, theirs.height):
            one, other = sample_of(pairs[name]), sample_of(pairs["other"])
            return Comparison(one, other, True, paired(one, other, confidence))
    one, other = sample(ours, name), sample(theirs, name)
    return Comparison(one, other, False, welch(one, other, confidence))


def _by_round(flows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the values of a metric; of flows of the same round their mean, since they are no independent samples."""
    known = flows.filter(pl.col(name).is_not_null())
    keys = ["round", "seed"]
    if known.select(keys).is_duplicated().any():
        return known.group_by(keys, maintain_order=True).agg(pl.col(name).mean())
    return known


@dataclass(frozen=True)
class Corrected:
    """A comparison among all that are made together.

    Attributes:
        comparison: the comparison; its interval is of the level at which Holm's procedure tests it, so that it holds 0
            exactly where `p` is not significant.
        p: of the t test, corrected (Holm); None without a test.
        p_wilcoxon: the same of Wilcoxon's test.
    """

    comparison: Comparison
    p: float | None
    p_wilcoxon: float | None


def corrected(comparisons: Sequence[Comparison], confidence: float = CONFIDENCE) -> list[Corrected]:
    """Return comparisons that are made together, corrected for their number.

    Args:
        comparisons: the comparisons, their intervals of the level `confidence`.
        confidence: level of intervals and tests.
    """
    contrasts = [one.contrast for one in comparisons]
    alpha = level_of_tests(confidence)
    levels = iter(holm_levels([one.p for one in contrasts if one], alpha))
    wide = [one and at_alpha(one, next(levels), confidence) for one in contrasts]
    t_tests = _holm([one.p if one else None for one in contrasts])
    ranks = _holm([one.p_wilcoxon if one else None for one in contrasts])
    return [
        Corrected(replace(one, contrast=contrast), p, p_wilcoxon)
        for one, contrast, p, p_wilcoxon in zip(comparisons, wide, t_tests, ranks, strict=True)
    ]


def _holm(p: Sequence[float | None]) -> list[float | None]:
    known = iter(holm([one for one in p if one is not None]))
    return [None if one is None else next(known) for one in p]


def method(comparisons: Sequence[Comparison], family: int | None = None) -> str:
    """Say which tests were made of these comparisons, and what they are corrected for.

    Args:
        comparisons: the comparisons.
        family: number of all tests that are corrected together; None: that of these comparisons.
    """
    tested = [one for one in comparisons if one.contrast]
    if not tested:
        return "No test: nothing here varies between rounds, or there are fewer than two of them."
    in_pairs = sum(one.is_paired for one in tested)
    words = []
    if in_pairs:
        which = "All" if in_pairs == len(tested) else f"{in_pairs} of {len(tested)}"
        words.append(
            f"{which} comparisons are paired by round, since the rounds share their random draws: t test of the "
            "differences, and Wilcoxon's signed-rank test, which needs no normal distribution."
        )
    if in_pairs < len(tested):
        which = "All" if not in_pairs else "The other"
        words.append(f"{which} comparisons are of independent samples: Welch's t test.")
    words.append(f"p is two-tailed{_correction(len(tested) if family is None else family)}.")
    if any(one.reason == "no variation" for one in comparisons):
        words.append("No variation: the difference is the same in all rounds, so that there is nothing to test.")
    return " ".join(words)


def _correction(tests: int) -> str:
    return f" and, as the intervals, corrected for the {tests} comparisons on this page (Holm)" if tests > 1 else ""


def effects_in_words(
    comparisons: Sequence[Comparison], confidence: float = CONFIDENCE, effects: Sequence[str] = EFFECTS
) -> str:
    """Say how the sizes of the effects of these comparisons are measured."""
    kinds = {one.is_paired for one in comparisons if one.contrast}
    words = [
        "of pairs d_z, the mean of their differences over its standard deviation" if True in kinds else "",
        "of independent samples Hedges' g" if False in kinds else "",
    ]
    said = "; ".join(word for word in words if word)
    d = (
        f"Cohen's d is the difference over the pooled standard deviation: {bands_said(effects)}, said from "
        f"five rounds on where p is below {level_of_tests(confidence):g}."
    )
    unequal = ""
    if any(one.contrast and one.contrast.effect_low is None for one in comparisons):
        unequal = ", left out where it would claim too much: where sizes and standard deviations both differ"
    return f"Effect: {said}, with a {percent(confidence)} interval{unequal}. {d}" if said else d


def is_one_sample(flows: pl.DataFrame) -> bool:
    """Whether all rounds gave the same results: they are then one run, repeated.

    Args:
        flows: all rows of the table `flows`.
    """
    if flows["round"].n_unique() < 2:
        return False
    measured = [name for name, kind in flows.schema.items() if kind.is_numeric() and name not in _NUMBERING]
    for part in flows.partition_by("point", "flow"):
        for name in measured:
            seen = sample_of(part[name])
            if len(seen) not in (0, part.height) or (len(seen) > 1 and spread(seen) is not None):
                return False
    return True


_NUMBERING = ("run", "round", "seed")

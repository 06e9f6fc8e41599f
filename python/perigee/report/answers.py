# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the figures say, in sentences: which group is best, by how much, and whether the difference is significant.

Algorithms are compared where all else is the same; without several of them, the values of what varies first. Nothing is
said where nothing can be concluded: of single flows, and of groups that differ in more than one thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import polars as pl

from perigee.numbers import decimals, number
from perigee.report.context import Context, Group, in_words
from perigee.report.ranking import ALGORITHM, FLOW, Question, Ranking, Rival, comparable, rankings
from perigee.statistics.estimates import percent
from perigee.statistics.metrics import Metric
from perigee.statistics.pairing import is_one_sample

RESPONSE = Metric("response_ms", "Mean response time", "ms", 0, False)
"""Of a flow of requests: from a request to the last byte of its response, mean over its requests."""

ASKED = {
    "goodput_mbps": "throughput",
    "rtt_mean_ms": "mean round-trip time",
    "retransmitted_percent": "retransmitted share",
    RESPONSE.name: "mean response time",
}
"""What a report answers, and its name in a sentence."""

MOST_SETTINGS = 4
"""Up to so many settings of links and hosts each has its answer; of more it is counted who is best."""


def answers(context: Context) -> list[str]:
    """Return the sentences; none where no groups can be compared."""
    found = answered(context)
    known = [one for one in found if one.metric.name in ASKED and _can_be_said(context, one)]
    sentences = [_of_metric(context, list(of)) for _, of in groupby(known, key=lambda one: one.metric)]
    if not sentences:
        return []
    if is_one_sample(context.rows):
        return [*sentences, "Nothing in this study is random: all rounds gave the same, and there is nothing to test."]
    return [*sentences, _method(found, context.settings.confidence)]


def answered(context: Context) -> list[Ranking]:
    """Return the rankings of the sentences, and those of the summary, which are tested together with them."""
    asked = [name for name in ASKED if name != RESPONSE.name]
    transfers = context.metrics(list(dict.fromkeys((*asked, *context.settings.summary))))
    requests = _requests(context)
    return rankings(
        context,
        [
            Question(requests, _factor(context, requests), [RESPONSE]),
            Question(context.groups, _factor(context, context.groups), transfers),
        ],
    )


def _requests(context: Context) -> list[Group]:
    """Return the groups of requests, with their mean response time."""
    if not context.results.has("exchanges"):
        return []
    keys = ["run", "flow"]
    took = context.results.table("exchanges").group_by(keys).agg(pl.col("duration_ms").mean().alias(RESPONSE.name))
    return [
        replace(group, rows=group.rows.join(took, on=keys, how="left", maintain_order="left"))
        for group in context.groups_of("request")
    ]


def _factor(context: Context, groups: Sequence[Group]) -> str:
    """Return what is compared: algorithms, or without several the first key that varies."""
    return ALGORITHM if comparable(context, groups) else _first_that_varies(context)


def _first_that_varies(context: Context) -> str:
    """Return the first key that varies with few values: of a link or a host rather than another flow's algorithm."""
    few = [key for key, values in context.varied.items() if 1 < len(values) <= MOST_SETTINGS]
    return min(few, key=lambda key: key.endswith(".cc"), default="")


def _can_be_said(context: Context, one: Ranking) -> bool:
    """Whether there is a test, or nothing random that asks for one."""
    return is_one_sample(context.rows) or all(rival.is_tested or _is_constant(rival) for rival in one.rivals)


def _is_constant(rival: Rival) -> bool:
    """Whether the difference is the same in all rounds."""
    return rival.comparison is not None and rival.comparison.reason == "no variation"


def _method(found: Sequence[Ranking], confidence: float) -> str:
    tested = [rival.comparison for one in found for rival in one.rivals if rival.comparison and rival.is_tested]
    in_pairs = sum(one.is_paired for one in tested)
    kinds = ["t test of pairs of the same round"] if in_pairs else []
    kinds += ["Welch's t test"] if in_pairs < len(tested) else []
    return (
        f"± is a {percent(confidence)} confidence interval of the difference; significant: "
        f"{', elsewhere '.join(kinds)}, p < 0.05, corrected (Holm) for all {len(tested)} comparisons that were made "
        "for these sentences and the stars of the summary."
    )


def _of_metric(context: Context, found: Sequence[Ranking]) -> str:
    metric = found[0].metric
    if len(found) == 1:
        return _alone(context, found[0])
    if all(rival.is_tested and not rival.is_significant for one in found for rival in one.rivals):
        names = dict.fromkeys(_name(context, one.factor, one.best) for one in found)
        names |= dict.fromkeys(_name(context, one.factor, rival.group) for one in found for rival in one.rivals)
        return (
            f"No significant difference in {ASKED[metric.name]} between the best of {_names(list(names))} and the "
            f"others, in any of {len(found)} settings."
        )
    superlative = f"{_superlative(metric).capitalize()} {ASKED[metric.name]}"
    if len(found) <= MOST_SETTINGS:
        return f"{superlative}: " + "; ".join(f"{_where(context, one)}{_clause(context, one)}" for one in found) + "."
    clear = Counter(_name(context, one.factor, one.best) for one in found if one.is_clear)
    counts = [f"{name} in {count}" for name, count in clear.most_common()]
    if open_ones := len(found) - clear.total():
        counts.append(f"the best does not differ {_how(found)} from the next in {open_ones}")
    return f"{superlative} in {len(found)} settings: {', '.join(counts)}."


def _how(found: Sequence[Ranking]) -> str:
    return "significantly" if any(one.rivals[0].is_tested for one in found) else "visibly"


def _alone(context: Context, one: Ranking) -> str:
    """Return the sentence of the only set of groups."""
    noun, superlative, best = ASKED[one.metric.name], _superlative(one.metric), _name(context, one.factor, one.best)
    rivals = [_name(context, one.factor, rival.group) for rival in one.rivals]
    value = f"{number(one.mean, one.metric.digits)} {one.metric.unit}"
    if not any(rival.is_tested for rival in one.rivals):
        if not one.is_visible:
            return (
                f"{best} and {rivals[0]} have the same {noun}, {value}, and no other has a {_word(one.metric)[1]} one."
            )
        return f"{best} has the {superlative} {noun}, {value}: {_difference(context, one, one.rivals[0])}."
    below = [name for name, rival in zip(rivals, one.rivals, strict=True) if rival.is_significant]
    if not below:
        return (
            f"No significant difference in {noun} between {best} and {_names(rivals)}; {best} has the {superlative} "
            f"mean, {value}."
        )
    sentence = f"{best} has the {superlative} {noun}, {value}: {_difference(context, one, one.rivals[0])}"
    if not one.rivals[0].is_significant:
        return f"{sentence}, which is not significant; that from {_names(below)} is."
    if len(below) < len(rivals):
        return f"{sentence}; the differences from {_names(below)} are significant, the others are not."
    return f"{sentence}; {'the difference is' if len(rivals) == 1 else 'all differences from it are'} significant."


def _clause(context: Context, one: Ranking) -> str:
    """Return what is said of one of several settings."""
    value = f"{number(one.mean, one.metric.digits)} {one.metric.unit}"
    best, rival = _name(context, one.factor, one.best), one.rivals[0]
    if not one.is_visible and not rival.is_tested:
        return f"{best} and {_name(context, one.factor, rival.group)} alike ({value})"
    judged = "" if not rival.is_tested else " (significant)" if rival.is_significant else " (not significant)"
    return f"{best} with {value}, {_difference(context, one, rival)}{judged}"


def _difference(context: Context, one: Ranking, rival: Rival) -> str:
    """Return by how much the best one is ahead of another."""
    difference = abs(one.mean - rival.mean)
    contrast = rival.comparison.contrast if rival.comparison else None
    half = contrast.half_width if contrast else None
    digits = decimals(one.metric.digits, difference, half)
    is_share = one.metric.unit == "%"
    text = number(difference, digits) + (f" ± {number(half, digits)}" if half is not None else "")
    text += " percentage points" if is_share else f" {one.metric.unit}"
    percent = f" ({100 * difference / rival.mean:.0f} %)" if rival.mean > 0 and not is_share else ""
    return f"{text}{percent} {_word(one.metric)[0]} than {_rival(context, one.factor, rival.group)}"


def _name(context: Context, factor: str, group: Group) -> str:
    """Return what tells a group from those that it is compared with."""
    if factor == ALGORITHM:
        return context.label(group.cc) if group.cc else group.label
    return f"{in_words(factor)} = {group.factors[factor]}"


def _rival(context: Context, factor: str, group: Group) -> str:
    return _name(context, factor, group) if factor == ALGORITHM else f"with {group.factors[factor]}"


def _where(context: Context, one: Ranking) -> str:
    """Return the settings that the groups of a ranking have in common, where settings vary."""
    flows = len({group.factors[FLOW] for group in context.groups}) > 1
    words = [one.best.factors[FLOW]] if flows and not one.best.factors.keys() - {one.factor, ALGORITHM, FLOW} else []
    words += [
        f"{in_words(key)} = {value}"
        for key, value in one.best.factors.items()
        if key not in (one.factor, ALGORITHM, FLOW)
    ]
    return f"{', '.join(words)}: " if words else ""


def _superlative(metric: Metric) -> str:
    return "highest" if metric.higher_is_better else "lowest"


def _word(metric: Metric) -> tuple[str, str]:
    return ("more", "higher") if metric.higher_is_better else ("less", "lower")


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

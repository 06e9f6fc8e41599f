# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the figures say, in sentences: which algorithm is best, by how much, and whether the difference is significant.

The key that `report.toml` names as `between` is compared; without one, algorithms are, where all else is the same.
With a single algorithm, a sentence gives a quantity at both ends of the first varied key: a loss rate is a condition,
not a rival of another. Single flows, and groups that differ in more than one factor, allow no conclusion and have no
sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import polars as pl

from perigee.groups.factors import capital
from perigee.groups.group import Group
from perigee.numbers import decimals, number
from perigee.report.context import Context
from perigee.report.ranking import ALGORITHM, FLOW, Question, Ranking, Rival, comparable, rankings
from perigee.statistics.estimates import percent
from perigee.statistics.metrics import Metric

RESPONSE = Metric("response_ms", "Mean response time", "ms", 0, False)
"""Time from a request to the last byte of its response, mean over the requests of a flow."""

ASKED = {
    "goodput_mbps": "throughput",
    "rtt_mean_ms": "mean round-trip time",
    "retransmitted_percent": "retransmitted share",
    RESPONSE.name: "mean response time",
}
"""Metrics of the sentences, and their names there."""

MOST_SETTINGS = 4
"""Maximum number of settings with a sentence each; for more, the sentence counts how often each algorithm is best."""


def answers(context: Context) -> list[str]:
    """Return the sentences; empty if no groups can be compared."""
    found = answered(context)
    known = [one for one in found if one.metric.name in ASKED and _can_be_said(context, one)]
    sentences = [_of_metric(context, list(of)) for _, of in groupby(known, key=lambda one: one.metric)]
    if not sentences:
        return []
    if context.is_one_sample:
        return [*sentences, "Nothing in this study is random: all rounds gave the same, and there is nothing to test."]
    return [*sentences, _method(found, context.settings.confidence)]


def answered(context: Context) -> list[Ranking]:
    """Return the rankings of the sentences and of the summary, which are tested together."""
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
    """Return the compared factor: the key of `between`, else algorithms, or with one algorithm the first varied key."""
    if context.settings.between and comparable(context, groups, context.settings.between):
        return context.settings.between
    return ALGORITHM if comparable(context, groups) else _first_that_varies(context)


def _first_that_varies(context: Context) -> str:
    """Return the first varied key that is a number or has few values, in preference to another flow's algorithm."""
    numbers = {column.key for column in context.results.points.columns if column.is_number}
    few = [
        key
        for key, values in context.varied.items()
        if len(values) > 1 and (len(values) <= MOST_SETTINGS or key in numbers)
    ]
    return min(few, key=lambda key: key.endswith(".cc"), default="")


def _can_be_said(context: Context, one: Ranking) -> bool:
    """True if a test exists, or nothing is random so that none is needed."""
    return context.is_one_sample or all(rival.is_tested or _is_constant(rival) for rival in one.rivals)


def _is_constant(rival: Rival) -> bool:
    """True if the difference is the same in all rounds."""
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
    if found[0].factor != ALGORITHM:
        return _of_setting(context, found)
    if len(found) == 1:
        return _alone(context, found[0])
    if all(rival.is_tested and not rival.is_significant for one in found for rival in one.rivals):
        names = dict.fromkeys(_name(context, one.factor, one.first) for one in found)
        names |= dict.fromkeys(_name(context, one.factor, rival.group) for one in found for rival in one.rivals)
        return (
            f"No significant difference in {ASKED[metric.name]} between the best of {_names(list(names))} and the "
            f"others, in any of {len(found)} settings."
        )
    superlative = f"{_superlative(metric).capitalize()} {ASKED[metric.name]}"
    if len(found) <= MOST_SETTINGS:
        return _by_setting(superlative, [(_where(context, one, found), _clause(context, one)) for one in found])
    clear = Counter(_name(context, one.factor, one.first) for one in found if one.is_clear)
    counts = [f"{name} in {count}" for name, count in clear.most_common()]
    if open_ones := len(found) - clear.total():
        counts.append(f"the best does not differ {_how(found)} from the next in {open_ones}")
    return f"{superlative} in {len(found)} settings: {', '.join(counts)}."


def _of_setting(context: Context, found: Sequence[Ranking]) -> str:
    """Return the sentence of a quantity at values of a setting."""
    noun, factor = capital(ASKED[found[0].metric.name]), found[0].factor
    first = _name(context, factor, found[0].first)
    ends = {str(rival.group.factors[factor]): rival.group for one in found for rival in one.rivals}
    if len(found) <= MOST_SETTINGS and len(ends) == 1:
        ((last, group),) = ends.items()
        is_number = any(column.key == factor and column.is_number for column in context.results.points.columns)
        joint = "to" if is_number else "and"
        values = f"from {first} to {last}" if is_number else f"{first} and {_name(context, factor, group)}"
        return _by_setting(f"{noun} {values}", [(_where(context, one, found), _between(one, joint)) for one in found])
    if len(found) <= MOST_SETTINGS:
        return _by_setting(noun, [(_where(context, one, found), _at_values(context, one)) for one in found])
    counts: dict[str, Counter[str]] = {}
    for one in found:
        for rival in one.rivals:
            judged = f"{_more_or_less(one, rival)}{_judged(rival)}" if _differs(one, rival) else "the same"
            counts.setdefault(_name(context, factor, rival.group), Counter())[judged] += 1
    said = [
        f"{value} {', '.join(f'{words} in {count}' for words, count in of.most_common())}"
        for value, of in counts.items()
    ]
    return f"{noun} in {len(found)} settings, against {first}: {'; '.join(said)}."


def _by_setting(subject: str, said: Sequence[tuple[str, str]]) -> str:
    """Return a sentence of the statements at each setting; settings are empty if nothing else varies.

    Examples:
        >>> _by_setting("Highest throughput", [("loss 0 %", "cubic alone"), ("loss 1 %", "bbr alone")])
        'Highest throughput, loss 0 %: cubic alone; loss 1 %: bbr alone.'
        >>> _by_setting("Throughput", [("", "9 Mbit/s at both")])
        'Throughput: 9 Mbit/s at both.'
    """
    clauses = [f"{where}: {text}" if where else text for where, text in said]
    return f"{subject}{', ' if said[0][0] else ': '}{'; '.join(clauses)}."


def _between(one: Ranking, joint: str) -> str:
    """Return a quantity at both values of a setting with a word between them, and how they differ."""
    rival, digits, unit = one.rivals[0], one.metric.digits, one.metric.unit
    if not _differs(one, rival):
        return f"{number(one.mean, digits)} {unit} at both"
    if number(one.mean, digits) == number(rival.mean, digits) and not rival.is_significant:
        return f"{number(one.mean, digits)} {unit} at both, no significant difference"
    ends = f"{number(one.mean, digits)} {joint} {number(rival.mean, digits)} {unit}"
    return f"{ends}, {_amount(one, rival, one.mean)} {_more_or_less(one, rival)}{_judged(rival)}"


def _at_values(context: Context, one: Ranking) -> str:
    """Return a quantity at the first value of a setting, and how it differs at others."""
    value = f"{number(one.mean, one.metric.digits)} {one.metric.unit}"
    others = [
        f"{_name(context, one.factor, rival.group)} {_amount(one, rival, one.mean)} {_more_or_less(one, rival)}"
        f"{_judged(rival)}"
        if _differs(one, rival)
        else f"{_name(context, one.factor, rival.group)} the same"
        for rival in one.rivals
    ]
    return f"{value} {_name(context, one.factor, one.first)}, {', '.join(others)}"


def _differs(one: Ranking, rival: Rival) -> bool:
    """True if a difference is significant, or visible in the printed numbers."""
    digits = one.metric.digits
    return rival.is_tested or number(one.mean, digits) != number(rival.mean, digits)


def _more_or_less(one: Ranking, rival: Rival) -> str:
    return "more" if rival.mean > one.mean else "less"


def _judged(rival: Rival) -> str:
    return "" if not rival.is_tested else " (significant)" if rival.is_significant else " (not significant)"


def _how(found: Sequence[Ranking]) -> str:
    return "significantly" if any(one.rivals[0].is_tested for one in found) else "visibly"


def _alone(context: Context, one: Ranking) -> str:
    """Return the sentence of the only set of groups."""
    noun, superlative, best = ASKED[one.metric.name], _superlative(one.metric), _name(context, one.factor, one.first)
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
    """Return the statement for one of several settings."""
    value = f"{number(one.mean, one.metric.digits)} {one.metric.unit}"
    best, rival = _name(context, one.factor, one.first), one.rivals[0]
    if not one.is_visible and not rival.is_tested:
        return f"{best} and {_name(context, one.factor, rival.group)} alike ({value})"
    return f"{best} with {value}, {_difference(context, one, rival)}{_judged(rival)}"


def _difference(context: Context, one: Ranking, rival: Rival) -> str:
    """Return the lead of the best group over another."""
    return f"{_amount(one, rival, rival.mean)} {_word(one.metric)[0]} than {_name(context, one.factor, rival.group)}"


def _amount(one: Ranking, rival: Rival, base: float) -> str:
    """Return the size of a difference with its interval, also in % of a value."""
    difference = abs(one.mean - rival.mean)
    contrast = rival.comparison.contrast if rival.comparison else None
    half = contrast.half_width if contrast else None
    digits = decimals(one.metric.digits, difference, half)
    is_share = one.metric.unit == "%"
    text = number(difference, digits) + (f" ± {number(half, digits)}" if half is not None else "")
    text += " percentage points" if is_share else f" {one.metric.unit}"
    return text + (f" ({100 * difference / base:.0f} %)" if base > 0 and not is_share else "")


def _name(context: Context, factor: str, group: Group) -> str:
    """Return the label that distinguishes a group from its rivals."""
    if factor == ALGORITHM:
        return context.label(group.cc) if group.cc else group.label
    return context.said(factor, group.factors[factor])


def _where(context: Context, one: Ranking, found: Sequence[Ranking]) -> str:
    """Return the settings common to the groups of a ranking, if settings vary between rankings."""
    flows = len({group.factors[FLOW] for group in context.groups}) > 1
    words = [one.first.factors[FLOW]] if flows and not one.first.factors.keys() - {one.factor, ALGORITHM, FLOW} else []
    if one.factor != ALGORITHM and len({other.first.factors[ALGORITHM] for other in found}) > 1:
        words.append(context.algorithm(one.first.rows.row(0, named=True)))
    words += [
        context.said(key, value)
        for key, value in one.first.factors.items()
        if key not in (one.factor, ALGORITHM, FLOW) and len(context.varied.get(key, ())) != 1
    ]
    return ", ".join(words)


def _superlative(metric: Metric) -> str:
    return "highest" if metric.higher_is_better else "lowest"


def _word(metric: Metric) -> tuple[str, str]:
    return ("more", "higher") if metric.higher_is_better else ("less", "lower")


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

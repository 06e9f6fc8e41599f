# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Statements of the figures, in sentences and matrices: how headline quantities differ, and whether significantly.

The key that `report.toml` names as `between` is compared; without one, algorithms are, where all else is the same.
With a single algorithm, a sentence gives a quantity at both ends of the first varied key: a loss rate is a condition,
not a rival of another. Groups that differ in more than one factor allow no comparison: of them a sentence gives the
lowest and the highest value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perigee.groups.factors import Factor, capital
from perigee.groups.group import Group
from perigee.numbers import decimals, number, signed
from perigee.report.context import Context
from perigee.report.family import Family, family
from perigee.report.headline import Headline
from perigee.report.matrix import matrix
from perigee.report.model import Table
from perigee.report.ranking import ALGORITHM, FLOW, Ranking, Rival
from perigee.statistics.estimates import EQUAL_SHARE, least_difference, level_of_tests, percent
from perigee.statistics.metrics import Metric

MOST_SETTINGS = 4
"""Maximum number of settings with a clause each; for more, the sentence counts."""

MOST_MATRICES = 2

FEW_ROUNDS = 10
"""Below this number of rounds, the page says which difference could not have been shown."""

MORE_ROUNDS = (5, 10, 20, 40)

LARGEST_SHARE = 100.0
"""A difference of shares that cannot be, in percentage points: that rounds cannot show it says nothing."""

TELLING_SHARE = 0.1
"""A setting that changes a quantity by less than this share of its range is left out of a sentence."""


@dataclass(frozen=True)
class Findings:
    """The short version of a page.

    Attributes:
        lines: a sentence per quantity.
        tables: matrices of the quantities over what varies.
        method: how the differences were tested, and what more rounds could show.
    """

    lines: list[str]
    tables: list[Table]
    method: str


def answers(context: Context) -> Findings:
    """Return the sentences and matrices; empty of captures."""
    made = family(context)
    lines: list[str] = []
    tables: list[Table] = []
    by_row: list[bool] = []
    is_compared = any(found for _, found in made.found)
    for asked, found in made.found:
        if is_compared and not found and not context.settings.headline:
            continue
        table = matrix(context, asked, found) if len(tables) < MOST_MATRICES else None
        if table:
            tables.append(table)
            by_row.append(any(one.against != "first" for one in found))
        lines.append(_line(context, asked, found))
    within = " within a row" if all(by_row) else ""
    notes = [f"More shade is better{within}." if tables else "", _method(context, made) if lines else ""]
    return Findings(lines, tables, " ".join(note for note in notes if note))


def _line(context: Context, asked: Headline, found: Sequence[Ranking]) -> str:
    """Return the sentence of a quantity."""
    is_tested = any(rival.is_tested for one in found for rival in one.rivals)
    if not found or (len(found) > MOST_SETTINGS and not is_tested and found[0].factor != ALGORITHM):
        return _range(context, asked)
    if found[0].against == "first":
        return _of_setting(context, asked, found)
    if found[0].against == "reference":
        return _against_reference(context, asked, found)
    if len(found) == 1:
        return _alone(context, asked.noun, found[0])
    return _by_setting(context, asked.noun, found)


def _range(context: Context, asked: Headline) -> str:
    """Return the lowest and the highest value with their settings."""
    metric = asked.metric
    known = [(group, context.value(group, metric)) for group in asked.groups]
    known = [(group, value) for group, value in known if value == value]
    low, high = min(known, key=lambda one: one[1]), max(known, key=lambda one: one[1])
    subject = capital(asked.noun)
    if number(low[1], metric.digits) == number(high[1], metric.digits):
        where = f" in all {len(known)} settings" if len(known) > 1 else ""
        return f"{subject}: {_value(metric, low[1])}{where}."
    factors = context.factors([group for group, _ in known])
    ends = [f"{_value(metric, value)} ({_telling(factors, known, group)})" for group, value in (low, high)]
    return f"{subject}: {ends[0]} to {ends[1]}."


def _telling(factors: Sequence[Factor], known: Sequence[tuple[Group, float]], group: Group) -> str:
    """Return the settings of a group that make its value, in words."""
    values = [value for _, value in known]
    own = next(value for other, value in known if other is group)
    said = []
    for one in factors:
        rest = [factor.key for factor in factors if factor is not one]
        beside = [
            value for other, value in known if all(other.levels.get(key) == group.levels.get(key) for key in rest)
        ]
        if len(factors) == 1 or max(abs(value - own) for value in beside) > TELLING_SHARE * (max(values) - min(values)):
            said.append(one.said(group.levels.get(one.key, "")))
    return ", ".join(said) or group.label


def _of_setting(context: Context, asked: Headline, found: Sequence[Ranking]) -> str:
    """Return the sentence of a quantity at values of a setting."""
    noun, factor = capital(asked.noun), found[0].factor
    first = _name(context, factor, found[0].first)
    ends = {str(rival.group.factors[factor]): rival.group for one in found for rival in one.rivals}
    if len(found) <= MOST_SETTINGS and len(ends) == 1:
        ((last, group),) = ends.items()
        is_number = any(column.key == factor and column.is_number for column in context.results.points.columns)
        joint = "to" if is_number else "and"
        if factor == context.settings.between:
            said = [" ".join(filter(None, (_where(context, one, found), _change(one, one.rivals[0])))) for one in found]
            return f"{noun}, {_name(context, factor, group)} against {first}: {'; '.join(said)}."
        values = f"from {first} to {last}" if is_number else f"{first} and {_name(context, factor, group)}"
        return _clauses(f"{noun} {values}", [(_where(context, one, found), _between(one, joint)) for one in found])
    if len(found) <= MOST_SETTINGS:
        return _clauses(noun, [(_where(context, one, found), _at_values(context, one)) for one in found])
    # The key of the varying values is named once.
    first = first.rpartition(" = ")[2]
    counts = _counts(context, found, ("more", "less"))
    said = [f"{value} against {first}: {_counted(of)}" for value, of in counts.items()]
    return f"{_range(context, asked)} {capital('; '.join(said))} of {len(found)} settings."


def _against_reference(context: Context, asked: Headline, found: Sequence[Ranking]) -> str:
    """Return the sentence of a quantity of algorithms against that of the reference."""
    reference = _name(context, ALGORITHM, found[0].first)
    if len(found) == 1:
        (one,) = found
        said = [f"{_name(context, ALGORITHM, rival.group)} {_change(one, rival)}" for rival in one.rivals]
        return f"{capital(asked.noun)} against {reference} ({_value(one.metric, one.mean)}): {'; '.join(said)}."
    said = [f"{name} {_counted(of)}" for name, of in _counts(context, found, ("higher", "lower")).items()]
    return f"{capital(asked.noun)} against {reference} in {len(found)} settings: {'; '.join(said)}."


def _counts(context: Context, found: Sequence[Ranking], words: tuple[str, str]) -> dict[str, Counter[str]]:
    """Return how often each rival is above the first group, below it, or not clearly different."""
    counts: dict[str, Counter[str]] = {}
    for one in found:
        for rival in one.rivals:
            apart = words[0] if rival.mean > one.mean else words[1]
            judged = {"equal": "practically equal", "open": "not significantly different"}.get(rival.verdict, apart)
            counts.setdefault(_name(context, one.factor, rival.group), Counter())[judged] += 1
    return counts


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{words} in {count}" for words, count in counts.most_common())


def _clauses(subject: str, said: Sequence[tuple[str, str]]) -> str:
    """Return a sentence of the statements at each setting; settings are empty if nothing else varies.

    Examples:
        >>> _clauses("Throughput", [("loss 0 %", "9 Mbit/s at both"), ("loss 1 %", "2 to 3 Mbit/s")])
        'Throughput, loss 0 %: 9 Mbit/s at both; loss 1 %: 2 to 3 Mbit/s.'
        >>> _clauses("Throughput", [("", "9 Mbit/s at both")])
        'Throughput: 9 Mbit/s at both.'
    """
    clauses = [f"{where}: {text}" if where else text for where, text in said]
    return f"{subject}{', ' if said[0][0] else ': '}{'; '.join(clauses)}."


def _between(one: Ranking, joint: str) -> str:
    """Return a quantity at both values of a setting with a word between them, and how they differ."""
    rival, digits = one.rivals[0], one.metric.digits
    if number(one.mean, digits) == number(rival.mean, digits) and rival.verdict != "significant":
        return f"{_value(one.metric, one.mean)} at both"
    return f"{number(one.mean, digits)} {joint} {_value(one.metric, rival.mean)}, {_change(one, rival)}"


def _at_values(context: Context, one: Ranking) -> str:
    """Return a quantity at the first value of a setting, and how it differs at others."""
    others = [f"{_name(context, one.factor, rival.group)} {_change(one, rival)}" for rival in one.rivals]
    first = f"{_name(context, one.factor, one.first)} {_value(one.metric, one.mean)}"
    return ", ".join([first, *others])


def _change(one: Ranking, rival: Rival) -> str:
    """Return a rival's value less the first one, with its interval, and in brackets what its test adds."""
    if rival.verdict == "equal":
        return "practically equal"
    difference, interval = -_difference(one, rival), _interval(rival)
    is_share = one.metric.unit == "%"
    digits = _digits(one.metric, difference, rival)
    text = signed(difference, digits)
    if interval is not None:
        text += f" [{signed(-interval[1], digits)}, {signed(-interval[0], digits)}]"
    text += " pp" if is_share else f" {one.metric.unit}".rstrip()
    notes = [f"{signed(100 * difference / one.mean, 0)} %"] if one.mean > 0 and not is_share else []
    notes += ["not significant"] if rival.verdict == "open" else []
    return text + (f" ({', '.join(notes)})" if notes else "")


def _alone(context: Context, noun: str, one: Ranking) -> str:
    """Return the sentence of the only set of algorithms."""
    superlative, best = _superlative(one.metric), _name(context, one.factor, one.first)
    names = {verdict: _with(context, one, verdict) for verdict in ("equal", "significant", "open", "untested")}
    value, following = _value(one.metric, one.mean), one.rivals[0]
    if names["open"] and not names["significant"]:
        others = _names([*names["open"], *names["equal"]])
        return (
            f"No significant difference in {noun} between {best} and {others}; {best} has the {superlative} mean, "
            f"{value}."
        )
    if not one.is_clear(following) and following.verdict != "open":
        alike = names["equal"] or [_name(context, one.factor, following.group)]
        sentence = f"{_names([best, *alike])} are practically equal in {noun}, {value}"
        apart = next((rival for rival in one.rivals if rival.verdict not in ("equal", "open")), None)
        if apart is None or not one.is_clear(apart):
            return f"{sentence}."
        return f"{sentence}; {_name(context, one.factor, apart.group)} has {_lead(one, apart)} {_word(one.metric)[1]}."
    lead = f"{_lead(one, following)} {_word(one.metric)[0]} than {_name(context, one.factor, following.group)}"
    sentence = f"{best} has the {superlative} {noun}, {value}: {lead}"
    if following.verdict == "untested":
        return f"{sentence}."
    if following.verdict == "open":
        those = "that from {} is" if len(names["significant"]) == 1 else "those from {} are"
        return f"{sentence}, which is not significant; {those.format(_names(names['significant']))}."
    if names["open"] or names["equal"]:
        return f"{sentence}; the differences from {_names(names['significant'])} are significant, the others are not."
    return f"{sentence}; {'the difference is' if len(one.rivals) == 1 else 'all differences from it are'} significant."


def _with(context: Context, one: Ranking, verdict: str) -> list[str]:
    return [_name(context, one.factor, rival.group) for rival in one.rivals if rival.verdict == verdict]


def _by_setting(context: Context, noun: str, found: Sequence[Ranking]) -> str:
    """Return the sentence of algorithms at several settings."""
    superlative, count = _superlative(found[0].metric), len(found)
    clear = Counter(_name(context, one.factor, one.first) for one in found if one.best is not None)
    if not clear:
        return f"{capital(superlative)} {noun}: in none of {count} settings does the best clearly differ from the next."
    leads = [_share_of_lead(one) for one in found if one.best is not None]
    if len(clear) == 1 and clear.total() == count:
        ends = dict.fromkeys(f"{end:.0f}" for end in (min(leads), max(leads)))
        every = "both" if count == 2 else f"all {count}"
        return (
            f"{next(iter(clear))} has the {superlative} {noun} in {every} settings: {' to '.join(ends)} % "
            f"{_word(found[0].metric)[0]} than the next."
        )
    counts = ", ".join(f"{name} in {number_of}" for name, number_of in clear.most_common())
    open_ones = count - clear.total()
    rest = f"; in {open_ones} no clear difference from the next" if open_ones else ""
    return f"{capital(superlative)} {noun}, of {count} settings: {counts}{rest}."


def _share_of_lead(one: Ranking) -> float:
    """Return the lead of the best over the next, in % of the next."""
    base = abs(one.rivals[0].mean)
    return 100 * abs(one.mean - one.rivals[0].mean) / base if base else 100.0


def _lead(one: Ranking, rival: Rival) -> str:
    """Return the size of a difference with its interval, also in % of the rival's value."""
    difference, interval = _difference(one, rival), _interval(rival)
    if difference < 0:
        difference, interval = -difference, (-interval[1], -interval[0]) if interval else None
    digits = _digits(one.metric, difference, rival)
    is_share = one.metric.unit == "%"
    text = number(difference, digits)
    if interval is not None:
        text += f" [{number(interval[0], digits)}, {number(interval[1], digits)}]"
    text += " percentage points" if is_share else f" {one.metric.unit}".rstrip()
    return text + (f" ({100 * difference / rival.mean:.0f} %)" if rival.mean > 0 and not is_share else "")


def _difference(one: Ranking, rival: Rival) -> float:
    """Return the first mean less the rival's: of the values that are tested, or without a test of all."""
    return rival.comparison.difference if rival.is_tested and rival.comparison else one.mean - rival.mean


def _interval(rival: Rival) -> tuple[float, float] | None:
    return rival.comparison.interval if rival.comparison else None


def _digits(metric: Metric, difference: float, rival: Rival) -> int:
    contrast = rival.comparison.contrast if rival.comparison else None
    return decimals(metric.digits, difference, contrast.half_width if contrast else None)


def _method(context: Context, made: Family) -> str:
    """Return how the differences were tested."""
    if context.is_one_sample:
        return "Nothing in this study is random: all rounds gave the same, and there is nothing to test."
    if context.rows["round"].n_unique() < 2:
        return "One round: no intervals, no tests."
    level = context.settings.confidence
    if not made.tested:
        return ""
    in_pairs = sum(one.is_paired for one in made.tested)
    kinds = ["t test of pairs of the same round"] if in_pairs else []
    kinds += ["Welch's t test"] if in_pairs < len(made.tested) else []
    tests = f"corrected (Holm) for all {made.size} comparisons" if made.size > 1 else "one comparison"
    said = (
        f"[a, b]: {percent(level)} confidence interval of a difference alone. Differences are significant unless they "
        f"are said not to be: {', elsewhere '.join(kinds)}, p < {level_of_tests(level):g}, {tests} on this page. Below "
        f"{100 * EQUAL_SHARE:g} % means are practically equal."
    )
    return f"{said} {_what_more_rounds_show(context, made)}".strip()


def _what_more_rounds_show(context: Context, made: Family) -> str:
    """Return which difference these few rounds could not show, and how many could; empty if none is worth it."""
    level, rounds = context.settings.confidence, context.rows["round"].n_unique()
    candidates = [
        (abs(_difference(one, rival)) / max(abs(one.mean), abs(rival.mean)), asked, found, one, rival)
        for asked, found in made.found
        for one in found
        for rival in one.rivals
        if rival.verdict == "open"
    ]
    if rounds >= FEW_ROUNDS or not candidates:
        return ""
    _, asked, beside, one, rival = max(candidates, key=lambda candidate: candidate[0])
    contrast = rival.comparison.contrast if rival.comparison else None
    if contrast is None:
        return ""
    alpha, shown = level_of_tests(level) / made.size, abs(contrast.difference)
    least = {count: least_difference(contrast, rounds, count, alpha, level) for count in (rounds, *MORE_ROUNDS)}
    enough = next((count for count in MORE_ROUNDS if count > rounds and least[count] < shown), None)
    is_impossible = one.metric.unit == "%" and least[rounds] >= LARGEST_SHARE
    if least[rounds] <= shown or enough is None or is_impossible:
        return ""
    unit = "percentage points" if one.metric.unit == "%" else one.metric.unit
    digits = decimals(one.metric.digits, least[rounds])
    names = " and ".join(_name(context, one.factor, group) for group in (one.first, rival.group))
    where = f" ({place})" if (place := _where(context, one, beside)) else ""
    return (
        f"{rounds} rounds cannot show a difference in {asked.noun} between {names}{where} below "
        f"{number(least[rounds], digits)} {unit}; {number(shown, digits)} {unit} is found, which "
        f"{enough} rounds could show (--set rounds={enough})."
    )


def _value(metric: Metric, value: float) -> str:
    return f"{number(value, decimals(metric.digits, value))} {metric.unit}".rstrip()


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
    return ("more", "less") if metric.higher_is_better else ("less", "more")


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Findings in sentences and matrices: of each headline quantity its range, and who leads by how much.

The key that `report.toml` names as `between` is compared; without one, algorithms are, where all else is the same.
With a single algorithm, the first varied key is: a loss rate is a condition, not a rival of another. Groups that differ
in more than one factor allow no comparison: of them a sentence gives the lowest and the highest value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perigee.groups.factors import Factor, capital
from perigee.groups.group import Group
from perigee.numbers import decimals, number, signed, three_figures
from perigee.report.context import Context
from perigee.report.family import Family, family
from perigee.report.headline import Headline
from perigee.report.matrix import matrix
from perigee.report.model import Table
from perigee.report.ranking import ALGORITHM, Ranking, Rival
from perigee.statistics.estimates import EQUAL_SHARE, percent
from perigee.statistics.metrics import Metric

MOST_SETTINGS = 4
"""Settings of one flow without a test, of which a sentence says more than the range."""

MOST_MATRICES = 2

TELLING_SHARE = 0.1
"""A setting that changes a quantity by less than this share of its range is left out of a sentence."""


@dataclass(frozen=True)
class Findings:
    """The short version of a page.

    Attributes:
        lines: a sentence per quantity.
        tables: matrices of the quantities over what varies.
        method: how the differences were tested.
    """

    lines: list[str]
    tables: list[Table]
    method: str


def answers(context: Context) -> Findings:
    """Return the sentences and matrices; empty of captures."""
    made = family(context)
    lines: list[str] = []
    tables: list[Table] = []
    is_compared = any(found for _, found in made.found)
    for asked, found in made.found:
        if is_compared and not found and not context.settings.headline:
            continue
        table = matrix(context, asked, found) if len(tables) < MOST_MATRICES else None
        tables += [table] if table else []
        lines.append(_line(context, asked, found))
    has_interval = bool(tables) or any("[" in line for line in lines)
    return Findings(lines, tables, _method(context, made, has_interval=has_interval) if lines else "")


def _line(context: Context, asked: Headline, found: Sequence[Ranking]) -> str:
    """Return the sentence of a quantity."""
    is_tested = any(rival.is_tested for one in found for rival in one.rivals)
    if not found or (len(found) > MOST_SETTINGS and not is_tested and found[0].factor != ALGORITHM):
        return _range(context, asked)
    if found[0].against == "best":
        return _best(context, asked, found)
    first, subject = _name(context, found[0], found[0].first), capital(asked.noun)
    beside = f"{subject}, beside that {first}" if first.startswith("with") else f"{subject} against {first}"
    if len(found) == 1:
        said = [f"{_name(context, found[0], rival.group)} {_change(found[0], rival)}" for rival in found[0].rivals]
        return f"{beside} ({_value(asked.metric, found[0].mean)}): {'; '.join(said)}."
    said = [f"{name} {_changes(pairs)}" for name, pairs in _by_rival(context, found).items()]
    return f"{beside} in {len(found)} settings: {'; '.join(said)}."


def _best(context: Context, asked: Headline, found: Sequence[Ranking]) -> str:
    """Return the sentence of algorithms: who leads and by how much; of several leaders only the range."""
    best, rival = found[0], found[0].rivals[0]
    name, more = _name(context, best, best.first), "more" if asked.metric.higher_is_better else "less"
    lead = f"{name} has the {'highest' if more == 'more' else 'lowest'} {asked.noun}"
    if len(found) > 1:
        leaders = {_name(context, one, one.first) for one in found}
        if len(leaders) > 1 or any(one.best is None for one in found):
            return f"{_range(context, asked)[:-1]}{_winner(context, found, lead)}."
        leads = [(one, one.rivals[0]) for one in found]
        settings = "both" if len(found) == 2 else f"all {len(found)}"
        return f"{lead} in {settings} settings: {_changes(leads, of_first=True)} {more} than the next."
    equal = [_name(context, best, other.group) for other in best.rivals if other.verdict == "equal"]
    if rival.verdict == "equal":
        alike = f"{_names([name, *equal])} are practically equal in {asked.noun}, {_value(asked.metric, best.mean)}"
        apart = next((other for other in best.rivals if other.verdict != "equal"), None)
        if apart is None:
            return f"{alike}."
        return f"{alike}; {_name(context, best, apart.group)} {_change(best, apart)}."
    lead = f"{lead}, {_value(asked.metric, best.mean)}"
    if number(best.mean, asked.metric.digits) == number(rival.mean, asked.metric.digits) and not rival.is_tested:
        return f"{lead}, as {_name(context, best, rival.group)} has."
    others = [f"{_name(context, best, other.group)} {_change(best, other)}" for other in best.rivals]
    return f"{lead}; {'; '.join(others)}."


def _winner(context: Context, found: Sequence[Ranking], lead: str) -> str:
    """Return who is clearly best wherever anyone is; empty without one, or in less than half of the settings."""
    clear = [one for one in found if one.best is not None]
    names = {_name(context, one, one.first) for one in clear}
    is_one = names == {_name(context, found[0], found[0].first)} and 2 * len(clear) >= len(found)
    return f"; {lead} wherever one is clearly best" if is_one else ""


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
    ends = [f"{_value(metric, value)} ({_where(metric, factors, known, group)})" for group, value in (low, high)]
    return f"{subject}: {ends[0]} to {ends[1]}."


def _where(metric: Metric, factors: Sequence[Factor], known: Sequence[tuple[Group, float]], group: Group) -> str:
    """Return the settings of a group that make its value, in words; of many groups with this value, their number.

    All groups with the named settings have practically this value.
    """
    values = [value for _, value in known]
    own = next(value for other, value in known if other is group)
    named = []
    for one in factors:
        rest = [factor for factor in factors if factor is not one]
        beside = [value for _, value in _alike(known, group, rest)]
        if len(factors) == 1 or max(abs(value - own) for value in beside) > TELLING_SHARE * (max(values) - min(values)):
            named.append(one)
    written = _value(metric, own)
    alike = sum(_value(metric, value) == written for value in values)
    if not named and alike > 1:
        return f"in {alike} of {len(known)} settings"

    def others(settings: Sequence[Factor]) -> int:
        apart = (value for _, value in _alike(known, group, settings) if _value(metric, value) != written)
        return sum(abs(value - own) > EQUAL_SHARE * max(abs(value), abs(own)) for value in apart)

    while others(named) and len(named) < len(factors):
        named.append(min((one for one in factors if one not in named), key=lambda one: others([*named, one])))
    said = [one.in_legend(group.levels.get(one.key, "")) for one in factors if one in named]
    return ", ".join(said) or group.label


def _alike(known: Sequence[tuple[Group, float]], group: Group, settings: Sequence[Factor]) -> list[tuple[Group, float]]:
    """Return the groups that have some settings of a group, with their values."""
    keys = [factor.key for factor in settings]
    return [pair for pair in known if all(pair[0].levels.get(key) == group.levels.get(key) for key in keys)]


def _by_rival(context: Context, found: Sequence[Ranking]) -> dict[str, list[tuple[Ranking, Rival]]]:
    """Return each rival's comparisons with the first group, over the settings."""
    named: dict[str, list[tuple[Ranking, Rival]]] = {}
    for one in found:
        for rival in one.rivals:
            named.setdefault(_name(context, one, rival.group), []).append((one, rival))
    return named


def _changes(pairs: Sequence[tuple[Ranking, Rival]], *, of_first: bool = False) -> str:
    """Return the range of differences over settings: of rivals with their signs, or of the first from its rivals."""
    unit, digits = pairs[0][0].metric.unit, 0
    if unit == "%":
        shares, unit = [rival.mean - one.mean for one, rival in pairs], "pp"
        digits = min(decimals(0, min(map(abs, shares))), pairs[0][0].metric.digits)
    else:
        bases = [rival.mean if of_first else one.mean for one, rival in pairs]
        shares = [100 * (rival.mean - one.mean) / base for (one, rival), base in zip(pairs, bases, strict=True) if base]
        unit = "%"
    if not shares:
        return f"0 {unit}"
    written = [number(abs(share), digits) if of_first else signed(share, digits) for share in shares]
    ends = sorted(zip(map(abs, shares) if of_first else shares, written, strict=True))
    return f"{' to '.join(dict.fromkeys((ends[0][1], ends[-1][1])))} {unit}"


def _change(one: Ranking, rival: Rival) -> str:
    """Return a rival's value less the first one, with its interval, and in brackets what its test adds."""
    if rival.verdict == "equal":
        return "practically equal"
    comparison = rival.comparison
    difference = -comparison.difference if comparison and rival.is_tested else rival.mean - one.mean
    contrast = comparison.contrast if comparison else None
    is_share = one.metric.unit == "%"
    digits = decimals(one.metric.digits, difference, contrast.half_width if contrast else None)
    text = signed(difference, digits)
    if comparison and comparison.interval is not None and not _is_too_wide(one, rival):
        low, high = comparison.interval
        text += f" [{signed(-high, digits)}, {signed(-low, digits)}]"
    text += " pp" if is_share else f" {one.metric.unit}".rstrip()
    notes = [f"{signed(100 * difference / one.mean, 0)} %"] if one.mean > 0 and not is_share else []
    notes += ["not significant"] if rival.verdict == "open" else []
    return text + (f" ({', '.join(notes)})" if notes else "")


def _is_too_wide(one: Ranking, rival: Rival) -> bool:
    """Whether an interval says nothing: it reaches beyond all shares, or is wider than the values themselves."""
    contrast = rival.comparison.contrast if rival.comparison else None
    widest = 100.0 if one.metric.unit == "%" else max(abs(one.mean), abs(rival.mean))
    return contrast is not None and contrast.half_width > widest


def _method(context: Context, made: Family, *, has_interval: bool) -> str:
    """Return how the differences were tested."""
    if context.is_one_sample:
        return "Nothing in this study is random: all rounds gave the same, and there is nothing to test."
    if context.rows["round"].n_unique() < 2:
        return "One round: no intervals, no tests."
    if not made.tested:
        return ""
    if not has_interval:
        are_left_out = any(_is_too_wide(one, rival) for _, found in made.found for one in found for rival in one.rivals)
        return "Intervals wider than the values are not shown; more rounds narrow them." if are_left_out else ""
    in_pairs = sum(one.is_paired for one in made.tested)
    kinds = ["t test of pairs of the same round"] if in_pairs else []
    kinds += ["Welch's t test"] if in_pairs < len(made.tested) else []
    how = f"{percent(context.settings.confidence)} interval of a difference ({', elsewhere '.join(kinds)})"
    at = f", for all {made.size} comparisons of this page together (Holm)" if made.size > 1 else ""
    return (
        f"[a, b]: {how}{at}; one that holds 0 is not significant. Below {100 * EQUAL_SHARE:g} % means are practically "
        "equal."
    )


def _value(metric: Metric, value: float) -> str:
    return f"{number(value, three_figures(decimals(metric.digits, value), value))} {metric.unit}".rstrip()


def _name(context: Context, one: Ranking, group: Group) -> str:
    """Return the label that distinguishes a group from its rivals."""
    if one.factor == ALGORITHM:
        return context.label(group.cc) if group.cc else group.label
    return context.said(one.factor, group.factors[one.factor])


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

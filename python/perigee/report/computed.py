# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Numbers in an author's sentences: `{METRIC: CELL}` and `{METRIC: CELL against CELL}`, computed from the results."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from perigee.errors import InputError, NothingToDrawError
from perigee.groups.factors import ALGORITHM, FLOW
from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
from perigee.groups.settings import metric_and_flow
from perigee.numbers import decimals, number
from perigee.report.context import Context
from perigee.report.headline import pooled
from perigee.scoring.quantity import fits, metric_of
from perigee.statistics.estimates import EQUAL_SHARE
from perigee.statistics.metrics import Metric
from perigee.store.points import EXPERIMENT

HOW = "write {METRIC: KEY = VALUE, ...} or {METRIC: KEY = VALUE, ... against KEY = VALUE, ...}"

AS_MUCH = "practically the same"
"""Words for differences that are all below `EQUAL_SHARE`."""

MORE_OR_LESS = ("more", "less")
"""Words of a difference that names none."""

TIMES_FROM = 400.0
"""Difference in % from which on a multiple says it better."""

_FIELD = re.compile(r"\{([^{}]*)\}")
_PARTS = re.compile(r"(?:'[^']*'|[^,'])+")
"""The parts of a cell, between commas; values that have commas stand in single quotes."""


@dataclass(frozen=True)
class Field:
    """A number of a sentence.

    Attributes:
        metric: the metric or arithmetic.
        flow: the flow it is of; empty: bulk transfers, or what else has the metric.
        cell: what the flows have in common; the values of what else varies make a range.
        against: the cell that it is compared with, in %; None: the value itself.
        words: for more and for less.
    """

    metric: str
    flow: str
    cell: Mapping[str, str]
    against: Mapping[str, str] | None
    words: tuple[str, str]


def fields(text: str) -> list[Field]:
    """Return the numbers of a sentence.

    Raises:
        InputError: one is not written as `HOW` says, or there is no such metric.

    Examples:
        >>> (one,) = fields("Hybla carries {goodput_mbps: cc = hybla against cc = cubic}.")
        >>> one.cell, one.against, one.words
        ({'cc': 'hybla'}, {'cc': 'cubic'}, ('more', 'less'))
        >>> (one,) = fields("{rtt_mean_ms of probe: cc = bbr, loss = 1 % against cc = reno | longer, shorter}")
        >>> one.flow, one.cell, one.words
        ('probe', {'cc': 'bbr', 'loss': '1 %'}, ('longer', 'shorter'))
    """
    return [_field(inside) for inside in _FIELD.findall(text)]


def computed(text: str, context: Context) -> str:
    """Return a sentence with its numbers.

    Raises:
        InputError: a number is written wrongly.
        NothingToDrawError: these results have no flows of a cell.
    """
    return _FIELD.sub(lambda found: _said(context, _field(found[1]), found[1]), text)


def _field(inside: str) -> Field:
    name, colon, rest = inside.partition(":")
    cells, _, words = rest.partition("|")
    first, against, second = cells.partition(" against ")
    more, _, less = words.partition(",")
    if not colon or bool(words) != bool(more.strip() and less.strip()):
        raise InputError(f"{{{inside}}} is no number of an answer; {HOW}")
    metric, flow = metric_and_flow(name.strip())
    metric_of(metric)
    pair = (more.strip(), less.strip()) if words else MORE_OR_LESS
    return Field(metric, flow, _cell(first, inside), _cell(second, inside) if against else None, pair)


def _cell(text: str, inside: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in _PARTS.findall(text) if part.strip()]
    if any(not (key.strip() and sign and value.strip()) for key, sign, value in pairs):
        raise InputError(f"{{{inside}}} is no number of an answer; {HOW}")
    return {key.strip(): value.strip().strip("'") for key, _, value in pairs}


def _said(context: Context, field: Field, inside: str) -> str:
    metric = metric_of(field.metric)
    experiment = str(field.cell.get(EXPERIMENT, ""))
    own = context
    if experiment:
        if experiment not in context.results.whole.experiments:
            raise NothingToDrawError(f"{{{inside}}}: these results have no experiment {experiment}")
        own = context.of_experiment(experiment)
    cells = [field.cell] if field.against is None else [field.cell, {**field.against}]
    fixed = _fixed(own, {key for cell in cells for key in cell})
    values = [_values(own, metric, field.flow, _without(cell, fixed)) for cell in cells]
    for cell, found in zip(cells, values, strict=True):
        if not found:
            said = ", ".join(f"{key} = {value}" for key, value in cell.items()) or "anything"
            changed = [f"{key} = {fixed[key]}" for key in cell if key in fixed and cell[key] != fixed[key]]
            why = f"; all of them are with {', '.join(changed)}, as was set" if changed else ""
            raise NothingToDrawError(f"{{{inside}}}: these results have no value of {metric.name} for {said}{why}")
    if field.against is None:
        return _range(metric, [value for _, value in values[0]])
    free = _free([group for group, _ in values[0]]) | _free([group for group, _ in values[1]])
    free -= {FLOW, *(key for key in free if any(f".{key}".endswith(f".{named}") for named in {**cells[0], **cells[1]}))}
    rest = {tuple(group.factors.get(key) for key in sorted(free)): value for group, value in values[1]}
    of_first = ((tuple(group.factors.get(key) for key in sorted(free)), value) for group, value in values[0])
    pairs = [(value, rest[key]) for key, value in of_first if key in rest]
    if not pairs:
        raise NothingToDrawError(f"{{{inside}}}: these results have no two flows that differ only in that")
    return _difference(metric, pairs, field.words)


def _values(context: Context, metric: Metric, flow: str, cell: Mapping[str, str]) -> list[tuple[Group, float]]:
    """Return the groups of a cell with their values: of a flow, else of bulk transfers, or the kind with the metric."""
    candidates = [context.all_groups, *(context.groups_of(kind) for kind in SECTION_OF)]
    if flow:
        candidates = [context.groups_named([flow])]
    for groups in candidates:
        fitting = pooled(context, [group for group in groups if fits(cell, group.factors)])
        known = [(group, context.value(group, metric)) for group in fitting if not group.flows.is_empty()]
        if known := [(group, value) for group, value in known if value == value]:
            return known
    return []


def _fixed(context: Context, keys: Collection[str]) -> dict[str, str]:
    """Return those of a cell's keys that a setting of the command line gave one value in all runs, with that."""
    settings = [setting.partition("=") for setting in context.results.manifest.get("settings", ())]
    varied = [column.key for column in context.results.points.columns]
    found = {}
    for key in {*keys} - {ALGORITHM, FLOW, EXPERIMENT}:
        values = {value for name, _, value in settings if f".{name}".endswith(f".{key}")}
        if len(values) == 1 and not any(f".{name}".endswith(f".{key}") for name in varied):
            found[key] = values.pop()
    return found


def _without(cell: Mapping[str, str], fixed: Mapping[str, str]) -> dict[str, str]:
    """Return a cell without what all runs were set to: it is no factor of theirs."""
    return {key: value for key, value in cell.items() if fixed.get(key) != value}


def _free(groups: Sequence[Group]) -> set[str]:
    """Return the factors that are not the same in all groups of a cell; what a variant sets is."""
    return {key for group in groups for key, value in group.factors.items() if groups[0].factors.get(key) != value}


def _range(metric: Metric, values: Sequence[float]) -> str:
    digits = decimals(0, max(map(abs, values)))
    ends = dict.fromkeys(number(value, digits) for value in (min(values), max(values)))
    return f"{' to '.join(ends)} {metric.unit}".rstrip()


def _difference(metric: Metric, pairs: Sequence[tuple[float, float]], words: tuple[str, str]) -> str:
    """Return how much more or less the first values are, in %, percentage points, or as a multiple.

    Examples:
        >>> rate = metric_of("goodput_mbps")
        >>> _difference(rate, [(12, 10), (15, 10)], ("more", "less")), _difference(rate, [(8, 10)], ("more", "less"))
        ('20 to 50 % more', '20 % less')
        >>> _difference(rate, [(9, 10), (13, 10)], ("more", "less")), _difference(rate, [(1, 1)], ("more", "less"))
        ('from 10 % less to 30 % more', 'practically the same')
        >>> _difference(rate, [(17, 1), (90, 10)], ("more", "less"))
        '9 to 17 times as much'
    """
    is_share = metric.unit == "%"
    unit = "percentage points" if is_share else "%"
    changes = [one - other if is_share else 100 * (one / other - 1) for one, other in pairs if is_share or other]
    if not changes:
        raise NothingToDrawError(f"{metric.name}: is 0 where it is compared with")
    bound = 0.05 if is_share else 100 * EQUAL_SHARE
    low, high = min(changes), max(changes)
    if max(-low, high) < bound:
        return AS_MUCH
    if low >= TIMES_FROM and words == MORE_OR_LESS and not is_share:
        return f"{' to '.join(dict.fromkeys(number(1 + end / 100, 0) for end in (low, high)))} times as much"
    digits = decimals(0, min(abs(one) for one in (low, high) if one)) if is_share else 0
    more, less = words
    if low < 0 < high and min(-low, high) >= bound:
        return f"from {number(-low, digits)} {unit} {less} to {number(high, digits)} {unit} {more}"
    sizes = sorted((max(0.0, low), high) if high > -low else (max(0.0, -high), -low))
    ends = dict.fromkeys(number(size, digits) for size in sizes)
    return f"{' to '.join(ends)} {unit} {more if high > -low else less}"

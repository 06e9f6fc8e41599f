# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figures chosen by the user: kind, quantities, and roles of factors."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from perigee.errors import InputError, NothingToDrawError
from perigee.groups.factors import Factor
from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
from perigee.groups.panels import Panel, Roles, few, hue_of, panels, roles
from perigee.groups.settings import Choice
from perigee.numbers import counted, number
from perigee.report.charts import equal
from perigee.report.charts.bars import bars
from perigee.report.charts.boxes import FEW
from perigee.report.charts.sample import means, texts
from perigee.report.context import Context
from perigee.report.gains import gains_of
from perigee.report.model import Plot, Table
from perigee.report.sections import distributions, in_turn, over_time, representative, rows, sweep, tradeoff
from perigee.report.sections.distributions import Words
from perigee.statistics.estimates import at_level, percent
from perigee.statistics.metrics import Metric, metric, numeric

MOST_PANELS = 12
"""Panels of a figure."""

GAIN = "gain"
"""The kind that is drawn of runs instead of groups."""

NONE = "none"
"""Value of `hue` for no hue."""


def plots_of(context: Context, choice: Choice) -> list[Plot]:
    """Return the figures of a choice, see `blocks_of`."""
    return [block for block in blocks_of(context, choice) if isinstance(block, Plot)]


def blocks_of(context: Context, choice: Choice) -> Sequence[Plot | Table]:
    """Return the figures of a choice, with the tables that some kinds have.

    Raises:
        NothingToDrawError: its factor does not vary in these results, or they lack its data.
        InputError: the kind or metric does not exist; the message lists those available.
    """
    if choice.figure not in (*FIGURES, *OF_FLOWS, GAIN):
        raise _unknown("figure", choice.figure, [*FIGURES, *OF_FLOWS, GAIN])
    if choice.figure in OF_FLOWS:
        _, draw = OF_FLOWS[choice.figure]
        if not (found := draw(context)):
            raise NothingToDrawError(f"--figure {choice.figure}: these results have nothing that it shows")
        return found
    metrics = [metric(name, numeric(context.rows)) for name in choice.metrics or ("goodput_mbps",)]
    if choice.figure == GAIN:
        return gains_of(context, metrics, choice)
    groups = _with_values(context, metrics, choice.flows)
    _, make = FIGURES[choice.figure]
    made = make(context, groups, metrics, choice)
    if not made:
        raise NothingToDrawError(f"--figure {choice.figure}: these results have nothing that it shows")
    return made


def _with_values(context: Context, metrics: Sequence[Metric], flows: Sequence[str]) -> list[Group]:
    """Return the groups to draw: of the named flows, else bulk transfers, or the kind with the first metric."""
    candidates = [context.drawn, *(context.groups_of(kind) for kind in SECTION_OF)]
    if flows:
        candidates = [context.groups_named(flows)]
    for groups in candidates:
        kept = [group for group in context.pooled(groups) if not group.flows.is_empty()]
        if any(context.with_metric(group, metrics[0].name)[metrics[0].name].count() for group in kept):
            return kept
    raise NothingToDrawError(f"--metric {metrics[0].name}: no flow of these results has a value of it")


def _lines(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    place = _placed(context.factors(groups), choice)
    if place.x is None:
        raise NothingToDrawError("--figure lines: nothing varies beside the colours; use boxes, or give --x")
    sample = context.sample(groups, metrics, place.hue)
    return [block for block in sweep.lines_of(groups, sample, metrics, place) if isinstance(block, Plot)]


def _heatmap(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    factors = context.factors(groups)
    numbers = sorted((one for one in factors if one.is_number), key=lambda one: -len(one.levels))
    words = [one for one in factors if not one.is_number and not one.is_algorithm]
    chosen = [_factor(factors, key, "--x") for key in choice.x[:2]]
    axes = (chosen + [one for one in numbers + words if one not in chosen])[:2]
    if len(axes) < 2:
        raise NothingToDrawError(
            f"--figure heatmap: two things must vary beside the algorithm, and here only {_listed(factors)} does"
        )
    place = _placed(
        [one for one in factors if one not in axes], Choice("heatmap", hue=choice.hue, facets=choice.facets)
    )
    rest = [one for one in (place.x, *place.facets) if one is not None]
    kept, left_out = few(panels(groups, rest, None), rest, MOST_PANELS // 2)
    made = []
    for panel in kept:
        part = context.sample(groups, metrics, place.hue)
        levels = {one: panel.levels[one.key] for one in rest}
        own = sweep.at(part, levels)
        where = " ".join(words for words in (panel.title and f"Here: {panel.title}.", left_out) if words)
        there = [one for one in metrics if own.flows[one.name].count()]
        made += [sweep.map_plot(own, one, (axes[0], axes[1]), place.hue, where) for one in there]
    return made


def _scatter(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    across = metric(choice.x[0] if choice.x else "rtt_p95_ms", numeric(context.rows))
    hue, kept, left_out = _kept(context, groups, choice)
    own = [group for panel in kept for group in panel.groups]
    part = tradeoff.paneled(context.sample(own, [across, *metrics], hue), kept)
    return [tradeoff.plot_of(part, (across, one), hue, tradeoff.factor_of(kept), left_out) for one in metrics]


def _boxes(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    hue, kept, left_out = _kept(context, groups, choice)
    most = max(group.flows.height for panel in kept for group in panel.groups)
    of = "quartiles, median and outliers." if most >= FEW else "points, with a line at their mean."
    every, looks = [group for panel in kept for group in panel.groups], context.looks(hue)
    return [
        distributions.box_plot(
            context, kept, [(one.name, "")], _words("boxes", one, f"{one.title} of each flow: {of}"), left_out,
            looks=looks, groups=every,
        )
        for one in metrics
    ]  # fmt: skip


def _bars(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    """Return bars of means, a figure per metric: the first factor that has no other place has panels."""
    place = _placed(context.factors(groups), choice)
    panel = place.facets[0] if place.facets else None
    sample = context.sample(groups, metrics, place.hue)
    factors = [one for one in (place.x, place.hue, panel) if one is not None]
    settings = itertools.product(*([(one, text) for text in texts(one)] for one in place.facets[1:]))
    wanted = list(itertools.product(settings, metrics))
    left_out = f"{counted(len(wanted) - MOST_PANELS, 'more figure')} left out." if len(wanted) > MOST_PANELS else ""
    made = []
    for levels, one in wanted[:MOST_PANELS]:
        own = sweep.at(sample, dict(levels))
        where = ", ".join(factor.said(text) for factor, text in levels)
        data = means(own, [one], factors)
        if data.is_empty():
            continue
        has_interval = data[at_level("half_width", own.confidence)].count() > 0
        interval = f", with {percent(own.confidence)} confidence intervals" if has_interval else ""
        caption = f"{one.title}: means over the rounds{interval}."
        words = "; ".join(
            f"{', '.join(str(row[factor.name]) for factor in factors)}: {number(row['mean'], 3)}"
            for row in data.iter_rows(named=True)
        )
        made.append(
            Plot.of(
                "-".join(["bars", one.name, *(text for _, text in levels)]),
                " ".join(filter(None, (caption, where and f"Here: {where}.", own.said_grey(place.hue), left_out))),
                words,
                partial(bars, own, one, place.x, place.hue, panel),
                data=data,
                instead=equal.instead(own, [one]),
            )
        )
    return made


def _cdf(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    hue, kept, left_out = _kept(context, groups, choice)
    made = []
    for one in metrics:
        panels = distributions.curves_of(kept, [("", distributions.of_flows(context, one.name))], context.looks(hue))
        words = _words("cdf", one, f"Cumulative distribution over flows of each flow's {one.title}.")
        made.append(distributions.cumulative_plot(context, panels, words, left_out))
    return made


def _words(kind: str, one: Metric, caption: str) -> Words:
    name = f"{kind}-{one.name}"
    return Words(name, one.heading, one.name, caption, one.digits, one.unit, "flows", one.higher_is_better)


def _rtt(context: Context, _groups: Sequence[Group], _metrics: Sequence[Metric], _choice: Choice) -> list[Plot]:
    found = distributions.delay(context)
    return [block for block in found.blocks if isinstance(block, Plot)] if found else []


def _time(context: Context, _groups: Sequence[Group], _metrics: Sequence[Metric], _choice: Choice) -> list[Plot]:
    found = representative.section(context)
    return [block for block in found.blocks if isinstance(block, Plot)] if found else []


def _dots(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], choice: Choice) -> list[Plot]:
    factors = context.factors(groups)
    hue = _hue(factors, choice, hue_of(factors))
    if hue is None:
        raise NothingToDrawError("--figure dots: nothing varies that could have rows")
    facet = _factor(factors, choice.facets[0], "--facet") if choice.facets else None
    marks = _factor(factors, choice.x[0], "--x") if choice.x else None
    marks = marks or next((one for one in factors if one not in (hue, facet)), None)
    return [rows.dots(context, groups, metrics, hue, marks, facet)]


def _rows(context: Context) -> list[Plot]:
    """Return a figure for each setting with a row per algorithm over time."""
    if not context.results.has("series"):
        return []
    kept, _ = context.panels(context.drawn, MOST_PANELS)
    return [rows.rows_over_time(context, panel.title, panel.groups, panel.labels) for panel in kept]


Maker = Callable[[Context, Sequence[Group], Sequence[Metric], Choice], list[Plot]]

FIGURES: Mapping[str, tuple[str, Maker]] = {
    "lines": ("means over what varies, with confidence intervals", _lines),
    "heatmap": ("means over two things that vary, as colours and numbers", _heatmap),
    "scatter": ("a metric against another (95th percentile of the round trip), with ellipses of the spread", _scatter),
    "boxes": ("how the flows of each group differ: boxes, or points of few flows", _boxes),
    "bars": ("means over what varies as bars, with confidence intervals", _bars),
    "cdf": ("cumulative distribution over flows", _cdf),
    "dots": ("a row per algorithm and a mark per setting, on a scale per metric", _dots),
    "rtt": ("cumulative distribution of all round trips", _rtt),
    "time": ("a representative flow of each group over time", _time),
}
"""Description and maker of each kind by name."""


OF_FLOWS: Mapping[str, tuple[str, Callable[[Context], Sequence[Plot | Table]]]] = {
    "window": ("congestion window and retransmissions of a flow of each group over time", over_time.window),
    "rows": ("window, round trip and throughput over time, a row per algorithm, of a study of many", _rows),
    "bands": ("mean throughput over time with confidence bands, also of flows that share a link", over_time.bands),
    "campaign": ("throughput of transfers that follow each other over hours", over_time.campaign),
    "kept": ("share of its window that a sender kept at each loss, from its log", over_time.kept),
    "in-turn": ("transfers of two flows in turn, and their differences pair by pair", in_turn.in_turn),
}
"""Description and maker of the kinds that show flows and no metric, by name."""


def _placed(factors: Sequence[Factor], choice: Choice) -> Roles:
    """Return the roles of factors: as chosen, the rest by default."""
    given = roles(factors)
    facets = [_factor(factors, key, "--facet") for key in choice.facets]
    x = _factor(factors, choice.x[0], "--x") if choice.x else None
    hue = _hue(factors, choice, given.hue if given.hue not in (x, *facets) else None)
    if x is None:
        free = [one for one in factors if one not in (hue, *facets)]
        x = given.x if given.x in free else next(iter(free), None)
    rest = [one for one in factors if one not in (x, hue, *facets)]
    return Roles(x, hue, (*facets, *rest))


def _hue(factors: Sequence[Factor], choice: Choice, otherwise: Factor | None) -> Factor | None:
    if choice.hue == NONE:
        return None
    return _factor(factors, choice.hue, "--hue") if choice.hue else otherwise


def _kept(context: Context, groups: Sequence[Group], choice: Choice) -> tuple[Factor | None, list[Panel], str]:
    """Return what has a colour each, the panels of a figure in the order of the facets, and what is left out."""
    factors = context.factors(groups)
    hue = _hue(factors, choice, hue_of(factors))
    facets = [_factor(factors, key, "--facet") for key in choice.facets]
    ordered = [*facets, *(one for one in factors if one not in facets)]
    return hue, *few(panels(groups, ordered, hue), [one for one in ordered if one is not hue], MOST_PANELS)


def _factor(factors: Sequence[Factor], key: str, option: str) -> Factor:
    """Return the factor of a name: `loss`, `point.loss`, or the whole key."""
    for one in factors:
        if key in (one.name, one.key, one.name.removeprefix("point.")):
            return one
    names = [one.name.removeprefix("point.") for one in factors]
    if not names:
        raise NothingToDrawError(f"{option} {key}: nothing varies in these results")
    raise _unknown(option, key, names)


def _unknown(what: str, name: str, there: Sequence[str]) -> InputError:
    near = difflib.get_close_matches(name, there, 1)
    where = what if what.startswith("--") else f"--{what}"
    said = f"did you mean {near[0]}? There" if near else "there"
    kind = "does not vary in these results" if what.startswith("--") else f"there is no such {what}"
    are = "vary" if what.startswith("--") else "are"
    error = NothingToDrawError if what.startswith("--") else InputError
    return error(f"{where} {name}: {kind}; {said} {are} {', '.join(there)}")


def _listed(factors: Sequence[Factor]) -> str:
    return ", ".join(one.name.removeprefix("point.") for one in factors if not one.is_algorithm) or "nothing"

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Means over the factors of a study: lines over a number, maps over two, panels for the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import polars as pl

from perigee.groups.factors import Factor, lowered
from perigee.groups.group import Group
from perigee.groups.panels import Roles, few, panels, roles
from perigee.numbers import decimals, number
from perigee.report.charts import equal
from perigee.report.charts.heat import caption as caption_of_map
from perigee.report.charts.heat import heat
from perigee.report.charts.lines import lines
from perigee.report.charts.sample import Sample, means, texts
from perigee.report.charts.scales import scale_of
from perigee.report.context import Context
from perigee.report.model import Block, Plot, Section, Text
from perigee.statistics.estimates import at_level, percent
from perigee.statistics.metrics import Metric

MOST_QUANTITIES = 4
"""Maximum number of drawn quantities of the summary."""

MOST_COLUMNS = 6
"""Maximum number of values of a number that have a panel each; with more, maps take the place of lines."""

MOST_FIGURES = 4
"""Maximum figures per quantity, if more factors vary than a figure can show."""


def section(context: Context) -> Section | None:
    """Return figures of the means over factors besides the algorithm; None without any."""
    groups = context.drawn
    if design := context.design(groups):
        return _of_design(context, groups, design)
    place = with_x(roles(context.factors(groups)))
    metrics = quantities(context, groups)
    if place.x is None or not metrics or context.results.is_analysis:
        return None
    made = blocks(context, groups, metrics, place)
    return Section("sweep", f"Over {lowered(place.x.title)}", made) if made else None


def _of_design(context: Context, groups: Sequence[Group], design: Sequence[Factor]) -> Section | None:
    """Return a figure per number of a design, with a mark for each of its points."""
    metrics = quantities(context, groups)
    if not metrics:
        return None
    hue = next((one for one in context.factors(groups) if one.is_algorithm), None)
    sample = context.sample(groups, metrics, hue)
    made: list[Block] = []
    for x in design:
        others = " and ".join(lowered(one.title) for one in design if one is not x)
        data = means(sample, metrics, [one for one in (x, hue) if one is not None])
        text = (
            f"{_caption(metrics, x, data, sample.confidence)} Each mark is a point of the design; {others} differ too."
        )
        drawn = partial(lines, sample, metrics, x, hue, (None, None), joined=False)
        made.append(
            Plot.of(
                f"design-{x.name.removeprefix('point.')}",
                f"{text} {sample.said_grey(hue)}".strip(),
                _alt(data, metrics, x, hue),
                drawn,
                data=data,
            )
        )
    return Section("sweep", "Over the points of the design", made)


def blocks(context: Context, groups: Sequence[Group], metrics: Sequence[Metric], place: Roles) -> list[Block]:
    """Return figures of quantities of groups: lines, or maps where a number has too many values for a panel each.

    Quantities that are the same everywhere are a sentence.
    """
    sample = context.sample(groups, metrics, place.hue)
    fixed = [one for one in metrics if is_constant(sample, one)]
    made: list[Block] = [Text(_same_everywhere(sample, fixed))] if fixed else []
    alike = [one for one in metrics if one not in fixed and equal.are_equal(equal.means_of_groups(sample, one))]
    made += [Text(equal.sentence(sample, alike))] if alike else []
    differ = [one for one in metrics if one not in fixed and one not in alike]
    if not differ:
        return made
    facet = place.facets[0] if len(place.facets) == 1 else None
    if place.x is not None and place.x.is_number and facet and facet.is_number and len(facet.levels) > MOST_COLUMNS:
        return [*made, *(map_plot(sample, metric, (place.x, facet), place.hue) for metric in differ)]
    return made + lines_of(groups, sample, differ, place)


def is_constant(sample: Sample, metric: Metric) -> bool:
    """Return True if several flows have a quantity, and all the same of it as a table prints it."""
    seen = sample.flows[metric.name].drop_nulls()
    return len(seen) > 1 and len({number(value, decimals(metric.digits, value)) for value in seen.unique()}) == 1


def _same_everywhere(sample: Sample, fixed: Sequence[Metric]) -> str:
    words = []
    for one in fixed:
        value = float(sample.flows[one.name].drop_nulls()[0])
        text = f"{number(value, decimals(one.digits, value))} {one.unit}".strip() if value else "0"
        words.append(f"{lowered(one.title)} {text}")
    return f"The same everywhere: {', '.join(words)}."


def over_what_varies(context: Context, groups: Sequence[Group], metrics: Sequence[Metric]) -> list[Block]:
    """Return figures of quantities over factors besides the algorithm; empty without such a factor or any value."""
    place = with_x(roles(context.factors(groups)))
    known = [one for one in metrics if any(context.with_metric(group, one.name)[one.name].count() for group in groups)]
    return blocks(context, groups, known, place) if place.x is not None and known else []


def lines_of(groups: Sequence[Group], sample: Sample, metrics: Sequence[Metric], place: Roles) -> list[Block]:
    """Return figures of lines of a sample, and a description of those left out."""
    shown, left_out = combinations(groups, place)
    made: list[Block] = [Text(left_out)] if left_out else []
    for levels in shown:
        made += line_plots(sample, metrics, place, levels)
    return made


def with_x(place: Roles) -> Roles:
    """Return roles with words on the horizontal axis if no number varies."""
    if place.x is not None or not place.facets:
        return place
    return Roles(place.facets[0], place.hue, place.facets[1:])


def quantities(context: Context, groups: Sequence[Group]) -> list[Metric]:
    """Return the quantities to draw: the first of the summary that differ between flows."""
    found = context.metrics(context.settings.summary)
    sample = context.sample(groups, found, None).flows
    return [one for one in found if sample[one.name].drop_nulls().n_unique() > 1][:MOST_QUANTITIES]


def combinations(groups: Sequence[Group], place: Roles) -> tuple[list[dict[Factor, str]], str]:
    """Return the levels of each figure for factors without a role, and a description of those left out."""
    rest = place.facets[2:]
    every = [dict(zip(rest, key, strict=True)) for key in itertools.product(*(texts(one) for one in rest))]
    if len(every) <= MOST_FIGURES:
        return every, ""
    own = panels(groups, [*rest], None)
    kept, words = few(own, rest, MOST_FIGURES)
    return [{one: panel.levels[one.key] for one in rest} for panel in kept], words


def line_plots(sample: Sample, metrics: Sequence[Metric], place: Roles, levels: Mapping[Factor, str]) -> Iterator[Plot]:
    """Return figures of lines: one of all quantities, or one each if panels need both directions."""
    x = place.x
    if x is None:
        return
    columns, rows = (*place.facets[:2], None, None)[:2]
    factors = [one for one in (x, place.hue, columns, rows) if one is not None]
    own = at(sample, levels)
    # Factors of other flows of a run have no level.
    own = own.of(own.flows.filter(pl.col(one.name).is_in(texts(one)) for one in factors))
    there = [one for one in metrics if own.flows[one.name].count()]
    where = "".join(f", {one.said(text)}" for one, text in levels.items())
    suffix = "".join(f"-{text}" for text in levels.values())
    for together in [[one] for one in there] if rows else [there] if there else []:
        data = means(own, together, factors)
        name = "lines" if len(together) > 1 else f"lines-{together[0].name}"
        here = f"Here: {where.removeprefix(', ')}." if where else ""
        words = (_caption(together, x, data, own.confidence), here, own.said_grey(place.hue))
        yield Plot.of(
            f"{name}{suffix}",
            " ".join(filter(None, words)),
            _alt(data, together, x, place.hue),
            partial(lines, own, together, x, place.hue, (columns, rows)),
            data=data,
            instead=equal.instead(own, together),
        )


def at(sample: Sample, levels: Mapping[Factor, str]) -> Sample:
    """Return the part of a sample at levels of factors."""
    return sample.of(sample.part(levels))


def map_plot(
    sample: Sample, metric: Metric, axes: tuple[Factor, Factor], panel: Factor | None, where: str = ""
) -> Plot:
    """Return a map of a quantity over two factors, a panel per level of a third; its caption ends with `where`."""
    factors = [one for one in (panel, *axes) if one is not None]
    data = means(sample, [metric], factors)
    return Plot.of(
        f"map-{metric.name} {where}",
        f"{caption_of_map(metric, axes)} {where}".strip(),
        _alt(data, [metric], axes[0], panel),
        lambda width_in: heat(sample, metric, axes, panel, width_in),
        data=data,
        instead=equal.instead(sample, [metric]),
    )


def _caption(metrics: Sequence[Metric], x: Factor, data: pl.DataFrame, confidence: float) -> str:
    titles = [metrics[0].title, *(lowered(one.title) for one in metrics[1:])]
    listed = ", ".join(titles[:-1]) + " and " + titles[-1] if len(titles) > 1 else titles[0]
    has_interval = data[at_level("half_width", confidence)].count() > 0
    text = f"{listed} over {lowered(x.title)}: means over the rounds"
    text += f", with {percent(confidence)} confidence intervals, cut off far above the means." if has_interval else "."
    scale = scale_of(x.numbers) if x.is_number else "linear"
    if scale != "linear":
        text += " The horizontal scale is logarithmic" + (", and linear next to zero." if scale == "symlog" else ".")
    return text


def _alt(data: pl.DataFrame, metrics: Sequence[Metric], x: Factor, hue: Factor | None) -> str:
    """Describe each line by its ends."""
    order = {text: place for place, text in enumerate(texts(x))}
    words = []
    for metric in metrics:
        part = data.filter(pl.col("quantity") == metric.name)
        keys = part.partition_by([hue.name], as_dict=True, maintain_order=True) if hue else {("",): part}
        for (name,), own in keys.items():
            at = own.sort(own[x.name].replace_strict(order, return_dtype=pl.Int64))
            low, high = at.row(0, named=True), at.row(-1, named=True)
            ends = [
                f"{number(row['mean'], metric.digits)} {metric.unit}".rstrip() + f" at {row[x.name]}"
                for row in (low, high)
            ]
            of = f", {hue.in_legend(name)}" if hue else ""
            words.append(f"{metric.title}{of}: {' to '.join(ends)}")
    return "; ".join(words)

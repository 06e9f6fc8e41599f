# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Throughput against the 95th percentile of the round-trip time, as the Pantheon of congestion control shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from perigee.groups.factors import Factor, Level, factor, lowered
from perigee.groups.panels import Panel, hue_of
from perigee.numbers import number
from perigee.report.charts import equal
from perigee.report.charts.sample import Sample, means, texts
from perigee.report.charts.tradeoff import LEAST_FOR_AN_ELLIPSE, MARK_PT, tradeoff
from perigee.report.context import Context
from perigee.report.model import Plot, Section
from perigee.statistics.estimates import EQUAL_SHARE
from perigee.statistics.metrics import Metric, metric

MOST_PANELS = 9

PANEL = "panel"
"""Factor of panels that combine several factors."""


def section(context: Context) -> Section | None:
    """Return throughput against delay, a panel per point; None without round-trip times, or for one group."""
    metrics = (metric("rtt_p95_ms"), metric("goodput_mbps"))
    if len(context.metrics([one.name for one in metrics])) < len(metrics) or len(context.drawn) < 2:
        return None
    plot = of(context, metrics)
    return Section("tradeoff", "Throughput against delay", [plot])


def of(context: Context, metrics: tuple[Metric, Metric]) -> Plot:
    """Return one quantity against another, a panel per point."""
    hue = hue_of(context.factors(context.drawn))
    shown, left_out = context.panels(context.drawn, MOST_PANELS)
    sample = context.sample([group for panel in shown for group in panel.groups], metrics, hue)
    return plot_of(paneled(sample, shown), metrics, hue, factor_of(shown), left_out)


def paneled(sample: Sample, shown: Sequence[Panel]) -> Sample:
    """Return a sample with the title of its panel in each row."""
    titles = {group.name: panel.title for panel in shown for group in panel.groups}
    column = sample.flows["group"].replace_strict(titles).alias(PANEL)
    return sample.of(sample.flows.with_columns(column))


def factor_of(shown: Sequence[Panel]) -> Factor | None:
    """Return the titles of panels as a factor; None for one panel."""
    return factor(PANEL, "", [Level(panel.title) for panel in shown]) if len(shown) > 1 else None


def plot_of(
    sample: Sample, metrics: tuple[Metric, Metric], hue: Factor | None, columns: Factor | None, left_out: str = ""
) -> Plot:
    """Return the figure with its texts and data."""
    across, up = metrics
    factors = [one for one in (columns, hue) if one is not None]
    data = means(sample, metrics, factors)
    telling, without, instead = _telling(sample, metrics, columns, hue)
    most = max(sample.flows.group_by("group").len()["len"].to_list(), default=0)
    words = [f"{up.title} against {lowered(across.title)}; marks are means"]
    if most > 1:
        words.append("small dots flows")
        if most >= LEAST_FOR_AN_ELLIPSE:
            words.append("ellipses one standard deviation around the mean where flows vary")
    lacking = _lacking(sample, metrics, hue)
    end = "lowest" if up.higher_is_better is False else "highest"
    bound = f"Within the grey box means differ by less than {100 * EQUAL_SHARE:g} % from those of the {end} mark."
    text = " ".join(filter(None, (f"{', '.join(words)}.", bound, sample.said_grey(hue), lacking, without, left_out)))
    made = Plot.of(
        f"tradeoff-{up.name}" if (across.name, up.name) != ("rtt_p95_ms", "goodput_mbps") else "tradeoff",
        text,
        "; ".join(_alt(sample, metrics, columns, hue)),
        lambda width_in: tradeoff(telling, metrics, hue, columns, width_in),
        data=data,
        instead=instead,
    )
    is_seen = equal.is_seen(made.figure, MARK_PT)
    return made if is_seen else replace(made, caption=made.caption.replace(f" {bound}", ""))


def _telling(
    sample: Sample, metrics: tuple[Metric, Metric], columns: Factor | None, hue: Factor | None
) -> tuple[Sample, str, str]:
    """Return a sample without panels of practically equal groups, or of a single one.

    Returns:
        The sample, what is left out in words, and the sentence in the place of the figure if nothing is left.
    """
    flows = [sample.part({columns: text}).drop_nulls([one.name for one in metrics]) for text in texts(columns)]
    parts = {text: sample.of(part) for text, part in zip(texts(columns), flows, strict=True) if not part.is_empty()}
    alike = [text for text, part in parts.items() if _is_equal(part, metrics)]
    alone = [text for text, part in parts.items() if part.flows["group"].n_unique() == 1]
    if len(alike) == len(parts):
        sentences = [f"{text}: " * bool(text) + equal.sentence(part, metrics) for text, part in parts.items()]
        return sample, "", " ".join(sentences)
    if hue is not None and len(alone) == len(parts):
        known = {text for part in parts.values() for text in part.flows[hue.name]}
        names = [hue.in_legend(text) for text in texts(hue) if text in known]
        return sample, "", f"At each setting only one group has both ({', '.join(names)}), so there is no figure."
    if columns is None or len(alike) + len(alone) in (0, len(parts)):
        return sample, "", ""
    said = [f"practically equal groups ({'; '.join(alike)})"] if alike else []
    said += [f"a single group ({'; '.join(alone)})"] if alone else []
    kept = sample.flows.filter(~pl.col(columns.name).is_in([*alike, *alone]))
    return sample.of(kept), f"Panels of {' and of '.join(said)} are left out.", ""


def _lacking(sample: Sample, metrics: tuple[Metric, Metric], hue: Factor | None) -> str:
    """Return which levels of the hue have no mark, for they lack one of the quantities; empty: none."""
    if hue is None:
        return ""
    known = set(sample.flows.drop_nulls([one.name for one in metrics])[hue.name])
    names = [hue.in_legend(text) for text in texts(hue) if text not in known]
    return f"Without values of both: {', '.join(names)}." if names else ""


def _is_equal(sample: Sample, metrics: Sequence[Metric]) -> bool:
    return all(equal.are_equal(equal.means_of_groups(sample, one)) for one in metrics)


def _alt(sample: Sample, metrics: tuple[Metric, Metric], columns: Factor | None, hue: Factor | None) -> list[str]:
    across, up = metrics
    found = []
    for above in texts(columns):
        for text in texts(hue):
            own = sample.part({columns: above, hue: text}).drop_nulls([across.name, up.name])
            if not own.is_empty():
                pair = [f"{number(float(own[one.name].to_numpy().mean()))} {one.unit}" for one in (up, across)]
                found.append(f"{', '.join(word for word in (above, text) if word) or 'all'}: {pair[0]} at {pair[1]}")
    return found

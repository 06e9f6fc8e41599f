# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Settings of a study's report: `report.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from perigee.errors import InputError
from perigee.groups import keys
from perigee.groups.strict import StrictTable
from perigee.statistics.estimates import CONFIDENCE, CONFIDENCES, EFFECTS
from perigee.statistics.metrics import metric, numeric
from perigee.statistics.quality import Requirements
from perigee.store.results import Results


@dataclass(frozen=True)
class Choice:
    """A figure that is asked for.

    Attributes:
        figure: its kind, of `perigee.report.choice.FIGURES`.
        metrics: the quantities, see `perigee.statistics.metrics.metric`; empty: throughput.
        x: what is along the horizontal axis; of `heatmap` two, of `scatter` a metric. Empty: what suits.
        hue: what has a colour each; empty: the algorithm, or what suits; `none`.
        facets: what has panels: first the columns, then the rows, then figures of their own; all that varies and is
            not named comes after these.
        flows: names of the flows it shows; a name stands for all of a `count` too. Empty: transfers, or what else has
            the metric.
    """

    figure: str
    metrics: tuple[str, ...] = ()
    x: tuple[str, ...] = ()
    hue: str = ""
    facets: tuple[str, ...] = ()
    flows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportSettings:
    """The content of a report; every field has a default that suits any study.

    Attributes:
        title: headline.
        question: what the study asks, one paragraph.
        answer: the answer to it, in one or two sentences.
        caveats: what limits the answer, a line each.
        headline: quantities of In short, each with its flow if it is of one; empty: those that suit the flows.
        first: experiment whose first figure stands at the head of the page; empty: the first that has one.
        sections: names of the sections in order; empty: all that the data allows.
        labels: how to call an algorithm or a point.
        order: which groups come first.
        reference: group the others are tested against; none: no tests.
        between: key that varies with two values, whose differences are shown; none: no differences.
        link: directed link whose capacity and queue are shown; none: the one with the highest load.
        sizes_mb: sizes of the figure of download times.
        tests: metrics of the t tests.
        confidence: level of the confidence intervals.
        effects: words for effects below 0.2, 0.5 and 0.8, and for larger ones.
        summary: metrics of the summary table.
        kept: names of the shares of the window that are kept at a loss, each with its share.
        figures: figures of the author's choice.
        quality: what applications need, to score pings against.
        experiments: what to show of each experiment that has something of its own here, by name.
    """

    title: str = ""
    question: str = ""
    answer: str = ""
    caveats: tuple[str, ...] = ()
    headline: tuple[str, ...] = ()
    first: str = ""
    sections: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    reference: str | None = None
    between: str | None = None
    link: str | None = None
    sizes_mb: tuple[float, ...] = ()
    tests: tuple[str, ...] = keys.TESTS
    confidence: float = CONFIDENCE
    effects: tuple[str, ...] = EFFECTS
    summary: tuple[str, ...] = keys.SUMMARY
    kept: Mapping[str, float] = field(default_factory=dict)
    figures: tuple[Choice, ...] = ()
    quality: tuple[Requirements, ...] = ()
    experiments: Mapping[str, ReportSettings] = field(default_factory=dict)

    @property
    def rest(self) -> ReportSettings:
        """The settings that hold for every experiment: all but the headline of the whole."""
        return replace(self, title="", question="", answer="", caveats=(), first="", experiments={})

    def of(self, experiment: str) -> ReportSettings:
        """Return what holds for an experiment; with an empty name, for the whole."""
        return self.experiments.get(experiment, self.rest) if experiment else self


class Kept(Protocol):
    """The place of the files on how results are shown: finished results, or the folder of a study."""

    def file(self, name: str) -> tuple[Path, str] | None:
        """Return a file and its text; none where there is none."""

    def declared_experiments(self) -> list[str]:
        """Return the names of the study's experiments."""


def report_settings(results: Kept) -> ReportSettings:
    """Read `report.toml` as kept with the results.

    Raises:
        InputError: the file is wrong; the message names it, the line and the fix.
    """
    kept = results.file("report.toml")
    if kept is None:
        return ReportSettings()
    table = StrictTable.parse(*kept, keys.REPORT)
    settings = replace(_settings(table, ReportSettings(), results), first=table.text("first", ""))
    parts = {}
    for name, part in table.named("experiments", keys.CHAPTER):
        if name not in (there := results.declared_experiments()):
            raise table.error(name, f"the study has no experiment `{name}`; it has {', '.join(there) or 'none'}")
        parts[name] = _settings(part, settings.rest, results)
    table.end()
    return replace(settings, experiments=parts)


def _settings(table: StrictTable, base: ReportSettings, results: Kept) -> ReportSettings:
    """Read the keys of a table; what it does not have is that of `base`."""
    settings = ReportSettings(
        title=table.text("title", base.title),
        question=table.text("question", base.question),
        answer=table.text("answer", base.answer),
        caveats=table.texts("caveats", base.caveats),
        headline=table.texts("headline", base.headline),
        sections=table.texts("sections", base.sections),
        labels={**base.labels, **table.words("labels")},
        order=table.texts("order", base.order),
        reference=table.take("reference", str, base.reference),
        between=table.take("between", str, base.between),
        link=table.take("link", str, base.link),
        sizes_mb=table.sizes("sizes_mb", base.sizes_mb),
        tests=table.texts("tests", base.tests),
        confidence=_confidence(table, base.confidence),
        effects=_effects(table, base.effects),
        summary=table.texts("summary", base.summary),
        kept={**base.kept, **table.numbers("kept")},
        figures=tuple(_figure(part) for part in table.tables("figure", keys.FIGURE)) or base.figures,
        quality=tuple(_quality(part) for part in table.tables("quality", keys.QUALITY)) or base.quality,
    )
    # Which metrics there are is known when there are tables.
    if isinstance(results, Results):
        _check_metrics(settings, table, results)
    return settings


def _confidence(table: StrictTable, default: float) -> float:
    level = float(table.number("confidence", default))
    return float(table.guard("confidence", lambda: confidence_level("`confidence`", level)))


def _effects(table: StrictTable, default: tuple[str, ...]) -> tuple[str, ...]:
    words = table.texts("effects", default)
    if len(words) != len(EFFECTS):
        raise table.error("effects", f"`effects` are four words, as {', '.join(EFFECTS)}; there are {len(words)}")
    return words


def confidence_level(name: str, level: float) -> float:
    """Return a level of confidence that can be chosen.

    Raises:
        InputError: it is no such level; the message begins with the name of what was chosen.

    Examples:
        >>> confidence_level("--confidence", 90)
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --confidence must be from 0.5 to 0.999, not 90; write 0.9 for 90 %
    """
    least, most = CONFIDENCES
    if least <= level <= most:
        return level
    as_share = f"; write {level / 100:g} for {level:g} %" if least <= level / 100 <= most else ""
    raise InputError(f"{name} must be from {least} to {most}, not {level:g}{as_share}")


def metric_and_flow(text: str) -> tuple[str, str]:
    """Return the metric of an entry of `headline`, and its flow; without one, an empty text.

    Examples:
        >>> metric_and_flow("steady_goodput_mbps of ftp"), metric_and_flow("goodput_mbps")
        (('steady_goodput_mbps', 'ftp'), ('goodput_mbps', ''))
    """
    found = _OF_FLOW.fullmatch(text)
    return (found["metric"], found["flow"]) if found else (text, "")


def _check_metrics(settings: ReportSettings, table: StrictTable, results: Results) -> None:
    columns = numeric(results.table("flows"))
    for name in (*settings.tests, *settings.summary):
        table.guard(name, lambda name=name: metric(name, columns))
    for text in settings.headline:
        name, _ = metric_and_flow(text)
        table.guard(text, lambda name=name: metric(name, columns))
    for name in settings.tests:
        if metric(name, columns).of_means:
            raise table.error(name, f"`{name}` is a ratio of means, which no flow has alone; take it out of `tests`")


def _figure(table: StrictTable) -> Choice:
    found = Choice(
        figure=table.text("figure"),
        metrics=table.texts("metric"),
        x=table.texts("x"),
        hue=table.text("hue", ""),
        facets=table.texts("facet"),
        flows=table.texts("flows"),
    )
    table.end()
    return found


def _quality(table: StrictTable) -> Requirements:
    name = table.text("name")
    optimal, unacceptable = (_percentiles(table, key) for key in ("optimal_ms", "unacceptable_ms"))
    if not optimal or optimal.keys() != unacceptable.keys():
        raise table.error(
            "optimal_ms", "`optimal_ms` and `unacceptable_ms` must have the same percentiles, one or more"
        )
    loss = [table.number(f"{end}_loss_percent", None) for end in ("optimal", "unacceptable")]
    if (loss[0] is None) != (loss[1] is None):
        raise table.error("_loss_percent", "`optimal_loss_percent` and `unacceptable_loss_percent` go together")
    pairs = [(f"{one:g} %", optimal[one], unacceptable[one]) for one in optimal]
    pairs += [("loss", *loss)] if loss[0] is not None else []
    for what, low, high in pairs:
        if not 0 <= low < high:
            raise table.error(
                "unacceptable_", f"{what}: {high:g} must be above the optimal {low:g}, which is 0 or more"
            )
    least, flow = table.number("least_mbps", None), table.text("throughput_of", "")
    if (least is None) != (not flow):
        raise table.error("least_mbps", "`least_mbps` and `throughput_of` go together")
    table.end()
    return Requirements(name, optimal, unacceptable, None if loss[0] is None else (loss[0], loss[1]), least, flow)


def _percentiles(table: StrictTable, key: str) -> dict[float, float]:
    found = {}
    for text, value in table.numbers(key).items():
        try:
            percentile = float(text)
        except ValueError:
            percentile = -1
        if not 0 <= percentile <= 100:
            raise table.error(text, f"`{key}`: `{text}` is no percentile; write a number from 0 to 100")
        found[percentile] = value
    return found


_OF_FLOW = re.compile(r"(?P<metric>.*\S) of (?P<flow>[\w.-]+)")

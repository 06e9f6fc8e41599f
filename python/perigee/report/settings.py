# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What a study's report shows (`report.toml`) and what was published of it (`published.toml`): strict readers."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from perigee.errors import InputError
from perigee.places import StudyFile
from perigee.report import keys
from perigee.report.keys import Key
from perigee.statistics.estimates import CONFIDENCE, CONFIDENCES
from perigee.statistics.metrics import Metric, metric, numeric
from perigee.statistics.quality import Requirements
from perigee.store.results import Results, experiments_in

LARGEST = 1e15
"""Numbers in these files are no larger."""

LARGEST_MB = 1e9
"""Sizes in these files are no larger, in MB."""

EARLIEST, LATEST = 1900, 2200
"""Years of publications."""


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
    """What to show; every field has a default that suits any study.

    Attributes:
        title: headline.
        question: what the study asks, one paragraph.
        sections: names of the sections in order; empty: all that the data allows.
        labels: how to call an algorithm or a point.
        order: which groups come first.
        reference: group the others are tested against; none: no tests.
        between: key that varies with two values, whose differences are shown; none: no differences.
        link: directed link whose capacity and queue are shown; none: the one with the highest load.
        sizes_mb: sizes of the figure of download times.
        tests: metrics of the t tests.
        confidence: level of the confidence intervals.
        summary: metrics of the summary table.
        kept: names of the shares of the window that are kept at a loss, each with its share.
        figures: figures of the author's choice.
        quality: what applications need, to score pings against.
        experiments: what to show of each experiment that has something of its own here, by name.
    """

    title: str = ""
    question: str = ""
    sections: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    reference: str | None = None
    between: str | None = None
    link: str | None = None
    sizes_mb: tuple[float, ...] = ()
    tests: tuple[str, ...] = keys.TESTS
    confidence: float = CONFIDENCE
    summary: tuple[str, ...] = keys.SUMMARY
    kept: Mapping[str, float] = field(default_factory=dict)
    figures: tuple[Choice, ...] = ()
    quality: tuple[Requirements, ...] = ()
    experiments: Mapping[str, ReportSettings] = field(default_factory=dict)

    @property
    def rest(self) -> ReportSettings:
        """What holds for every experiment: all but the headline of the whole."""
        return replace(self, title="", question="", experiments={})

    def of(self, experiment: str) -> ReportSettings:
        """Return what holds for an experiment; with an empty name, for the whole."""
        return self.experiments.get(experiment, self.rest) if experiment else self


@dataclass(frozen=True)
class PublishedValue:
    """One published number per group.

    Attributes:
        metric: what was measured.
        statistic: `mean`, `max`, or the share of flows in % that have none (`zero_percent`) or less than `below`
            (`below_percent`).
        below: bound of `below_percent`, in the metric's unit.
        values: by group.
        sd: standard deviations by group, where published.
        within: relative error that counts as met; none: not judged.
        note: what to know about these numbers.
    """

    metric: Metric
    statistic: str
    below: float
    values: Mapping[str, float]
    sd: Mapping[str, float]
    within: float | None
    note: str

    @property
    def heading(self) -> str:
        """What the number is, with its unit."""
        if self.statistic == "zero_percent":
            return f"Flows with none {self.metric.title.lower()} (%)"
        if self.statistic == "below_percent":
            return f"Flows with {self.metric.title.lower()}, below {self.below:g} {self.metric.unit} (in % of flows)"
        if self.statistic == "max":
            return f"Largest {self.metric.title.lower()} ({self.metric.unit})"
        return self.metric.heading

    @property
    def unit(self) -> str:
        """Unit of the number."""
        return "%" if self.statistic.endswith("_percent") else self.metric.unit

    @property
    def digits(self) -> int:
        """Decimals that mean something."""
        return 0 if self.statistic.endswith("_percent") else self.metric.digits


@dataclass(frozen=True)
class PublishedTable:
    """Published numbers that stand in one table.

    Attributes:
        name: for file names.
        caption: headline.
        values: the columns.
        calibrated: whether a link of the study was fitted to these numbers.
    """

    name: str
    caption: str
    values: tuple[PublishedValue, ...]
    calibrated: bool = False


@dataclass(frozen=True)
class Ordering:
    """An ordering of groups that the publication states.

    Attributes:
        claim: in words.
        metric: by what they are ordered.
        tiers: highest first; groups within a tier are not ordered.
    """

    claim: str
    metric: Metric
    tiers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Work:
    """A publication, as it is cited.

    Attributes:
        title: its title.
        authors: each as `Given Family`.
        venue: where it appeared.
        year: when; 0: not given.
        doi: its DOI, without the address of a resolver; empty: it has none.
    """

    title: str
    authors: tuple[str, ...] = ()
    venue: str = ""
    year: int = 0
    doi: str = ""


@dataclass(frozen=True)
class Published:
    """What a publication says.

    Attributes:
        source: what was measured or computed, and by whom.
        work: the publication; none: its title is not given.
        calibration: which link was fitted to which of its numbers, and what agreement shows then; empty: none.
        tables: its numbers.
        orderings: its orderings.
        notes: what to know about it.
    """

    source: str
    work: Work | None
    calibration: str
    tables: tuple[PublishedTable, ...]
    orderings: tuple[Ordering, ...]
    notes: tuple[str, ...]


class Kept(Protocol):
    """What keeps the files that say how results are shown: finished results, or the folder of a study."""

    def file(self, name: str) -> tuple[Path, str] | None:
        """Return a file and its text; none where there is none."""

    def declared_experiments(self) -> list[str]:
        """Return the names of the study's experiments."""


class BesideStudy:
    """The files beside a study, before it is run.

    Args:
        study: its file.
    """

    def __init__(self, study: StudyFile) -> None:
        self._study = study
        self._folder = study.path.parent
        self._texts = study.companions()

    def file(self, name: str) -> tuple[Path, str] | None:
        """Return a file and its text, see `Kept.file`."""
        content = self._texts.get(name)
        if content is None:
            return None
        path = self._folder / name
        try:
            return path, content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a text file (byte {error.start} is no UTF-8); save it as UTF-8") from error

    def declared_experiments(self) -> list[str]:
        """Return the names of the study's experiments, see `Kept.declared_experiments`."""
        try:
            return experiments_in(tomllib.loads(self._study.text))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self._study.path}: {error}; correct the TOML there") from error


def check_beside(study: StudyFile) -> None:
    """Check `report.toml` and `published.toml` beside a study, so that a mistake is not found after hours of runs.

    Raises:
        InputError: one is wrong; the message names it, the line and the fix.
    """
    beside = BesideStudy(study)
    report_settings(beside)
    published(beside)


def report_settings(results: Kept) -> ReportSettings:
    """Read `report.toml` as kept with the results.

    Raises:
        InputError: the file is wrong; the message names it, the line and the fix.
    """
    kept = results.file("report.toml")
    if kept is None:
        return ReportSettings()
    table = _Table.parse(*kept, keys.REPORT)
    settings = _settings(table, ReportSettings(), results)
    parts = {}
    for name, part in table.named("experiments", keys.CHAPTER):
        if name not in (there := results.declared_experiments()):
            raise table.error(name, f"the study has no experiment `{name}`; it has {', '.join(there) or 'none'}")
        parts[name] = _settings(part, settings.rest, results)
    table.end()
    return replace(settings, experiments=parts)


def _settings(table: _Table, base: ReportSettings, results: Kept) -> ReportSettings:
    """Read the keys of a table; what it does not have is that of `base`."""
    settings = ReportSettings(
        title=table.text("title", base.title),
        question=table.text("question", base.question),
        sections=table.texts("sections", base.sections),
        labels={**base.labels, **table.words("labels")},
        order=table.texts("order", base.order),
        reference=table.take("reference", str, base.reference),
        between=table.take("between", str, base.between),
        link=table.take("link", str, base.link),
        sizes_mb=table.sizes("sizes_mb", base.sizes_mb),
        tests=table.texts("tests", base.tests),
        confidence=_confidence(table, base.confidence),
        summary=table.texts("summary", base.summary),
        kept={**base.kept, **table.numbers("kept")},
        figures=tuple(_figure(part) for part in table.tables("figure", keys.FIGURE)) or base.figures,
        quality=tuple(_quality(part) for part in table.tables("quality", keys.QUALITY)) or base.quality,
    )
    # Which metrics there are is known when there are tables.
    if isinstance(results, Results):
        _check_metrics(settings, table, results)
    return settings


def _confidence(table: _Table, default: float) -> float:
    level = float(table.number("confidence", default))
    return float(table.guard("confidence", lambda: confidence_level("`confidence`", level)))


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


def _check_metrics(settings: ReportSettings, table: _Table, results: Results) -> None:
    columns = numeric(results.table("flows"))
    for name in (*settings.tests, *settings.summary):
        table.guard(name, lambda name=name: metric(name, columns))
    for name in settings.tests:
        if metric(name, columns).of_means:
            raise table.error(name, f"`{name}` is a ratio of means, which no flow has alone; take it out of `tests`")


def _figure(table: _Table) -> Choice:
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


def _quality(table: _Table) -> Requirements:
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


def _percentiles(table: _Table, key: str) -> dict[float, float]:
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


def published(results: Kept) -> Published | None:
    """Read `published.toml` as kept with the results; none where there is none.

    Raises:
        InputError: the file is wrong; the message names it, the line and the fix.
    """
    kept = results.file("published.toml")
    if kept is None:
        return None
    table = _Table.parse(*kept, keys.PUBLISHED)
    if results.declared_experiments():
        raise table.error("", "the study has experiments, and published numbers are of studies without; take it out")
    found = Published(
        source=table.text("source"),
        work=_work(table),
        calibration=table.text("calibration", ""),
        tables=tuple(_published_table(part) for part in table.tables("table", keys.TABLE)),
        orderings=tuple(_ordering(part) for part in table.tables("ordering", keys.ORDERING)),
        notes=table.texts("notes"),
    )
    table.end()
    has_calibrated = any(one.calibrated for one in found.tables)
    if found.calibration and not has_calibrated:
        raise table.error("calibration", "`calibration` is of no table; give one `calibrated = true`")
    if has_calibrated and not found.calibration:
        raise table.error("calibrated", "a table is `calibrated`; say which link was fitted to it in `calibration`")
    return found


def _work(table: _Table) -> Work | None:
    """Read the publication; none where no title is given."""
    found = Work(
        title=table.text("title", ""),
        authors=table.texts("authors"),
        venue=table.text("venue", ""),
        year=table.take("year", int, 0),
        doi=table.text("doi", ""),
    )
    if found.year and not EARLIEST <= found.year <= LATEST:
        raise table.error("year", f"`year` must be from {EARLIEST} to {LATEST}, not {found.year}")
    if found.doi and not re.fullmatch(r"10\.\d{4,9}/[!-~]+", found.doi):
        raise table.error("doi", f'`doi` must be as "10.1000/182", without an address before it, not "{found.doi}"')
    if not found.title and found != Work(""):
        raise table.error("", "the publication has no `title`; add one")
    return found if found.title else None


def _published_table(table: _Table) -> PublishedTable:
    name, caption = table.text("name"), table.text("caption")
    calibrated = table.take("calibrated", bool, False)
    values = []
    for part in table.tables("value", keys.VALUE):
        name_of_metric = part.text("metric")
        statistic = part.text("statistic", "mean")
        if statistic not in keys.STATISTICS:
            raise part.error(statistic, f"`{statistic}` is no statistic; there are {', '.join(keys.STATISTICS)}")
        values.append(
            PublishedValue(
                metric=part.guard(name_of_metric, lambda name=name_of_metric: metric(name)),
                statistic=statistic,
                below=part.number("below", 0.0),
                values=part.numbers("values"),
                sd=part.numbers("sd"),
                within=part.number("within", None),
                note=part.text("note", ""),
            )
        )
        part.end()
    table.end()
    return PublishedTable(name, caption, tuple(values), calibrated)


def _ordering(table: _Table) -> Ordering:
    name = table.text("metric")
    tiers = table.take("highest_first", list, None)
    if not isinstance(tiers, list) or len(tiers) < 2 or not all(_is_tier(tier) for tier in tiers):
        raise table.error(
            "highest_first", '`highest_first` must be two or more lists of groups, as [["a"], ["b", "c"]]'
        )
    found = Ordering(
        claim=table.text("claim"),
        metric=table.guard(name, lambda: metric(name)),
        tiers=tuple(tuple(tier) for tier in tiers),
    )
    table.end()
    return found


def _is_tier(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(group, str) for group in value)


_KIND_WORDS = ((str, "a text"), (list, "a list"), (dict, "a table"), (bool, "true or false"))


class _Table:
    """A TOML table that is taken apart key by key as declared; what is left at the end is an unknown key."""

    def __init__(
        self, path: Path, text: str, content: dict[str, Any], declared: Sequence[Key], where: str = ""
    ) -> None:
        self._path = path
        self._text = text
        self._left = dict(content)
        self._declared = [key.name for key in declared]
        self._where = where

    @classmethod
    def parse(cls, path: Path, text: str, declared: Sequence[Key]) -> _Table:
        try:
            return cls(path, text, tomllib.loads(text), declared)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: {error}; correct the TOML there") from error

    def take(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        if key not in self._declared:
            raise KeyError(key)
        if key not in self._left:
            return default
        value = self._left.pop(key)
        # Python takes true for the number 1.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            word = next((word for one, word in _KIND_WORDS if one is kind), "a number")
            raise self.error(key, f"`{key}` must be {word}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self.take(key, str, default)
        if value is None:
            raise self.error("", f"{self._where or 'the file'} has no `{key}`; add one")
        return str(value)

    def texts(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        values = self.take(key, list, list(default))
        for place, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(key, f"`{key}` must be a list of texts")
            if value in values[:place]:
                raise self.error(key, f"`{key}` names `{value}` twice; keep one")
        return tuple(values)

    def words(self, key: str) -> dict[str, str]:
        values = self.take(key, dict, {})
        for name, value in values.items():
            if not isinstance(value, str):
                raise self.error(key, f"`{key}.{name}` must be a text")
        return dict(values)

    def number(self, key: str, default: float | None) -> Any:
        value = self.take(key, (int, float), default)
        return default if value is None else self._finite(key, value)

    def numbers(self, key: str) -> dict[str, float]:
        return {name: self._finite(f"{key}.{name}", value) for name, value in self.take(key, dict, {}).items()}

    def sizes(self, key: str, default: Sequence[float] = ()) -> tuple[float, ...]:
        sizes = [self._finite(key, size) for size in self.take(key, list, list(default))]
        for size in sizes:
            if not 1e-6 <= size <= LARGEST_MB:
                raise self.error(key, f"`{key}` must be sizes from 1e-6 to {LARGEST_MB:g} MB, not {size:g}")
        return tuple(sorted(set(sizes)))

    def _finite(self, key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key.split(".")[0], f"`{key}` must be a number")
        if not abs(value) <= LARGEST:
            raise self.error(key.split(".")[0], f"`{key}` must be a finite number of at most {LARGEST:g}")
        return float(value)

    def tables(self, key: str, declared: Sequence[Key]) -> list[_Table]:
        parts = self.take(key, list, [])
        if not all(isinstance(part, dict) for part in parts):
            raise self.error(key, f"`{key}` must be tables, each begun with [[{key}]]")
        return [
            _Table(self._path, self._text, part, declared, f"{key} {number}") for number, part in enumerate(parts, 1)
        ]

    def named(self, key: str, declared: Sequence[Key]) -> Iterator[tuple[str, _Table]]:
        """Return the tables under a key, each with its name; each must be at its end when the next is asked for."""
        for name, part in self.take(key, dict, {}).items():
            if not isinstance(part, dict):
                raise self.error(key, f"`{key}.{name}` must be a table, begun with [{key}.{name}]")
            table = _Table(self._path, self._text, part, declared, f"{key}.{name}")
            yield name, table
            table.end()

    def guard(self, word: str, make: Any) -> Any:
        try:
            return make()
        except InputError as error:
            raise self.error(word, str(error)) from error

    def end(self) -> None:
        for key in self._left:
            near = difflib.get_close_matches(key, self._declared, 1)
            fix = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(self._declared)}"
            raise self.error(key, f"unknown key `{key}`; {fix}")

    def error(self, word: str, message: str) -> InputError:
        lines = [number for number, line in enumerate(self._text.splitlines(), 1) if word and word in line]
        return InputError(f"{self._path}:{lines[0]}: {message}" if lines else f"{self._path}: {message}")

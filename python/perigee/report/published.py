# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Published results of a study: `published.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from perigee.groups import keys
from perigee.groups.settings import Kept
from perigee.groups.strict import StrictTable
from perigee.statistics.metrics import Metric, metric

EARLIEST, LATEST = 1900, 2200
"""Valid years of publications."""

WITHIN = 0.15
"""Relative error that counts as met, where the file does not say."""


@dataclass(frozen=True)
class PublishedValue:
    """One published number per group.

    Attributes:
        metric: metric of the number.
        statistic: `mean`, `max`, or the share of flows in % that have none (`zero_percent`) or less than `below`
            (`below_percent`).
        below: bound of `below_percent`, in the metric's unit.
        values: numbers by group.
        sd: published standard deviations by group.
        within: relative error that counts as met.
        note: note on these numbers.
    """

    metric: Metric
    statistic: str
    below: float
    values: Mapping[str, float]
    sd: Mapping[str, float]
    within: float
    note: str

    @property
    def heading(self) -> str:
        """Name of the number with its unit."""
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
        """Significant decimals."""
        return 0 if self.statistic.endswith("_percent") else self.metric.digits


@dataclass(frozen=True)
class PublishedTable:
    """Published numbers that stand in one table.

    Attributes:
        name: basis of file names.
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
        metric: metric of the order.
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
        venue: its venue.
        year: its year; 0: unknown.
        doi: its DOI, without the address of a resolver; empty: it has none.
    """

    title: str
    authors: tuple[str, ...] = ()
    venue: str = ""
    year: int = 0
    doi: str = ""


@dataclass(frozen=True)
class Published:
    """Content of a publication.

    Attributes:
        source: origin of the numbers: method and authors.
        work: the publication; None: without a title.
        calibration: links fitted to its numbers, and the meaning of agreement then; empty: none.
        tables: its numbers.
        orderings: its orderings.
        notes: notes on it.
    """

    source: str
    work: Work | None
    calibration: str
    tables: tuple[PublishedTable, ...]
    orderings: tuple[Ordering, ...]
    notes: tuple[str, ...]

    def without_results(self) -> Published:
        """Return the publication as it is cited, with nothing to hold runs against."""
        return replace(self, calibration="", tables=(), orderings=(), notes=())


def published(results: Kept) -> Published | None:
    """Read `published.toml` stored with the results; None if missing.

    Raises:
        InputError: the file is wrong; the message names it, the line and the fix.
    """
    kept = results.file("published.toml")
    if kept is None:
        return None
    table = StrictTable.parse(*kept, keys.PUBLISHED)
    if results.declared_experiments():
        raise table.error("", "the study has experiments, and published numbers are of studies without; take it out")
    within = float(table.number("within", WITHIN))
    found = Published(
        source=table.text("source"),
        work=_work(table),
        calibration=table.text("calibration", ""),
        tables=tuple(_published_table(part, within) for part in table.tables("table", keys.TABLE)),
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


def _work(table: StrictTable) -> Work | None:
    """Read the publication; None without a title."""
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


def _published_table(table: StrictTable, within: float) -> PublishedTable:
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
                within=float(part.number("within", within)),
                note=part.text("note", ""),
            )
        )
        part.end()
    table.end()
    return PublishedTable(name, caption, tuple(values), calibrated)


def _ordering(table: StrictTable) -> Ordering:
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

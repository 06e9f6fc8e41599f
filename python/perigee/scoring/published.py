# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Content of a publication: its numbers, its claims, and what a study cannot have of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from perigee.scoring.quantity import UNKNOWN, Cell, Quantity
from perigee.store.points import EXPERIMENT

WITHIN = 0.15
"""Relative error that counts as met, where the file does not say."""


@dataclass(frozen=True)
class Row:
    """A published number.

    Attributes:
        cell: the factors of its cell beside those of its column.
        value: the number.
        sd: its standard deviation; NaN: not published.
        low: lower end of its interval; NaN: not published.
        high: upper end; likewise.
        n: number of flows or runs; 0: not published.
        rounding: to what it is rounded.
    """

    cell: Cell
    value: float
    sd: float = UNKNOWN
    low: float = UNKNOWN
    high: float = UNKNOWN
    n: int = 0
    rounding: float = 0.0


@dataclass(frozen=True)
class Looked:
    """The quantity of a number or test, in which cells, and what it is called.

    Attributes:
        quantity: what is looked up; None: this study does not measure it.
        cell: the factors of all its cells.
        other: what differs in the cell that is subtracted or divided by; None: there is none.
        is_ratio: whether it is divided by.
        title: what it is, for people.
        unit: its unit; empty: a pure number.
        digits: decimals that mean something.
        role: of `keys.ROLES`.
        not_measured: why this study cannot have it; empty: it can.
        note: what a reader should know about it.
        place: where it stands in the publication.
    """

    quantity: Quantity | None
    cell: Cell
    other: Cell | None
    is_ratio: bool
    title: str
    unit: str
    digits: int
    role: str
    not_measured: str
    note: str
    place: str

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def name(self) -> str:
        """Name of the quantity in files."""
        return self.quantity.name if self.quantity else ""

    @property
    def statistic(self) -> str:
        """Its statistic."""
        return self.quantity.statistic if self.quantity else ""


@dataclass(frozen=True)
class PublishedValue(Looked):
    """Published numbers of one quantity.

    Attributes:
        form: of `keys.FORMS`.
        within: relative error that counts as met.
        rows: the numbers.
    """

    form: str = "table"
    within: float = WITHIN
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class PublishedTable:
    """Published numbers that stand in one table.

    Attributes:
        name: basis of file names.
        caption: headline.
        place: where it stands in the publication.
        conditions: how it was measured; empty: as the others.
        not_measured: why this study has none of it; empty: it has.
        role: of `keys.ROLES`, of those values that have none of their own.
        values: the columns.
    """

    name: str
    caption: str
    place: str
    conditions: str
    not_measured: str
    role: str
    values: tuple[PublishedValue, ...]


@dataclass(frozen=True)
class ClaimTest(Looked):
    """A test of a claim.

    Attributes:
        kind: of `keys.TESTS`.
        each: the cells in which it is checked, beside `cell`.
        least: smallest value for which it holds; NaN: none.
        most: largest; likewise.
        much: the stricter number in the place of `least`, `most` or `factor`; NaN: none.
        along: the factor along which cells are compared.
        tiers: of an order: values of that factor, highest first; those within a tier are not ordered.
        factor: of an order: how many times the next tier.
        values: of other tests: values of that factor.
        where: of a peak or trough: the values that it may be at.
        slack: how far from alike, or against the direction.
        like: of a rank: what orders the values; None: they stand in order.
        holds: of `keys.HOLDS`.
    """

    kind: str = "bound"
    each: tuple[Cell, ...] = ({},)
    least: float = UNKNOWN
    most: float = UNKNOWN
    much: float = UNKNOWN
    along: str = "cc"
    tiers: tuple[tuple[object, ...], ...] = ()
    factor: float = 1.0
    values: tuple[object, ...] = ()
    where: tuple[object, ...] = ()
    slack: float = 0.0
    like: Looked | None = None
    holds: str = "all"

    @property
    def strict(self) -> ClaimTest:
        """The test with `much` as its bound or factor."""
        if math.isnan(self.much):
            return self
        if self.kind == "order":
            return replace(self, factor=self.much)
        return replace(self, most=self.much) if math.isnan(self.least) else replace(self, least=self.much)


@dataclass(frozen=True)
class Claim:
    """A conclusion of a publication, as tests.

    Attributes:
        name: its `id`; empty: none.
        claim: in words.
        place: where it stands in the publication.
        form: of `keys.FORMS`; empty: not said.
        reading: how an unclear statement was read.
        role: of `keys.ROLES`.
        not_measured: why this study cannot test it; empty: it can.
        note: what a reader should know about it.
        tests: its tests; none if it is not measured.
    """

    name: str
    claim: str
    place: str
    form: str
    reading: str
    role: str
    not_measured: str
    note: str
    tests: tuple[ClaimTest, ...]

    @property
    def heading(self) -> str:
        """Titles and units of what is tested."""
        return "; ".join(dict.fromkeys(test.heading for test in self.tests))

    @property
    def quantities(self) -> str:
        """Names of what is tested, as files have them."""
        return "; ".join(dict.fromkeys(test.name for test in self.tests))

    @property
    def statistics(self) -> str:
        """Their statistics."""
        return "; ".join(dict.fromkeys(test.statistic for test in self.tests))

    @property
    def kinds(self) -> str:
        """How it is tested, of `keys.TESTS`."""
        return "; ".join(dict.fromkeys(test.kind for test in self.tests))

    @property
    def experiments(self) -> set[str]:
        """The experiments of its tests; empty of a study without, and of a claim without tests."""
        return {str(test.cell[EXPERIMENT]) for test in self.tests if EXPERIMENT in test.cell}


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
        claims: its claims.
        notes: notes on it.
    """

    source: str
    work: Work | None
    calibration: str
    tables: tuple[PublishedTable, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()

    def without_results(self) -> Published:
        """Return the publication as it is cited, with nothing to hold runs against."""
        return replace(self, calibration="", tables=(), claims=(), notes=())

    def of_experiment(self, experiment: str) -> Published:
        """Return what is about one experiment."""

        def is_about(one: Looked) -> bool:
            return one.cell.get(EXPERIMENT) == experiment

        tables = (replace(one, values=tuple(filter(is_about, one.values))) for one in self.tables)
        claims = tuple(one for one in self.claims if experiment in one.experiments)
        return replace(self, tables=tuple(one for one in tables if one.values), claims=claims)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The score of a source against a publication: each number with its error, each claim with its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perigee.errors import InputError
from perigee.scoring.published import Claim, Looked, Published, PublishedTable, PublishedValue, Row
from perigee.scoring.quantity import OF_TWO, UNKNOWN, Cell, Found, Source, in_words
from perigee.scoring.testing import HIT, MISS, NOT_MEASURED, NOT_PREDICTED, PART, Verdict, verdict


@dataclass(frozen=True)
class ScoredValue:
    """A published number beside what a source has.

    Attributes:
        table: its table.
        value: its column.
        row: the number.
        found: what the source has; None: nothing.
        anchor: its place in the publication's file, as a name.
    """

    table: PublishedTable
    value: PublishedValue
    row: Row
    found: Found | None
    anchor: str

    @property
    def cell(self) -> Cell:
        """All factors of its cell."""
        return {**self.value.cell, **self.row.cell}

    @property
    def name(self) -> str:
        """The factors that tell it apart from others of its column, or else all of its cell."""
        return in_words(self.row.cell or self.value.cell)

    @property
    def role(self) -> str:
        """Its part in the study, of `keys.ROLES`."""
        return self.value.role

    @property
    def simulated(self) -> float:
        """The number of the source; NaN: none."""
        return UNKNOWN if self.found is None else self.found.value

    @property
    def error(self) -> float:
        """The number of the source, less the published one."""
        return self.simulated - self.row.value

    @property
    def error_percent(self) -> float:
        """The error relative to the published number; NaN where that is 0."""
        return 100 * self.error / abs(self.row.value) if self.row.value else UNKNOWN

    @property
    def bounds(self) -> tuple[float, float]:
        """Where a number counts as met: within the bound of a number that the published one may stand for."""
        low, high = self.row.value - self.row.rounding / 2, self.row.value + self.row.rounding / 2
        return low - self.value.within * abs(low), high + self.value.within * abs(high)

    @property
    def is_met(self) -> bool | None:
        """Whether it is within `bounds`; None where the source has nothing."""
        if math.isnan(self.simulated):
            return None
        low, high = self.bounds
        slack = 1e-9 * max(abs(low), abs(high))
        return low - slack <= self.simulated <= high + slack

    @property
    def in_spread(self) -> bool | None:
        """Whether it is within the published standard deviation or interval; None where there is none, or nothing."""
        if math.isnan(self.simulated):
            return None
        low, high = self.row.low, self.row.high
        if math.isnan(low) or math.isnan(high):
            low, high = self.row.value - self.row.sd, self.row.value + self.row.sd
        return None if math.isnan(low) else low <= self.simulated <= high

    @property
    def state(self) -> str:
        """`within`, `outside`, `not predicted`, or `not measured`."""
        if self.value.not_measured:
            return NOT_MEASURED
        return {None: NOT_PREDICTED, True: "within", False: "outside"}[self.is_met]


@dataclass(frozen=True)
class ScoredClaim:
    """A claim with its verdict.

    Attributes:
        claim: the claim.
        verdict: what comes of its test.
        anchor: its place in the publication's file, as a name.
    """

    claim: Claim
    verdict: Verdict
    anchor: str

    @property
    def role(self) -> str:
        """Its part in the study, of `keys.ROLES`."""
        return self.claim.role

    @property
    def state(self) -> str:
        """`hit`, `part`, `miss`, `not predicted`, or `not measured`."""
        return self.verdict.state


@dataclass(frozen=True)
class Count:
    """How many numbers and claims came out how, see the rules of the scoreboard.

    Attributes:
        within: numbers within their bounds.
        outside: numbers outside.
        in_spread: numbers within the published spread.
        of_spread: numbers with a published spread that the source has.
        hit: claims of which all checks hold fully.
        part: claims of which some do, or some weakly.
        miss: claims of which none does.
        not_predicted: numbers and claims of which the source has nothing.
        not_measured: numbers and claims that the study cannot have.
    """

    within: int = 0
    outside: int = 0
    in_spread: int = 0
    of_spread: int = 0
    hit: int = 0
    part: int = 0
    miss: int = 0
    not_predicted: int = 0
    not_measured: int = 0

    @property
    def numbers(self) -> int:
        """Numbers that are judged."""
        return self.within + self.outside

    @property
    def claims(self) -> int:
        """Claims that are judged."""
        return self.hit + self.part + self.miss


@dataclass(frozen=True)
class Score:
    """The score of a source against a publication.

    Attributes:
        published: the publication.
        values: its numbers, in the order of its file.
        claims: its claims.
    """

    published: Published
    values: Sequence[ScoredValue]
    claims: Sequence[ScoredClaim]

    def of_table(self, table: PublishedTable) -> list[list[ScoredValue]]:
        """Return the numbers of a table, a list per column."""
        own = [one for one in self.values if one.table is table]
        return [[one for one in own if one.value is value] for value in table.values]


def count(found: Score, role: str, place: str | None = None) -> Count:
    """Count numbers and claims of a role: of the whole publication, or of a place in it.

    A table or figure that is not measured, and has no numbers in the file, counts once as such.
    """
    values = [one for one in found.values if place in (None, one.value.place)]
    claims = [one for one in found.claims if place in (None, one.claim.place)]
    tables = [one for one in found.published.tables if place in (None, one.place)]
    unmeasured = sum(not one.values and one.role == role for one in tables)
    numbers = [one for one in values if one.role == role]
    states = [one.state for one in numbers]
    verdicts = [one.state for one in claims if one.role == role]
    spreads = [one.in_spread for one in numbers if one.in_spread is not None]
    return Count(
        states.count("within"), states.count("outside"), spreads.count(True), len(spreads),
        verdicts.count(HIT), verdicts.count(PART), verdicts.count(MISS),
        (states + verdicts).count(NOT_PREDICTED),
        (states + verdicts).count(NOT_MEASURED) + unmeasured,
    )  # fmt: skip


def score(published: Published, source: Source | None, chapter: str = "") -> Score:
    """Hold a source against a publication.

    Args:
        published: the publication.
        source: a results folder or a registered file; None: there is none, and nothing is predicted.
        chapter: the experiment that the publication was cut down to, for the names of places; empty: none.

    Raises:
        InputError: a cell of the publication's file is of several kinds of flows.
    """
    begin = f"{chapter}-" if chapter else ""
    values = [
        ScoredValue(
            table, value, row, _found(source, value, {**value.cell, **row.cell}), f"published-{begin}{t}-{c}-{r}"
        )
        for t, table in enumerate(published.tables)
        for c, value in enumerate(table.values)
        for r, row in enumerate(value.rows)
    ]
    claims = [
        ScoredClaim(claim, verdict(claim, _Asked(source)), f"claim-{begin}{number}")
        for number, claim in enumerate(published.claims)
    ]
    return Score(published, values, claims)


@dataclass(frozen=True)
class _Asked:
    """A source that claims are tested on, see `Asked`."""

    source: Source | None

    def find(self, looked: Looked, cell: Cell) -> Found | None:
        return _found(self.source, looked, cell)

    def has_none(self, looked: Looked, cell: Cell) -> bool | None:
        if self.source is None or looked.quantity is None:
            return None
        return self.source.has_none(looked.quantity.metric, cell)


def _found(source: Source | None, looked: Looked, cell: Cell) -> Found | None:
    """Return what a source has of what is looked up, with the place in the publication in its errors."""
    try:
        return _in_source(source, looked, cell)
    except InputError as error:
        raise InputError(f"published.toml, {looked.place}: {error}") from error


def _in_source(source: Source | None, looked: Looked, cell: Cell) -> Found | None:
    """Return what a source has of what is looked up: of two cells their difference, ratio or effect."""
    if source is None or looked.quantity is None or looked.not_measured:
        return None
    if looked.other is None:
        return _known(source.find(looked.quantity, cell))
    effect = looked.quantity.statistic if looked.quantity.statistic in OF_TWO else ""
    quantity = looked.quantity.of_mean if effect else looked.quantity
    first, second = source.find(quantity, cell), source.find(quantity, {**cell, **looked.other})
    if first is None or second is None:
        return None
    if effect:
        return _known(Found(_effect(effect, first, second), flows=min(first.flows, second.flows)))
    if looked.is_ratio:
        return _known(Found(first.value / second.value)) if second.value else None
    return _known(Found(first.value - second.value))


def _known(found: Found | None) -> Found | None:
    return None if found is None or math.isnan(found.value) else found


def _effect(name: str, first: Found, second: Found) -> float:
    """Return Glass's Δ, Cohen's d or the t of independent samples, by means and standard deviations."""
    difference = first.value - second.value
    if name == "glass_delta":
        by = second.sd
    elif name == "cohens_d":
        by = math.sqrt((first.sd**2 + second.sd**2) / 2)
    else:
        by = math.sqrt(first.sd**2 / first.flows + second.sd**2 / second.flows) if first.flows and second.flows else 0.0
    return difference / by if by else UNKNOWN

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A study held against its publication twice: as it was registered, and as it is today; as rows, CSV and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

import polars as pl

from perigee.numbers import number
from perigee.scoring.published import Published
from perigee.scoring.quantity import in_words
from perigee.scoring.score import Count, Score, ScoredClaim, ScoredValue, count
from perigee.scoring.testing import stated

SIDES = ("registered", "today")
"""The two sides that are held against a publication."""

COUNTED = ("predicted", "fitted")
"""Roles that count, each apart."""

_ROWS = ("numbers", "claims", "places")

FORMAT = 1
"""Version of the form of the CSV and JSON files."""


@dataclass(frozen=True)
class ScoredStudy:
    """A study beside its publication.

    Attributes:
        study: its name.
        title: its title.
        published: the publication.
        scores: the score of each of `SIDES` that there is.
        about: what made each of them: version, build, command, first seed, rounds, date, sums.
        warnings: what is wrong with the results of today: none there, or not of the study as it is now.
    """

    study: str
    title: str
    published: Published
    scores: Mapping[str, Score]
    about: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...] = ()

    def counts(self, place: str | None = None) -> dict[str, dict[str, Count]]:
        """Return the counts of each side by role; of all places in the publication, or of one."""
        return {side: {role: count(found, role, place) for role in COUNTED} for side, found in self.scores.items()}

    def counts_as_dicts(self, place: str | None = None) -> dict[str, dict[str, dict[str, int]]]:
        """Return the counts as plain data."""
        found = self.counts(place)
        return {side: {role: asdict(one) for role, one in roles.items()} for side, roles in found.items()}

    def what(self, place: str) -> str:
        """Return the captions of what stands at a place."""
        return "; ".join(table.caption for table in self.published.tables if table.place == place)

    def reasons(self, place: str) -> list[str]:
        """Return why numbers and claims of a place are not measured."""
        values = [value for table in self.published.tables for value in table.values if value.place == place]
        tables = [table.not_measured for table in self.published.tables if table.place == place and not table.values]
        claims = [claim.not_measured for claim in self.published.claims if claim.place == place]
        return [one for one in dict.fromkeys([*tables, *(value.not_measured for value in values), *claims]) if one]

    def places(self) -> list[str]:
        """Return the tables, figures and passages of the publication, in the order of its file."""
        tables = [table.place for table in self.published.tables]
        return list(dict.fromkeys([*tables, *(claim.place for claim in self.published.claims)]))

    def numbers(self) -> list[dict[str, Any]]:
        """Return the published numbers as rows."""
        columns = [self.scores[side].values for side in self.scores]
        return [self._number(dict(zip(self.scores, pair, strict=True))) for pair in zip(*columns, strict=True)]

    def claims(self) -> list[dict[str, Any]]:
        """Return the claims as rows."""
        columns = [self.scores[side].claims for side in self.scores]
        return [self._claim(dict(zip(self.scores, pair, strict=True))) for pair in zip(*columns, strict=True)]

    def _number(self, sides: Mapping[str, ScoredValue]) -> dict[str, Any]:
        one = next(iter(sides.values()))
        row = {
            "study": self.study, "place": one.table.place, "table": one.table.name, "form": one.value.form,
            "role": one.role, "quantity": one.value.name, "statistic": one.value.statistic, "what": one.value.heading,
            "unit": one.value.unit, "cell": in_cell(one), "published": one.row.value, "sd": _known(one.row.sd),
            "low": _known(one.row.low), "high": _known(one.row.high), "n": one.row.n or None,
            "rounding": one.row.rounding, "within_percent": 100 * one.value.within, "least": one.bounds[0],
            "most": one.bounds[1],
        }  # fmt: skip
        for side in SIDES:
            own = sides.get(side)
            row |= {
                side: _known(own.simulated) if own else None,
                f"{side}_half_width": _known(own.found.half_width) if own and own.found else None,
                f"{side}_sd": _known(own.found.sd) if own and own.found else None,
                f"{side}_flows": own.found.flows or None if own and own.found else None,
                f"{side}_error_percent": _known(own.error_percent) if own else None,
                f"{side}_result": own.state if own else None,
                f"{side}_in_spread": own.in_spread if own else None,
            }
        return row | {"not_measured": one.value.not_measured, "note": one.value.note}

    def _claim(self, sides: Mapping[str, ScoredClaim]) -> dict[str, Any]:
        one = next(iter(sides.values()))
        claim = one.claim
        row: dict[str, Any] = {
            "study": self.study, "place": claim.place, "id": claim.name, "form": claim.form, "role": one.role,
            "claim": claim.claim, "quantity": claim.quantities, "statistic": claim.statistics, "test": claim.kinds,
            "stated": stated(claim),
        }  # fmt: skip
        for side in SIDES:
            own = sides.get(side)
            row |= {
                f"{side}_result": own.state if own else None,
                f"{side}_holding": own.verdict.holding if own else None,
                f"{side}_weakly": own.verdict.weakly if own else None,
                f"{side}_checks": len(own.verdict.checks) if own else None,
                f"{side}_seen": own.verdict.seen if own else None,
            }
        return row | {"not_measured": claim.not_measured, "reading": claim.reading, "note": claim.note}

    def as_json(self, version: str) -> dict[str, Any]:
        """Return all of it as plain data, with the version of the program that scored it."""
        work = self.published.work
        return {
            "format": FORMAT,
            "perigee": version,
            "study": self.study,
            "title": self.title,
            "publication": {**asdict(work), "authors": list(work.authors)} if work else None,
            "source": self.published.source,
            "calibration": self.published.calibration,
            "made": {side: dict(self.about[side]) for side in self.scores},
            "warnings": list(self.warnings),
            "counts": self.counts_as_dicts(),
            "numbers": self.numbers(),
            "claims": self.claims(),
        }


def in_cell(one: ScoredValue) -> str:
    """Return the whole cell of a number, in words."""
    text = in_words(one.cell)
    if one.value.other is None:
        return text
    return f"{text} {'over' if one.value.is_ratio else 'minus'} {in_words(one.value.other)}".strip()


def as_frame(scored: list[ScoredStudy], version: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the numbers and the claims of studies as tables, with versions."""
    tables = []
    for rows_of in (ScoredStudy.numbers, ScoredStudy.claims):
        rows = []
        for one in scored:
            versions = {f"{side}_version": one.about.get(side, {}).get("version") for side in SIDES}
            rows += [row | versions | {"perigee": version} for row in rows_of(one)]
        head = None if rows else _heads(rows_of is ScoredStudy.numbers)
        tables.append(pl.DataFrame(rows, head, infer_schema_length=None))
    return tables[0], tables[1]


def _heads(of_numbers: bool) -> list[str]:
    """Return the columns of a table without rows."""
    own, of_sides = _NUMBER if of_numbers else _CLAIM
    sides = [f"{side}{end}" for side in SIDES for end in of_sides.split(",")]
    last = ["not_measured", "note"] if of_numbers else ["not_measured", "reading", "note"]
    return [*own.split(), *sides, *last, *(f"{side}_version" for side in SIDES), "perigee"]


_NUMBER = (
    "study place table form role quantity statistic what unit cell published sd low high n rounding within_percent "
    "least most",
    ",_half_width,_sd,_flows,_error_percent,_result,_in_spread",
)
_CLAIM = (
    "study place id form role claim quantity statistic test stated",
    "_result,_holding,_weakly,_checks,_seen",
)
"""Columns of the tables: those of the publication, and the ends of those of each side."""


def json_text(content: object) -> str:
    r"""Return plain data as JSON, each number and claim on a line of its own.

    Examples:
        >>> print(json_text({"study": "x", "claims": [{"id": "a"}, {"id": "\\u0000"}]}), end="")
        {
         "study": "x",
         "claims": [
          {"id": "a"},
          {"id": "\\u0000"}
         ]
        }
    """
    rows: list[str] = []
    # Stands for rows until the rest is laid out; no text of a publication has it.
    mark = uuid4().hex

    def placed(row: object) -> str:
        rows.append(json.dumps(row, ensure_ascii=False))
        return f"{mark}{len(rows) - 1}"

    def with_places(part: object) -> object:
        if isinstance(part, dict):
            return {
                key: [placed(row) for row in value] if key in _ROWS else with_places(value)
                for key, value in part.items()
            }
        return [with_places(one) for one in part] if isinstance(part, list) else part

    text = json.dumps(with_places(content), ensure_ascii=False, indent=1)
    return re.sub(f'"{mark}(\\d+)"', lambda found: rows[int(found[1])], text) + "\n"


def counted(counts: Mapping[str, Count]) -> list[str]:
    """Return the counts of a side in words: of each role that has any."""
    lines = []
    for role, one in counts.items():
        parts = [f"{one.within} of {one.numbers} numbers within their bounds"] if one.numbers else []
        parts += [f"{one.in_spread} of {one.of_spread} within the published spread"] if one.of_spread else []
        if one.claims:
            parts.append(f"claims {one.hit} hit, {one.part} part, {one.miss} miss of {one.claims}")
        parts += [f"{one.not_predicted} not predicted"] if one.not_predicted else []
        parts += [f"{one.not_measured} not measured"] if one.not_measured else []
        lines += [f"{role}: {', '.join(parts)}"] if parts else []
    return lines


def shown(value: float | None, digits: int) -> str:
    """Return a number for people, with more decimals where it is small."""
    if value is None or math.isnan(value):
        return "–"
    more = 2 - math.floor(math.log10(abs(value))) if 0 < abs(value) < 0.1 else digits
    return number(value, max(digits, min(more, 6)))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None

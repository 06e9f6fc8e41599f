# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The numbers of single tables and figures of a report, without the rest of it."""

from __future__ import annotations

import re

import polars as pl

from perigee.groups.names import slug
from perigee.report import sections
from perigee.report.context import Context
from perigee.report.model import Plot, Table
from perigee.store.results import Results


class ReportTables:
    """The tables and figures of a report by experiment and name, made when they are asked for; see `Tables`.

    Args:
        results: the results of the whole study.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._contexts: dict[str, Context] = {}
        self._made: dict[tuple[str, str], list[Table | Plot]] = {}

    def __call__(self, experiment: str, name: str, columns: frozenset[str]) -> pl.DataFrame | None:
        """Return the numbers of a table, or of a figure's curves, that has some columns; None where there is none.

        The sections whose name begins the table's come first: to make all of them takes a while. Figures of one name
        may stand in several sections, and are taken together.
        """
        figures: list[pl.DataFrame] = []
        # Groups that stand in a second figure in one version may stand in the first one in another.
        first = re.sub(r"-\d+$", "-1", name)
        places = (one for one in sections.selected(self._context(experiment)) if one not in sections.JUDGED)
        for place in sorted(places, key=lambda one: not name.replace("-", "_").startswith(one)):
            blocks = [one for one in self._section(experiment, place) if slug(one.name) in (name, first)]
            blocks = [one for one in blocks if one.data is not None and columns <= set(one.data.columns)]
            if tables := [one.data for one in blocks if isinstance(one, Table)]:
                return pl.concat(tables, how="diagonal_relaxed")
            figures += [one.data for one in blocks if one.data is not None]
        return pl.concat(figures, how="diagonal_relaxed") if figures else None

    def _context(self, experiment: str) -> Context:
        if experiment not in self._contexts:
            part = self._results.of_experiment(experiment) if experiment else self._results
            self._contexts[experiment] = Context(part)
        return self._contexts[experiment]

    def _section(self, experiment: str, place: str) -> list[Table | Plot]:
        """Return the tables and figures of a section."""
        key = experiment, place
        if key not in self._made:
            section = sections.maker_of(place)(self._context(experiment))
            self._made[key] = [one for one in section.blocks if isinstance(one, Table | Plot)] if section else []
        return self._made[key]

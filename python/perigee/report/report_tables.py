# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The numbers of single tables and figures of a report, without the rest of it."""

from __future__ import annotations

import polars as pl

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
        self._made: dict[tuple[str, str], dict[str, pl.DataFrame]] = {}

    def __call__(self, experiment: str, name: str) -> pl.DataFrame | None:
        """Return the numbers of a table, or of a figure's curves; None where these results have none.

        The sections whose name begins the table's come first: to make all of them takes a while.
        """
        places = sorted(sections.SECTIONS, key=lambda one: not name.replace("-", "_").startswith(one))
        for place in places:
            if place not in sections.JUDGED and name in (made := self._section(experiment, place)):
                return made[name]
        return None

    def _section(self, experiment: str, place: str) -> dict[str, pl.DataFrame]:
        """Return the numbers of a section's tables and figures by their names."""
        if experiment not in self._contexts:
            part = self._results.of_experiment(experiment) if experiment else self._results
            self._contexts[experiment] = Context(part)
        key = experiment, place
        if key not in self._made:
            section = sections.SECTIONS[place](self._contexts[experiment])
            blocks = section.blocks if section else ()
            self._made[key] = {
                block.name: block.data for block in blocks if isinstance(block, Table | Plot) and block.data is not None
            }
        return self._made[key]

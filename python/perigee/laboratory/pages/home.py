# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The start page: three ways to begin, what runs, and the latest results."""

from __future__ import annotations

from starlette.responses import Response

from perigee.cc import catalog
from perigee.errors import InputError
from perigee.laboratory.catalogue import Summary
from perigee.laboratory.findings import Findings
from perigee.laboratory.outlook import Outlook
from perigee.laboratory.pages.queue import actions, progress
from perigee.laboratory.pages.visit import Laboratory, Visit

PAPER = "claypool-2021"
"""The study that shows best what a reproduction is."""
LATEST = 5
READ_S = 0.05
"""Time for reading results that nobody has looked at yet; the next visitor has the others."""


def home(visit: Visit) -> Response:
    """Show where to begin, what runs and what came last."""
    laboratory = visit.laboratory
    every = [one for one in laboratory.catalogue.all() if one.state == "complete"]
    latest = every[:LATEST]
    count = laboratory.queue.count()
    paper, outlook = _paper(laboratory)
    return visit.page(
        "home.html",
        paper=paper,
        algorithms=len(catalog.algorithms()),
        outlook=outlook,
        entries=[(one, progress(laboratory, one), actions(one, visit.person)) for one in laboratory.queue.running()],
        waiting=count.get("waiting", 0) + count.get("paused", 0),
        results=latest,
        findings=found(laboratory, latest),
        count=len(every),
    )


def found(laboratory: Laboratory, results: list[Summary]) -> dict[str, Findings]:
    """Return what complete results say at a glance, by name; what is not read in time comes with the next page."""
    complete = [laboratory.place.results / one.name for one in results if one.state == "complete"]
    return laboratory.findings.several(complete, READ_S)


def _paper(laboratory: Laboratory) -> tuple[str, Outlook | None]:
    try:
        return PAPER, laboratory.outlooks.of(laboratory.shelf.get(PAPER))
    except InputError:
        return "", None

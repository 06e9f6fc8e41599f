# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The sections a report can have, by name; each is a function from the context to a section, or none without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from perigee.errors import InputError
from perigee.report.context import MOST_DRAWN, Context
from perigee.report.model import Plot, Section
from perigee.report.sections import (
    capture,
    datagrams,
    distributions,
    download,
    exchanges,
    gallery,
    links,
    outcomes,
    periods,
    power,
    published,
    representative,
    setup,
    sharing,
    short_time,
    summary,
    tests,
    timeline,
)

SECTIONS: Mapping[str, Callable[[Context], Section | None]] = {
    "published": published.values,
    "orderings": published.orderings,
    "summary": summary.section,
    "throughput": distributions.throughput,
    "delay": distributions.delay,
    "retransmissions": distributions.retransmissions,
    "tests": tests.section,
    "download": download.section,
    "power": power.section,
    "representative": representative.section,
    "gallery": gallery.section,
    "timeline": timeline.section,
    "sharing": sharing.section,
    "exchanges": exchanges.section,
    "datagrams": datagrams.section,
    "links": links.section,
    "short_time": short_time.section,
    "periods": periods.section,
    "capture": capture.section,
    "setup": setup.section,
}
"""By name, in the order of a report that does not choose."""

BY_DEFAULT = (
    "summary", "exchanges", "datagrams", "throughput", "delay", "retransmissions", "tests", "representative", "sharing",
    "links", "setup",
)  # fmt: skip
"""What a report shows where the study does not say."""

OF_FILES = ("capture", "short_time", "periods")
"""What a report of captures and other files shows too."""

OF_NO_FLOW = ("exchanges", "datagrams", "capture", "setup")
"""Sections that say something where each flow has failed."""

TABLES = ("published", "orderings", "summary", "exchanges", "datagrams", "tests", "links", "capture", "setup")
"""Sections that say something without figures."""


DRAWS_MANY = ("gallery",)
"""Sections that have a place for each of many groups."""


def build(context: Context) -> list[Section]:
    """Make the sections that the study's report asks for and its data allows; flows that failed always stand first.

    Raises:
        InputError: `report.toml` names a section that does not exist.
    """
    extra = ("published", "orderings") if context.published else ()
    of_files = OF_FILES if context.results.is_analysis else ()
    names: Sequence[str] = context.settings.sections or (*extra, *BY_DEFAULT, *of_files)
    for name in names:
        if name not in SECTIONS:
            raise InputError(f"report.toml: `{name}` is no section; there are {', '.join(SECTIONS)}")
    if not context.drawn:
        names = [name for name in names if name in OF_NO_FLOW]
    if len(context.groups) > MOST_DRAWN:
        names = [name for name in names if name in TABLES + DRAWS_MANY]
    makers = [outcomes.section, *(SECTIONS[name] for name in names)]
    made = [section for section in (make(context) for make in makers) if section is not None]
    if len(context.groups) > MOST_DRAWN:
        made = [one if one.name in DRAWS_MANY else _without_plots(one) for one in made]
    return made


def _without_plots(section: Section) -> Section:
    return replace(section, blocks=[block for block in section.blocks if not isinstance(block, Plot)])

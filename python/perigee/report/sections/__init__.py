# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""All sections of reports by name; each is a function from the context to a section, or None without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from perigee.errors import InputError
from perigee.groups.kinds import SECTION_OF
from perigee.groups.settings import Choice
from perigee.report.columns import laid_out
from perigee.report.context import Context
from perigee.report.model import Plot, Section, Text
from perigee.report.sections import (
    capture,
    chosen,
    datagrams,
    differences,
    distributions,
    download,
    exchanges,
    legs,
    limits,
    links,
    of_kind,
    outcomes,
    periods,
    published,
    quality,
    recorded,
    representative,
    responses,
    schedule,
    setup,
    sharing,
    short_time,
    summary,
    sweep,
    tests,
    time_sequence,
    timeline,
    together,
    tradeoff,
)

SECTIONS: Mapping[str, Callable[[Context], Section | None]] = {
    "claims": published.claims,
    "published": published.values,
    "figures": chosen.section,
    "schedule": schedule.section,
    "summary": summary.section,
    "sweep": sweep.section,
    "tradeoff": tradeoff.section,
    "throughput": distributions.throughput,
    "steady": distributions.steady,
    "delay": distributions.delay,
    "retransmissions": distributions.retransmissions,
    "limits": limits.section,
    "differences": differences.section,
    "tests": tests.section,
    "download": download.section,
    "representative": representative.section,
    "recorded": recorded.section,
    "together": together.section,
    "timeline": timeline.section,
    "time_sequence": time_sequence.section,
    "sharing": sharing.section,
    "exchanges": exchanges.section,
    "responses": responses.section,
    "quality": quality.section,
    "datagrams": datagrams.section,
    "voice": of_kind.voice,
    "video": of_kind.video,
    "call": of_kind.call,
    "pages": of_kind.pages,
    "links": links.section,
    "legs": legs.section,
    "short_time": short_time.section,
    "periods": periods.section,
    "capture": capture.section,
    "setup": setup.section,
}
"""Sections by name, in the default order of a report."""

FORMER = {
    "gallery": Choice("rows"),
    "power": Choice("bars", ("power", "steady_power", "startup_power")),
    "window": Choice("window"),
    "bands": Choice("bands"),
    "campaign": Choice("campaign"),
    "in_turn": Choice("in-turn"),
    "reductions": Choice("kept"),
}
"""Sections of earlier versions that are figures now, which the report.toml of kept results may name."""

BY_DEFAULT = (
    "figures", "summary", "quality", "exchanges", "responses", "datagrams", "voice", "video", "call", "pages",
    "sweep", "tradeoff", "throughput", "delay", "retransmissions", "limits", "differences", "tests",
    "representative", "time_sequence", "sharing", "links", "legs", "setup",
)  # fmt: skip
"""Default sections of a report."""

JUDGED = ("claims", "published")
"""Sections that hold the results against a publication; they are in every report of a study that has one."""

OF_FILES = (
    "recorded", "together", "summary", "quality", "exchanges", "responses", "datagrams", "delay", "time_sequence",
    "short_time", "periods", "capture", "setup",
)  # fmt: skip
"""Default sections of a report of captures and other files: their flows are not of one study to be compared."""

OF_NO_FLOW = (*SECTION_OF.values(), "capture", "setup")
"""Sections with content even if all flows failed."""


def build(context: Context) -> list[Section]:
    """Make the sections that the study's report selects and its data allow; failed flows always come first.

    Raises:
        InputError: `report.toml` names a section that does not exist.
    """
    names = selected(context)
    if not context.drawn:
        names = [name for name in names if name in OF_NO_FLOW]
    makers = [outcomes.section, *(maker_of(name) for name in names)]
    found = (section for section in (make(context) for make in makers) if section is not None)
    return [laid_out(_with_sentences(section), context) for section in found]


def _with_sentences(section: Section) -> Section:
    """Return a section in which figures of practically equal groups are sentences."""
    blocks = (Text(one.instead) if isinstance(one, Plot) and one.instead else one for one in section.blocks)
    return replace(section, blocks=list(blocks))


def maker_of(name: str) -> Callable[[Context], Section | None]:
    """Return what makes a section."""
    return SECTIONS[name] if name in SECTIONS else partial(chosen.former, name=name, choice=FORMER[name])


def selected(context: Context) -> Sequence[str]:
    """Return the names of the sections that the study's report selects, or of those by default.

    Raises:
        InputError: `report.toml` names a section that does not exist.
    """
    extra = JUDGED if context.published else ()
    # For a study with requests, response times come first.
    first = ("exchanges",) if context.groups_of("request") and not context.settings.sections else ()
    by_default = (*first, *(name for name in BY_DEFAULT if name not in first))
    by_default = OF_FILES if context.results.is_analysis else by_default
    names: Sequence[str] = context.settings.sections or by_default
    # A choice of sections does not hide what was published.
    names = (*(name for name in extra if name not in names), *names)
    for name in names:
        if name not in SECTIONS and name not in FORMER:
            raise InputError(f"report.toml: `{name}` is no section; there are {', '.join(SECTIONS)}")
    return names

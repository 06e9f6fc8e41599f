# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The first screen of a report or chapter: answer, caveats, findings, and the first figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perigee.errors import NothingToDrawError
from perigee.groups.factors import lowered
from perigee.report import against
from perigee.report.answers import answers
from perigee.report.computed import computed
from perigee.report.context import Context
from perigee.report.headline import MOST
from perigee.report.model import Chapter, Plot, Section, Short
from perigee.report.reproduction import summary
from perigee.report.sections import recorded, schedule
from perigee.store.limits import held_back


def in_short(context: Context, *, is_whole: bool = True) -> Short:
    """Return answer, caveats and findings.

    Args:
        context: the results of the study, or of one experiment.
        is_whole: False for the head of a report with chapters, whose findings stand in the chapters.
    """
    answer = _answer(context)
    # The author's caveats limit the answer to the whole study.
    caveats = [] if context.is_reduced else list(context.settings.caveats)
    caveats += [*(_changed(context) if answer else []), *_faults(context)]
    if held := held_back(context.results, context.label):
        caveats.insert(0, held)
    if not is_whole:
        return Short(answer, caveats)
    if context.results.is_analysis:
        return Short(answer or recorded.sentence(context), [*caveats, *filter(None, [recorded.unended(context)])])
    if not (answer or context.is_reduced):
        answer = against.sentence(context)
    found = answers(context)
    reproduced, misses = summary(context)
    lines = [reproduced, *found.lines] if reproduced else found.lines
    return Short(answer, caveats, lines[:MOST], misses, found.method, found.tables)


def _answer(context: Context) -> str:
    """Return the author's answer with the numbers of these results; none of the reduced size, or without a number."""
    if context.is_reduced:
        return ""
    try:
        return computed(context.settings.answer, context)
    except NothingToDrawError as error:
        context.asides.append(f"the answer of report.toml is left out: {error}")
        return ""


def _changed(context: Context) -> list[str]:
    """Return a caveat if the answer is that of other runs than these."""
    changes = context.results.manifest["settings"]
    if not changes:
        return []
    return [f"The answer was written for the study as it stands; these runs are with {', '.join(changes)}."]


def _faults(context: Context) -> list[str]:
    """Return a caveat for each run that has no results."""
    return [f"Not in these results: {fault}." for fault in context.results.manifest.get("faults", {}).values()]


def with_first_figure(
    short: Short, sections: Sequence[Section], *, is_head: bool = True
) -> tuple[Short, list[Section]]:
    """Move the first figure to the first screen; a section that has nothing else goes.

    Args:
        short: what the first screen says.
        sections: the parts below it.
        is_head: whether it is that of the page, where the figure stands beside the text.
    """
    for place, section in enumerate(sections):
        plot = next((block for block in section.blocks if isinstance(block, Plot) and not block.half), None)
        # When flows begin and end is no finding.
        if plot is None or section.name == schedule.NAME:
            continue
        rest = [block for block in section.blocks if block is not plot]
        kept = [replace(section, blocks=rest)] if rest else []
        return (
            replace(short, blocks=[*short.blocks, beside_text(plot) if is_head else plot]),
            [*sections[:place], *kept, *sections[place + 1 :]],
        )
    return short, list(sections)


def with_first_of(short: Short, chapters: Sequence[Chapter], name: str) -> tuple[Short, list[Chapter]]:
    """Move the first figure of a chapter to the head of the page: of the named one, else of the first that has one."""
    own = next((one for one in chapters if one.short.plots and name in ("", one.name)), None)
    if own is None:
        return short, list(chapters)
    plot = own.short.plots[0]
    rest = [block for block in own.short.blocks if block is not plot]
    kept = replace(own, short=replace(own.short, blocks=rest))
    moved = replace(plot, name=f"{own.name}-{plot.name}", caption=f"{own.title.rstrip('.')}: {lowered(plot.caption)}")
    return replace(short, blocks=[*short.blocks, beside_text(moved)]), [kept if one is own else one for one in chapters]


def beside_text(plot: Plot) -> Plot:
    """Return a figure that is drawn narrower too, so that its letters stay legible beside the answer."""
    return replace(plot, beside=plot.draw(FIRST_IN)) if plot.draw else plot


FIRST_IN = 5.8
"""Width of the first figure, inches."""

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The first screen of a report or chapter: what held flows back, answer, caveats, findings, and the first figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perigee.report import against
from perigee.report.answers import answers
from perigee.report.context import Context
from perigee.report.headline import MOST
from perigee.report.model import Plot, Section, Short
from perigee.report.reproduction import summary
from perigee.report.sections import recorded
from perigee.store.limits import held_back


def in_short(context: Context, *, is_whole: bool = True) -> Short:
    """Return what held flows back, answer, caveats and findings.

    Args:
        context: the results of the study, or of one experiment.
        is_whole: False for the head of a report with chapters, whose findings stand in the chapters.
    """
    settings = context.settings
    if context.is_reduced:
        # The author's answer, and what limits it, are those of the whole study.
        settings = replace(settings, answer="", caveats=())
    answer = settings.answer
    caveats = [*settings.caveats, *(_changed(context) if answer else []), *_faults(context)]
    held = held_back(context.results, context.label)
    if not is_whole:
        return Short(held, answer, caveats)
    if context.results.is_analysis:
        return Short(held, answer or recorded.sentence(context), [*caveats, *filter(None, [recorded.unended(context)])])
    if not (answer or context.is_reduced):
        answer = against.sentence(context)
    found = answers(context)
    reproduced, misses = summary(context)
    lines = [reproduced, *found.lines] if reproduced else found.lines
    return Short(held, answer, caveats, lines[:MOST], misses, found.method, found.tables)


def _changed(context: Context) -> list[str]:
    """Return a caveat if the answer is that of other runs than these."""
    changes = context.results.manifest["settings"]
    if not changes:
        return []
    return [f"The answer is that of the study as it stands; these runs are with {', '.join(changes)}."]


def _faults(context: Context) -> list[str]:
    """Return a caveat for each run that has no results."""
    return [f"Not in these results: {fault}." for fault in context.results.manifest.get("faults", {}).values()]


def with_first_figure(short: Short, sections: Sequence[Section]) -> tuple[Short, list[Section]]:
    """Move the first figure to the first screen; a section that has nothing else goes."""
    for place, section in enumerate(sections):
        plot = next((block for block in section.blocks if isinstance(block, Plot) and not block.half), None)
        if plot is None:
            continue
        rest = [block for block in section.blocks if block is not plot]
        kept = [replace(section, blocks=rest)] if rest else []
        return (
            replace(short, blocks=[*short.blocks, plot]),
            [*sections[:place], *kept, *sections[place + 1 :]],
        )
    return short, list(sections)

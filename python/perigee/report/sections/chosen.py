# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figures that `report.toml` or the command line asks for."""

from __future__ import annotations

from collections.abc import Sequence

from perigee.errors import NothingToDrawError
from perigee.groups.settings import Choice
from perigee.report import choice as figures
from perigee.report.context import Context
from perigee.report.model import Block, Section, Text


def section(context: Context) -> Section | None:
    """Return the figures that `report.toml` asks for; none where it asks for none.

    It was written for the whole study: where these results have one value of what a figure is drawn over (by the
    reduced size, or `--set`), or nothing that it shows, a note stands in its place.
    """
    blocks: list[Block] = []
    for choice in context.settings.figures:
        try:
            blocks += figures.plots_of(context, choice)
        except NothingToDrawError as error:
            # Who reads the report gave no option.
            reason = str(error).replace("--", "")
            blocks.append(Text(f"The figure {choice.figure} of report.toml is left out ({reason})."))
    return Section("figures", "Figures", blocks) if blocks else None


def of(context: Context, choices: Sequence[Choice]) -> Section:
    """Return figures of choices.

    Raises:
        InputError: a choice cannot be drawn of these results.
    """
    return Section("figures", "Figures", [plot for choice in choices for plot in figures.plots_of(context, choice)])

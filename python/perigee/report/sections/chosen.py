# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figures selected by `report.toml` or the command line."""

from __future__ import annotations

from collections.abc import Sequence

from perigee.errors import NothingToDrawError
from perigee.groups.factors import capital
from perigee.groups.settings import Choice
from perigee.report import choice as figures
from perigee.report.context import Context
from perigee.report.model import Block, Section


def section(context: Context) -> Section | None:
    """Return the figures selected by `report.toml`; None if it selects none.

    `report.toml` is for the whole study: if a figure's factor does not vary in these results (reduced size, or
    `--set`), or its data are missing, the figure is left out, and the command line says so.
    """
    blocks: list[Block] = []
    for choice in context.settings.figures:
        try:
            blocks += figures.blocks_of(context, choice)
        except NothingToDrawError as error:
            # Who wrote the file gave no option.
            reason = str(error).replace("--", "")
            context.asides.append(f"the figure {choice.figure} of report.toml is left out: {reason}")
    return Section("figures", "Figures", blocks) if blocks else None


def of(context: Context, choices: Sequence[Choice]) -> Section:
    """Return figures of choices.

    Raises:
        InputError: a choice cannot be drawn from these results.
    """
    return Section("figures", "Figures", [block for choice in choices for block in figures.blocks_of(context, choice)])


def former(context: Context, name: str, choice: Choice) -> Section | None:
    """Return a section of an earlier version, which is a figure now; None where these results have nothing for it."""
    try:
        blocks = figures.blocks_of(context, choice)
    except NothingToDrawError:
        return None
    return Section(name, capital(name.replace("_", " ")), blocks)

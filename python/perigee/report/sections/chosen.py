# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figures that `report.toml` or the command line asks for."""

from __future__ import annotations

from collections.abc import Sequence

from perigee.report import choice as figures
from perigee.report.context import Context
from perigee.report.model import Section
from perigee.report.settings import Choice


def section(context: Context) -> Section | None:
    """Return the figures that `report.toml` asks for; none where it asks for none."""
    return of(context, context.settings.figures) if context.settings.figures else None


def of(context: Context, choices: Sequence[Choice]) -> Section:
    """Return figures of choices.

    Raises:
        InputError: a choice cannot be drawn of these results.
    """
    return Section("figures", "Figures", [plot for choice in choices for plot in figures.plots_of(context, choice)])

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Voice flows: delay, jitter, what was not played, and how good the calls were."""

from __future__ import annotations

from perigee.report.context import Context
from perigee.report.model import Section
from perigee.report.sections.of_kind import OfKind

FLOWS = OfKind(
    kind="voice",
    table="voice",
    title="Calls",
    caption="Voice flows: means over flows",
    columns=(
        "voice_delay_ms",
        "voice_jitter_ms",
        "voice_lost_percent",
        "unplayed_percent",
        "mouth_to_ear_ms",
        "r_factor",
        "mos",
    ),
)
"""The flows, and the metrics of the table."""


def section(context: Context) -> Section | None:
    """Return a table of delay, jitter, loss and opinion score of voice flows per group, and lines over what varies."""
    return FLOWS.section(context)

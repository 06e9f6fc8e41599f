# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Video calls: frames on time, their delay and jitter, and freezes."""

from __future__ import annotations

from perigee.report.context import Context
from perigee.report.model import Section
from perigee.report.sections.of_kind import OfKind

FLOWS = OfKind(
    kind="call",
    table="calls",
    title="Video calls",
    caption="Video calls: means over flows",
    columns=(
        "on_time_percent",
        "frame_delay_ms",
        "frame_jitter_ms",
        "freezes",
        "frozen_percent",
    ),
)
"""The flows, and the metrics of the table."""


def section(context: Context) -> Section | None:
    """Return a table of frames on time, delay, jitter and freezes of calls per group, and lines over what varies."""
    return FLOWS.section(context)

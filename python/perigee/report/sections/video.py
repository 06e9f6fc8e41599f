# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Video flows: how soon they began, how often they stalled, and how good the picture was."""

from __future__ import annotations

from perigee.report.context import Context
from perigee.report.model import Section
from perigee.report.sections.of_kind import OfKind

FLOWS = OfKind(
    kind="video",
    table="videos",
    title="Videos",
    caption="Video flows: means over flows",
    columns=(
        "startup_delay_s",
        "stalls",
        "stalled_percent",
        "bitrate_mbps",
        "switches",
    ),
)
"""The flows, and the metrics of the table."""


def section(context: Context) -> Section | None:
    """Return a table of start, stalls, bit rate and switches of video flows per group, and lines over what varies."""
    return FLOWS.section(context)

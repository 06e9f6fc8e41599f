# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Page loads: how long pages took, and what they were made of."""

from __future__ import annotations

from perigee.report.context import Context
from perigee.report.model import Section
from perigee.report.sections.of_kind import OfKind

FLOWS = OfKind(
    kind="pages",
    table="pages",
    title="Page loads",
    caption="Page loads: means over the loads of each flow, then over flows",
    columns=(
        "page_load_ms",
        "document_ms",
        "page_bytes",
        "page_connections",
    ),
)
"""The flows, and the metrics of the table."""


def section(context: Context) -> Section | None:
    """Return a table of load times, sizes and connections of pages per group, and lines over what varies."""
    return FLOWS.section(context)

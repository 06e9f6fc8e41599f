# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Sections of flows with a result table of their own: voice, video, calls, pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perigee.groups.kinds import kinds_of
from perigee.report.context import Context
from perigee.report.measures import GROUP, Measure, measures
from perigee.report.model import Section
from perigee.report.sections import sweep
from perigee.statistics.metrics import mean, metric


def voice(context: Context) -> Section | None:
    """Return a table of delay, jitter, loss and opinion score of voice flows per group, and lines over factors."""
    columns = (
        "voice_delay_ms", "voice_jitter_ms", "voice_lost_percent", "unplayed_percent", "mouth_to_ear_ms", "r_factor",
        "mos",
    )  # fmt: skip
    return _section(context, "voice", "voice", "Calls", "Voice flows: means over flows", columns)


def video(context: Context) -> Section | None:
    """Return a table of start, stalls, bit rate and switches of video flows per group, and lines over factors."""
    columns = ("startup_delay_s", "stalls", "stalled_percent", "bitrate_mbps", "switches")
    return _section(context, "video", "videos", "Videos", "Video flows: means over flows", columns)


def call(context: Context) -> Section | None:
    """Return a table of frames on time, delay, jitter and freezes of calls per group, and lines over factors."""
    columns = ("on_time_percent", "frame_delay_ms", "frame_jitter_ms", "freezes", "frozen_percent")
    return _section(context, "call", "calls", "Video calls", "Video calls: means over flows", columns)


def pages(context: Context) -> Section | None:
    """Return a table of load times, sizes and connections of pages per group, and lines over factors."""
    columns = ("page_load_ms", "document_ms", "page_bytes", "page_connections")
    caption = "Page loads: means over the loads of each flow, then over flows"
    return _section(context, "pages", "pages", "Page loads", caption, columns)


def _section(
    context: Context, name: str, table: str, title: str, caption: str, columns: Sequence[str]
) -> Section | None:
    """Return a table of the means over flows per group, and lines over factors; None without such flows.

    Args:
        context: the results.
        name: the name of the section and of its table.
        table: result table with a row per flow.
        title: the title of the section.
        caption: the caption of its table.
        columns: the metrics of the table.
    """
    groups = [group for group in context.pooled(context.groups_of(*kinds_of(name))) if not group.flows.is_empty()]
    if not groups or not context.results.has(table):
        return None
    metrics = [metric(column) for column in columns]
    facts = [
        {"group": group, **{one.name: mean(context.with_metric(group, one.name)[one.name]) for one in metrics}}
        for group in groups
    ]
    shown_table = measures(
        name, caption, [GROUP, *(Measure(one.name, one.heading, one.digits) for one in metrics)], facts
    )
    lines = sweep.over_what_varies(context, groups, metrics)
    return Section(name, title, [*lines, replace(shown_table, folded=bool(lines))])

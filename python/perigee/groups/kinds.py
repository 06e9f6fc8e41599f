# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The kinds of flows that have a section of the report to themselves; all others are shown as bulk transfers."""

from __future__ import annotations

SECTION_OF = {
    "request": "exchanges",
    "transactions": "responses",
    "web": "responses",
    "pages": "pages",
    "video": "video",
    "ping": "exchanges",
    "udp": "datagrams",
    "voice": "voice",
    "call": "call",
}
"""The name of the section, by kind."""


def kinds_of(section: str) -> list[str]:
    """Return the kinds that a section shows.

    Examples:
        >>> kinds_of("responses")
        ['transactions', 'web']
    """
    return [kind for kind, name in SECTION_OF.items() if name == section]

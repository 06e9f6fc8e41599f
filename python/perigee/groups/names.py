# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Names that are safe and unique: of files, and of places in a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

LONGEST = 100
"""Letters of a file name without its ending; file systems end at 255 bytes."""


def slug(text: str) -> str:
    """Return a text as a name that is safe in every file system, in a page and in LaTeX.

    Examples:
        >>> slug("timeline-cubic, rate = 1 Mbit/s"), slug("../../etc/passwd"), slug("\u03b1"), slug("a_10.0.0.1")
        ('timeline-cubic-rate-1-Mbit-s', 'etc-passwd', 'unnamed', 'a-10.0.0.1')
    """
    plain = re.sub("[^A-Za-z0-9]+", lambda found: "." if found[0] == "." else "-", text)
    return plain.strip("-.")[:LONGEST].strip("-.") or "unnamed"


def distinct(names: Sequence[str], numbered: Callable[[str, int], str]) -> list[str]:
    """Return names of which no two are the same, capitals aside: of equal ones all but the first get a number.

    Args:
        names: the names.
        numbered: makes a name with a number, from 2, of one without.

    Examples:
        >>> distinct(["a", "A", "b", "a"], lambda name, copy: f"{name}-{copy}")
        ['a', 'A-2', 'b', 'a-3']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        free, copy = name, 1
        while free.casefold() in taken:
            copy += 1
            free = numbered(name, copy)
        taken.add(free.casefold())
        found.append(free)
    return found


def file_names(names: Sequence[str]) -> list[str]:
    """Return safe names for files of one folder, no two the same.

    Examples:
        >>> file_names(["power", "a/b", "a b", "A-b"])
        ['power', 'a-b', 'a-b-2', 'A-b-3']
    """
    return distinct([slug(name) for name in names], lambda name, copy: f"{name}-{copy}")


def link_in_words(link: str) -> str:
    """Return a directed link as people call it.

    Examples:
        >>> link_in_words("satellite.down"), link_in_words("up_to.hub.up"), link_in_words("wire")
        ('satellite, downlink', 'up to.hub, uplink', 'wire')
    """
    name, dot, way = link.rpartition(".")
    known = {"down": "downlink", "up": "uplink"}.get(way) if dot else None
    return f"{name}, {known}".replace("_", " ") if known else link.replace("_", " ")


def without_number(flow: str) -> str:
    """Return the name of a flow without its number within a `count`.

    Examples:
        >>> without_number("first.12"), without_number("first")
        ('first', 'first')
    """
    return re.sub(r"\.\d+$", "", flow)

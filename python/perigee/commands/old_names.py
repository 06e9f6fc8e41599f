# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Old names of profiles: they work, with a word on the name that a profile has now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perigee.console import say
from perigee.places import ProfileFile, StudyFile, find_profile, profiles


def profile_called(name: str) -> ProfileFile:
    """Find a profile, as `find_profile` does; say so where the name is an old one."""
    found = find_profile(name)
    if found.current is not None:
        say(_said(name, found.current))
    return found


def say_old_names(study: StudyFile, settings: Iterable[str]) -> None:
    """Say which old names of profiles a study and its settings have."""
    given = (text.partition("=")[2].strip("\"' ") for text in settings if text.partition("=")[0].endswith("profile"))
    known = profiles()
    for name in sorted({name for name in (*_named(study.content), *given) if name in known}):
        if (current := find_profile(name).current) is not None:
            say(_said(name, current))


def _said(old: str, current: str) -> str:
    return f"note: the profile {old} is called {current} now; its old name means the same"


def _named(content: Any, key: str = "") -> Iterator[str]:
    """Yield the values of keys `profile` and `links.NAME.profile`, wherever they stand.

    Examples:
        >>> list(_named({"links": [{"profile": "a"}], "vary": {"links.l.profile": ["b", "c"]}, "name": "d"}))
        ['a', 'b', 'c']
    """
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _named(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from _named(value, key)
    elif isinstance(content, str) and key.split(".")[-1] == "profile":
        yield content

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The files that a study refers to, which another machine needs besides the study."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from perigee.files import read_bounded
from perigee.places import StudyFile

MOST_BYTES = 256 << 20
"""Size limit of recordings in the core."""
WORD = re.compile(r"[^\s,\"'\[\]{}=+]+")


def files_of(study: StudyFile, settings: Sequence[str]) -> dict[str, bytes]:
    """Return the profiles and recordings that a study and its settings refer to, by the names used there.

    Files given by an absolute path or outside the study's folder are left out.

    Args:
        study: the study.
        settings: `key=value` overrides.

    Raises:
        InputError: a file is too large or cannot be read.
    """
    found: dict[str, bytes] = {}
    words = [*_texts(tomllib.loads(study.text)), *(word for one in settings for word in WORD.findall(one))]
    left = [(word, PurePosixPath()) for word in words]
    while left:
        word, folder = left.pop()
        for name in dict.fromkeys((PurePosixPath(word), folder / word, PurePosixPath("profiles") / f"{word}.toml")):
            if name.is_absolute() or ".." in name.parts or str(name) in found:
                continue
            path = next((path for root in (*study.search, Path()) if _is_file(path := root / name)), None)
            if path is None:
                continue
            content = found[str(name)] = read_bounded(path, MOST_BYTES, f"`{name}`")
            if path.suffix == ".toml":
                left += [(each, name.parent) for each in _texts_of_file(content)]
    return found


def _is_file(path: Path) -> bool:
    """True if the file exists; False also for a text that cannot be a path."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _texts_of_file(content: bytes) -> list[str]:
    try:
        return list(_texts(tomllib.loads(content.decode())))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        # The core reports the error and its line.
        return []


def _texts(value: object) -> Iterator[str]:
    """Yield every string in a parsed file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)

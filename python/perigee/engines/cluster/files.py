# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The files that a study names: what another machine needs besides the study itself."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from perigee.files import read_bounded
from perigee.places import StudyFile

MOST_BYTES = 256 << 20
"""As much as the core reads of a recording."""
WORD = re.compile(r"[^\s,\"'\[\]{}=+]+")


def files_of(study: StudyFile, settings: Sequence[str]) -> dict[str, bytes]:
    """Return the profiles and recordings that a study and its settings name, by the names they are looked for.

    What is named by an absolute path, or above the study's folder, is not among them.

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
    """Whether there is a file; a text that could not be a path names none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _texts_of_file(content: bytes) -> list[str]:
    try:
        return list(_texts(tomllib.loads(content.decode())))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        # The core says what is wrong with it, and in which line.
        return []


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a parsed file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)

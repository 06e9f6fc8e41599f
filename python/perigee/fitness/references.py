# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figures of Reno, CUBIC and BBR in all cells: computed once, and kept for as long as the program is the same."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from perigee.core import native
from perigee.errors import StorageError
from perigee.fitness import cells, figures, marks, trying
from perigee.fitness.cells import CELLS
from perigee.fitness.marks import REFERENCES
from perigee.fitness.trying import Figures, Trying
from perigee.keeper import kept, runs, studies

SOURCES = (cells, figures, marks, trying, runs, studies)
"""Modules on which figures and scores depend, beside the compiled core with its algorithms."""
DIGITS = 16

Kept = Mapping[str, Mapping[str, Figures]]
"""Figures by the name of a reference, and by cell and length (`key_of`)."""


def key_of(cell: str, length_s: float) -> str:
    """Return the key of a cell of a length.

    Examples:
        >>> key_of("wired", 15.0)
        'wired 15'
    """
    return f"{cell} {length_s:g}"


@functools.cache
def digest() -> str:
    """Return what names this version of cells, figures and simulator; scores of one digest can be compared."""
    hashed = hashlib.sha256(Path(native.__file__).read_bytes())
    for module in SOURCES:
        hashed.update(Path(str(module.__file__)).read_bytes())
    return hashed.hexdigest()[:DIGITS]


def kept_file() -> Path:
    """Return the file that keeps them: in the user's cache, by the digest."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "perigee" / f"score-{digest()}.json"


def references(goes_on: Callable[[], bool] = lambda: True) -> Kept:
    """Return the figures of all references: kept ones, or computed in about five seconds and kept.

    Raises:
        StoppedError: nobody waits for them any more.
    """
    path = kept_file()
    found: Kept | None = kept.read(path)
    if found is None:
        found = {name: _of(name, goes_on) for name in REFERENCES}
        # Where they cannot be kept, they are computed again the next time.
        with contextlib.suppress(StorageError):
            kept.write(path, found)
    return found


def _of(name: str, goes_on: Callable[[], bool]) -> dict[str, Figures]:
    with Trying(name, goes_on=goes_on) as tried:
        return {
            key_of(cell.name, length_s): tried.figures(cell, length_s) for cell in CELLS for length_s in cell.lengths_s
        }

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The congestion controls there are, and those of authors' files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perigee.core import native
from perigee.places import headers

if TYPE_CHECKING:
    from perigee._core import Algorithm


def algorithms() -> list[Algorithm]:
    """Return the congestion controls that are built in, by name."""
    return native.algorithms()


def algorithm_of(path: Path) -> tuple[Algorithm, str]:
    """Compile the congestion control of an author's file; nothing of it is executed.

    Returns:
        The algorithm, and what the compiler warned of.

    Raises:
        InputError: the file is no algorithm; the message has the compiler's words.
    """
    return native.algorithm_of(str(path), str(headers()))

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The congestion controls there are, and those of authors' files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perigee.core import native
from perigee.errors import InputError
from perigee.names import suggestion
from perigee.places import headers

if TYPE_CHECKING:
    from perigee._core import Algorithm


def algorithms() -> list[Algorithm]:
    """Return the congestion controls that are built in, by name."""
    return native.algorithms()


def built_in(name: str, option: str = "") -> Algorithm:
    """Return a congestion control that is built in.

    Args:
        name: its name.
        option: what comes before it in a message.

    Raises:
        InputError: there is no such congestion control.
    """
    known = {one.name: one for one in algorithms()}
    if name not in known:
        raise InputError(f"{option}{name}: there is no such congestion control", suggestion(name, known))
    return known[name]


def algorithm_of(path: Path) -> tuple[Algorithm, str]:
    """Compile the congestion control of an author's file; nothing of it is executed.

    Returns:
        The algorithm, and what the compiler warned of.

    Raises:
        InputError: the file is no algorithm; the message has the compiler's words.
    """
    return native.algorithm_of(str(path), str(headers()))

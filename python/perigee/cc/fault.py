# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The line of an author's file at which its code crashed or stood still."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from perigee.core import native
from perigee.places import headers

Library = tuple[str, bytes, bytes]
"""An author's file: its path, its text, and the library compiled of it."""
Fault = tuple[int, list[int]]
"""A library by its place, and addresses within it: of the instruction, of the call before it, and so on."""


def line_of(fault: Fault | None, libraries: Sequence[Library]) -> str | None:
    """Return `FILE:LINE` of a fault; none where the code is elsewhere, or has no debug information.

    A fault within a function of `tcp.h` is at the line of the author's that called it.

    Args:
        fault: what the process noted.
        libraries: its libraries, in their order.

    Examples:
        >>> line_of(None, []) is None
        True
        >>> line_of((0, [16]), [("mycc.c", b"", b"no library")]) is None
        True
    """
    if fault is None or fault[0] >= len(libraries):
        return None
    path, _, library = libraries[fault[0]]
    lines = [(Path(os.path.realpath(file)), line) for at in fault[1] for file, line, _ in native.lines_of(library, at)]
    own = [found for found in lines if found[0] == Path(os.path.realpath(path))]
    ours = headers().resolve()
    authors = [found for found in lines if not found[0].is_relative_to(ours)]
    for file, line in (own or authors or lines)[:1]:
        return f"{near(file)}:{line}"
    return None


def near(path: str | Path) -> Path:
    """Return a path as seen from the working directory, where it is below that.

    Examples:
        >>> near("/nowhere/mycc.c")
        PosixPath('/nowhere/mycc.c')
    """
    here = Path(os.path.realpath("."))
    return Path(path).relative_to(here) if Path(path).is_relative_to(here) else Path(path)

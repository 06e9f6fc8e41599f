# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Imported modules of the kernel, whose init may refuse parameters: asked in a process of its own, as by `insmod`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perigee.cc.child import LOADING_FACTOR, Child, LostError
from perigee.cc.fault import Library
from perigee.cc.limits import DEFAULT_LIMITS
from perigee.core import native
from perigee.errors import RunError
from perigee.files import TEXT_BYTES, read_bounded
from perigee.places import headers

MODULE = b"KERNEL_MODULE("
"""With it an imported file says what its module's init is."""


def check_loaded(file: Path, settings: list[tuple[str, str]]) -> None:
    """Check that a file for the kernel begins with parameters: BPF executes its init for each connection only.

    Raises:
        InputError: it is a module that does not begin with them.
        RunError: its init crashed, or never returned.
    """
    if MODULE not in read_bounded(file, TEXT_BYTES, "a congestion control"):
        return
    path, source, library = native.check_of(str(file), str(headers())).library
    with contextlib.closing(Child(DEFAULT_LIMITS)) as child:
        try:
            child.ask({"do": "trial", "path": str(path)}, (source, library))
            child.ask({"do": "begin", "settings": settings})
        except LostError as lost:
            raise RunError(f"{file}: while the module began, it {lost.how}") from lost


def check_planned(libraries: Sequence[Library], arguments: Sequence[Any]) -> None:
    """Check, before any result is written, that each module of a study begins with its parameters.

    Args:
        libraries: authors' files, compiled.
        arguments: the first arguments of the core's `Plan`.

    Raises:
        InputError: one does not; the message has its parameters.
    """
    if not any(MODULE in source for _, source, _ in libraries):
        return
    # Code that crashes here does so in its run, too, which says where.
    with contextlib.closing(Child(DEFAULT_LIMITS)) as child, contextlib.suppress(LostError):
        child.plan(list(arguments), libraries, stall_s=LOADING_FACTOR * DEFAULT_LIMITS.stall_s)

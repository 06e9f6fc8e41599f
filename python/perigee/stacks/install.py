# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Installation of QUIC stacks into a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Outcome:
    """How the installation of a stack ended.

    Attributes:
        name: the stack's.
        state: what it is now.
        reason: why it could not be installed; empty otherwise.
    """

    name: str
    state: Literal["installed", "already there", "could not"]
    reason: str = ""


def install(names: Sequence[str], folder: Path, on_progress: Callable[[str, str], None]) -> list[Outcome]:
    """Install stacks into a folder; one that is there already stays.

    Args:
        names: of stacks; none: all.
        folder: where to.
        on_progress: called with a stack's name and a step of its installation, in words.

    Raises:
        InputError: a stack is unknown.
        StorageError: the folder cannot be written.
    """
    raise NotImplementedError

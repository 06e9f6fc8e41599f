# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Programs of others, held by the kernel: files, processes, memory, time; the network is the caller's."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "import sys; sys.path[:0] = [sys.argv[1]]; from perigee.stacks.confined_program import main; main(*sys.argv[2:])"
PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that `perigee` is imported from."""


@dataclass(frozen=True)
class Bounds:
    """What a program may take.

    Attributes:
        memory_bytes: of address space.
        processor_s: of processor time.
        file_bytes: size of a file that it writes.
        files: that it has open.
    """

    memory_bytes: int = 8 << 30
    processor_s: int = 3600
    file_bytes: int = 8 << 30
    files: int = 256


def confined(
    command: Sequence[str],
    *,
    readable: Sequence[Path],
    writable: Sequence[Path],
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
) -> list[str]:
    """Return the words that run a command confined, in the network namespace of the process that starts them.

    The command reads and executes what is in `/usr`, reads and executes `readable`, and reads and writes `writable`; all else,
    the home above all, is closed to it. It has a namespace of processes of its own: with the process that these words start
    all ends that the command has started, also where the one that started that is killed. SIGTERM and SIGINT are passed on,
    and the exit code is the command's.

    Args:
        command: the program and its words.
        readable: files and folders.
        writable: folders.
        bounds: what it may take.
    """
    raise NotImplementedError


def _starter() -> list[str]:
    return [sys.executable, "-I", "-S", "-c", PROGRAM, str(PACKAGES), str(os.getpid())]

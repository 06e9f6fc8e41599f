# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Programs of others, held by the kernel: files, processes, memory, time. Their network is the caller's."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRAM = (
    "import sys; sys.path[:0] = [sys.argv[1]]; from perigee.stacks.confined_program import main; main(*sys.argv[2:])"
)
PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that `perigee` is imported from."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a program.

    Attributes:
        memory_bytes: of address space.
        processor_s: of processor time.
        file_bytes: size of each file that it writes.
        files: that it has open.
    """

    memory_bytes: int = 8 << 30
    processor_s: int = 3600
    file_bytes: int = 8 << 30
    files: int = 1024


BOUNDS = Bounds()


def confined(
    command: Sequence[str], *, readable: Sequence[Path], writable: Sequence[Path], bounds: Bounds = BOUNDS
) -> list[str]:
    """Return the words that run a command confined, in the network namespace of whoever starts them.

    The command reads the system's files (`/usr`, its libraries) and `readable`, and reads and writes `writable`; all
    else, the home above all, is closed to it (Landlock; without it nothing is run). It executes the system's programs
    and `readable`. It has no rights of root, so that it takes ports from 1024 on, starts no process, and sends no
    signals. It is killed when the thread of this process that started it ends, also by SIGKILL. Whoever starts the
    words has the command itself: its number, its exit code, signals for it.

    Args:
        command: the program and its words.
        readable: files and folders.
        writable: folders.
        bounds: its limits.
    """
    given = json.dumps(
        {
            "command": list(command),
            "parent": os.getpid(),
            "readable": [str(path) for path in readable],
            "writable": [str(path) for path in writable],
            "bounds": asdict(bounds),
        }
    )
    return [sys.executable, "-I", "-S", "-c", PROGRAM, str(PACKAGES), given]

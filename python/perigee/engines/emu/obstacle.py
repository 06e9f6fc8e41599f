# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whether this machine can emulate, asked before anything else is done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perigee.engines.emu.engine import Emulator
from perigee.errors import PerigeeError
from perigee.places import StudyFile

SMALLEST = """
name = "smallest"
nodes = ["server", "client"]
[[links]]
name = "path"
between = ["server", "client"]
rate = "1 Mbit/s"
delay = "1 ms"
[[flows]]
name = "flow"
from = "server"
to = "client"
duration = "1 s"
[vary]
"flow.cc" = ["cubic"]
"""
"""A study that any machine with the emulator can carry."""


def obstacle(algorithms: Sequence[str]) -> str:
    """Return why this machine cannot emulate these congestion controls; empty: it can.

    Args:
        algorithms: their names, or paths of their C files.
    """
    try:
        Emulator(StudyFile(Path("smallest.toml"), SMALLEST, ()), [f"vary.flow.cc={','.join(algorithms)}"], False)
    except PerigeeError as error:
        return str(error)
    return ""

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process that becomes a program of others, started by the words of `perigee.stacks.confined`."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from perigee import _core

LIMITS = {
    "memory_bytes": resource.RLIMIT_AS,
    "processor_s": resource.RLIMIT_CPU,
    "file_bytes": resource.RLIMIT_FSIZE,
    "files": resource.RLIMIT_NOFILE,
}
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
CANNOT_RUN = 126
"""Exit code of what cannot be run, as a shell has it."""


def main(given: str) -> None:
    """Take on the limits, and execute the command."""
    asked = json.loads(given)
    try:
        for name, limit in LIMITS.items():
            most = asked["bounds"][name]
            resource.setrlimit(limit, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _core.confine_program(asked["parent"], *([Path(path) for path in asked[of]] for of in ("readable", "writable")))
        os.execvpe(asked["command"][0], asked["command"], ENVIRONMENT)  # noqa: S606 - no shell is meant
    except OSError as error:
        print(f"{asked['command'][0]} cannot be run confined: {error}", file=sys.stderr)
        sys.exit(CANNOT_RUN)

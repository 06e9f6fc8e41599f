# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How benchmarks show what they measured, and on which processor."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import Path


def table(head: Iterable[str], rows: Iterable[Iterable[str]], names: int = 1) -> None:
    """Print a Markdown table; all columns but the first ones, which are names, to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ruler = ["-" * width if column < names else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    for line in (lines[0], ruler, *lines[1:]):
        cells = [
            f"{cell:<{width}}" if column < names else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def processor() -> str:
    """Return the name of the processor."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Instructions on record, in recorded.json: what `run.py` shows as before, and what it writes there."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from programs import HERE, counter

FILE = HERE / "recorded.json"
NIGHTS = 400
"""As many figures of later nights are kept for a path."""


class Record:
    """The figures on record, and those of this run beside them."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
        self._now: dict[str, float] = {}

    def note(self, path: str, instructions: float) -> tuple[str, str]:
        """Keep a figure of this run; return the one on record and the change since, as text."""
        self._now[path] = instructions
        if path not in self._before:
            return "-", "-"
        before = self._before[path]["instructions"]
        return f"{before:,.0f}", f"{instructions / before - 1:+.1%}"

    def grown(self, most: float) -> list[str]:
        """Return the paths that take more instructions than those on record by more than a share, a line each."""
        return [
            f"{path}: {now:,.0f} instructions, {now / before - 1:+.1%} to those on record ({before:,})"
            for path, now in self._now.items()
            if path in self._before and now > (before := self._before[path]["instructions"]) * (1 + most)
        ]

    def write(self) -> None:
        """Put the figures of this run on record, in the place of earlier ones of the same paths."""
        of = f"{date.today()}, {counter()}"
        now = {path: {"instructions": round(figure), "of": of} for path, figure in self._now.items()}
        _write(self._before | now)

    def append(self, earlier: Path) -> None:
        """Add the figures of this run to those of earlier nights; those that they are compared with stay.

        Args:
            earlier: the file as the night before left it. One that is not there has no nights.
        """
        nights = json.loads(earlier.read_text(encoding="utf-8")) if earlier.is_file() else {}
        figures = {path: dict(figure) for path, figure in self._before.items()}
        for path, now in self._now.items():
            figure = figures.setdefault(path, {"instructions": round(now), "of": f"{date.today()}, {counter()}"})
            later = nights.get(path, {}).get("later", [])
            figure["later"] = [*later, [str(date.today()), round(now)]][-NIGHTS:]
        _write(figures)


def _write(figures: dict[str, dict[str, Any]]) -> None:
    """Write the file, a line for each path."""
    lines = [f" {json.dumps(path)}: {json.dumps(figure)}" for path, figure in figures.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

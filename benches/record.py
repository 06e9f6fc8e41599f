# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Instructions on record, in recorded.json: what `run.py` shows as before, and what it writes with `--record`."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from programs import HERE, counter

FILE = HERE / "recorded.json"


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

    def write(self) -> None:
        """Put the figures of this run on record, in the place of earlier ones of the same paths."""
        of = f"{date.today()}, {counter()}"
        now = {path: {"instructions": round(figure), "of": of} for path, figure in self._now.items()}
        lines = [f" {json.dumps(path)}: {json.dumps(figure)}" for path, figure in (self._before | now).items()]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

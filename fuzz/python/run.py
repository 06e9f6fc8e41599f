#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Fuzz a reader of Python's with coverage: `run.py TARGET [libFuzzer's options] CORPUS...`; needs atheris (PyPI)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["perigee"]):
    from readers import TARGETS, feed


def main() -> None:
    """Fuzz."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"{sys.argv[0]}: name a target: {', '.join(TARGETS)}")
    target = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as folder:
        atheris.Setup(sys.argv, lambda data: feed(target, data, Path(folder)))
        atheris.Fuzz()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Why a file cannot be imported, at a place of its text."""

from __future__ import annotations


class RefusedError(Exception):
    """Something at a place of the text cannot be imported: what, and what to do; a second place where it takes two."""

    def __init__(self, start: int, what: str, fix: str, second: int | None = None) -> None:
        super().__init__(f"{what}; {fix}")
        self.start = start
        self.second = second

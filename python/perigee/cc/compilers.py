# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Messages of compilers, by file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MESSAGE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<severity>[a-z ]*): (?P<text>.*)$", re.M
)


@dataclass(frozen=True)
class Message:
    """One message of a compiler.

    Attributes:
        target: what it compiled for: `simulator` or `kernel`.
        file: the file.
        line: the line, from 1.
        column: the column, from 1; none: of the whole line.
        severity: `error`, `fatal error`, `warning`.
        text: what it says.
    """

    target: str
    file: str
    line: int
    column: int | None
    severity: str
    text: str

    @property
    def place(self) -> str:
        """`FILE:LINE`."""
        return f"{self.file}:{self.line}"


def messages_of(target: str, said: str) -> list[Message]:
    r"""Return the errors and warnings in the text of a compiler; its notes belong to them and are left out.

    Examples:
        >>> messages_of("simulator", "a.c: In function 'f':\na.c:3:7: error: no 'x'\na.c:1:1: note: here")
        [Message(target='simulator', file='a.c', line=3, column=7, severity='error', text="no 'x'")]
    """
    found = []
    for one in _MESSAGE.finditer(said):
        column = int(one["column"]) if one["column"] else None
        if one["severity"] != "note":
            found.append(Message(target, one["file"], int(one["line"]), column, one["severity"], one["text"]))
    return found

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of `perigee ping`, a command up to version 0.1: a head of two lines, then a time and a round trip of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from perigee.analysis.log import Entry, Log, Pings
from perigee.errors import InputError
from perigee.files import LINE_BYTES, lines_of, storage_errors

MAGIC = b"# perigee ping:"
_HEAD = re.compile(
    rb"# perigee ping: to \S+, every ([0-9]{1,12}) us, ([0-9]{1,6}) bytes, lost after [0-9]+ us\nunix_s,rtt_ms\n"
)
_LINE = re.compile(rb"([0-9]{1,12}\.[0-9]{3}),([0-9]{1,9}\.[0-9]{3}|limited)?\n")
_CUT_OFF = re.compile(rb"[0-9.,a-z]{0,40}")


def read(path: Path) -> list[Log]:
    """Read a log.

    Raises:
        InputError: it cannot be read, or is damaged.
    """
    with storage_errors(path), path.open("rb") as file:
        head = _HEAD.fullmatch(file.readline(LINE_BYTES) + file.readline(LINE_BYTES))
        if head is None:
            raise InputError(f"{path}:1: the interval and the size of the pings are not there; restore the line")
        limited, last = 0, b"\n"
        for line in lines_of(file, path, 3):
            limited, last = limited + line.endswith(b",limited\n"), line
    damage = () if last.endswith(b"\n") else ("its last line is cut off, and is left out",)
    over = (f"{limited} pings reached the server over its limit; they are left out, not lost",) if limited else ()
    pings = Pings(lambda: _entries(path), None, int(head[1]) / 1e6, int(head[2]))
    return [Log("perigee ping", pings=pings, notes=(*damage, *over), damage=damage)]


def _entries(path: Path) -> Iterator[Entry]:
    with storage_errors(path), path.open("rb") as file:
        file.readline(LINE_BYTES)
        file.readline(LINE_BYTES)
        for place, line in enumerate(lines_of(file, path, 3), 3):
            found = _LINE.fullmatch(line)
            if _CUT_OFF.fullmatch(line):
                # A crash cut it off, or it is being written.
                return
            if found is None:
                raise InputError(f"{path}:{place}: not a time and a round trip: {line[:40]!r}; remove the line")
            if found[2] != b"limited":
                yield float(found[1]), None if found[2] is None else float(found[2])

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Recordings that another program writes into `perigee analyze -`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perigee.core import native
from perigee.errors import InputError

STANDARD_INPUT = Path("-")
NAME = "standard-input"
"""Its name in results."""


@contextmanager
def on_disk(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Give files, of which `-` is standard input in a file that is removed afterwards: captures are read twice.

    Raises:
        InputError: `-` is there more than once.

    Examples:
        >>> with on_disk([Path("a.pcap")]) as files:
        ...     print(*files)
        a.pcap
    """
    count = list(files).count(STANDARD_INPUT)
    if count > 1:
        raise InputError(f"- is there {count} times; give standard input once")
    if not count:
        yield list(files)
        return
    with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("input")) as folder:
        kept = Path(folder) / NAME
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, _PIECE_BYTES)
        yield [kept if path == STANDARD_INPUT else path for path in files]


_PIECE_BYTES = 1 << 20

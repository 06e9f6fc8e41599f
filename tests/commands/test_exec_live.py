# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The live line of `perigee exec`, on a terminal and without one."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from perigee.commands.exec_live import LiveLine


class Terminal(io.StringIO):
    """A terminal that keeps its output."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def sample(released_bytes: int, queue_bytes: int = 0, dropped: int = 0) -> Any:
    return SimpleNamespace(released_bytes=released_bytes, largest_queue_bytes=queue_bytes, dropped=dropped)


def test_rates_are_of_the_time_since_the_line_before() -> None:
    stream = io.StringIO()
    line = LiveLine(stream)
    line(1.0, sample(1_000_000, 500_000), sample(0))
    line(3.0, sample(2_000_000, 0, 7), sample(250_000))
    line.end()
    assert stream.getvalue() == (
        "link 1 s: down 8.00 Mbit/s, queue 0.500 MB, 0 dropped; up 0.00 Mbit/s, queue 0.000 MB, 0 dropped\n"
        "link 3 s: down 4.00 Mbit/s, queue 0.000 MB, 7 dropped; up 1.00 Mbit/s, queue 0.000 MB, 0 dropped\n"
    )


def test_a_terminals_line_is_written_over_and_cleared_at_the_end() -> None:
    stream = Terminal()
    line = LiveLine(stream)
    line.end()
    assert stream.getvalue() == ""
    line(1.0, sample(0), sample(0))
    line.end()
    text = stream.getvalue()
    assert text.startswith("\r\x1b[Klink 1 s: down ")
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text

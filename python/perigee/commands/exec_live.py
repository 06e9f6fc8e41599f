# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The live line of `perigee exec --live`: rate, queue and drops of a link, once a second."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from perigee.numbers import number

if TYPE_CHECKING:
    from perigee._core import DirectionSample

CLEAR = "\r\x1b[K"
"""Returns to the start of the terminal's line and clears it."""


class LiveLine:
    """Shows the state of a link: one line that is rewritten on a terminal, new lines elsewhere.

    Args:
        stream: the output, standard error by default, since the program owns standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._before: tuple[float, int, int] = (0.0, 0, 0)
        self._shown = False

    def __call__(self, elapsed_s: float, down: DirectionSample, up: DirectionSample) -> None:
        """Show the activity of the link since the last line."""
        then_s, then_down, then_up = self._before
        length_s = max(elapsed_s - then_s, 1e-9)
        ways = (
            _way("down", (down.released_bytes - then_down) / length_s, down),
            _way("up", (up.released_bytes - then_up) / length_s, up),
        )
        self._before = (elapsed_s, down.released_bytes, up.released_bytes)
        text = f"link {number(elapsed_s, 0)} s: {'; '.join(ways)}"
        self._stream.write(f"{CLEAR}{text}" if self._is_terminal else f"{text}\n")
        self._stream.flush()
        self._shown = True

    def end(self) -> None:
        """Clear the line."""
        if self._shown and self._is_terminal:
            self._stream.write(CLEAR)
            self._stream.flush()


def _way(name: str, bytes_per_s: float, sample: DirectionSample) -> str:
    """Return the text of one direction.

    Examples:
        >>> from types import SimpleNamespace as Sample
        >>> _way("down", 2_500_000.0, Sample(largest_queue_bytes=1_250_000, dropped=3))
        'down 20.00 Mbit/s, queue 1.250 MB, 3 dropped'
    """
    rate, queue = number(bytes_per_s * 8e-6, 2), number(sample.largest_queue_bytes / 1e6, 3)
    return f"{name} {rate} Mbit/s, queue {queue} MB, {sample.dropped} dropped"

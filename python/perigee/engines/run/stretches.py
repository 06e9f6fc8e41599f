# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs as ranges with a constant step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Stretches:
    """Remaining runs, as ranges with a constant step.

    Args:
        runs: their numbers in ascending order.

    Examples:
        >>> left = Stretches([0, 1, 2, 3, 9, 17, 25])
        >>> list(left.take(3)), list(left.take(3)), list(left.take(3)), len(left)
        ([0, 1, 2], [3], [9, 17, 25], 0)
    """

    def __init__(self, runs: Iterable[int]) -> None:
        self._stretches: deque[range] = deque()
        self._runs = 0
        for run in runs:
            self._runs += 1
            last = self._stretches[-1] if self._stretches else None
            if last is None or (len(last) > 1 and run != last[-1] + last.step):
                self._stretches.append(range(run, run + 1))
            else:
                self._stretches[-1] = range(last[0], run + 1, run - last[-1])

    def __len__(self) -> int:
        """The number of runs."""
        return self._runs

    def take(self, most: int) -> range:
        """Take up to `most` runs of the first range, which must exist."""
        first = self._stretches.popleft()
        taken, rest = first[:most], first[most:]
        self._runs -= len(first)
        self.put_back(rest)
        return taken

    def put_back(self, runs: range) -> None:
        """Put runs back before all others."""
        if runs:
            self._stretches.appendleft(runs)
            self._runs += len(runs)

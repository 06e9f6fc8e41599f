# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Sets of whole numbers as intervals: bytes of a stream, or numbers of packets, that grow mostly at their end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Intervals:
    """A set of whole numbers, kept as intervals without their ends.

    Examples:
        >>> seen = Intervals()
        >>> seen.add(0, 10), seen.add(20, 30), seen.add(5, 25)
        ([(0, 10)], [(20, 30)], [(10, 20)])
        >>> seen.size, seen.end
        (30, 30)
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.size = 0

    @property
    def end(self) -> int:
        """One more than the largest number; 0 of an empty set."""
        return self._ends[-1] if self._ends else 0

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add the numbers from `start` to before `end`; return those that were not in it, as intervals."""
        if start >= end:
            return []
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        new, at = [], start
        for old_start, old_end in zip(self._starts[first:last], self._ends[first:last], strict=True):
            if at < old_start:
                new.append((at, old_start))
            at = max(at, old_end)
        if at < end:
            new.append((at, end))
        joined_start = min(start, self._starts[first]) if first < last else start
        joined_end = max(end, self._ends[last - 1]) if first < last else end
        self._starts[first:last], self._ends[first:last] = [joined_start], [joined_end]
        self.size += sum(stop - begin for begin, stop in new)
        return new

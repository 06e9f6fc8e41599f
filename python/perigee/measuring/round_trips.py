# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Round trips of many datagrams, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

from perigee.core import native

BIN_MS = 0.1
"""Width of the bins of round trips."""
LIMITED: Final = "limited"
"""The server received the datagram and reported that its limit is reached: neither a round trip nor lost."""

Outcome = float | Literal["limited"] | None
"""The fate of a datagram: its round trip (ms), `LIMITED`, or none: no answer came."""


class RoundTrips:
    """Count datagrams: the distribution of their round trips in bins of 0.1 ms, and their losses in a row.

    Attributes:
        sent: datagrams sent.
        lost: those whose answer never came.
        limited: those that the server's limit left without one.
        events: times that one or several in a row were lost.
        single_events: of these, the ones of a single datagram.
        longest_event: datagrams lost in a row at the most.

    Examples:
        >>> counted = RoundTrips()
        >>> counted.add(LIMITED)
        >>> for rtt in (600.0, None, None, 602.0, 601.0):
        ...     counted.add(rtt)
        >>> counted.sent, counted.lost, counted.limited, counted.loss
        (6, 2, 1, 0.4)
        >>> counted.events, counted.longest_event, counted.mean_ms, counted.sd_ms
        (1, 2, 601.0, 1.0)
        >>> round(counted.quantile_ms(0.5), 2), [(round(rtt, 1), round(share, 2)) for rtt, share in counted.above()]
        (601.05, [(600.1, 0.67), (601.1, 0.33), (602.1, 0.0)])
    """

    def __init__(self) -> None:
        self.sent = self.lost = self.limited = self.events = self.single_events = self.longest_event = 0
        self._durations = native.Histogram(round(BIN_MS * NS_PER_MS))
        # The running mean and the sum of squares around it (Welford 1962), of which the standard deviation is made.
        self._mean_ms = self._squares = 0.0
        self._in_a_row = 0

    @property
    def answered(self) -> int:
        """Datagrams whose answer came."""
        return self.sent - self.lost - self.limited

    @property
    def loss(self) -> float:
        """Share lost of those that no limit was in the way of; 0 without any."""
        return self.lost / max(self.sent - self.limited, 1)

    @property
    def min_ms(self) -> float:
        """Shortest round trip; infinite without any."""
        return _or(self._durations.min_ms, math.inf)

    @property
    def mean_ms(self) -> float:
        """Mean round trip; 0 without any."""
        return _or(self._durations.mean_ms, 0.0)

    @property
    def max_ms(self) -> float:
        """Longest round trip; 0 without any."""
        return _or(self._durations.max_ms, 0.0)

    @property
    def sd_ms(self) -> float:
        """Standard deviation of the round trips; 0 with fewer than two."""
        return math.sqrt(self._squares / (self.answered - 1)) if self.answered > 1 else 0.0

    def add(self, rtt_ms: Outcome) -> None:
        """Count a datagram by its fate."""
        self.sent += 1
        if rtt_ms == LIMITED:
            self.limited += 1
            # The path carried it, and the word on the limit back.
            self._in_a_row = 0
            return
        if rtt_ms is None:
            self.lost += 1
            self._in_a_row += 1
            self.longest_event = max(self.longest_event, self._in_a_row)
            first, second = self._in_a_row == 1, self._in_a_row == 1 + 1
            self.events += first
            self.single_events += first - second
            return
        self._in_a_row = 0
        step = rtt_ms - self._mean_ms
        self._mean_ms += step / self.answered
        self._squares += step * (rtt_ms - self._mean_ms)
        self._durations.add(round(rtt_ms * NS_PER_MS))

    def quantile_ms(self, share: float) -> float:
        """Return the round trip that this share of them does not exceed, linear within its bin; NaN without any."""
        return _or(self._durations.quantile_ms(share), math.nan)

    def bins(self) -> list[tuple[float, int]]:
        """Return the lower edge (ms) of each bin in use, and the round trips in it."""
        found: list[tuple[float, int]] = self._durations.bins()
        return found

    def above(self) -> Iterator[tuple[float, float]]:
        """Yield the complementary distribution: the upper edge of each bin in use, and the share above it."""
        left = self.answered
        for edge_ms, count in self.bins():
            left -= count
            yield edge_ms + BIN_MS, left / self.answered


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


NS_PER_MS = 1_000_000

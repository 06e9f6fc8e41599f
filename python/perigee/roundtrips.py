# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Round trips of many datagrams, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

BIN_MS = 0.1
LARGEST_MS = 60_000.0
LIMITED: Final = "limited"
"""A datagram that came to the server, which said that its limit is reached: neither a round trip nor lost."""

Outcome = float | Literal["limited"] | None
"""What became of a datagram: its round trip (ms), `LIMITED`, or none: no answer came."""


class RoundTrips:
    """Exact moments, a distribution in bins of 0.1 ms, and the losses in a row.

    Attributes:
        sent: datagrams sent.
        lost: those whose answer never came.
        limited: those that the server's limit left without one.
        events: times that one or several in a row were lost.
        single_events: of these, the ones of a single datagram.
        longest_event: datagrams lost in a row at the most.
        mean_ms: mean round trip.
        min_ms: least round trip; infinite without any.
        max_ms: largest round trip.

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
        self.mean_ms, self.min_ms, self.max_ms = 0.0, math.inf, 0.0
        self._squares = 0.0
        self._in_a_row = 0
        self._bins = np.zeros(int(LARGEST_MS / BIN_MS) + 1, np.int64)

    @property
    def answered(self) -> int:
        """Datagrams whose answer came."""
        return self.sent - self.lost - self.limited

    @property
    def loss(self) -> float:
        """Share lost of those that no limit was in the way of; 0 without any."""
        return self.lost / max(self.sent - self.limited, 1)

    @property
    def sd_ms(self) -> float:
        """Standard deviation of the round trips; 0 with fewer than two."""
        return math.sqrt(self._squares / (self.answered - 1)) if self.answered > 1 else 0.0

    def add(self, rtt_ms: Outcome) -> None:
        """Count a datagram: its round trip, or what became of it."""
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
        step = rtt_ms - self.mean_ms
        self.mean_ms += step / self.answered
        self._squares += step * (rtt_ms - self.mean_ms)
        self.min_ms, self.max_ms = min(self.min_ms, rtt_ms), max(self.max_ms, rtt_ms)
        # Half a microsecond on top: 600.0 belongs to the bin that begins there, whatever its last binary digit is.
        self._bins[min(int((rtt_ms + 5e-4) / BIN_MS), len(self._bins) - 1)] += 1

    def quantile_ms(self, share: float) -> float:
        """Return the middle of the bin that this share of the round trips does not exceed; NaN without any."""
        if not self.answered:
            return math.nan
        place = int(np.searchsorted(np.cumsum(self._bins), max(share * self.answered, 1)))
        return (place + 0.5) * BIN_MS

    def above(self) -> Iterator[tuple[float, float]]:
        """Yield the complementary distribution: the upper edge of each bin in use, and the share above it."""
        left = self.answered
        for place in np.flatnonzero(self._bins):
            left -= int(self._bins[place])
            yield (int(place) + 1) * BIN_MS, left / self.answered

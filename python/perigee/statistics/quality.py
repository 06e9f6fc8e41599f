# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Quality of Outcome: how near a network is to what an application needs (draft-ietf-ippm-qoo-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Requirements:
    """Requirements of an application for its best work (the draft's ROP), and for any use (CPUP).

    Attributes:
        name: what they are called.
        optimal_ms: by percentile, 0 to 100: the round trip below which the network adds nothing to be noticed, ms.
        unacceptable_ms: of the same percentiles: the round trip at which the application is of no use, ms; each above
            the optimal one.
        loss_percent: the share of lost packets that is optimal, and the one that is of no use, %; none: not required.
        least_mbps: the throughput that is needed, Mbit/s; none: not required.
        throughput_of: the flow whose throughput counts; with `least_mbps`.
    """

    name: str
    optimal_ms: Mapping[float, float]
    unacceptable_ms: Mapping[float, float]
    loss_percent: tuple[float, float] | None = None
    least_mbps: float | None = None
    throughput_of: str = ""


@dataclass(frozen=True)
class Score:
    """A score of 0 (of no use) to 100 (as good as can be), and the parts of which it is the least.

    Attributes:
        latency: of the percentiles of the round trip; none without one that was measured.
        loss: of the loss; none where nothing is required.
        throughput: 0 or 100; none where nothing is required, or nothing was measured.
    """

    latency: float | None
    loss: float | None
    throughput: float | None

    @property
    def total(self) -> float | None:
        """The least part; none without latency."""
        if self.latency is None:
            return None
        return min(part for part in (self.latency, self.loss, self.throughput) if part is not None)


def score(
    required: Requirements, round_trips_ms: NDArray[np.float64], lost_percent: float, throughput_mbps: float | None
) -> Score:
    """Return how a network meets the requirements (draft-ietf-ippm-qoo-10, section 3.3).

    Percentiles are interpolated linearly between the round trips; those of packets that were lost count as loss only.

    Args:
        required: the requirements.
        round_trips_ms: round trips that were measured, ms, shape (n,).
        lost_percent: share of the packets that got no answer, %.
        throughput_mbps: what was measured, Mbit/s; none: nothing.

    Examples:
        The draft's example (section 3.4), of which the percentiles are 350 ms and 375 ms:

        >>> game = Requirements("game", {99: 200, 99.9: 300}, {99: 500, 99.9: 600}, (1, 5), 4, "download")
        >>> measured = np.interp(np.linspace(0, 100, 10001), [0, 99, 99.9, 100], [50, 350, 375, 375])
        >>> found = score(game, measured, 2, 28)
        >>> round(found.latency, 6), found.loss, found.throughput, round(found.total, 6)
        (50.0, 75.0, 100.0, 50.0)
    """
    latency = None
    if round_trips_ms.size:
        latency = min(
            _part(float(np.percentile(round_trips_ms, percentile)), optimal, required.unacceptable_ms[percentile])
            for percentile, optimal in required.optimal_ms.items()
        )
    loss = _part(lost_percent, *required.loss_percent) if required.loss_percent else None
    throughput = None
    if required.least_mbps is not None and throughput_mbps is not None:
        throughput = 100.0 if throughput_mbps >= required.least_mbps else 0.0
    return Score(latency, loss, throughput)


def _part(measured: float, optimal: float, unacceptable: float) -> float:
    """Return 100 up to `optimal`, 0 from `unacceptable` on, and linearly between."""
    return 100 * min(max(1 - (measured - optimal) / (unacceptable - optimal), 0.0), 1.0)

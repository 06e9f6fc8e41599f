# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The throughput over time of a current run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

MOST_SAMPLES = 256
INTERVAL_S = 0.1
"""Initial sampling interval, s; doubled whenever samples are too many."""


class Curve:
    """Data received by the first flows of a run over time.

    Args:
        run: number of the run.
        flows: names of its flows.

    Attributes:
        run: as given.

    Examples:
        >>> curve = Curve(0, ["main"])
        >>> for tenth in range(4):
        ...     curve.add(tenth / 10, [tenth * 125_000])
        >>> curve.drawn()["t_s"], curve.drawn()["mbps"]
        ([0.1, 0.2, 0.3], [[10.0, 10.0, 10.0]])
    """

    def __init__(self, run: int, flows: Sequence[str]) -> None:
        self.run = run
        self._flows = flows
        self._interval_s = INTERVAL_S
        self._samples: list[tuple[float, Sequence[int]]] = [(0.0, [0] * len(flows))]

    def add(self, now_s: float, received: Sequence[int]) -> None:
        """Add the bytes that each flow has received at a time of the run."""
        if now_s < self._samples[-1][0] + self._interval_s * (1 - 1e-6):
            return
        self._samples.append((now_s, received))
        if len(self._samples) > MOST_SAMPLES:
            # The list is replaced, not changed, since another thread may read it.
            self._samples = self._samples[::2]
            self._interval_s *= 2

    def drawn(self) -> dict[str, Any]:
        """Return `run`, the names `flows`, ends of intervals `t_s`, and `mbps`, each flow's throughput by interval."""
        samples = self._samples[:]
        pairs = list(pairwise(samples))
        count = min([len(self._flows), *(len(received) for _, received in samples)])
        return {
            "run": self.run,
            "flows": list(self._flows[:count]),
            "t_s": [round(end, 3) for _, (end, _) in pairs],
            "mbps": [
                [
                    round((after[flow] - before[flow]) * 8e-6 / (end - begin), 3)
                    for (begin, before), (end, after) in pairs
                ]
                for flow in range(count)
            ],
        }

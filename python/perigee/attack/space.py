# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The trials of a search: points of a unit cube, in which most of each complication's axis stands for its absence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perigee.attack.trial import Trial
from perigee.numbers import significant

WHERE = {"geo": (480.0, 720.0), "leo": (20.0, 150.0), "any": (20.0, 1000.0)}
"""Round trips without queues, ms: a geostationary path, a low orbit with its ground segment, both and more."""
RATES_MBPS = (2.0, 40.0)
QUEUES_BDP = (0.1, 8.0)
LEAST_QUEUE_KB = 15.0
"""Ten packets."""
DURATIONS_S = (20.0, 60.0)
LOSSES_PERCENT = (0.01, 5.0)
BURSTS_MS = (5.0, 200.0)
RATE_FACTORS = (0.1, 4.0)
RTT_FACTORS = (0.3, 3.0)
LEAST_RTT_MS, MOST_RTT_MS = 5.0, 1500.0
OUTAGES_S = (0.05, 5.0)
OBJECTS_KB = (10.0, 5000.0)
PAUSES_S = (0.1, 5.0)
UP_SHARES = (0.05, 1.0)
MOST_OTHERS = 3
AQMS = ("codel", "fq-codel", "pie", "red")
OTHERS = ("cubic", "reno", "bbr")
AXES = (
    "rate", "rtt", "queue", "duration", "loss", "burst", "aqm", "change", "rate_factor", "rtt_factor", "outage",
    "outage_at", "others", "other", "other_at", "object", "pause", "up",
)  # fmt: skip
"""The axes of the cube."""
PLAIN = ("rate", "rtt", "queue", "duration", "others", "other")
"""The axes of plain trials."""
ABSENT = 0.6
"""The part of a complication's axis that stands for its absence."""


@dataclass(frozen=True)
class Space:
    """The trials of a search.

    Args:
        where: a key of `WHERE`.
        beside_others: whether each trial has competing flows; otherwise plain trials have none.
        is_plain: whether trials are without other complications.

    Examples:
        >>> Space("geo").trial([0.5] * len(AXES)).words
        '8.94 Mbit/s, round trip 600 ms, a queue of 600 kB (0.89 bandwidth-delay products); for 40 s'
    """

    where: str
    beside_others: bool = False
    is_plain: bool = False

    def trial(self, point: Sequence[float]) -> Trial:
        """Return the trial of a point, each coordinate from 0 to 1; its numbers have three digits."""
        at = dict(zip(AXES, (min(max(float(x), 0.0), 1.0) for x in point), strict=True))
        if self.is_plain:
            at = {name: x if name in PLAIN else 0.0 for name, x in at.items()}
        rate, rtt = _log(at["rate"], RATES_MBPS), self._rtt(at["rtt"])
        duration = _linear(at["duration"], DURATIONS_S)
        loss = _log(_present(at["loss"]), LOSSES_PERCENT) if at["loss"] > ABSENT else 0.0
        outage = _log(_present(at["outage"]), OUTAGES_S) if at["outage"] > ABSENT else 0.0
        rate_factor = _log(_present(at["rate_factor"]), RATE_FACTORS) if at["rate_factor"] > ABSENT else 1.0
        rtt_factor = _log(_present(at["rtt_factor"]), RTT_FACTORS) if at["rtt_factor"] > ABSENT else 1.0
        rtt_factor = min(max(rtt * rtt_factor, LEAST_RTT_MS), MOST_RTT_MS) / rtt
        others = self._others(at["others"])
        sends_objects = at["object"] > ABSENT
        pauses = sends_objects and at["pause"] > ABSENT
        queue = max(rate * rtt / 8 * _log(at["queue"], QUEUES_BDP), LEAST_QUEUE_KB)
        found = {
            "rate_mbps": rate,
            "rtt_ms": rtt,
            "queue_kb": queue,
            "duration_s": duration,
            "loss_percent": loss,
            "burst_ms": _log(_present(at["burst"]), BURSTS_MS) if loss and at["burst"] > ABSENT else 0.0,
            "change_s": duration * _linear(at["change"], (0.2, 0.7)) if rate_factor != 1 or rtt_factor != 1 else 0.0,
            "rate_factor": rate_factor,
            "rtt_factor": rtt_factor,
            "outage_s": outage,
            "outage_at_s": duration * _linear(at["outage_at"], (0.05, 0.7)) if outage else 0.0,
            "other_at_s": duration * _present(at["other_at"]) / 2 if others and at["other_at"] > ABSENT else 0.0,
            "object_kb": _log(_present(at["object"]), OBJECTS_KB) if sends_objects else 0.0,
            "pause_s": _log(_present(at["pause"]), PAUSES_S) if pauses else 0.0,
            "up_share": _log(1 - _present(at["up"]), UP_SHARES) if at["up"] > ABSENT else 1.0,
        }
        aqm = _choice(_present(at["aqm"]), AQMS) if at["aqm"] > ABSENT else ""
        other = _choice(at["other"], OTHERS) if others else OTHERS[0]
        numbers = {name: significant(value) for name, value in found.items()}
        return Trial(aqm=aqm, others=others, other=other, **numbers)

    def _rtt(self, x: float) -> float:
        bounds = WHERE[self.where]
        return _linear(x, bounds) if self.where == "geo" else _log(x, bounds)

    def _others(self, x: float) -> int:
        if self.beside_others:
            return 1 + min(int(x * MOST_OTHERS), MOST_OTHERS - 1)
        is_absent = self.is_plain or x <= ABSENT
        return 0 if is_absent else 1 + min(int(_present(x) * MOST_OTHERS), MOST_OTHERS - 1)


def _present(x: float) -> float:
    """Return the place within the part of an axis where a complication is present, 0 to 1."""
    return max(x - ABSENT, 0.0) / (1 - ABSENT)


def _linear(x: float, bounds: tuple[float, float]) -> float:
    return bounds[0] + x * (bounds[1] - bounds[0])


def _log(x: float, bounds: tuple[float, float]) -> float:
    return bounds[0] * math.exp(x * math.log(bounds[1] / bounds[0]))


def _choice(x: float, values: Sequence[str]) -> str:
    return values[min(int(x * len(values)), len(values) - 1)]

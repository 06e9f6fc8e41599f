# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Link profiles at a glance: orbit, rate over a minute, distribution of delays, round trip and loss."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from perigee.engines.links.sampling import sample_profile
from perigee.errors import InputError
from perigee.laboratory.topology import GEO_MS, MEO_MS, orbit_of
from perigee.laboratory.words import number
from perigee.places import ProfileFile

SPAN_S, STEP_S = 60.0, 0.1
BINS, PARTS = 40, 80
WIRE_MS = 1.0
"""One-way delay below which a link has no satellite."""
ORBITS = {
    "GEO": "Geostationary orbit",
    "MEO": "Medium Earth orbit",
    "LEO": "Low Earth orbit",
    "": "Wire",
}


@dataclass(frozen=True)
class Picture:
    """A link profile at a glance.

    Attributes:
        orbit: a key of `ORBITS`.
        down: mean rate towards the user, Mbit/s, in words; empty: not known.
        up: the other way.
        rtt_ms: median round trip without load; none: not known.
        loss: of packets towards the user, in words.
        rate: rate over a minute towards the user, as points of a picture of 100 x 24.
        delay: distribution of the one-way delays, likewise.
        delay_ms: the least and the largest of these delays.
    """

    orbit: str
    down: str = ""
    up: str = ""
    rtt_ms: float | None = None
    loss: str = "none"
    rate: str = ""
    delay: str = ""
    delay_ms: tuple[float, float] | None = None


class Pictures:
    """The pictures of profiles that were made. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Picture] = {}

    def knows(self, profile: ProfileFile) -> bool:
        """Whether the picture of a profile was made already."""
        with self._lock:
            return profile.text in self._known

    def of(self, profile: ProfileFile) -> Picture:
        """Return the picture of a profile."""
        with self._lock:
            known = self._known.get(profile.text)
        if known is None:
            known = picture(profile)
            with self._lock:
                self._known[profile.text] = known
        return known


def unsampled(profile: ProfileFile) -> Picture:
    """Return what a profile says without being sampled: its orbit and loss."""
    down = _side(profile.content, "down")
    return Picture(orbit_of(str(profile.content.get("name", "")), down), loss=loss_in_words(down.get("loss")))


def picture(profile: ProfileFile) -> Picture:
    """Sample a profile; one that replays a recording of its user's has its orbit and loss only."""
    content, name = profile.content, str(profile.content.get("name", ""))
    try:
        samples = sample_profile(profile, SPAN_S, STEP_S)
    except InputError:
        return unsampled(profile)
    down, up = (samples.filter(pl.col("direction") == each) for each in ("down", "up"))
    delays = down["delay_ms"].drop_nulls().to_numpy()
    least, median, most = (
        (float(np.quantile(delays, share)) for share in (0.0, 0.5, 1.0)) if len(delays) else 3 * (0.0,)
    )
    up_ms = up["delay_ms"].median()
    return Picture(
        _orbit(name, content, median),
        _mean(down["rate_mbps"], _side(content, "down")),
        _mean(up["rate_mbps"], _side(content, "up")),
        median + float(up_ms) if isinstance(up_ms, float) else None,
        loss_in_words(_side(content, "down").get("loss")),
        _line(down["rate_mbps"].to_numpy()),
        _bars(delays, least, most),
        (least, most) if len(delays) else None,
    )


def loss_in_words(loss: Any) -> str:
    """Return how much a link loses, in words.

    Examples:
        >>> loss_in_words("0.01 %"), loss_in_words(None), loss_in_words(["0.2 %", {"kind": "slots"}])
        ('0.01 %', 'none', '0.2 % and slots')
    """
    if loss is None:
        return "none"
    parts: list[str] = []
    for each in loss if isinstance(loss, list) else [loss]:
        if isinstance(each, dict):
            share, kind = each.get("loss"), str(each.get("kind", "")).replace("-", " ")
            parts.append(f"{share} by {kind}" if isinstance(share, str) and not parts else kind)
        else:
            parts.append(str(each))
    return " and ".join(dict.fromkeys(filter(None, parts))) or "none"


def _side(content: Mapping[str, Any], direction: str) -> dict[str, Any]:
    both, one = content.get("link", {}), content.get(direction, {})
    return {**(both if isinstance(both, dict) else {}), **(one if isinstance(one, dict) else {})}


def _orbit(name: str, content: Mapping[str, Any], delay_ms: float) -> str:
    if delay_ms >= GEO_MS:
        return "GEO"
    named = orbit_of(name, _side(content, "down"))
    if named == "LEO" or delay_ms < WIRE_MS:
        return named
    return "MEO" if delay_ms >= MEO_MS else "LEO"


def _mean(rates: pl.Series, side: Mapping[str, Any]) -> str:
    rate, found = side.get("rate"), rates.mean()
    if isinstance(rate, dict) and rate.get("kind") == "tdma":
        return "on demand"
    return number(found) if isinstance(found, float) and math.isfinite(found) else "no limit"


def _line(values: np.ndarray) -> str:
    """Return a curve with the least and the largest value of each part of the time, so that no dip is lost."""
    if not len(values) or not np.isfinite(values).all() or values.max() <= 0:
        return ""
    if values.min() == values.max():
        return "0,2 100,2"
    parts = np.array_split(23 - 21 * values / values.max(), PARTS)
    return " ".join(
        f"{100 * (place + side) / PARTS:.1f},{y:.1f}"
        for place, part in enumerate(parts)
        for side, y in ((0.0, part.max()), (0.5, part.min()))
    )


def _bars(delays: np.ndarray, least: float, most: float) -> str:
    """Return a histogram as a line of steps; delays that are all alike are one bar in the middle."""
    if not len(delays):
        return ""
    if most - least < 0.5:
        return "0,23 48,23 48,2 52,2 52,23 100,23"
    counts, _ = np.histogram(delays, BINS, (least, most))
    heights = 23 - 21 * counts / counts.max()
    points = [f"{100 * (place + side) / BINS:.1f},{y:.1f}" for place, y in enumerate(heights) for side in (0, 1)]
    return " ".join(("0,23", *points, "100,23"))

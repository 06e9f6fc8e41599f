# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Link profiles without traffic: orbit, rate and delay over a minute, distribution of delays, round trip and loss."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from perigee.engines.links.sampling import sample_profile
from perigee.errors import InputError
from perigee.laboratory.topology import GEO_MS, MEO_MS, orbit_of
from perigee.places import ProfileFile, current_profiles, find_profile

SPAN_S, STEP_S = 60.0, 0.1
BINS, PARTS = 40, 80
ALIKE_MS = 0.5
"""Range of delays below which they are one bar."""
WIRE_MS = 1.0
"""One-way delay below which a link has no satellite."""
ORBITS = {
    "GEO": "Geostationary orbit",
    "MEO": "Medium Earth orbit",
    "LEO": "Low Earth orbit",
    "": "Wire",
}


@dataclass(frozen=True)
class Glance:
    """A link profile in a list.

    Attributes:
        orbit: a key of `ORBITS`.
        down: mean rate towards the user, Mbit/s, or in words; empty: not known.
        up: the other way.
        rtt_ms: median round trip without load; none: not known.
        loss: of packets towards the user, in words.
        rate_mbps: rates over a minute towards the user: of each part of the time the largest and the least.
        delays: how many packets towards the user had each one-way delay, from the least to the largest.
        delay_ms: these two delays.
    """

    orbit: str
    down: float | str = ""
    up: float | str = ""
    rtt_ms: float | None = None
    loss: str = "none"
    rate_mbps: tuple[float, ...] = ()
    delays: tuple[int, ...] = ()
    delay_ms: tuple[float, float] | None = None


class Glances:
    """The glances at profiles that were taken. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Glance] = {}

    def knows(self, profile: ProfileFile) -> bool:
        """Whether a profile was sampled already."""
        with self._lock:
            return profile.text in self._known

    def of(self, profile: ProfileFile) -> Glance:
        """Return the glance at a profile."""
        with self._lock:
            known = self._known.get(profile.text)
        if known is None:
            known = glance(profile)
            with self._lock:
                self._known[profile.text] = known
        return known

    def listed(self, for_s: float = math.inf) -> list[dict[str, Any]]:
        """Return all profiles, each with `name`, `title` and its glance.

        Args:
            for_s: time for sampling those that nobody has looked at yet; the others have an orbit and their loss.
        """
        until = time.monotonic() + for_s
        found = []
        for name, path in sorted(current_profiles().items()):
            profile = _read(name, path.stat().st_mtime_ns)
            is_shown = self.knows(profile) or time.monotonic() < until
            one = self.of(profile) if is_shown else unsampled(profile)
            found.append({"name": name, "title": str(profile.content.get("title", "")), **asdict(one)})
        return found


@lru_cache(maxsize=200)
def _read(name: str, _written_ns: int) -> ProfileFile:
    """Read a profile, once for each time that it was written."""
    return find_profile(name)


def unsampled(profile: ProfileFile) -> Glance:
    """Return what a profile says without being sampled: its orbit and loss."""
    down = _side(profile.content, "down")
    return Glance(orbit_of(str(profile.content.get("name", "")), down), loss=loss_in_words(down.get("loss")))


def glance(profile: ProfileFile) -> Glance:
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
    return Glance(
        _orbit(name, content, median),
        _mean(down["rate_mbps"], _side(content, "down")),
        _mean(up["rate_mbps"], _side(content, "up")),
        median + float(up_ms) if isinstance(up_ms, float) else None,
        loss_in_words(_side(content, "down").get("loss")),
        _extremes(down["rate_mbps"].to_numpy()),
        _counts(delays, least, most) if len(delays) else (),
        (least, most) if len(delays) else None,
    )


def over_time(profile: ProfileFile) -> dict[str, Any] | None:
    """Return a profile over a minute: times `t_s`, and of `down` and `up` `rate_mbps` and `delay_ms`.

    Rates without a limit, and delays of packets that were lost, are none. None for a profile that replays a recording
    of its user's.
    """
    try:
        samples = sample_profile(profile, SPAN_S, STEP_S)
    except InputError:
        return None
    sides = {side: samples.filter(pl.col("direction") == side) for side in ("down", "up")}
    return {
        "t_s": sides["down"]["t_s"].to_list(),
        **{side: {name: _numbers(found[name]) for name in ("rate_mbps", "delay_ms")} for side, found in sides.items()},
    }


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


def _mean(rates: pl.Series, side: Mapping[str, Any]) -> float | str:
    rate, found = side.get("rate"), rates.mean()
    if isinstance(rate, dict) and rate.get("kind") == "tdma":
        return "on demand"
    return found if isinstance(found, float) and math.isfinite(found) else "no limit"


def _extremes(values: np.ndarray) -> tuple[float, ...]:
    """Return the largest and the least value of each part of the time, so that no dip is lost."""
    if not len(values) or not np.isfinite(values).all():
        return ()
    parts = np.array_split(values, PARTS)
    return tuple(round(float(each), 3) for part in parts for each in (part.max(), part.min()))


def _counts(delays: np.ndarray, least: float, most: float) -> tuple[int, ...]:
    """Return a histogram; delays that are all alike are in the middle of it."""
    rest = max(0.0, ALIKE_MS - (most - least)) / 2
    return tuple(map(int, np.histogram(delays, BINS, (least - rest, most + rest))[0]))


def _numbers(values: pl.Series) -> list[float | None]:
    return [None if each is None or not math.isfinite(each) else round(each, 4) for each in values]

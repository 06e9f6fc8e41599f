# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A ping log as a series: equal steps of time, with gaps where nothing was sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perigee.errors import InputError
from perigee.measuring.ping import entries
from perigee.measuring.round_trips import LIMITED

Floats = npt.NDArray[np.float64]

LEAST_ANSWERS = 200
"""Fewer round trips say nothing about a tail or a rare loss."""

_HEAD = re.compile(rb"# perigee ping: to (\S+), every ([0-9]+) us, ([0-9]+) bytes, lost after ([0-9]+) us\n")


@dataclass(frozen=True)
class Pings:
    """A ping log.

    Attributes:
        log: its file.
        interval_s: between two datagrams.
        size: bytes of a datagram without headers.
        rtt_ms: round trips in the order of sending; NaN: lost.
        place: number of each datagram's step of time: one more than that of the one before, unless nothing was sent.
        notes: what a reader should know: clocks that were set, pauses.
    """

    log: Path
    interval_s: float
    size: int
    rtt_ms: Floats
    place: npt.NDArray[np.int64]
    notes: tuple[str, ...]

    @property
    def lost(self) -> npt.NDArray[np.bool_]:
        """Whether each was lost."""
        return np.isnan(self.rtt_ms)

    @property
    def time_s(self) -> Floats:
        """When each was sent, from the first on, by the count of steps: no clock's jump is in it."""
        return np.asarray(self.place * self.interval_s, float)

    @property
    def follows(self) -> npt.NDArray[np.bool_]:
        """Whether each, but the first, was sent one step after the one before."""
        return np.asarray(np.diff(self.place) == 1)

    @property
    def described(self) -> str:
        """The source, for a comment."""
        return f"{self.log.name}: {len(self.rtt_ms)} pings each {self.interval_s * 1000:g} ms"


def read_pings(log: Path) -> Pings:
    """Read a log of `perigee ping`.

    Steps of time are counted by the interval. Where the log's clock says that more passed, there was a pause; where it
    went back, it was set, and the count goes on.

    Raises:
        InputError: it is no such log, a line is wrong, or it says too little to fit anything to.
    """
    limited: list[bool] = []
    pairs: list[tuple[float, float]] = []
    for at, rtt_ms in entries(log):
        limited.append(rtt_ms == LIMITED)
        pairs.append((at, rtt_ms if isinstance(rtt_ms, float) else np.nan))
    unix, rtt = np.array(pairs, float).reshape(-1, 2).T
    with log.open("rb") as file:
        head = _HEAD.fullmatch(file.readline())
    if head is None:
        raise InputError(f"{log}:1: the interval and the size of the pings are not there; restore the line")
    _check(log, rtt)
    interval_s = int(head[2]) / 1e6
    place, notes = _places(log, unix, interval_s)
    if any(limited):
        notes += (f"{log}: {sum(limited)} pings reached the server over its limit; they are left out, not lost",)
    counted = ~np.array(limited, bool)
    return Pings(log, interval_s, int(head[3]), rtt[counted], place[counted], notes)


def joined(logs: Sequence[Pings]) -> Pings:
    """Return several logs of one path as one, with a pause between them.

    Raises:
        InputError: there is none, or they differ in interval or size.
    """
    first = logs[0]
    for other in logs[1:]:
        if (other.interval_s, other.size) != (first.interval_s, first.size):
            raise InputError(
                f"{other.log}: pings of {other.size} bytes each {1000 * other.interval_s:g} ms, those of {first.log} "
                f"are of {first.size} bytes each {1000 * first.interval_s:g} ms; fit them apart"
            )
    if len(logs) == 1:
        return first
    places, after = [], 0
    for log in logs:
        places.append(log.place + after)
        after = int(places[-1][-1]) + 2
    return Pings(
        first.log.with_name(f"{len(logs)} logs of pings"), first.interval_s, first.size,
        np.concatenate([log.rtt_ms for log in logs]), np.concatenate(places), sum((log.notes for log in logs), ()),
    )  # fmt: skip


def _check(log: Path, rtt: Floats) -> None:
    answered = int(np.isfinite(rtt).sum())
    if len(rtt) and not answered:
        raise InputError(f"{log}: all of the {len(rtt)} pings were lost; there is no round trip to fit a delay to")
    if answered < LEAST_ANSWERS:
        raise InputError(
            f"{log}: {answered} round trips are too few to fit a delay to; measure {LEAST_ANSWERS} or more, "
            "better a day of them"
        )


def _places(log: Path, unix: Floats, interval_s: float) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    steps = np.diff(unix)
    late = max(1.0, 2 * interval_s)
    back, ahead = steps < -late, steps > interval_s + late
    place = np.ones(len(unix), np.int64)
    place[0] = 0
    place[1:][ahead] = np.round(steps[ahead] / interval_s).astype(np.int64)
    notes = []
    if back.any():
        at = int(np.flatnonzero(back)[0])
        notes.append(
            f"{log}:{at + 4}: the clock was set back by {-steps[at]:.1f} s"
            + (f", and {int(back.sum()) - 1} times more" if back.sum() > 1 else "")
            + "; time is counted by the pings instead"
        )
    if ahead.any():
        away = float(steps[ahead].sum())
        notes.append(f"{log}: {int(ahead.sum())} pauses, {away:.0f} s in all, or a clock set ahead")
    return np.cumsum(place), tuple(notes)

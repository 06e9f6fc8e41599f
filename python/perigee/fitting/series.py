# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Pings of any log as a series: equal steps of time, with gaps where nothing was sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perigee.analysis import logs
from perigee.analysis.together import EDGE_S
from perigee.errors import InputError

Floats = npt.NDArray[np.float64]

LEAST_ANSWERS = 200
"""Fewer round trips say nothing about how a delay varies."""
NOTED_AT_THE_ANSWER = ("ping", "fping")
"""Programs whose lines have the instants of answers."""
_HEADLESS = "ping"
"""Program of a log of the system's `ping` whose first lines are missing, so that nothing says which system it is of."""
LOSSES = "losses: the log has answered pings only"
SAME_INTERVAL = 0.01
"""Intervals that lines with times tell differ by this share at most where `ping` was given the same one; chosen."""
DEFAULT_BYTES = 56
"""Size of a ping of which the log does not say it; the default of `ping`."""


@dataclass(frozen=True)
class Pings:
    """A ping log.

    Attributes:
        log: its file.
        interval_s: between two.
        size: bytes of each without headers.
        rtt_ms: round trips in the order of sending; NaN: lost.
        place: number of each datagram's step of time: one more than that of the one before, unless nothing was sent.
        notes: what a reader should know: clocks that were set, pauses.
        system: the program that wrote it.
        unknown: parts of a link that this log cannot tell, with the reason.
        sent_s: when each was sent, s since 1970; none: the log does not say.
        is_loaded: whether all were beside transfers, so that they tell the least round trip at most.
    """

    log: Path
    interval_s: float
    size: int
    rtt_ms: Floats
    place: npt.NDArray[np.int64]
    notes: tuple[str, ...]
    system: str = "ping"
    unknown: tuple[str, ...] = ()
    sent_s: Floats | None = None
    is_loaded: bool = False

    @property
    def has_losses(self) -> bool:
        """Whether the log has pings that were lost on the idle path."""
        return LOSSES not in self.unknown and not self.is_loaded

    @property
    def is_short(self) -> bool:
        """Whether there are too few answers on the idle path to say how the delay varies."""
        return self.is_loaded or int(np.isfinite(self.rtt_ms).sum()) < LEAST_ANSWERS

    @property
    def lost(self) -> npt.NDArray[np.bool_]:
        """Whether each was lost."""
        return np.isnan(self.rtt_ms)

    @property
    def time_s(self) -> Floats:
        """When each was sent, from the first on, by the count of steps: no clock's jump is in it."""
        return np.asarray((self.place - self.place[0]) * self.interval_s, float)

    @property
    def follows(self) -> npt.NDArray[np.bool_]:
        """Whether each, but the first, was sent one step after the one before."""
        return np.asarray(np.diff(self.place) == 1)

    @property
    def described(self) -> str:
        """The source, for a comment."""
        return f"{self.log.name}: {len(self.rtt_ms)} pings of {self.system} each {self.interval_s * 1000:.4g} ms"

    def without(self, busy: Sequence[tuple[float, float]]) -> Pings:
        """Return it without the pings beside transfers, and a note on how many these were.

        Args:
            busy: begin and end of each transfer, s since 1970.
        """
        if self.sent_s is None:
            return self
        answered_s = self.sent_s + np.nan_to_num(self.rtt_ms) / 1000
        is_beside = np.zeros(len(self.rtt_ms), bool)
        for begin, end in busy:
            is_beside |= (answered_s > begin - EDGE_S) & (self.sent_s < end + EDGE_S)
        count = int(is_beside.sum())
        if not count:
            return self
        if not np.isfinite(self.rtt_ms[~is_beside]).any():
            note = f"{self.log.name}: all pings were beside transfers: of these only the least round trip is taken"
            unknown = "how the delay varies, and losses of an idle link: all pings were beside transfers"
            return replace(self, is_loaded=True, notes=(*self.notes, note), unknown=(*self.unknown, unknown))
        note = (
            f"{self.log.name}: {count} of {len(self.rtt_ms)} pings were beside transfers, or within {EDGE_S:g} s of "
            "one: not idle, and left out"
        )
        return replace(
            self, rtt_ms=self.rtt_ms[~is_beside], place=self.place[~is_beside], sent_s=self.sent_s[~is_beside],
            notes=(*self.notes, note),
        )  # fmt: skip


def read_pings(file: Path) -> Pings:
    """Read the pings of a log of any program.

    Steps of time are counted by the interval. Where the log's clock says that more passed, there was a pause; where it
    went back, it was set, and the count goes on.

    Raises:
        InputError: it holds no pings, a line is wrong, or none was answered.
    """
    log, pings = logs.pings_of(file)
    pairs = [(at, np.nan if rtt_ms is None else rtt_ms) for at, rtt_ms in pings.entries()]
    if log.system == _HEADLESS:
        # Its summary counts from a first ping that is not there: nobody knows how many were lost behind the last line.
        last = max((at for at, (_, rtt_ms) in enumerate(pairs) if np.isfinite(rtt_ms)), default=len(pairs) - 1)
        pairs = pairs[: last + 1]
    unix, rtt = np.array(pairs, float).reshape(-1, 2).T
    if not np.isfinite(rtt).any():
        raise InputError(f"{file}: all of the {len(rtt)} pings were lost; there is no round trip to fit a delay to")
    interval_s = pings.interval_s or _usual(unix)
    place, notes = _places(file, unix, interval_s)
    notes = (*(f"{file.name}: {note}" for note in log.notes), *notes)
    sent_s = None
    if log.time_zero_s is not None:
        sent_s = log.time_zero_s + unix - unix[0]
        if log.system.split(" ")[0].lower() in NOTED_AT_THE_ANSWER:
            sent_s = sent_s - np.nan_to_num(rtt) / 1000
    return Pings(
        file, interval_s, pings.size or DEFAULT_BYTES, rtt, place, notes, log.system,
        tuple(_unknown(pings.counts, pings.is_measured and pings.interval_s is not None)), sent_s,
    )  # fmt: skip


def _usual(unix: Floats) -> float:
    """Return the usual time between two pings, of a log that does not say it."""
    steps = np.diff(unix)
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 1.0


def _unknown(counts: tuple[int | None, int | None] | None, is_timed: bool) -> Iterator[str]:
    if counts is not None and counts[1] is None:
        yield LOSSES
    if not is_timed:
        yield "periods and lengths of outages: instants rest on an interval that is assumed"


def longest(series: Sequence[Pings]) -> Pings | None:
    """Return the series with most answers, which says that others are left out; none of none."""
    if not series:
        return None
    best = max(series, key=lambda one: int(np.isfinite(one.rtt_ms).sum()))
    others = [one.log.name for one in series if one is not best]
    left = (f"{best.log.name} has most round trips; those of {', '.join(others)} are left out",) if others else ()
    return replace(best, notes=(*best.notes, *left))


def joined(series: Sequence[Pings]) -> Pings:
    """Return several logs of one path as one, with a pause between them.

    Raises:
        InputError: there is none, or they differ in interval or size.
    """
    first = series[0]
    for other in series[1:]:
        is_as_often = math.isclose(other.interval_s, first.interval_s, rel_tol=SAME_INTERVAL)
        if not is_as_often or other.size != first.size:
            raise InputError(
                f"{other.log}: pings of {other.size} bytes each {1000 * other.interval_s:g} ms, those of {first.log} "
                f"are of {first.size} bytes each {1000 * first.interval_s:g} ms; fit them apart"
            )
    if len(series) == 1:
        return first
    places, after = [], 0
    for log in series:
        places.append(log.place + after)
        after = int(places[-1][-1]) + 2
    return Pings(
        first.log.with_name(f"{len(series)} logs of pings"), first.interval_s, first.size,
        np.concatenate([log.rtt_ms for log in series]), np.concatenate(places),
        sum((log.notes for log in series), ()), first.system,
        tuple(dict.fromkeys(said for log in series for said in log.unknown)),
    )  # fmt: skip


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

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Start times of runs: after a pause, or on a grid of the wall clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

GoOn = Callable[[], bool]
Say = Callable[[str], None]

STEP_S = 2.0
"""Change of the offset between wall clock and monotonic clock that counts as a step, s."""
LOOK_S = 0.2


class Clock(Protocol):
    """Wall clock, monotonic clock and sleep."""

    def wall(self) -> float:
        """Return Unix time, s; it may be set at any moment."""

    def steady(self) -> float:
        """Return monotonic time, s."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class RealClock:
    """Clock of this machine."""

    def wall(self) -> float:
        """See `Clock.wall`."""
        return time.time()

    def steady(self) -> float:
        """See `Clock.steady`; it counts suspended time too."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Schedule:
    """Rules for the start times of runs.

    Attributes:
        pause_s: pause between runs, s.
        every_s: runs start at multiples of this in Unix time; None: immediately.
        by_round: the rules hold for rounds; runs within a round follow one another.
        span_s: time after the first run's start at which no more runs start, s.
    """

    pause_s: float = 0.0
    every_s: float | None = None
    by_round: bool = False
    span_s: float | None = None


class Timetable:
    """Waits for the start times of runs.

    Attributes:
        waiting_for: the next start (Unix time); None: a run is in progress.
    """

    def __init__(self, schedule: Schedule, clock: Clock, say: Say) -> None:
        self._schedule = schedule
        self._clock = clock
        self._say = say
        self._first: float | None = None
        self._slot: float | None = None
        self._round: int | None = None
        self._ended: float | None = None
        self._is_under_way = False
        self._offset = clock.wall() - clock.steady()
        self.waiting_for: float | None = None

    def begin(self, first: float) -> None:
        """Set when a resumed study began, seconds of Unix time."""
        every = self._schedule.every_s
        self._first = first if every is None else math.ceil(first / every) * every

    def wait(self, round_: int, go_on: GoOn) -> bool | None:
        """Wait until a run of this round may start.

        Returns:
            True if it may; False: the study's time is over; None: `go_on` returned False.
        """
        schedule, clock = self._schedule, self._clock
        on_grid = schedule.every_s is not None and not (schedule.by_round and round_ == self._round)
        free = -math.inf if self._ended is None else self._ended + schedule.pause_s
        slot: float | None = None
        while True:
            wall, now = clock.wall(), clock.steady()
            if self._clock_was_set(wall, now):
                slot = None
            if slot is None:
                start = wall + max(free - now, 0.0)
                slot = self._next_slot(start) if on_grid else start
            if self._is_over(slot):
                self.waiting_for = None
                return False
            if slot <= wall:
                break
            self.waiting_for = slot
            if not go_on():
                return None
            clock.sleep(min(slot - wall, LOOK_S))
        self._tell_missed(slot, on_grid)
        self.waiting_for = None
        self._slot = slot if on_grid else self._slot
        self._round = round_
        self._is_under_way = True
        self._first = slot if self._first is None else self._first
        return True

    def ended(self) -> None:
        """Record the end of a run."""
        self._ended = self._clock.steady()
        self._is_under_way = False

    def left_s(self, rounds: list[int], typical_s: float | None) -> float | None:
        """Estimate the time for the remaining runs, s.

        Args:
            rounds: round of each, including the current run.
            typical_s: typical duration of a run, s; None: unknown.
        """
        if typical_s is None or not rounds:
            return None if rounds else 0.0
        schedule, wall = self._schedule, self._clock.wall()
        at = wall
        before: int | None = self._round
        for number, round_ in enumerate(rounds):
            is_under_way = number == 0 and self._is_under_way
            on_grid = schedule.every_s is not None and not (schedule.by_round and round_ == before)
            if schedule.every_s is not None and on_grid and not is_under_way:
                at = math.ceil(at / schedule.every_s) * schedule.every_s
            if self._is_over(at):
                break
            before = round_
            at += typical_s + schedule.pause_s
        return max(at - schedule.pause_s - wall, 0.0)

    def _next_slot(self, start: float) -> float:
        every = self._schedule.every_s or 1.0
        slot = math.ceil(start / every) * every
        # After a short run, the next one takes the next slot.
        if self._slot is not None and slot <= self._slot:
            slot = self._slot + every
        return slot

    def _tell_missed(self, slot: float, on_grid: bool) -> None:
        every = self._schedule.every_s
        if on_grid and every is not None and self._slot is not None:
            missed = round((slot - self._slot) / every) - 1
            if missed > 0:
                times = "once" if missed == 1 else f"{missed} times"
                self._say(f"the clock was at a multiple of `live.every` {times} before the runs until then had ended")

    def _is_over(self, at: float) -> bool:
        span = self._schedule.span_s
        return span is not None and self._first is not None and at - self._first >= span

    def _clock_was_set(self, wall: float, now: float) -> bool:
        by = wall - now - self._offset
        if abs(by) < STEP_S:
            # Gradual corrections of the clock do not add up to a step.
            self._offset += by
            return False
        self._offset = wall - now
        self._say(f"this host's clock was set by {by:+.0f} s; the times of the next runs follow it")
        # Earlier starts move to the same grid, so that no slot is lost or doubled by more than the step.
        self._slot = None
        if self._first is not None:
            self._first += by
        return True


def beginnings(
    schedule: Schedule, now: float, rounds: Sequence[int], took_s: Sequence[float | None]
) -> list[float | None]:
    """Predict the start times of runs.

    Args:
        schedule: their schedule.
        now: start of the study, Unix time.
        rounds: round of each run.
        took_s: duration of each run, s; None: unknown.

    Returns:
        Start of each run; None: follows a run of unknown duration; -1: never.

    Examples:
        >>> beginnings(Schedule(every_s=60.0, span_s=200), 30.0, [0, 0, 1, 1], [10, 70, 10, 10])
        [60.0, 120.0, 240.0, -1.0]
        >>> beginnings(Schedule(pause_s=5), 30.0, [0, 1, 2], [10, None, 10])
        [30.0, 45.0, None]
    """
    found: list[float | None] = []
    at: float | None = now
    first: float | None = None
    before: int | None = None
    for round_, took in zip(rounds, took_s, strict=True):
        if schedule.every_s is not None and not (schedule.by_round and round_ == before):
            last = max((slot for slot in found if slot is not None), default=now) if at is None else at
            at = math.ceil(last / schedule.every_s) * schedule.every_s
        first = at if first is None else first
        if at is not None and first is not None and schedule.span_s is not None and at - first >= schedule.span_s:
            found.append(-1.0)
            continue
        found.append(at)
        before = round_
        at = None if at is None or took is None else at + took + schedule.pause_s
    return found


def time_of_day(at: float) -> str:
    """Format an instant of Unix time.

    Examples:
        >>> time_of_day(1_700_000_000.0)
        '2023-11-14 22:13:20 UTC'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

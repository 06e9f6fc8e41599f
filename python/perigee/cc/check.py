# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Random events for an author's congestion control, in a process that may crash or hang."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.cc.child import LOADING_FACTOR, Child, LostError
from perigee.cc.fault import Library, line_of, near
from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.core import native
from perigee.places import headers

if TYPE_CHECKING:
    from perigee._core import Check

SHORTENING_S = 20.0
"""Time limit for minimising a failing sequence."""
SHORT_STALL_S = 0.5
"""Processor time after which one more attempt of a few events hangs too."""


def check_of(
    path: Path, sequences: int, limits: CodeLimits = DEFAULT_LIMITS, *, first: int = 0
) -> tuple[Check, str | None]:
    """Check an author's file: compile it for the simulator and the kernel, and try random sequences of events on it.

    The events are tried in another process.

    Args:
        path: the C file.
        sequences: how many sequences.
        limits: what the code may take.
        first: the number of the first sequence.

    Returns:
        What the compilers say, and what the events did to a window, or that the code crashed or never returned (none:
        nothing).

    Raises:
        InputError: the file is no algorithm; the message has the compiler's words.
    """
    check = native.check_of(str(path), str(headers()))
    return check, trial(check.library, sequences, limits, first=first)


def trial(library: Library, sequences: int, limits: CodeLimits, *, first: int = 0) -> str | None:
    """Try random sequences of events.

    Args:
        library: what `check_of` compiled.
        sequences: how many.
        limits: what the code may take.
        first: the number of the first sequence.

    Returns:
        What went wrong and where, the events that lead there without those that need not be, and the command that
        repeats it; none: nothing.
    """
    tried = _Trial(library, limits)
    try:
        return tried.sequences(first, sequences)
    except LostError as lost:
        # The library was not even loaded.
        return f"{near(library[0])}: while the code was loaded, before any callback, it {lost.how}"
    finally:
        tried.close()


class _Trial:
    """A process that has the library loaded; another one after each that was lost."""

    def __init__(self, library: Library, limits: CodeLimits) -> None:
        self._library = library
        self._limits = limits
        self._child: Child | None = None
        self._stalled: str | None = None
        self._place: str | None = None

    def close(self) -> None:
        if self._child:
            self._child.close()
        self._child = None

    def sequences(self, first: int, count: int) -> str | None:
        ready = self._ready()
        try:
            broken = ready.ask({"do": "sequences", "first": first, "count": count})[0]["broken"]
            if broken is None:
                return None
            sequence, event, wrong = broken
        except LostError as lost:
            self.close()
            sequence, event, wrong = lost.noted.sequence, lost.noted.event, self._said(lost)
            self._stalled = lost.how if lost.stalled else None
        rtt_us, events = native.trial_events(sequence)
        begin = f"after a handshake of {rtt_us} us"
        file = near(self._library[0])
        repeat = f"\nrepeat it: perigee cc check {shlex.quote(str(file))} --sequence {sequence}"
        if event is None:
            return f"{self._place or file}: {wrong}, {begin}{repeat}"
        self._limits = replace(self._limits, stall_s=min(self._limits.stall_s, SHORT_STALL_S))
        latest = wrong

        def fails(places: Sequence[int]) -> int | None:
            nonlocal latest
            outcome = self._attempt(sequence, places)
            if outcome is None:
                return None
            at, latest = outcome
            return at

        places = shortest(range(event + 1), fails, time.monotonic() + SHORTENING_S)
        # The message is about the events that are shown.
        if (last := self._attempt(sequence, places)) is not None:
            latest = last[1]
        shown = "".join(f"\n  {place}: {events[place]}" for place in places)
        then = f" and then, of the events of sequence {sequence},{shown}" if places else ""
        return f"{self._place or file}: {latest}, {begin}{then}{repeat}"

    def _attempt(self, sequence: int, places: Sequence[int]) -> tuple[int, str] | None:
        """Try some events; return which of them fails (-1: the connection's beginning), and how."""
        try:
            asked = {"do": "attempt", "sequence": sequence, "places": list(places)}
            broken = self._ready().ask(asked)[0]["broken"]
        except LostError as lost:
            self.close()
            if lost.stalled and self._stalled:
                # For as long as the first time, had it not been cut short.
                lost.how = self._stalled
            return -1 if lost.noted.event is None else lost.noted.event, self._said(lost)
        return None if broken is None else (broken[0], broken[1])

    def _said(self, lost: LostError) -> str:
        self._place = line_of(lost.fault, [self._library]) or self._place
        return f"`{lost.noted.callback}` {lost.how}" if lost.noted.callback else f"it {lost.how}"

    def _ready(self) -> Child:
        if self._child is None:
            self._child = Child(self._limits)
            path, source, library = self._library
            asked = {"do": "trial", "path": str(path)}
            self._child.ask(asked, (source, library), stall_s=LOADING_FACTOR * self._limits.stall_s)
            self._child.ask({"do": "begin", "settings": []})
        return self._child


def shortest(places: Sequence[int], fails: Callable[[Sequence[int]], int | None], until_s: float) -> list[int]:
    """Leave out events that need not be for a failure: larger pieces first, since each failure costs a process.

    Args:
        places: the events, of which the last fails.
        fails: tries some of them, and says which place in its list fails (-1: none is needed).
        until_s: on the monotonic clock, when to give up.

    Examples:
        >>> needed = {3, 17, 40}
        >>> found = lambda places: len(places) - 1 if needed <= set(places) else None
        >>> shortest(range(41), found, float("inf"))
        [3, 17, 40]
        >>> shortest(range(41), lambda places: -1, float("inf"))
        []
    """
    left = list(places)
    size = len(left) - 1
    while size and time.monotonic() < until_s:
        start = 0
        while start < len(left) - 1 and time.monotonic() < until_s:
            shorter = left[:start] + left[min(start + size, len(left) - 1) :]
            at = fails(shorter)
            if at is None:
                start += size
            else:
                left = shorter[: at + 1]
        size //= 2
    return left

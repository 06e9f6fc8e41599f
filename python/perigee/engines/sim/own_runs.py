# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Simulated runs with users' congestion controls, each in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from perigee.cc.child import LOADING_FACTOR, Child, LostError, StoppedError
from perigee.cc.fault import line_of, near
from perigee.cc.limits import CodeLimits
from perigee.core import native
from perigee.engines.plan.contract import Output, Progress
from perigee.errors import RunError
from perigee.store.streams import checked_frame

AGAIN = "the same command repeats it: finished runs are kept, and a run is the same each time"


class OwnRuns:
    """The runs of a plan that execute users' code.

    Each calling thread has a process, which executes its runs one at a time.

    Args:
        plan: the core's plan.
        arguments: the arguments of that `Plan`, in order.
        limits: limits of the code.
    """

    def __init__(self, plan: native.Plan, arguments: Sequence[Any], limits: CodeLimits) -> None:
        self._plan = plan
        self._arguments = list(arguments)
        self._limits = limits
        self._lock = threading.Lock()
        self._idle: list[Child] = []

    def has(self, index: int) -> bool:
        """True if a run executes a user's code."""
        return bool(self._plan.own_flows(index))

    def execute(self, index: int, progress: Progress) -> Output | None:
        """Execute a run; return None if `progress` stopped it.

        Raises:
            RunError: the run failed, or the code crashed or hung; the message names the code and the time.
        """
        child: Child | None = None
        try:
            child = self._ready(progress)
            answer, blobs = child.ask({"do": "run", "index": index}, watch=progress)
        except StoppedError:
            if child:
                child.close()
            return None
        except LostError as lost:
            if child:
                child.close()
            raise RunError(self._said(index, lost, loaded=child is not None)) from None
        except OSError as error:
            raise RunError(f"no process for the author's code could be started: {error.strerror or error}") from error
        with self._lock:
            self._idle.append(child)
        if answer["fingerprint"] != list(self._plan.fingerprint(index)):
            raise RunError(
                "a profile, a recording or a congestion control was changed while the study was running; "
                "give the same command again"
            )
        return _output(answer, blobs)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    def _ready(self, progress: Progress) -> Child:
        """Return a process that has read the plan."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        child = Child(self._limits)
        try:
            stall_s = LOADING_FACTOR * self._limits.stall_s
            child.plan(self._arguments, self._plan.compiled(), stall_s=stall_s, watch=progress)
        except BaseException:
            child.close()
            raise
        return child

    def _said(self, index: int, lost: LostError, *, loaded: bool) -> str:
        flows = self._plan.own_flows(index)
        if loaded and lost.noted.callback:
            for number, name, path in flows:
                if number == lost.noted.flow:
                    at = f"called at {lost.noted.time_s:.6f} s for flow `{name}`, as call {lost.noted.calls} of the run"
                    place = line_of(lost.fault, self._plan.compiled()) or str(near(path))
                    return f"{place}: `{lost.noted.callback}`, {at}, {lost.how}\n{AGAIN}"
        files = ", ".join(dict.fromkeys(str(near(path)) for _, _, path in flows))
        if not loaded:
            return f"{files}: while the code was loaded, before any callback, it {lost.how}"
        return f"{files}: outside of the callbacks the simulator with this code in it {lost.how}"


def _output(answer: dict[str, Any], blobs: Sequence[memoryview]) -> Output:
    left = iter(blobs)
    tables = {name: bytes(next(left)) for name in answer["tables"]}
    for name, stream in tables.items():
        try:
            checked_frame(name, stream)
        except ValueError as error:
            raise RunError(f"table {name} came back damaged ({error}); the code overwrites memory") from None
    return Output(tables, {name: bytes(next(left)) for name in answer["captures"]})

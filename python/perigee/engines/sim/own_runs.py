# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Simulated runs with users' congestion controls, each in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from perigee.cc.child import LOADING_FACTOR, Child, LostError, StoppedError
from perigee.cc.limits import CodeLimits
from perigee.core import native
from perigee.engines.plan.contract import Output, Progress
from perigee.engines.plan.own_code import check_unchanged, how_lost, output_of
from perigee.errors import RunError

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
            raise RunError(how_lost(self._plan, index, lost, AGAIN, loaded=child is not None)) from None
        except OSError as error:
            raise RunError(f"no process for the author's code could be started: {error.strerror or error}") from error
        with self._lock:
            self._idle.append(child)
        check_unchanged(self._plan, index, answer)
        return output_of(answer, blobs)

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

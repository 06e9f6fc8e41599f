# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows over QUIC of an emulated run whose congestion controls are users' files, each in a process of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from perigee.cc.child import LOADING_FACTOR, Child, LostError, StoppedError
from perigee.core import native
from perigee.engines.plan.contract import Output
from perigee.engines.plan.own_code import OVERWRITES, check_own, check_unchanged, how_lost, output_of
from perigee.errors import RunError
from perigee.store.streams import frame_of, stream_of

if TYPE_CHECKING:
    from perigee.cc.limits import CodeLimits
    from perigee.engines.plan.contract import Progress
    from perigee.engines.plan.native import PlanArguments

AGAIN = "the same command goes on with this run: finished ones are kept"

Carriers = Sequence[tuple[int, int]]
"""Numbers of flows, each with the socket to the process that carries it, which is given away."""


def with_carriers(
    plan: native.Plan,
    arguments: PlanArguments,
    limits: CodeLimits,
    index: int,
    progress: Progress,
    execute: Callable[[Carriers], Output | None],
) -> Output | None:
    """Execute a run whose flows have processes of their own; return None if it was stopped.

    Args:
        plan: the core's plan.
        arguments: the arguments of that `Plan`, in order.
        limits: limits of the code.
        index: the run.
        progress: asked whether to go on before the run begins.
        execute: executes it beside those processes, and returns the results but theirs.

    Raises:
        RunError: the run failed, or the code crashed or hung; the message names the code and the time.
    """
    with contextlib.ExitStack() as stack:
        try:
            flows = [stack.enter_context(_Carrier(limits, index, number)) for number in plan.apart(index)]
        except OSError as error:
            raise RunError(f"no process for the author's code could be started: {error.strerror or error}") from error
        loaded, stopped = False, threading.Event()
        try:
            for flow in flows:
                flow.load(plan, arguments, progress)
            loaded = True
            with ThreadPoolExecutor(len(flows)) as threads:
                parts = [threads.submit(flow.carry, plan, stopped) for flow in flows]
                try:
                    output = execute([(flow.number, flow.channel.detach()) for flow in flows])
                except RunError:
                    # A process that has ended knows better why.
                    for part in parts:
                        part.result()
                    raise
                except BaseException:
                    stopped.set()
                    raise
                if output is None:
                    stopped.set()
                    return None
                return joined([output, *(part.result() for part in parts)])
        except StoppedError:
            return None
        except LostError as lost:
            raise RunError(how_lost(plan, index, lost, AGAIN, loaded=loaded)) from None


class _Carrier(contextlib.AbstractContextManager["_Carrier"]):
    """The process of a flow; it ends with the block.

    Attributes:
        number: the flow's.
        channel: the socket to it.
    """

    def __init__(self, limits: CodeLimits, index: int, number: int) -> None:
        self.number = number
        self._index = index
        self._stall_s = limits.stall_s
        self.channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The other end is only there: when that process ends, this one sees it.
        with far:
            self._far = far.fileno()
            self._child = Child(limits, "carrier_program", [self._far])

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self._child.close()

    def load(self, plan: native.Plan, arguments: PlanArguments, progress: Progress) -> None:
        """Have the study read and the code loaded. Raises what `Child.ask` does."""
        self._child.plan(arguments, plan.compiled(), stall_s=LOADING_FACTOR * self._stall_s, watch=progress)
        answer, _ = self._child.ask({"do": "load", "index": self._index, "flow": self.number}, watch=progress)
        check_unchanged(plan, self._index, answer)

    def carry(self, plan: native.Plan, stopped: threading.Event) -> Output:
        """Have the flow carried until the run ends, or is stopped. Raises what `Child.ask` and `check_own` do."""
        asked = {"do": "carry", "channel": self._far}
        output = output_of(*self._child.ask(asked, watch=lambda _share: not stopped.is_set()))
        names = {number: name for number, name, _ in plan.own_flows(self._index)}
        check_own(output, self._index, names[self.number])
        return output


def joined(outputs: Sequence[Output]) -> Output:
    """Put the results of flows behind those of their run.

    Raises:
        RunError: they do not fit together.
    """
    names = dict.fromkeys(name for output in outputs for name in output.tables)
    tables = {name: _one(name, (output.tables[name] for output in outputs if name in output.tables)) for name in names}
    captures: dict[str, bytes] = {}
    for output in outputs:
        if both := captures.keys() & output.captures.keys():
            raise RunError(f"log {min(both)} came back from two flows; {OVERWRITES}")
        captures.update(output.captures)
    return Output(tables, captures)


def _one(name: str, streams: Iterable[bytes]) -> bytes:
    import polars as pl

    first, *others = streams
    if not others:
        return first
    try:
        # Algorithms have columns of their own.
        return stream_of(pl.concat([frame_of(one) for one in (first, *others)], how="diagonal"))
    except pl.exceptions.PolarsError as error:
        raise RunError(f"the rows of flows in table {name} do not fit together ({error}); {OVERWRITES}") from None

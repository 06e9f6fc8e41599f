# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The processes of iperf3 that carry one run's flows."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

Progress = Callable[[float], bool]
"""Called with the seconds since the run began; returns whether to go on."""

LOOK_S = 0.05
PATIENCE_S = 5.0
"""Time that a client has to end once it is signalled."""
_FATAL = ("TCP_CONGESTION", "parameter error", "socket buffer", "unrecognized option", "authorization", "bad format")


@dataclass(frozen=True)
class Command:
    """A flow as a process.

    Attributes:
        flow: the flow's name.
        arguments: the program and what it is given.
        start_s: when it begins, after the run's beginning.
        length_s: how long it takes by itself; none: until a size is carried.
        server: host and port, for messages.
    """

    flow: str
    arguments: tuple[str, ...]
    start_s: float
    length_s: float | None
    server: str


class TroubleError(Exception):
    """A run did not come through.

    Attributes:
        flow: the flow that did not.
        text: why, in iperf3's words where they are there.
        lasting: trying again cannot help.
        outputs: what the flows wrote until then, by name.
    """

    def __init__(self, flow: str, text: str, *, lasting: bool, outputs: dict[str, bytes]) -> None:
        super().__init__(text)
        self.flow = flow
        self.text = text
        self.lasting = lasting
        self.outputs = outputs


@dataclass
class _Running:
    command: Command
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]
    is_cut: bool = False

    def read(self) -> bytes:
        self.output.seek(0)
        return self.output.read()

    def said(self) -> str:
        """Return what went wrong, empty where nothing did."""
        self.errors.seek(0)
        complaint = self.errors.read().decode(errors="replace").strip()
        text = self.read()
        try:
            document = json.loads(text)
        except ValueError:
            document = {"error": complaint.splitlines()[0] if complaint else "it wrote nothing that can be read"}
        error = str(document.get("error") or "") if isinstance(document, dict) else ""
        return error.removeprefix("error - ")


def carry(commands: Sequence[Command], limit_s: float, timeout_s: float, progress: Progress) -> dict[str, bytes] | None:
    """Carry a run's flows, each from its start on.

    Args:
        commands: the flows.
        limit_s: the run ends here; flows under way have what they have until then.
        timeout_s: a flow that takes so much longer than it should is given up.
        progress: asked whether to go on.

    Returns:
        What each flow's process wrote, by the flow's name; none where `progress` said no.

    Raises:
        TroubleError: one of the flows was not carried; none is left running.
    """
    with ExitStack() as stack:
        return _carry(commands, limit_s, timeout_s, progress, stack)


def _carry(
    commands: Sequence[Command], limit_s: float, timeout_s: float, progress: Progress, stack: ExitStack
) -> dict[str, bytes] | None:
    waiting = sorted(commands, key=lambda command: command.start_s)
    running: list[_Running] = []
    done: dict[str, bytes] = {}
    begun = time.monotonic()
    while waiting or running:
        now = time.monotonic() - begun
        if now >= limit_s:
            waiting.clear()
            for one in running:
                one.is_cut = True
                _end(one.process)
        while waiting and now >= waiting[0].start_s:
            running.append(_start(waiting.pop(0), stack))
        for one in [one for one in running if one.process.poll() is not None]:
            running.remove(one)
            done[one.command.flow] = one.read()
            said = one.said()
            if said and not one.is_cut:
                lasting = any(word in said for word in _FATAL)
                raise TroubleError(one.command.flow, said, lasting=lasting, outputs=done)
        for one in running:
            length = one.command.length_s
            if length is not None and now > one.command.start_s + length + timeout_s:
                _end(one.process)
                text = f"no end after {now - one.command.start_s:.0f} s"
                raise TroubleError(
                    one.command.flow, text, lasting=False, outputs={**done, one.command.flow: one.read()}
                )
        if not progress(now):
            return None
        time.sleep(LOOK_S)
    return done


def _start(command: Command, stack: ExitStack) -> _Running:
    output, errors = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))  # noqa: SIM115 - the stack closes
    # Ctrl-C is ours; and if we are killed, the kernel ends what we started.
    guard = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
    process = subprocess.Popen(  # noqa: S603 - the arguments are made of a checked plan
        [*guard, *command.arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
    )
    stack.callback(_end, process)
    return _Running(command, process, output, errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a client; by a signal first, so that it writes its output."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            continue

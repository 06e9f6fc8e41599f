# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The processes of iperf3 that carry one run's flows, on this host or at agents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from perigee.engines.live.jobs import Capture, Client, Server
from perigee.engines.live.messages import PIECE_BYTES
from perigee.engines.live.remote import AgentError, Agents
from perigee.files import atomic_file

Progress = Callable[[float], bool]
"""Called with the seconds since the run began; returns whether to go on."""

LOOK_S = 0.05
PATIENCE_S = 5.0
"""Time for a client to exit after a signal, s."""
TAIL_S = 0.5
"""Time that a capture runs on after the last flow, s."""
_FATAL = ("TCP_CONGESTION", "parameter error", "socket buffer", "unrecognized option", "authorization", "bad format")


@dataclass(frozen=True)
class Command:
    """A flow as a process.

    Attributes:
        flow: the flow's name.
        job: the client of iperf3.
        start_s: start relative to the run, s.
        length_s: its fixed duration, s; None: until its size is carried.
        server: host and port, for messages.
        agent: the agent that starts the client; None: this host.
        listener: the agent that starts a server for it; None: a server runs already.
    """

    flow: str
    job: Client
    start_s: float
    length_s: float | None
    server: str
    agent: str | None = None
    listener: str | None = None


class Process(Protocol):
    """A running job."""

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""

    def interrupt(self) -> None:
        """Interrupt it; it still writes its results."""

    def forget(self) -> None:
        """Kill it and discard its output."""

    def read(self, stream: str) -> Iterator[bytes]:
        """Yield its `output` or `errors` in pieces."""


class Line(Protocol):
    """Something to run."""

    def line(self) -> list[str]:
        """Return its command line."""


class TroubleError(Exception):
    """A run failed.

    Attributes:
        flow: the flow that failed.
        text: the reason, from iperf3 if available.
        lasting: True if a retry cannot help.
        outputs: output of the flows until then, by name.
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
    process: Process
    is_cut: bool = False

    def read(self) -> bytes:
        return b"".join(self.process.read("output"))

    def said(self) -> str:
        """Return the error message; empty without an error."""
        complaint = b"".join(self.process.read("errors")).decode(errors="replace").strip()
        text = self.read()
        try:
            document = json.loads(text)
        except ValueError:
            document = {"error": complaint.splitlines()[0] if complaint else "it wrote nothing that can be read"}
        error = str(document.get("error") or "") if isinstance(document, dict) else ""
        return error.removeprefix("error - ")


def carry(
    commands: Sequence[Command], limit_s: float, timeout_s: float, progress: Progress, agents: Agents
) -> dict[str, bytes] | None:
    """Carry the flows of a run, each from its start time.

    Args:
        commands: the flows.
        limit_s: end of the run, s; running flows keep their results until then.
        timeout_s: excess over the expected duration after which a flow fails, s.
        progress: called regularly; returns whether to continue.
        agents: the agents of the commands.

    Returns:
        The output of each flow's process by flow name; None if `progress` returned False.

    Raises:
        TroubleError: a flow failed; all others are ended.
        AgentError: an agent failed to carry out a request.
    """
    with ExitStack() as stack:
        return _carry(commands, limit_s, timeout_s, progress, agents, stack)


def _carry(
    commands: Sequence[Command], limit_s: float, timeout_s: float, progress: Progress, agents: Agents, stack: ExitStack
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
                end(one.process)
        while waiting and now >= waiting[0].start_s:
            running.append(_start(waiting.pop(0), agents, stack))
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
                end(one.process)
                text = f"no end after {now - one.command.start_s:.0f} s"
                raise TroubleError(
                    one.command.flow, text, lasting=False, outputs={**done, one.command.flow: one.read()}
                )
        if not progress(now):
            return None
        time.sleep(LOOK_S)
    return done


def _start(command: Command, agents: Agents, stack: ExitStack) -> _Running:
    if command.listener is not None:
        job = Server(command.job.host, command.job.port, command.job.interval_ms)
        stack.callback(agents.start(command.listener, job).forget)
    process = agents.start(command.agent, command.job) if command.agent is not None else Local(command.job)
    stack.callback(process.forget)
    stack.callback(end, process)
    return _Running(command, process)


class Local:
    """A job on this host, see `Process`.

    Args:
        job: what to run; its values are checked.

    Attributes:
        process: its process.
    """

    def __init__(self, job: Line) -> None:
        self._streams: dict[str, IO[bytes]] = {
            name: tempfile.TemporaryFile()  # noqa: SIM115 - read after the process has ended
            for name in ("output", "errors")
        }
        # Keep Ctrl-C from the process; if this process is killed, the kernel kills its children.
        guard = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
        self.process = subprocess.Popen(  # noqa: S603 - the arguments are made of checked values
            [*guard, *job.line()], stdin=subprocess.DEVNULL, stdout=self._streams["output"],
            stderr=self._streams["errors"], start_new_session=True,
        )  # fmt: skip

    def poll(self) -> int | None:
        """See `Process.poll`."""
        return self.process.poll()

    def interrupt(self) -> None:
        """See `Process.interrupt`."""
        self.process.send_signal(signal.SIGINT)

    def forget(self) -> None:
        """See `Process.forget`."""
        self.process.kill()
        self.process.wait()
        for stream in self._streams.values():
            stream.close()

    def read(self, stream: str) -> Iterator[bytes]:
        """See `Process.read`."""
        offset = 0
        while piece := self.piece(stream, offset):
            offset += len(piece)
            yield piece

    def piece(self, stream: str, offset: int) -> bytes:
        """Return part of its output."""
        return os.pread(self._streams[stream].fileno(), PIECE_BYTES, offset)


def end(process: Process) -> None:
    """Interrupt a job so that it writes its output, and wait for it for a limited time."""
    # A lost agent ends its jobs by itself.
    with suppress(AgentError):
        if process.poll() is None:
            process.interrupt()
        until = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < until:
            time.sleep(LOOK_S)


@contextmanager
def captured(jobs: Mapping[Path, tuple[str, Capture]], agents: Agents) -> Iterator[None]:
    """Capture packets while the block runs, and write the captures if it ends without an error.

    Args:
        jobs: agent and capture by file name.
        agents: the agents.

    Raises:
        AgentError: a capture failed, or was not returned.
    """
    with ExitStack() as stack:
        under_way = {}
        for path, (agent, job) in jobs.items():
            under_way[path] = agents.start(agent, job)
            stack.callback(under_way[path].forget)
        yield
        if under_way:
            time.sleep(TAIL_S)
        for path, process in under_way.items():
            if (code := process.poll()) is not None:
                said = b"".join(process.read("errors")).decode(errors="replace").strip().rpartition("\n")[2]
                raise AgentError(jobs[path][0], f"its capture ended with {code}: {said}")
            end(process)
            path.parent.mkdir(exist_ok=True)
            with atomic_file(path) as file:
                for piece in process.read("output"):
                    file.write(piece)

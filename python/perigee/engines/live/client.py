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

from perigee.engines.live.jobs import Capture, Client, Job, Server
from perigee.engines.live.messages import PIECE_BYTES
from perigee.engines.live.remote import AgentError, Agents
from perigee.files import atomic_file

Progress = Callable[[float], bool]
"""Called with the seconds since the run began; returns whether to go on."""

LOOK_S = 0.05
PATIENCE_S = 5.0
"""Time that a client has to end once it is signalled."""
TAIL_S = 0.5
"""A capture goes on so long after the last flow."""
_FATAL = ("TCP_CONGESTION", "parameter error", "socket buffer", "unrecognized option", "authorization", "bad format")


@dataclass(frozen=True)
class Command:
    """A flow as a process.

    Attributes:
        flow: the flow's name.
        job: the client of iperf3.
        start_s: when it begins, after the run's beginning.
        length_s: how long it takes by itself; none: until a size is carried.
        server: host and port, for messages.
        agent: who starts the client; none: this host.
        listener: the agent that starts a server for it; none: there is one.
    """

    flow: str
    job: Client
    start_s: float
    length_s: float | None
    server: str
    agent: str | None = None
    listener: str | None = None


class Process(Protocol):
    """A job under way."""

    def poll(self) -> int | None:
        """Return how it has ended, or nothing while it goes on."""

    def interrupt(self) -> None:
        """Ask it to end; it writes what it has."""

    def forget(self) -> None:
        """End it at once; what it wrote is gone."""

    def read(self, stream: str) -> Iterator[bytes]:
        """Yield what it wrote to `output` or `errors`, piece by piece."""


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
    process: Process
    is_cut: bool = False

    def read(self) -> bytes:
        return b"".join(self.process.read("output"))

    def said(self) -> str:
        """Return what went wrong, empty where nothing did."""
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
    """Carry a run's flows, each from its start on.

    Args:
        commands: the flows.
        limit_s: the run ends here; flows under way have what they have until then.
        timeout_s: a flow that takes so much longer than it should is given up.
        progress: asked whether to go on.
        agents: those that commands name.

    Returns:
        What each flow's process wrote, by the flow's name; none where `progress` said no.

    Raises:
        TroubleError: one of the flows was not carried; none is left running.
        AgentError: an agent did not do what it was asked.
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
                _end(one.process)
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
                _end(one.process)
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
    stack.callback(_end, process)
    return _Running(command, process)


class Local:
    """A job on this host, see `Process`.

    Args:
        job: what to do.

    Attributes:
        process: what does it.
    """

    def __init__(self, job: Job) -> None:
        self._streams: dict[str, IO[bytes]] = {
            name: tempfile.TemporaryFile()  # noqa: SIM115 - read after the process has ended
            for name in ("output", "errors")
        }
        # Ctrl-C is ours; and if we are killed, the kernel ends what we started.
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
        """Return part of what it wrote."""
        return os.pread(self._streams[stream].fileno(), PIECE_BYTES, offset)


def _end(process: Process) -> None:
    """End a job by a signal, so that it writes its output, and wait for that a while."""
    # An agent that is gone ends by itself what it has started.
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
        jobs: the agent and what it captures, by the file that it becomes.
        agents: the agents.

    Raises:
        AgentError: a capture was not made, or did not come back.
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
            _end(process)
            path.parent.mkdir(exist_ok=True)
            with atomic_file(path) as file:
                for piece in process.read("output"):
                    file.write(piece)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Requests of a run to agents, through the socket of the laboratory in the working folder."""

from __future__ import annotations

import base64
import contextlib
import secrets
import select
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from perigee.engines.live.jobs import Job
from perigee.engines.live.messages import (
    LENGTH_BYTES,
    SOCKET,
    Forget,
    Interrupt,
    Message,
    MessageError,
    Read,
    Request,
    length_of,
    packed,
    unpacked,
)
from perigee.errors import InputError

ANSWER_S = 30.0
"""Maximum wait for an answer, s."""
ARRIVAL_S = 15.0
"""Maximum wait for agents, s; they reconnect by themselves after a restart of the laboratory."""
LOOK_S = 0.2
NOTICE_S = 0.5
"""Maximum delay of the laboratory's notice of a lost agent after a failure, s."""
WRONG = "its answer makes no sense"
LOST = "its connection was lost"
GONE = "the laboratory's server is gone"


class AgentError(Exception):
    """An agent refused or failed a request, or is lost.

    Attributes:
        agent: its name.
    """

    def __init__(self, agent: str, text: str) -> None:
        super().__init__(f"agent `{agent}`: {text}" if agent else text)
        self.agent = agent


class Agents:
    """The agents of a laboratory.

    Args:
        path: its socket.
    """

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._received = b""
        self._number = secrets.randbits(48)
        self._answers: dict[int, Message] = {}
        self._ended: dict[tuple[str, int], int] = {}
        self._lost: set[str] = set()

    def offers(self, names: Sequence[str]) -> dict[str, Message]:
        """Return the offers of agents once all of them are connected.

        Raises:
            InputError: an agent did not connect.
        """
        until = time.monotonic() + ARRIVAL_S
        while True:
            try:
                found: dict[str, Message] = self._asked({"ask": "offers"})["offers"]
                missing = [name for name in names if name not in found]
                there = ", ".join(sorted(found)) or "none"
                why = f"agent `{', '.join(missing)}` is not connected; connected are: {there}"
                fix = "start it on its host: perigee agent run NAME.agent"
            except AgentError as error:
                why, fix = str(error), "start it in this folder: perigee serve --agents ADDRESS:PORT"
                missing = list(names)
            if not missing:
                return {name: found[name] for name in names}
            if time.monotonic() >= until:
                raise InputError(f"--engine live: {why}", fix)
            time.sleep(LOOK_S)

    def start(self, agent: str, job: Job) -> Remote:
        """Start a job.

        Raises:
            AgentError: the agent refuses it.
        """
        self._lost.discard(agent)
        answer = self.ask(agent, job)
        if not isinstance(answer.get("job"), int):
            raise AgentError(agent, WRONG)
        return Remote(self, agent, answer["job"])

    def ask(self, agent: str, request: Request) -> Message:
        """Send a request to an agent and wait for the answer.

        Raises:
            AgentError: it refuses, or is lost.
        """
        return self._asked({"ask": request.name, "agent": agent, "values": asdict(request)})

    def code_of(self, agent: str, job: int) -> int | None:
        """Return the exit code of a job, or None while it runs.

        Raises:
            AgentError: its agent is lost.
        """
        while self._take(0.0):
            pass
        if self._socket is None:
            raise AgentError(agent, GONE)
        if agent in self._lost:
            raise AgentError(agent, LOST)
        return self._ended.get((agent, job))

    def lost(self, names: Iterable[str | None]) -> str | None:
        """Return a lost agent among these after a short wait, since a flow's far end may notice the loss sooner."""
        while self._take(NOTICE_S):
            pass
        return next((name for name in names if name in self._lost), None)

    def close(self) -> None:
        """Close the connection; agents then end the jobs of this run."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received = b""

    def _asked(self, message: Message) -> Message:
        if self._socket is None:
            self._connect()
        self._number += 1
        number = self._number
        agent = str(message.get("agent", ""))
        try:
            assert self._socket is not None  # noqa: S101 - connected above
            self._socket.sendall(packed({**message, "number": number}))
        except (OSError, MessageError) as error:
            self.close()
            raise AgentError(agent, GONE) from error
        until = time.monotonic() + ANSWER_S
        while number not in self._answers:
            if self._socket is None:
                raise AgentError(agent, GONE)
            if agent in self._lost:
                raise AgentError(agent, LOST)
            if not self._take(LOOK_S) and time.monotonic() > until:
                raise AgentError(agent, f"no answer in {ANSWER_S:.0f} s")
        answer = self._answers.pop(number)
        if "error" in answer:
            raise AgentError(agent, str(answer["error"]))
        return answer

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(self._path)
        except OSError as error:
            connection.close()
            raise AgentError("", "no laboratory with agents answers in this folder") from error
        self._socket = connection
        self._lost.clear()

    def _take(self, wait_s: float) -> bool:
        """Process one received message; return False if none was received."""
        if self._socket is None:
            return False
        try:
            while (message := self._whole()) is None:
                if not select.select([self._socket], [], [], wait_s)[0]:
                    return False
                piece = self._socket.recv(1 << 16)
                if not piece:
                    self.close()
                    return False
                self._received += piece
        except (OSError, MessageError):
            self.close()
            return False
        if "answer" in message:
            self._answers[message["answer"]] = message
        elif message.get("event") == "ended":
            self._ended[message["agent"], message["job"]] = message["code"]
        elif message.get("event") == "lost":
            self._lost.add(message["agent"])
        return True

    def _whole(self) -> Message | None:
        if len(self._received) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + length_of(self._received[:LENGTH_BYTES])
        if len(self._received) < end:
            return None
        content, self._received = self._received[LENGTH_BYTES:end], self._received[end:]
        return unpacked(content)


class Remote:
    """A job of an agent, see `client.Process`."""

    def __init__(self, agents: Agents, agent: str, job: int) -> None:
        self._agents, self._agent, self._job = agents, agent, job

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._agents.code_of(self._agent, self._job)

    def interrupt(self) -> None:
        """Interrupt it; it still writes its results."""
        self._agents.ask(self._agent, Interrupt(self._job))

    def forget(self) -> None:
        """Kill it and discard its output."""
        with contextlib.suppress(AgentError):
            self._agents.ask(self._agent, Forget(self._job))

    def read(self, stream: str) -> Iterator[bytes]:
        """Yield its output in pieces."""
        offset = 0
        while True:
            answer: dict[str, Any] = self._agents.ask(self._agent, Read(self._job, stream, offset))
            try:
                piece = base64.b64decode(answer["data"])
            except (KeyError, TypeError, ValueError) as error:
                raise AgentError(self._agent, WRONG) from error
            if not piece:
                return
            offset += len(piece)
            yield piece

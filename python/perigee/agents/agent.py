# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process of an agent: it connects to the laboratory, says what its host has, and does jobs meanwhile.

When the connection ends, whatever the reason, jobs end with it, and the agent connects again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import resource
import signal
import ssl
from collections.abc import Callable
from itertools import count

from perigee.agents.certificates import CONTROLLER, Identity
from perigee.agents.offer import offer
from perigee.engines.live.client import Local
from perigee.engines.live.jobs import Capture, Client, Job, Server, checked
from perigee.engines.live.messages import (
    REQUESTS,
    Drop,
    Forget,
    Interrupt,
    Message,
    MessageError,
    Read,
    Request,
    packed,
    received,
)

LOG = logging.getLogger("perigee.agent")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0
"""Before the agent connects again; doubled each time until the laboratory answers."""
OFFER_EVERY_S = 10.0
"""Interval at which the host's offer is sent to the laboratory, which answers."""
SILENCE_S = 30.0
"""After this time without a message, a connection is taken for lost."""
LOOK_S = 0.05
LISTEN_S = 5.0
"""Longest wait for a server to listen."""
MOST_JOBS = 256
MOST_OUTPUT_BYTES = 4 << 30
"""Most that a job may write, such as a capture."""


class RefusedError(Exception):
    """The request is refused."""


class Agent:
    """An agent.

    Args:
        identity: its file.
        connected: called when the laboratory has taken the connection.
    """

    def __init__(self, identity: Identity, connected: Callable[[], None] = lambda: None) -> None:
        self._identity = identity
        self._context = identity.context()
        self._connected = connected
        self._jobs: dict[int, Local] = {}
        self._numbers = count(1)
        self._pause_s = FIRST_PAUSE_S

    async def run(self) -> None:
        """Serve the laboratory until SIGTERM or Ctrl-C."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs in a task
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                try:
                    await self._serve()
                except (OSError, EOFError, TimeoutError, MessageError) as error:
                    LOG.warning("%s; again in %.1f s", _why(error), self._pause_s)
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    async def _serve(self) -> None:
        host, port = self._identity.controller
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(host, port, ssl=self._context, server_hostname=CONTROLLER), SILENCE_S
        )
        outgoing: asyncio.Queue[Message] = asyncio.Queue(MOST_JOBS)
        parts = (_send(outgoing, writer), self._offer(outgoing), self._look(outgoing), self._answers(reader, outgoing))
        tasks = [asyncio.create_task(one) for one in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._drop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.transport.abort()

    async def _answers(self, reader: asyncio.StreamReader, outgoing: asyncio.Queue[Message]) -> None:
        is_welcome = False
        while True:
            message = await asyncio.wait_for(received(reader), SILENCE_S)
            if message.get("event") == "welcome":
                if not is_welcome:
                    is_welcome, self._pause_s = True, FIRST_PAUSE_S
                    self._connected()
                continue
            answer: Message = {"answer": message.get("number")}
            try:
                answer |= await self._answer(_request(message))
            except (RefusedError, ValueError, OSError) as error:
                LOG.warning("refused: %s", error)
                answer["error"] = str(error)
            await outgoing.put(answer)

    async def _offer(self, outgoing: asyncio.Queue[Message]) -> None:
        while True:
            await outgoing.put({"event": "offer", "offer": await asyncio.to_thread(offer)})
            await asyncio.sleep(OFFER_EVERY_S)

    async def _look(self, outgoing: asyncio.Queue[Message]) -> None:
        """Say which jobs have ended."""
        said: set[int] = set()
        while True:
            for number, job in list(self._jobs.items()):
                code = job.poll()
                if code is not None and number not in said:
                    said.add(number)
                    await outgoing.put({"event": "ended", "job": number, "code": code})
            await asyncio.sleep(LOOK_S)

    async def _answer(self, request: Request) -> Message:
        match request:
            case Client() | Server() | Capture():
                return {"job": await self._start(request)}
            case Read(number, stream, offset):
                return {"data": base64.b64encode(self._job(number).piece(stream, offset)).decode()}
            case Interrupt(number):
                if self._job(number).poll() is None:
                    self._job(number).interrupt()
            case Forget(number):
                self._job(number).forget()
                del self._jobs[number]
            case Drop():
                self._drop()
        return {}

    def _job(self, number: int) -> Local:
        if number not in self._jobs:
            raise RefusedError(f"there is no job {number}")
        return self._jobs[number]

    async def _start(self, request: Job) -> int:
        if len(self._jobs) >= MOST_JOBS:
            raise RefusedError(f"{MOST_JOBS} jobs are there already")
        try:
            job = Local(request)
        except FileNotFoundError as error:
            raise RefusedError(f"{request.line()[0]} is not installed") from error
        number = next(self._numbers)
        self._jobs[number] = job
        resource.prlimit(job.process.pid, resource.RLIMIT_FSIZE, (MOST_OUTPUT_BYTES, MOST_OUTPUT_BYTES))
        LOG.info("job %d: %s", number, " ".join(request.line()))
        if not isinstance(request, Client):
            await self._wait_for(number, request)
        return number

    async def _wait_for(self, number: int, request: Server | Capture) -> None:
        """Wait until a server listens, or a capture has begun.

        Raises:
            RefusedError: it has ended, or is not ready in time.
        """
        job = self._jobs[number]
        for _ in range(round(LISTEN_S / LOOK_S)):
            if job.poll() is not None:
                break
            if isinstance(request, Server):
                if request.port in _listening():
                    return
            elif b"listening on" in job.piece("errors", 0):
                return
            await asyncio.sleep(LOOK_S)
        said = (job.piece("output", 0) + job.piece("errors", 0)).decode(errors="replace")[-1000:]
        job.forget()
        del self._jobs[number]
        raise RefusedError(f"{request.name} did not start: {' '.join(said.split()) or 'it said nothing'}")

    def _drop(self) -> None:
        for job in self._jobs.values():
            job.forget()
        self._jobs.clear()


async def _send(outgoing: asyncio.Queue[Message], writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(packed(await outgoing.get()))
        await writer.drain()


def _request(message: Message) -> Request:
    kind = REQUESTS.get(str(message.get("ask")))
    if kind is None:
        raise RefusedError(f"{str(message.get('ask'))[:40]!r} is nothing that an agent does")
    return checked(kind, message.get("values"))


def _listening() -> set[int]:
    """Return the TCP ports of this host that something listens at."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:  # noqa: PTH123 - not a file of a folder
            found |= {int(line.split()[1].rpartition(":")[2], 16) for line in lines if line.split()[3] == "0A"}
    return found


def _why(error: BaseException) -> str:
    """Say in words why a connection was not made, or has ended."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the controller's certificate is not of this agent's laboratory ({error.verify_message})"
        case ssl.SSLError():
            return f"the laboratory refuses this agent's certificate, or speaks no TLS ({error.reason})"
        case TimeoutError():
            return "the laboratory does not answer"
        case EOFError():
            return "the laboratory has closed the connection"
    return f"no connection to the laboratory: {error}"

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory's side of its agents: it takes their connections, knows what they have, and passes requests on.

Runs reach it through a socket in the laboratory's folder. An agent belongs to one run at a time, until that run closes
its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perigee.agents.certificates import Authority
from perigee.engines.live.messages import SOCKET, Drop, Message, MessageError, offer_of, packed, received
from perigee.errors import InputError
from perigee.laboratory.doors import Door, Guests

LOG = logging.getLogger("perigee.laboratory")

SILENCE_S = 30.0
"""An agent that says nothing for this time is lost; it says what it has every 10 s."""
HANDSHAKE_S = 10.0
MOST_RUNS = 256
"""Connections of runs."""
NOBODY = 0
"""The number of questions that no run has asked."""


@dataclass(eq=False)
class Peer:
    """A connection of an agent or of a run."""

    writer: asyncio.StreamWriter

    def send(self, message: Message) -> None:
        """Send a message; a connection that is gone is noticed where it is read."""
        with contextlib.suppress(OSError):
            self.writer.write(packed(message))


@dataclass(eq=False)
class Connected(Peer):
    """An agent that is connected.

    Attributes:
        offer: what it has.
        since: when it connected, seconds of Unix time.
        run: the run that it belongs to.
    """

    offer: dict[str, Any] = field(default_factory=dict)
    since: float = field(default_factory=time.time)
    run: Peer | None = None


class Hub:
    """The agents of a laboratory.

    Args:
        folder: of its certificates.
    """

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        self._agents: dict[str, Connected] = {}
        self._runs = 0
        self._guests = Guests()

    def listed(self) -> list[dict[str, Any]]:
        """Return the agents that were invited: `name`, and of those connected `since`, `busy` and `offer`."""
        there = dict(self._agents)
        listed = []
        for name in self._authority.invited():
            one = there.get(name)
            is_there = one is not None and bool(one.offer)
            listed.append(
                {
                    "name": name,
                    "since": one.since if one and is_there else None,
                    "busy": bool(one and one.run),
                    "offer": one.offer if one and is_there else None,
                }
            )
        return listed

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[None]:
        """Take connections of agents and runs while the block runs.

        Raises:
            InputError: another program listens there, or this machine has no such address.
        """
        context = self._authority.context()
        Path(SOCKET).unlink(missing_ok=True)

        async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _guarded(self._agent(reader, writer, context), writer)

        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._runs >= MOST_RUNS:
                writer.transport.abort()
                return
            self._runs += 1
            try:
                await _guarded(self._run(reader, writer), writer)
            finally:
                self._runs -= 1

        servers: list[asyncio.Server] = []
        try:
            servers += [await asyncio.start_server(agent, sock=door) for door in self._doors(host, port)]
        except OSError as error:
            why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise InputError(f"--agents {host}:{port}: {why}", "give another address or port") from error
        mask = os.umask(0o177)
        try:
            servers.append(await asyncio.start_unix_server(run, SOCKET))
        finally:
            os.umask(mask)
        try:
            yield
        finally:
            for server in servers:
                server.close()
            for one in list(self._agents.values()):
                one.writer.transport.abort()
            Path(SOCKET).unlink(missing_ok=True)

    def _doors(self, host: str, port: int) -> Iterator[Door]:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            yield Door(socket.create_server(address[:2], family=family), self._guests)

    async def _agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        peer = _peer(writer)
        try:
            await writer.start_tls(context, ssl_handshake_timeout=HANDSHAKE_S)
        except OSError as error:
            LOG.warning("%s: no agent of this laboratory: %s", peer, getattr(error, "reason", None) or error)
            return
        name = self._name(writer)
        if name is None:
            LOG.warning("%s: its certificate was removed or replaced", peer)
            return
        if not self._guests.know(writer.get_extra_info("peername")[:2]):
            LOG.warning("%s: agent %s is refused: too many agents are connected", peer, name)
            return
        if name in self._agents:
            LOG.warning("%s: agent %s is connected already; the earlier connection is closed", peer, name)
            self._agents[name].writer.transport.abort()
        mine = self._agents[name] = Connected(writer)
        LOG.info("agent %s of %s is connected", name, peer)
        try:
            while self._name(writer) == name:
                await self._take(name, mine, await asyncio.wait_for(received(reader), SILENCE_S))
        finally:
            if self._agents.get(name) is mine:
                del self._agents[name]
            if mine.run is not None:
                mine.run.send({"event": "lost", "agent": name})
            LOG.warning("agent %s of %s is gone", name, peer)

    async def _take(self, name: str, agent: Connected, message: Message) -> None:
        match message:
            case {"event": "offer", "offer": content}:
                agent.offer = offer_of(content)
                agent.send({"event": "welcome"})
            case {"answer": int(number)} | {"event": "ended", "job": int(number), "code": int()}:
                if agent.run is not None and number != NOBODY:
                    agent.run.send({**message, "agent": name})
                    await agent.run.writer.drain()
            case _:
                raise MessageError("a message that no agent sends")

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = Peer(writer)
        try:
            while True:
                message = await received(reader)
                number, name = message.get("number"), message.get("agent")
                agent = self._agents.get(str(name))
                if message.get("ask") == "offers":
                    offers = {key: one.offer for key, one in self._agents.items() if one.offer}
                    mine.send({"answer": number, "offers": offers})
                elif agent is None:
                    mine.send({"answer": number, "error": "it is not connected"})
                elif agent.run not in (None, mine):
                    mine.send({"answer": number, "error": "another run uses it"})
                else:
                    agent.run = mine
                    agent.send(message)
                    await agent.writer.drain()
        finally:
            for agent in self._agents.values():
                if agent.run is mine:
                    agent.send({"ask": Drop.name, "number": NOBODY, "values": {}})
                    agent.run = None

    def _name(self, writer: asyncio.StreamWriter) -> str | None:
        connection: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return self._authority.name_of(connection.getpeercert(binary_form=True) or b"")


async def _guarded(conversation: Coroutine[Any, Any, None], writer: asyncio.StreamWriter) -> None:
    """Carry on a conversation until it ends, whatever ends it."""
    try:
        await conversation
    except (EOFError, OSError, TimeoutError):
        pass
    except MessageError as error:
        LOG.warning("%s: refused: %s", _peer(writer), error)
    finally:
        writer.transport.abort()


def _peer(writer: asyncio.StreamWriter) -> str:
    address = writer.get_extra_info("peername")
    return str(address[0]) if address else "a run"

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process of `perigee serve`: the web site, and the scheduler beside it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import socket
import sqlite3
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from perigee.errors import InputError, PerigeeError
from perigee.laboratory import page
from perigee.laboratory.access import Access, check_no_users, kept_secret
from perigee.laboratory.agents import Hub
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.catalogue import Catalogue
from perigee.laboratory.doors import Door
from perigee.laboratory.entries import Queue
from perigee.laboratory.own_studies import Studies
from perigee.laboratory.place import Place
from perigee.laboratory.scheduler import Scheduler, only_one
from perigee.laboratory.site import Site, packed_page

LOG = logging.getLogger("perigee.laboratory")

STEP_S = 0.5
"""Interval at which the scheduler checks its entries."""
STOP_S = 30.0
"""Grace period for running entries at shutdown."""
HEAD_S = 15.0
"""Timeout of the head of a request."""
BACKLOG = 256


@dataclass(frozen=True)
class Address:
    """Where a laboratory listens.

    Attributes:
        bind: an address of this machine.
        port: TCP port.
        names: by which it is reached.
        certificate: for TLS, in PEM.
        key: likewise.
    """

    bind: str
    port: int
    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it.

        Raises:
            InputError: it is no address.

        Examples:
            >>> Address("::1", 8700).is_loopback, Address("0.0.0.0", 8700).is_loopback
            (True, False)
        """
        try:
            return ipaddress.ip_address(self.bind).is_loopback
        except ValueError:
            raise InputError(f"--bind {self.bind}: no address; give one of this machine, as 127.0.0.1") from None

    @property
    def hosts(self) -> frozenset[str]:
        """The names that requests may give; empty: any."""
        if not self.is_loopback and not self.names:
            return frozenset()
        own = ("localhost", "127.0.0.1", "::1", self.bind) if self.is_loopback else (self.bind,)
        return frozenset((*own, *(name.lower() for name in self.names)))

    @property
    def url(self) -> str:
        """The address for a browser."""
        host = self.names[0] if self.names else self.bind
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def check(self) -> None:
        """Refuse an address that others reach without TLS, and files that are no certificate.

        Raises:
            InputError: as said.
        """
        if not self.is_loopback and self.certificate is None:
            raise InputError(
                f"--bind {self.bind}: others would reach it, and read links on the way",
                "give --certificate and --key",
            )
        if self.certificate is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
            except OSError as error:
                raise InputError(f"--certificate {self.certificate}, --key {self.key}: not usable: {error}") from error


def add_links(folder: Path, names: Sequence[str], quota: int, url: str) -> dict[str, str]:
    """Make a personal link to the laboratory of a folder, at an address, for each name; return the links by name.

    Raises:
        InputError: a name cannot be taken.
    """
    place = Place(folder.resolve())
    place.make()
    tokens = Access(place.private, {}).add_links(names, quota)
    return {name: f"{url}enter?token={token}" for name, token in tokens.items()}


def remove_links(folder: Path, names: Sequence[str]) -> None:
    """Take personal links to the laboratory of a folder away.

    Raises:
        InputError: nobody of a name has one.
    """
    Access(Place(folder.resolve()).private, {}).remove_links(names)


def opened(folder: Path) -> tuple[Laboratory, dict[str, str]]:
    """Open the laboratory of a folder; return it and the token of each role.

    Raises:
        InputError: its files are not usable.
        StorageError: they cannot be written.
    """
    place = Place(folder.resolve())
    place.make()
    check_no_users(place.private)
    tokens = {role: kept_secret(place.private / f"token-{role}") for role in ("run", "look")}
    laboratory = Laboratory(
        place,
        Queue(place.queue),
        Catalogue(place.results, place.private / "labels.sqlite"),
        Studies(place),
        Access(place.private, {token: role for role, token in tokens.items()}),
    )
    return laboratory, tokens


def serve(
    folder: Path, address: Address, begun: Callable[[dict[str, str]], None], agents: tuple[str, int] | None = None
) -> None:
    """Serve a laboratory until Ctrl-C or a termination.

    Args:
        folder: its working folder, which becomes that of this process.
        address: where.
        begun: called once it answers, with the address of each role.
        agents: host and port at which agents connect; none: nowhere.

    Raises:
        InputError: the address or the folder cannot be used.
        StorageError: the folder cannot be written.
    """
    address.check()
    page.check()
    laboratory, tokens = opened(folder)
    # Studies and profiles are found by name as in commands that are given there.
    os.chdir(laboratory.place.root)
    hub = Hub(laboratory.place.agents) if agents else None
    laboratory.hub = hub
    site = Site(laboratory, address.hosts, secure=address.certificate is not None)
    config = uvicorn.Config(
        site.app,
        http=TimedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=3,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
    )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    with only_one(laboratory.place, address.url):
        scheduler = Beside(Scheduler(laboratory.place, laboratory.queue, begun=laboratory.label))
        ending = threading.Event()
        reading = threading.Thread(target=_read_ahead, args=(laboratory, ending.is_set), name="catalogue")
        reading.start()
        try:
            links = {role: f"{address.url}enter?token={token}" for role, token in tokens.items()}
            # The server hands the signal on that has ended it.
            with contextlib.suppress(KeyboardInterrupt), Door(listening(address), laboratory.guests) as door:
                taking = hub.listening(*agents) if hub and agents else contextlib.nullcontext()
                asyncio.run(_serve(uvicorn.Server(config), door, scheduler, lambda: begun(links), taking))
        finally:
            scheduler.end()
            ending.set()
            reading.join()
            laboratory.queue.close()
            laboratory.catalogue.close()


def _read_ahead(laboratory: Laboratory, is_ending: Callable[[], bool]) -> None:
    """Put the page together, and read what its lists show, so that the first visitor does not wait."""
    packed_page()
    laboratory.warm(is_ending)


def listening(address: Address) -> socket.socket:
    """Return a socket that listens.

    Raises:
        InputError: another program listens there, or this machine has no such address.
    """
    family = socket.AF_INET6 if ":" in address.bind else socket.AF_INET
    try:
        return socket.create_server((address.bind, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {address.port} of {address.bind}: another program listens there", "give another --port"
            ) from error
        raise InputError(f"--bind {address.bind}, port {address.port}: {error.strerror}") from error


async def _serve(
    server: uvicorn.Server,
    opened_socket: socket.socket,
    scheduler: Beside,
    begun: Callable[[], None],
    agents: contextlib.AbstractAsyncContextManager[None],
) -> None:
    async with agents:
        serving = asyncio.create_task(server.serve([opened_socket]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
        if server.started:
            scheduler.begin()
            begun()
        await serving


class Beside:
    """Steps a scheduler in a thread.

    Args:
        scheduler: the scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler")

    def begin(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Let the entries that run halt, and end the thread."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._scheduler.stop(STOP_S)

    def _run(self) -> None:
        while not self._ending.wait(STEP_S):
            try:
                self._scheduler.step()
            except (PerigeeError, OSError, sqlite3.Error) as error:
                # A full disk may have room again.
                LOG.error("the queue does not go on: %s", error)  # noqa: TRY400 - one line says it
                self._ending.wait(10 * STEP_S)


class TimedProtocol(H11Protocol):
    """HTTP/1.1 whose clients have a limited time for the head of each request."""

    _since: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin with a connection."""
        super().connection_made(transport)
        self._since = time.monotonic()
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if self._since is None and self._is_idle():
            self._since = time.monotonic()
        super().data_received(data)
        if not self._is_idle():
            self._since = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End with a connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        if self._since is not None and time.monotonic() - self._since > HEAD_S:
            LOG.warning("%s: its request came too slowly", self.client[0] if self.client else "?")
            self.transport.abort()
            return
        self._timer = self.loop.call_later(HEAD_S / 5, self._look)

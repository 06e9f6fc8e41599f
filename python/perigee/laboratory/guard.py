# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks of every request before a page sees it: right host, not too often, not too large, not too slow."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from perigee.laboratory.doors import network_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LOG = logging.getLogger("perigee.laboratory")

POLICY = "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox"
"""The content security policy of what is no page: JSON and files."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Default headers of answers."""
MOST_CLIENTS = 4096
"""Addresses whose requests are counted; who was not seen for longest is forgotten."""


@dataclass(frozen=True)
class Limits:
    """Limits of a client.

    Attributes:
        body_bytes: of a request.
        body_s: seconds until a request is there.
        send_s: seconds until a client has taken a part of an answer.
        per_s: requests a second of one address, on the average.
        burst: requests at once.
    """

    body_bytes: int = 1 << 20
    body_s: float = 20.0
    send_s: float = 60.0
    per_s: float = 20.0
    burst: float = 200.0


class Budget:
    """A number of requests for each address (of version 6: each network of 64 bits), which comes back with time.

    Args:
        per_s: how many come back each second.
        burst: the most.

    Examples:
        >>> budget = Budget(per_s=1.0, burst=2.0)
        >>> [budget.take("a", now) for now in (0.0, 0.0, 0.5, 1.0)]
        [True, True, False, True]
    """

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, now: float) -> bool:
        """Take one request of an address, if there is one left."""
        address = network_of(address)
        left, before = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - before) * self._per_s)
        self._left[address] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


class Guard:
    """Refuses requests that no page should see, and puts the headers on every answer.

    Args:
        app: what answers the others.
        hosts: the names by which the laboratory is reached, without ports; empty: any.
        limits: what a client may ask for.
    """

    def __init__(self, app: App, hosts: frozenset[str], limits: Limits) -> None:
        self._app = app
        self._hosts = hosts
        self._limits = limits
        self._budget = Budget(limits.per_s, limits.burst)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        client = scope["client"][0] if scope.get("client") else "?"

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                added = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in given]
                message["headers"] = [*message["headers"], *added]
            await asyncio.wait_for(send(message), self._limits.send_s)

        async def refuse(status: int, why: str) -> None:
            LOG.warning("%s %s of %s: %d %s", scope["method"], _printable(scope["path"]), client, status, why)
            await _answer(sent, status, why)

        if self._hosts and hostname(headers.get("host", "")) not in self._hosts:
            await refuse(421, "this laboratory is not called by that name")
            return
        if not self._budget.take(client, time.monotonic()):
            await refuse(429, "too many requests; wait a little")
            return
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._limits.body_bytes:
            await refuse(413, f"more than {self._limits.body_bytes} bytes are not read")
            return
        try:
            body = await asyncio.wait_for(self._body(receive), self._limits.body_s)
        except TimeoutError:
            await refuse(408, "the request came too slowly")
            return
        if body is None:
            await refuse(413, f"more than {self._limits.body_bytes} bytes are not read")
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def received() -> Message:
            # A message after the request is that the client has gone.
            return whole.pop() if whole else await receive()

        try:
            await self._app(scope, received, sent)
        except TimeoutError:
            LOG.warning("%s of %s: the client takes nothing any more", _printable(scope["path"]), client)
            raise

    async def _body(self, receive: Receive) -> bytes | None:
        """Return the body of a request; nothing where it is too large."""
        parts: list[bytes] = []
        while True:
            message = await receive()
            parts.append(message.get("body", b""))
            if sum(map(len, parts)) > self._limits.body_bytes:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)


def hostname(host: str) -> str:
    """Return the name in a `Host` header, without the port.

    Examples:
        >>> hostname("example.org:8700"), hostname("[::1]:8700"), hostname("LOCALHOST")
        ('example.org', '::1', 'localhost')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _printable(path: str) -> str:
    return path.encode("unicode_escape").decode()[:200]


async def _answer(send: Send, status: int, why: str) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

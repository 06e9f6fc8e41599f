# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Doors: listening sockets that take a bounded number of connections, by address, before anything is spent on them.

A connection is a stranger's until its token, session or certificate was seen. Strangers have places of their own: they
take none of those of the others; where all are taken, of an address or of all, the one that was there first has to go.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
from collections import Counter
from dataclasses import dataclass
from typing import Any

LOG = logging.getLogger("perigee.laboratory")


@dataclass(frozen=True)
class Places:
    """How many connections a door takes: of a class of thirty behind one address, too.

    Attributes:
        strangers_by_address: of one address whose token, session or certificate was not seen yet.
        strangers: of all such.
        guests_by_address: of one address that was recognized; more of it stay strangers.
        guests: of all such.
    """

    strangers_by_address: int = 64
    strangers: int = 256
    guests_by_address: int = 128
    guests: int = 512


class Guests:
    """The connections of a door. They belong to one event loop.

    Args:
        places: how many it takes.
    """

    def __init__(self, places: Places | None = None) -> None:
        self._places = places or Places()
        # In the order in which they came.
        self._strangers: dict[Peer, Taken] = {}
        self._guests: dict[Peer, Taken] = {}
        self._by_address: Counter[tuple[bool, str]] = Counter()

    def enter(self, taken: Taken, peer: Peer) -> None:
        """Take a stranger in; where all places are taken, for the first of its address, or of all."""
        network = network_of(peer[0])
        if self._by_address[False, network] >= self._places.strangers_by_address:
            self._send_away(next(one for one in self._strangers if network_of(one[0]) == network))
        elif len(self._strangers) >= self._places.strangers:
            self._send_away(next(iter(self._strangers)))
        self._strangers[peer] = taken
        self._by_address[False, network] += 1

    def _send_away(self, first: Peer) -> None:
        LOG.info("%s: sent away for another, as nobody knows it", first[0])
        # Its end is noticed where it is read.
        with contextlib.suppress(OSError):
            self._strangers[first].shutdown(socket.SHUT_RDWR)
        self.leave(self._strangers[first], first)

    def know(self, peer: Peer) -> bool:
        """Make a stranger a guest where there is a place; whether this one is a guest now."""
        if peer in self._guests:
            return True
        network, places = network_of(peer[0]), self._places
        if len(self._guests) >= places.guests or self._by_address[True, network] >= places.guests_by_address:
            return False
        taken = self._strangers.get(peer)
        if taken is None:
            return False
        self.leave(taken, peer)
        self._guests[peer] = taken
        self._by_address[True, network] += 1
        return True

    def leave(self, taken: Taken, peer: Peer) -> None:
        """Forget one that has gone, if it has a place; another may have its address and port by now."""
        for is_guest, found in ((False, self._strangers), (True, self._guests)):
            if found.get(peer) is taken:
                del found[peer]
                key = is_guest, network_of(peer[0])
                self._by_address[key] -= 1
                if not self._by_address[key]:
                    del self._by_address[key]


Peer = tuple[str, int]
"""Address and port of the other end."""


class Taken(socket.socket):
    """A connection that leaves its place when it is closed."""

    left: tuple[Guests, Peer] | None = None

    def close(self) -> None:
        """Close it."""
        super().close()
        if self.left is not None:
            guests, peer = self.left
            self.left = None
            guests.leave(self, peer)


class Door(socket.socket):
    """A listening socket whose connections have a bounded number of places.

    Args:
        plain: the socket; it is taken over.
        guests: keeps the places.
    """

    def __init__(self, plain: socket.socket, guests: Guests) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self.setblocking(False)
        self._guests = guests

    def accept(self) -> tuple[Taken, Any]:
        """Take the next connection."""
        plain, address = super().accept()
        taken = Taken(plain.family, plain.type, plain.proto, fileno=plain.detach())
        peer = (address[0], address[1])
        self._guests.enter(taken, peer)
        taken.left = self._guests, peer
        # asyncio does so only where a socket names its protocol. Without it the second page of a connection waits 40 ms
        # for the browser's delayed acknowledgement.
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return taken, address


def network_of(host: str) -> str:
    """Return what stands for a sender: an address of version 4, or the network of 64 bits of one of version 6.

    Examples:
        >>> network_of("192.0.2.7"), network_of("2001:db8::7:1"), network_of("::ffff:192.0.2.7"), network_of("?")
        ('192.0.2.7', '2001:db8::', '192.0.2.7', '?')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))

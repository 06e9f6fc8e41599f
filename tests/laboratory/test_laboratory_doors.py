# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Who nobody knows keeps nobody from the page or the agents' door."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from test_agents import context_of

from browsing import serving
from conftest import free_port
from perigee.agents.certificates import CONTROLLER, Authority
from perigee.engines.live.messages import packed, received
from perigee.laboratory.agents import Hub
from perigee.laboratory.doors import Door, Guests, Places
from perigee.laboratory.place import Place

OFFER = {
    "version": "1",
    "host": "h",
    "kernel": "6",
    "captures": False,
    "interfaces": [],
    "algorithms": [],
    "programs": {},
    "settings": {},
}
MANY = 600
"""Connections of a stranger: more than the page or the door takes in all."""
CLASS = 30


@contextlib.contextmanager
def strangers(port: int, count: int, says: bytes = b"", host: str = "127.0.0.2") -> Iterator[list[socket.socket]]:
    """Connections of an address that say no more than this, and wait."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.bind((host, 0))
            one.connect(("127.0.0.1", port))
            one.sendall(says)
            found.append(one)
        yield found


def are_open(connections: list[socket.socket]) -> int:
    """How many the other end has not closed."""
    count = 0
    for one in connections:
        one.setblocking(False)
        try:
            count += one.recv(1) != b""
        except BlockingIOError:
            count += 1
        except ConnectionResetError:
            pass
    return count


@pytest.mark.parametrize("host", ["127.0.0.2", "127.0.0.1"])
def test_connections_without_a_token_leave_the_page_to_others_of_any_address(tmp_path: Path, host: str) -> None:
    with serving(tmp_path) as (_, address):
        port = int(address.split(":")[2].split("/")[0])
        with strangers(port, MANY, b"GET /api/queue HTTP/1.1\r\nHost: 127.0", host) as held:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
                client.request("GET", "/api/queue", headers={"authorization": f"Bearer {address.rpartition('=')[2]}"})
                answer = client.getresponse()
                assert (answer.status, b"running" in answer.read()) == (200, True)
            assert are_open(held) in (Places().strangers_by_address, Places().strangers_by_address - 1)


def test_a_class_behind_one_address_gets_the_page_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, address), strangers(int(address.split(":")[2].split("/")[0]), CLASS) as held:
        for one in held:
            one.settimeout(60)
            one.sendall(b"GET /api/me HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert [one.recv(12) for one in held] == CLASS * [b"HTTP/1.1 200"]


def test_an_agent_enters_while_silent_connections_wait_at_its_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path)
    place.make()
    authority, port = Authority(place.agents), free_port()
    known = context_of(authority, tmp_path, "known", (place.agents / "authority.pem").read_text())
    hub = Hub(place.agents)

    async def enter() -> None:
        async with hub.listening("127.0.0.1", port):
            # Connecting blocks, and the laboratory takes connections in this thread.
            with contextlib.ExitStack() as stack:
                await asyncio.to_thread(stack.enter_context, strangers(port, MANY))
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=known, server_hostname=CONTROLLER)
                writer.write(packed({"event": "offer", "offer": OFFER}))
                assert await asyncio.wait_for(received(reader), 60) == {"event": "welcome"}
                writer.transport.abort()

    asyncio.run(enter())


@contextlib.contextmanager
def door_of(places: Places) -> Iterator[tuple[Door, Guests]]:
    """A door that listens."""
    guests = Guests(places)
    with Door(socket.create_server(("127.0.0.1", 0)), guests) as door:
        door.setblocking(True)
        yield door, guests


def test_a_small_answer_does_not_wait_for_an_acknowledgement() -> None:
    with door_of(Places()) as (door, _), socket.create_connection(door.getsockname()), door.accept()[0] as taken:
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_strangers_take_no_place_of_a_guest_and_the_first_of_them_goes_when_all_places_are_taken() -> None:
    with door_of(Places(2, 3, 1, 1)) as (door, guests), contextlib.ExitStack() as stack:
        port = door.getsockname()[1]

        def knocks(host: str) -> socket.socket:
            one = stack.enter_context(socket.socket())
            one.bind((host, 0))
            one.connect(("127.0.0.1", port))
            return one

        def comes(host: str) -> tuple[socket.socket, tuple[str, int]]:
            knocks(host)
            taken, peer = door.accept()
            stack.enter_context(taken)
            return taken, peer

        guest, guest_peer = comes("127.0.0.1")
        assert guests.know(guest_peer)
        assert guests.know(guest_peer)
        first, first_peer = comes("127.0.0.1")
        assert not guests.know(first_peer), "its address has all places of guests"
        second, _ = comes("127.0.0.1")
        comes("127.0.0.1")
        assert first.recv(1) == b"", "sent away for another of its address"
        comes("127.0.0.2")
        comes("127.0.0.3")
        assert second.recv(1) == b"", "sent away for another"
        guest.setblocking(False)
        with pytest.raises(BlockingIOError):
            guest.recv(1)
        guest.close()
        _, peer = comes("127.0.0.4")
        assert guests.know(peer), "a guest that has gone leaves its place"

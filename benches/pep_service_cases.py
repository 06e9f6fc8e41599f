# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cases of `pep_cases.py` in which the proxy itself is the matter: many connections, reload, drain, crash, limits."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pep_ends import (
    MB,
    Work,
    await_closed,
    connected,
    damaged,
    data,
    echo,
    exchange,
    expect,
    expect_reset,
    expect_whole,
    pair,
    read,
    read_exactly,
    send,
)
from pep_world import PATIENCE_S, SERVER, SERVICE, Perigee, Proxy, await_that

LONG = data(8 * MB, 3)
SHORT_CONNECTIONS = 3000
AT_ONCE = 1000
STALLED = 400
BYTES_EACH = 16_000


def answers(proxy: Proxy, count: int, at_once: int) -> None:
    """Many short connections: a question, a half-close, its answer; a server that answers each."""
    listener = proxy.world.server.listen(SERVER)

    def serve() -> None:
        for _ in range(count):
            server, _ = listener.accept()
            with server:
                server.settimeout(PATIENCE_S)
                question, _ = read(server)
                server.sendall(question[::-1])

    def ask(first: int) -> None:
        for number in range(first, count, at_once):
            with proxy.world.client.connect(SERVER) as client:
                question = data(200, number)
                client.sendall(question)
                client.shutdown(socket.SHUT_WR)
                expect_whole(read(client), question[::-1])

    with listener:
        serving = Work(serve)
        asking = [Work(partial(ask, first)) for first in range(at_once)]
        for work in (*asking, serving):
            work.result()


def many_at_once(proxy: Proxy) -> None:
    """A thousand connections are open together; each carries its own bytes and then ends in both directions."""
    clients, servers = [], []
    with proxy.world.server.listen(SERVER) as listener:
        for number in range(AT_ONCE):
            clients.append(proxy.world.client.connect(SERVER))
            clients[-1].sendall(data(BYTES_EACH, number))
            servers.append(listener.accept()[0])
    try:
        for server in servers:
            server.settimeout(PATIENCE_S)
            server.sendall(read_exactly(server, BYTES_EACH))
            server.shutdown(socket.SHUT_WR)
        for number, client in enumerate(clients):
            expect_whole(read(client), data(BYTES_EACH, number))
    finally:
        for end in (*clients, *servers):
            end.close()


def random_ends(proxy: Proxy) -> None:
    """Three hundred connections with random sizes, orders of ends and resets, one after the other."""
    choice = random.Random(5)  # noqa: S311 - it is no secret
    for _ in range(300):
        with connected(proxy) as (client, server):
            first, second = choice.sample((client, server), 2)
            message, answer = LONG[: choice.choice((0, 1, 5000, 70_000))], LONG[: choice.choice((0, 1, 5000, 300_000))]
            exchange(first, second, message, answer, waits_s=0)


def reload_under_load(proxy: Proxy) -> None:
    """The proxy reads its configuration again, three times, amid transfers in both directions."""
    with connected(proxy) as (client, server):
        sending = [send(client, LONG), send(server, LONG)]
        reading = Work(lambda: expect_whole(read(server), LONG))
        for _ in range(3):
            read_exactly_of = read_exactly(client, MB)
            expect(LONG[:MB] == read_exactly_of or read_exactly_of in LONG, "other bytes than were sent")
            proxy.reload()
        expect_whole(read(client), LONG[3 * MB :])
        for work in (*sending, reading):
            work.result()


def drain_under_load(proxy: Proxy) -> None:
    """The proxy is asked to end amid a transfer: it ends after it, and new connections pass by meanwhile."""
    with connected(proxy) as (client, server):
        echo(client, server)
        proxy.drain()
        with connected(proxy) as (new, behind):
            echo(new, behind)
        exchange(client, server, LONG, LONG)
    if proxy.process:
        expect(proxy.process.wait(PATIENCE_S) == 0, "it ends with an error")


def drain_deadline(proxy: Proxy) -> None:
    """Connections open at the deadline of a drain are reset, not ended."""
    with connected(proxy) as (client, server):
        echo(client, server)
        proxy.signal(signal.SIGTERM)
        expect_reset(read(client))
        expect_reset(read(server))


def killed(proxy: Proxy) -> None:
    """The proxy is killed amid a download: neither end sees an orderly end of the stream."""
    with connected(proxy) as (client, server):
        server.sendall(LONG[:MB])
        beginning = read_exactly(client, 1000)
        proxy.signal(signal.SIGKILL)
        received, how = read(client)
        expect_reset((beginning + received, how), LONG)
        expect_reset(read(server))


def after_a_kill(proxy: Proxy) -> None:
    """After a kill new connections pass by at once."""
    proxy.signal(signal.SIGKILL)
    if proxy.process:
        proxy.process.wait()
    with connected(proxy) as (client, server):
        echo(client, server)


def start_after_a_kill(proxy: Proxy) -> None:
    """The next start replaces the rules of a killed one, and a stop removes them."""
    if not isinstance(proxy, Perigee):
        raise TypeError(proxy)
    after_a_kill(proxy)
    proxy.start()
    with connected(proxy) as (client, server):
        echo(client, server)
    proxy.signal(signal.SIGTERM)
    if proxy.process:
        proxy.process.wait(PATIENCE_S)
    left = proxy.world.router.execute("nft list tables") + proxy.world.router.execute("ip rule list")
    expect("perigee_pep" not in left and "7065" not in left, "rules are left")


def stalled_readers(proxy: Proxy) -> None:
    """Beside downloads that nobody reads, from one address, another connection's messages are answered."""
    stalled = []
    with proxy.world.server.listen(SERVER) as listener:
        for _ in range(STALLED):
            client = proxy.world.client.connect(SERVER, receive_buffer=4096)
            server, _ = listener.accept()
            server.setblocking(False)
            with suppress(BlockingIOError):
                server.send(LONG[:220_000])
            stalled.append((client, server))
    try:
        with connected(proxy) as (client, server):
            times = []
            for _ in range(100):
                began = time.monotonic()
                echo(client, server)
                times.append(time.monotonic() - began)
            expect(sorted(times)[50] < 0.01, f"an echo takes {sorted(times)[50] * 1000:.1f} ms")
    finally:
        for ends in stalled:
            for end in ends:
                end.close()


def few_descriptors(proxy: Proxy) -> None:
    """More connections at once than the limit of descriptors allows: all are served in the end."""
    answers(proxy, 600, 200)


def one_at_a_time(proxy: Proxy) -> None:
    """With a limit of one connection the second waits for the end of the first."""
    client, server = pair(proxy)
    with proxy.world.server.listen(SERVER) as listener:
        with client, server:
            echo(client, server)
            second = proxy.world.client.connect(SERVER)
        with second:
            behind, _ = listener.accept()
            with behind:
                behind.settimeout(PATIENCE_S)
                echo(second, behind)


def wrong_reload(proxy: Proxy) -> None:
    """A configuration with an error is refused with its line; the old one stays, and connections with it."""
    if not isinstance(proxy, Perigee):
        raise TypeError(proxy)
    with connected(proxy) as (client, server):
        proxy.path.write_text(f"{proxy.text}\nnonsense = 1\n")
        proxy.signal(signal.SIGHUP)
        await_that(lambda: "the old configuration stays" in proxy.log(), proxy.log, proxy.process)
        echo(client, server)
    with connected(proxy) as (client, server):
        echo(client, server)


def fuzzed_configuration(proxy: Proxy) -> None:
    """Two hundred damaged configurations: each is read or refused with a line, none is a crash."""
    if not isinstance(proxy, Perigee):
        raise TypeError(proxy)
    choice = random.Random(7)  # noqa: S311 - it is no secret
    for _ in range(200):
        text = damaged(proxy.text, choice)
        proxy.path.write_bytes(text)
        done = subprocess.run([SERVICE, "check", proxy.path], capture_output=True, check=False)
        is_told = done.returncode == 0 or (done.returncode == 2 and done.stderr.count(b"\n") == 1)
        expect(is_told, f"exit code {done.returncode}: {text!r}")


def descriptors_stay(proxy: Proxy) -> None:
    """After two thousand connections of all kinds of ends the proxy has the sockets that it began with."""
    before = proxy.descriptors("socket")
    answers(proxy, 1000, 20)
    for number in range(200):
        client, server = pair(proxy)
        client.sendall(LONG[: number * 50])
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        client.close()
        server.close()
    await_closed(proxy, before)


PROXIED = ("perigee", "haproxy")
ALL = ("direct", *PROXIED)
OURS = ("perigee",)
FEW = {"perigee": {"descriptors": "300"}, "haproxy": {"descriptors": "300", "maxconn": ""}}
NARROW = {"perigee": {"more": '[limits]\nheld = "1 MiB"\n'}}
ONE = {"perigee": {"more": "[limits]\nconnections = 1\n"}, "haproxy": {"maxconn": "1"}}
DEADLINE = {"perigee": {"service": 'drain = "1 ms"'}}

CASES: tuple[tuple[str, Callable[[Proxy], None], tuple[str, ...], dict[str, dict[str, str]]], ...] = (
    (f"{SHORT_CONNECTIONS} short connections, 20 at a time", lambda it: answers(it, SHORT_CONNECTIONS, 20), ALL, {}),
    (f"{AT_ONCE} connections at once", many_at_once, ALL, {}),
    (f"echoes beside {STALLED} unread downloads", stalled_readers, ALL, NARROW),
    ("300 connections that end at random", random_ends, ALL, {}),
    ("no socket is left of 1200 connections", descriptors_stay, PROXIED, {}),
    ("three reloads amid transfers", reload_under_load, PROXIED, {}),
    ("drain amid a transfer, new ones pass by", drain_under_load, PROXIED, {}),
    ("deadline of a drain: a reset, no end", drain_deadline, OURS, DEADLINE),
    ("proxy killed: no end of stream", killed, PROXIED, {}),
    ("proxy killed: new connections pass by", after_a_kill, PROXIED, {}),
    ("proxy killed: next start replaces its rules", start_after_a_kill, OURS, {}),
    ("200 at once with 300 descriptors: all served", few_descriptors, PROXIED, FEW),
    ("limit of one connection: the second waits", one_at_a_time, PROXIED, ONE),
    ("reload with an error: the old one stays", wrong_reload, OURS, {}),
    ("200 damaged configurations: no crash", fuzzed_configuration, OURS, {}),
)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Throughput, delay and resources of a proxy: the figures of `pep.py`, measured on both ends of its network."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kernel import busy_s
from pep_ends import child, read_exactly
from pep_world import DESCRIPTORS, PATIENCE_S, PORT, ROOT, SERVER, TIED, Proxy, await_that

BLOCK = 1 << 20
MESSAGE = b"64 bytes" * 8
ECHO_PORT = 81
IN_FLIGHT = 32
STILL_S = 0.5
SPARE = 400
"""Descriptors that a proxy and this program need beside those of connections."""
CORES = sorted(os.sched_getaffinity(0))
ONE_CORE = str(CORES[-1])
OTHERS = set(CORES[:-1] or CORES)
ALGORITHMS = ("hybla", "cubic", "bbr", "westwood", "vivace")
"""Candidates, the fastest of which is the ideal on the satellite."""


def bulk(proxy: Proxy, seconds: float) -> dict[str, float]:
    """One download at full speed: Gbit/s, and processor seconds per GB of the proxy and of the machine."""
    with downloads(proxy) as received:
        time.sleep(seconds / 4)
        begin, count, used, busy = time.monotonic(), received(), proxy.cpu_s(), busy_s()
        time.sleep(seconds)
        await_that(lambda: received() > count, lambda: "a download stands still")
        lasted, gigabytes = time.monotonic() - begin, (received() - count) / 1e9
        return {
            "gbps": gigabytes * 8 / lasted,
            "cpu_s": (proxy.cpu_s() - used) / gigabytes,
            "machine_s": (busy_s() - busy) / gigabytes,
        }


def echoes(proxy: Proxy, seconds: float, *, beside_bulk: bool) -> dict[str, float]:
    """64-byte questions and answers one after the other, alone or beside a download: milliseconds."""

    def serve() -> None:
        server, _ = listener.accept()
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.settimeout(None)
        while question := server.recv(64):
            server.sendall(question)

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(proxy.world.server.listen(SERVER, ECHO_PORT))
        stack.enter_context(child(serve))
        client = stack.enter_context(proxy.world.client.connect(SERVER, ECHO_PORT))
        if beside_bulk:
            stack.enter_context(downloads(proxy))
            time.sleep(seconds / 4)
        times: list[float] = []
        end = time.monotonic() + seconds
        while not times or time.monotonic() < end:
            begin = time.perf_counter()
            client.sendall(MESSAGE)
            read_exactly(client, len(MESSAGE))
            times.append(time.perf_counter() - begin)
    times.sort()
    return {"p50_ms": 1e3 * statistics.median(times), "p99_ms": 1e3 * times[len(times) * 99 // 100]}


def idle_memory(proxy: Proxy, count: int) -> dict[str, float]:
    """The proxy's memory with `count` idle connections, as far as descriptors allow: MB."""
    count = min(count, (DESCRIPTORS - SPARE) // 2)
    before = proxy.memory_mb()
    with _connected(proxy, count) as (clients, _):
        for client in clients:
            client.sendall(b"x")
            read_exactly(client, 1)
        return {"connections": count, "before_mb": before, "mb": proxy.memory_mb()}


def active_memory(proxy: Proxy, count: int) -> dict[str, float]:
    """Memory with downloads that nobody reads: the proxy's own (Pss), and the kernel's in its sockets, MB."""
    with _connected(proxy, count) as (clients, ask):
        for client in clients:
            client.sendall(b"d")
        ask()
        return {"connections": count, "mb": proxy.memory_mb(), "sockets_mb": proxy.sockets_mb()}


def satellite(folder: Path, size: str) -> dict[str, float]:
    """Seconds of a download over an emulated GEO link, direct and through the service, and simulated the ideal."""
    perigee = (sys.executable, "-m", "perigee", "run", str(ROOT / "benches/pep.toml"), "--set", f"flow.size={size}")
    _quietly(*perigee, "--engine", "emu", "--jobs", "1", "--force", "--out", str(folder / "emulated"))
    ideal = ("--set", "proxy.enabled=false", "--vary", f"flow.cc={','.join(ALGORITHMS)}")
    _quietly(*perigee, *ideal, "--out", str(folder / "simulated"))
    lasted = (_seconds_of(folder / "emulated"), _seconds_of(folder / "simulated"))
    return {"direct_s": lasted[0][0], "proxied_s": lasted[0][1], "ideal_s": min(lasted[1])}


def _quietly(*command: str) -> None:
    done = subprocess.run([*TIED, *command], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def _seconds_of(results: Path) -> list[float]:
    code = (
        "import json, sys, polars; flows = polars.read_parquet(sys.argv[1]).filter(polars.col('leg').is_null());"
        "print(json.dumps(flows.sort('run')['duration_s'].to_list()))"
    )
    command = [sys.executable, "-c", code, str(results / "flows.parquet")]
    found: list[float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


@contextlib.contextmanager
def downloads(proxy: Proxy, at_once: int = 1) -> Iterator[Callable[[], int]]:
    """Downloads at full speed; the block can ask for the bytes received so far."""
    counters = [mmap.mmap(-1, 8) for _ in range(at_once)]

    def serve() -> None:
        server, _ = listener.accept()
        server.settimeout(None)
        block = bytes(BLOCK)
        while True:
            server.sendall(block)

    def fetch(counter: mmap.mmap) -> None:
        client = proxy.world.client.connect(SERVER)
        block, total = bytearray(BLOCK), 0
        while length := client.recv_into(block):
            total += length
            counter[:8] = struct.pack("Q", total)

    def each() -> list[int]:
        return [int(struct.unpack("Q", counter[:8])[0]) for counter in counters]

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(proxy.world.server.listen(SERVER))
        for counter in counters:
            stack.enter_context(child(serve))
            stack.enter_context(child(partial(fetch, counter)))
        await_that(lambda: all(each()), lambda: "a download does not begin")
        yield lambda: sum(each())


@contextlib.contextmanager
def _connected(proxy: Proxy, count: int) -> Iterator[tuple[list[socket.socket], Callable[[], None]]]:
    """`count` connections to a server that echoes its input, and after a `d` sends 4 MB, or as much as finds room.

    The block has the clients, and a function that returns once no server has sent anything for half a second.
    """
    state = mmap.mmap(-1, 16)

    def serve() -> None:
        poll = select.epoll()
        servers: dict[int, socket.socket] = {}
        missing: dict[int, int] = {}
        poll.register(listener, select.EPOLLIN)
        block, asked = bytes(1 << 16), 0
        while True:
            for descriptor, event in poll.poll():
                if descriptor == listener.fileno():
                    server, _ = listener.accept()
                    server.setblocking(False)
                    servers[server.fileno()] = server
                    poll.register(server, select.EPOLLIN)
                    continue
                server = servers[descriptor]
                if event & select.EPOLLOUT:
                    missing[descriptor] -= server.send(block)
                    if missing[descriptor] <= 0:
                        poll.modify(server, select.EPOLLIN)
                elif (word := server.recv(64)) == b"d":
                    missing[descriptor] = 4 << 20
                    poll.modify(server, select.EPOLLIN | select.EPOLLOUT)
                    asked += 1
                elif word:
                    server.sendall(word)
                else:
                    poll.unregister(descriptor)
                    servers.pop(descriptor).close()
                state[:16] = struct.pack("Qd", asked, time.monotonic())

    def is_still() -> bool:
        asked, last = struct.unpack("Qd", state[:16])
        return bool(asked >= count and time.monotonic() > last + STILL_S)

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(proxy.world.server.listen(SERVER))
        stack.enter_context(child(serve))
        clients = [stack.enter_context(proxy.world.client.connect(SERVER)) for _ in range(count)]
        patience_s = PATIENCE_S * max(1, count / 500)
        yield clients, lambda: await_that(is_still, lambda: "a server sends for ever", patience_s=patience_s)


def connections(proxy: Proxy, seconds: float, at_once: int = IN_FLIGHT) -> int:
    """Open connections, several at a time, and close each when its server has; return how many."""
    poll = select.epoll()
    under_way: dict[int, socket.socket] = {}
    count, end = 0, time.monotonic() + seconds

    def begin() -> None:
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((SERVER, PORT))
        under_way[client.fileno()] = client
        poll.register(client, select.EPOLLIN | select.EPOLLRDHUP)

    with proxy.world.client.entered(), poll:
        for _ in range(at_once):
            begin()
        while time.monotonic() < end:
            for descriptor, _ in poll.poll(PATIENCE_S):
                client = under_way.pop(descriptor)
                if client.recv(1):
                    raise RuntimeError("bytes that nobody sent")
                client.close()
                count += 1
                begin()
        for client in under_way.values():
            client.close()
    return count


@contextlib.contextmanager
def confined_to(cores: set[int]) -> Iterator[None]:
    """Have this thread on some processors only, for the time of a block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

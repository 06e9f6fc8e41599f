# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cost of a proxy by connection, by byte and with more workers: the rows of `pep.py` about scale.

On a machine that others use, too, rates and processor times change from minute to minute by more than proxies differ.
So proxies are compared in turns of a tenth of a second, each in a network of its own that stays meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

import pep_figures as figures
from pep_ends import child
from pep_world import LIMITS, SERVER, TIED, Proxy, await_that, running

TURN_S = 0.1
"""Time in which connections are opened and closed through one of the proxies, before the next has its turn."""
Settings = dict[str, str]
WITH_LINK = {
    "legs": "[legs.sky]",
    "client": "sky",
    "more": f'{LIMITS}[link]\nleg = "sky"\ninterface = "lan0"\nsend = "100 Gbit/s"\n',
}
"""Settings of the service on a link that holds nothing back."""
WITH_LINES = {"lines": "  log stdout format raw daemon\n  option tcplog\n"}
"""Settings of HAProxy with a line for each connection, as the service writes one."""
CALLGRIND = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"
DOWNLOADS = 4
"""At a time, so that two workers have work."""


def opened_and_closed(kinds: Sequence[str], turns: int) -> dict[str, dict[str, float]]:
    """Connections per second that are opened and closed again, and the proxy's processor time for each.

    Each proxy is confined to the last core; both ends have the others, or share it where there is one only.
    """
    counted = dict.fromkeys(kinds, (0, 0.0, 0.0))
    with contextlib.ExitStack() as stack:
        proxies = {kind: stack.enter_context(running(kind, core=figures.ONE_CORE)) for kind in kinds}
        for proxy in proxies.values():
            stack.enter_context(_closing(proxy))
        stack.enter_context(figures.confined_to(figures.OTHERS))
        for turn, (kind, proxy) in itertools.product(range(turns + 1), proxies.items()):
            used, begin = proxy.cpu_s(), time.monotonic()
            count = figures.connections(proxy, TURN_S)
            found = (count, time.monotonic() - begin, proxy.cpu_s() - used)
            # The first turn fills caches and tables.
            if turn:
                counted[kind] = tuple(map(sum, zip(counted[kind], found, strict=True)))  # type: ignore[assignment]
    return {kind: {"per_s": n / s, "cpu_us": 1e6 * cpu_s / max(n, 1)} for kind, (n, s, cpu_s) in counted.items()}


def instructions(kinds: Mapping[str, tuple[str, Settings]], seconds: float) -> dict[str, float]:
    """Instructions that each proxy, of a kind and with settings, executes itself for a connection; not the kernel's.

    They are counted by callgrind in two runs, one twice as long, so that start and end do not count.
    """
    found = {}
    for name, (kind, settings) in kinds.items():
        counted = [_executed(kind, settings, duration_s) for duration_s in (seconds, 2 * seconds)]
        less, more = sorted(counted)
        found[name] = (more[1] - less[1]) / (more[0] - less[0])
    return found


def _executed(kind: str, settings: Settings, seconds: float) -> tuple[int, int]:
    """Connections through a proxy, and the instructions that it has executed at its end."""
    with running(kind, under=CALLGRIND, **settings) as proxy:
        with _closing(proxy):
            count = figures.connections(proxy, seconds)
        proxy.drain()
        await_that(lambda: "Collected : " in proxy.log(), proxy.log)
        return count, int(proxy.log().partition("Collected : ")[2].split()[0])


def workers(turns: int) -> dict[str, dict[str, float]]:
    """Processor time of the service for a connection and for a GB, and calls of `futex`, with one worker and with two.

    On one core two workers cost by what they are; on all cores also by what they share and what the machine does. Each
    worker has as many connections at a time. The last kind has a link whose rate holds nothing back.
    """
    places = {"one core": figures.ONE_CORE, "all cores": ""}
    kinds = {
        f"{count} on {place}": {"workers": str(count), "core": core}
        for place, core in places.items()
        for count in (1, 2)
    }
    kinds["1 on one core, with `[link]`"] = {"workers": "1", "core": figures.ONE_CORE, **WITH_LINK}
    used = {kind: [0.0] * 4 for kind in kinds}
    with contextlib.ExitStack() as stack:
        proxies = {kind: stack.enter_context(running("perigee", **settings)) for kind, settings in kinds.items()}
        for proxy in proxies.values():
            stack.enter_context(_closing(proxy))
        stack.enter_context(figures.confined_to(figures.OTHERS))
        for _, (kind, proxy) in itertools.product(range(turns), proxies.items()):
            before = proxy.cpu_s()
            used[kind][1] += figures.connections(proxy, TURN_S, int(kinds[kind]["workers"]) * figures.IN_FLIGHT)
            used[kind][0] += proxy.cpu_s() - before
    with contextlib.ExitStack() as stack:
        proxies = {kind: stack.enter_context(running("perigee", **settings)) for kind, settings in kinds.items()}
        for _, (kind, proxy) in itertools.product(range(turns), proxies.items()):
            with figures.downloads(proxy, DOWNLOADS) as received:
                before, begin = proxy.cpu_s(), received()
                time.sleep(4 * TURN_S)
                used[kind][2] += proxy.cpu_s() - before
                used[kind][3] += (received() - begin) / 1e9
        waits = {kind: _futexes_by_gb(proxy, turns * TURN_S) for kind, proxy in proxies.items()}
    return {
        kind: {"connection_us": 1e6 * one[0] / one[1], "gb_s": one[2] / one[3], "futexes": waits[kind]}
        for kind, one in used.items()
    }


def _futexes_by_gb(proxy: Proxy, seconds: float) -> float:
    """Count the calls of `futex` while bytes pass; nan if `perf` counts none."""
    pid = str(proxy.process.pid if proxy.process else 0)
    command = (*TIED, "perf", "stat", "-x,", "-e", "syscalls:sys_enter_futex", "-p", pid)
    if not shutil.which("perf"):
        return float("nan")
    with figures.downloads(proxy, DOWNLOADS) as received:
        # Log lines of earlier connections are written.
        time.sleep(1.0)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as counter:
            begin = received()
            time.sleep(seconds)
            gigabytes = (received() - begin) / 1e9
            counter.send_signal(signal.SIGINT)
            counted = re.match(r"(\d+),,syscalls", counter.communicate()[1])
    return float(counted[1]) / gigabytes if counted else float("nan")


@contextlib.contextmanager
def _closing(proxy: Proxy) -> Iterator[None]:
    """A server that closes each connection at once, for the time of a block."""

    def serve() -> None:
        os.sched_setaffinity(0, figures.OTHERS)
        listener.settimeout(None)
        while True:
            listener.accept()[0].close()

    with proxy.world.server.listen(SERVER) as listener, child(serve):
        yield

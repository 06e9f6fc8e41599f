# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The service at the router of a hostile operator: its configuration, disk and upgrades, and the modem it asks."""

from __future__ import annotations

import os
import random
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from pep_ends import Work, expect
from pep_traffic import PORTS
from pep_world import ALLOWED, DESCRIPTORS, PATIENCE_S, SERVICE, Proxy, World, await_that

MODEM = "127.0.0.1", 8080
ASKING = 'every = "100 ms"\nwithin = "300 ms"\noldest = "1 s"'
DISK = "16m"
ROTATED = 4_000_000
"""Bytes of a log, or of accounting, from which on it is emptied."""
PROBED = range(82, 83)
"""Ports of connections that show whether new ones are served."""

Answer = tuple[Callable[[socket.socket], object], str]
"""A modem's answer to who asks it by HTTP, and the script that says the same."""


def said(text: str) -> Answer:
    """Return the answer of this text."""
    body = text.encode()
    whole = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    return lambda asking: asking.sendall(whole), f"printf '%s' {shlex.quote(text)}"


HONEST = said("500 Mbit/s, 500 Mbit/s")


class Modem:
    """Tells the rate of the link to whom asks by HTTP, or executes its program."""

    def __init__(self, world: World) -> None:
        self.program = world.folder / "modem"
        self.answer(HONEST)
        self._listener = world.router.listen(*MODEM)
        self._listener.settimeout(None)
        Work(self._serve)

    def answer(self, answer: Answer) -> None:
        """Give this answer from now on."""
        self._answer, line = answer
        # In place, unless it is just being started: the service may execute this file, and no other one of its name.
        with suppress(OSError):
            self.program.write_text(f"#!/bin/sh\n{line}\n")
            self.program.chmod(0o755)

    def _serve(self) -> None:
        while True:
            asking, _ = self._listener.accept()
            asking.settimeout(2)
            with asking, suppress(OSError):
                asking.recv(4096)
                self._answer(asking)


class Box(Proxy):
    """The service, not started yet, with control socket, accounting, a link that it divides, and a small disk for all.

    What is drawn is how it is configured at each start and upgrade, and what is done to it.
    """

    name = "perigee-pep"

    def __init__(self, world: World, draw: random.Random) -> None:
        super().__init__(world)
        self.draw, self.pid, self.modem = draw, 0, Modem(world)
        world.folder.chmod(0o755)
        self.path, self.disk = world.folder / "pep.toml", world.folder / "disk"
        self.accounts = self.disk / "accounts"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", self.disk], check=True)
        self.make_accounts()
        self._lines = self._log.open("a+", errors="replace")
        self.choose()

    def pause(self, least: float, most: float) -> None:
        """Let time pass."""
        time.sleep(self.draw.uniform(least, most))

    def do(self, *lines: str) -> None:
        """Carry out commands at the router, whether they can be or not."""
        for line in lines:
            with suppress(RuntimeError):
                self.world.router.execute(line)

    def make_accounts(self) -> None:
        """Make the folder of accounting, where it is missing."""
        self.accounts.mkdir(exist_ok=True)
        self.accounts.chmod(0o777)

    def choose(self) -> None:
        """Draw another good configuration: threads, what tells the rate, and of which link."""
        self._drawn = self.draw.random()
        self.path.write_text(self.text())

    def text(self, limits: str = "", metrics: str = "127.0.0.1:9469", source: str = "") -> str:
        """Return the configuration."""
        draw = random.Random(self._drawn)  # noqa: S311 - it is no secret
        sources = (
            f'modem = "http://{MODEM[0]}:{MODEM[1]}/"\n{ASKING}',
            f'command = ["{self.modem.program}"]\n{ASKING}',
            'send = "500 Mbit/s"\nreceive = "500 Mbit/s"',
        )
        rules = "".join(
            f'[[rules]]\nname = "{name}"\nports = ["{ports[0]}-{ports[-1]}"]\nclient = "town"\nserver = "sky"\n'
            f"connect_first = {str(name == 'first').lower()}\n"
            for name, ports in {**PORTS, "probe": PROBED}.items()
        )
        return (
            f'[service]\nworkers = {draw.randint(1, 3)}\ncontrol = "{self.disk}/control"\nmetrics = "{metrics}"\n'
            f'drain = "2 s"\nupgrade_drain = "12 h"\nconfine = {draw.choice(("true", "true", "true", "false"))}\n'
            f"{ALLOWED}[legs.town]\n[legs.sky]\n{rules}[limits]\n{limits}\n"
            f'[accounting]\nfile = "{self.accounts}/use.jsonl"\nevery = "1 s"\nconnections = true\n'
            f"[link]\n{draw.choice(LINKS)}\n{source or draw.choice(sources)}\n"
        )

    def start(self) -> None:
        """Start it, configured in another way, and return when it answers."""
        self.choose()
        self.process = self._start("prlimit", f"--nofile={DESCRIPTORS}", str(SERVICE), "run", str(self.path))
        self.await_running(self.process)

    def runs(self) -> bool:
        """Return whether it answers that it serves."""
        with suppress(subprocess.TimeoutExpired):
            return "state running" in self.ask("status").stdout
        return False

    def await_running(self, started: subprocess.Popen[str] | None = None) -> None:
        """Wait until a process answers, and keep its number."""
        await_that(self.runs, lambda: f"no service runs: {self.told()}", started)
        self.pid = self.value("\nprocess")

    def ask(self, command: str, *program: str) -> subprocess.CompletedProcess[str]:
        """Return what a command did of the service's program, or of another one with its words."""
        line = [*(program or (str(SERVICE),)), command, str(self.path)]
        with self.world.router.entered():
            return subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def value(self, name: str) -> int:
        """Return a number of `status` by a pattern of its name; 0 without one."""
        found = re.search(rf"{name} (\d+)", self.ask("status").stdout)
        return int(found[1]) if found else 0

    def reload(self) -> None:
        """Have it read a good configuration, which it may not refuse."""
        self.path.write_text(self.text())
        done = self.ask("reload")
        expect(done.returncode == 0, f"a good configuration is refused: {done.stderr.strip()}")

    def upgrade(self) -> None:
        """Have another process take over, configured in another way, which may not fail."""
        self.choose()
        before, done = self.pid, self.ask("upgrade")
        expect(done.returncode == 0, f"an upgrade fails: {done.stderr.strip()}")
        self.await_running()
        expect(self.pid != before, "an upgrade says that it is done, and is not")

    def processes(self) -> set[int]:
        """Return all processes of the service that run, or still have their sockets."""
        found = set()
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, fields = path.read_text().partition("(")[2].rpartition(") ")
                state, threads = fields.split()[0], int(fields.split()[17])
                if name.startswith(SERVICE.name[:15]) and (state not in "ZX" or threads > 1):
                    found.add(int(path.parent.name))
        return found

    def signal(self, number: int) -> None:
        """Send a signal to the process that serves."""
        os.kill(self.pid, number)

    def end(self, number: int, processes: Collection[int]) -> None:
        """End processes by a signal, and return when they have ended."""
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        await_that(lambda: self.processes().isdisjoint(processes), lambda: f"it does not end: {self.told()}")

    def told(self) -> str:
        """Return the last lines of its log that tell of no connection."""
        return "\n".join(line for line in self.log().splitlines() if not line.startswith("connection "))[-2000:]

    def look_at_log(self) -> None:
        """Expect that no thread panicked, and empty what has grown."""
        expect("panicked" not in self._lines.read(), f"a thread panicked: {self.told()}")
        for path in (self._log, self.accounts / "use.jsonl"):
            if path.exists() and path.stat().st_size > ROTATED:
                os.truncate(path, 0)
                self._lines.seek(0)

    @property
    def _log(self) -> Path:
        return self.disk / "log"


LINKS = 'leg = "sky"\ninterface = "wan0"', 'leg = "town"\ninterface = "lan0"'

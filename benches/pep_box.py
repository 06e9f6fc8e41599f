# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The service at the router of a hostile operator: its configuration, disk and upgrades, and the modem it asks."""

from __future__ import annotations

import os
import random
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pep_ends import expect
from pep_world import DESCRIPTORS, PATIENCE_S, SERVICE, Proxy, World, await_that

MODEM = ("127.0.0.1", 8080)
HONEST = "500 Mbit/s, 500 Mbit/s"
ASKING = 'every = "100 ms"\nwithin = "300 ms"\noldest = "1 s"'
DISK = "16m"
ROTATED = 4_000_000
"""Bytes of a log, or of accounting, from which on it is emptied."""


class Modem:
    """Tells the rate of the link: by HTTP, and by a program. Both say what was given to them last."""

    FAILURES = "silent", "endless", "dying", "failing", "torn"
    """Instead of an answer."""

    def __init__(self, world: World) -> None:
        self.program = world.folder / "modem"
        self.say(HONEST)
        self._listener = world.router.listen(*MODEM)
        self._listener.settimeout(None)
        threading.Thread(target=self._accept, daemon=True).start()

    def say(self, text: str) -> None:
        """Answer with this text from now on."""
        body = text.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        self._do(lambda asking: asking.sendall(head + body), f"printf '%s' {shlex.quote(text)}")

    def be(self, what: str) -> None:
        """Answer no more, in one of the ways of `FAILURES`."""
        do, line = {
            "silent": (lambda _: time.sleep(2), "read nothing"),
            "endless": (_flood, "while :; do printf 1111111111111111; done"),
            "dying": (lambda asking: None, "kill -9 $$"),
            "failing": (lambda asking: asking.sendall(b"HTTP/1.1 500 No\r\n\r\n500"), "exit 3"),
            "torn": (lambda asking: asking.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n20 M"), "printf 20"),
        }[what]
        self._do(do, line)

    def _do(self, answer: Callable[[socket.socket], object], line: str) -> None:
        self._answer = answer
        # In place, unless it is just being started: the service may execute this file, and no other one of its name.
        with suppress(OSError):
            self.program.write_text(f"#!/bin/sh\n{line}\n")
            self.program.chmod(0o755)

    def _accept(self) -> None:
        while True:
            asking, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(asking,), daemon=True).start()

    def _serve(self, asking: socket.socket) -> None:
        asking.settimeout(2)
        with suppress(OSError):
            asking.recv(4096)
            self._answer(asking)
        asking.close()


def _flood(asking: socket.socket) -> None:
    while True:
        asking.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(4096))


class Box(Proxy):
    """The service, not started yet, with control socket, accounting, a link that it divides, and a small disk for all.

    Args:
        world: where it runs.
        draw: chooses how it is configured at each start and upgrade.
    """

    name = "perigee-pep"

    def __init__(self, world: World, draw: random.Random) -> None:
        super().__init__(world)
        self.draw, self.pid, self.wrong = draw, 0, deque[str](maxlen=12)
        world.folder.chmod(0o755)
        self.path, self.disk = world.folder / "pep.toml", world.folder / "disk"
        self.accounts = self.disk / "accounts"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", self.disk], check=True)
        self.make_accounts()
        self.modem, self._read = Modem(world), 0
        self.choose()
        self.path.write_text(self.text())

    def make_accounts(self) -> None:
        """Make the folder of accounting."""
        self.accounts.mkdir(mode=0o755)
        self.accounts.chmod(0o777)

    def choose(self) -> None:
        """Draw threads and what tells the rate."""
        sources = (
            f'modem = "http://{MODEM[0]}:{MODEM[1]}/"\n{ASKING}',
            f'command = ["{self.modem.program}"]\n{ASKING}',
            'send = "500 Mbit/s"\nreceive = "500 Mbit/s"',
        )
        self.workers, self.source = self.draw.choice((1, 2, 3)), self.draw.choice(sources)
        self.confined = self.draw.choice(("true", "true", "true", "false"))
        self.crossing = self.draw.choice((("sky", "wan0"), ("town", "lan0")))

    def text(self, limits: str = "", metrics: str = "127.0.0.1:9469", source: str = "") -> str:
        """Return the configuration."""
        leg, device = self.crossing
        rules = (("first", 81, "true"), ("probe", 82, "false"), ("all", 80, "false"))
        return (
            f'[service]\nworkers = {self.workers}\ncontrol = "{self.disk}/control"\nmetrics = "{metrics}"\n'
            f'drain = "2 s"\nupgrade_drain = "12 h"\nconfine = {self.confined}\n'
            '[allow]\nsources = ["10.1.0.0/16", "2001:db8:1::/48"]\n'
            'destinations = ["10.2.0.0/16", "2001:db8:2::/48"]\n'
            '[transparent]\ninterfaces = ["lan0"]\n[legs.town]\n[legs.sky]\n'
            + "".join(
                f'[[rules]]\nname = "{name}"\nports = [{port}]\nclient = "town"\nserver = "sky"\n'
                f"connect_first = {first}\n"
                for name, port, first in rules
            )
            + f'[limits]\n{limits}\n[accounting]\nfile = "{self.accounts}/use.jsonl"\nevery = "1 s"\n'
            f'connections = true\n[link]\nleg = "{leg}"\ninterface = "{device}"\n{source or self.source}\n'
        )

    def start(self) -> None:
        """Start it, and return when it answers."""
        self.path.write_text(self.text())
        limited = ("prlimit", f"--nofile={DESCRIPTORS}", str(SERVICE), "run", str(self.path))
        self.process = self._start(*limited)
        self.await_running(self.process)

    def await_running(self, started: subprocess.Popen[str] | None = None) -> None:
        """Wait until a process answers, and keep its number."""
        await_that(lambda: "state running" in self.status(), lambda: f"no service runs: {self.log()[-2000:]}", started)
        self.pid = int(self.value("process"))

    def ask(self, command: str, *program: str) -> subprocess.CompletedProcess[str]:
        """Return what a command did of the service's program, or of another one with its words."""
        line = [*(program or (str(SERVICE),)), command, str(self.path)]
        with self.world.router.entered():
            return subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def status(self) -> str:
        """Return what the service says of itself, as the command prints it; nothing if it does not answer."""
        parts = []
        with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(1)
            asking.connect(f"{self.disk}/control")
            while part := asking.recv(1 << 16):
                parts.append(part)
        return b"".join(parts).decode()

    def value(self, name: str) -> str:
        """Return a value of `status`."""
        return self.status().partition(f"\n{name} ")[2].partition("\n")[0]

    def probed(self) -> int:
        """Count connections that were accepted by the rule of probes."""
        return int(self.value("rule probe").partition(" accepted ")[2].partition(" ")[0] or 0)

    def signal(self, number: int) -> None:
        """Send a signal to the process that serves."""
        os.kill(self.pid, number)

    def reload(self) -> None:
        """Have it read a good configuration.

        Raises:
            LostError: it is refused.
        """
        self.path.write_text(self.text())
        done = self.ask("reload")
        expect(done.returncode == 0, f"a good configuration is refused: {done.stderr.strip()}")

    def upgrade(self) -> None:
        """Have another process take over.

        Raises:
            LostError: none does.
        """
        self.choose()
        self.path.write_text(self.text())
        before, done = self.pid, self.ask("upgrade")
        expect(done.returncode == 0, f"an upgrade fails: {done.stderr.strip()}")
        self.await_running()
        expect(self.pid != before, "an upgrade says that it is done, and is not")

    def processes(self) -> list[int]:
        """Return all processes of the service that run."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if (path / "exe").readlink().name.startswith(SERVICE.name):
                    found.append(int(path.name))
        return found

    def close(self) -> None:
        """End all processes at once."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def look_at_log(self) -> None:
        """Keep the last lines that tell of no connection, and empty what has grown.

        Raises:
            LostError: a thread panicked.
        """
        with self._log.open(errors="replace") as log:
            log.seek(self._read)
            lines = log.read().splitlines()
            self._read = log.tell()
        self.wrong.extend(line for line in lines if not line.startswith("connection "))
        for path in (self._log, self.accounts / "use.jsonl"):
            if path.exists() and path.stat().st_size > ROTATED:
                os.truncate(path, 0)
                self._read = 0 if path == self._log else self._read
        panics = [line for line in lines if "panicked" in line]
        expect(not panics, f"a thread panicked: {panics}")

    @property
    def _log(self) -> Path:
        return self.disk / "log"


def reap() -> None:
    """Take note of the end of all processes that this one has, or has inherited."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass

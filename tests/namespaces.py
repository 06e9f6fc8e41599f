# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Network namespaces as hosts of a test."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from conftest import environment

PERIGEE = [sys.executable, "-m", "perigee"]


class Lab:
    """A network namespace with iperf3 servers; every process started in it ends with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self._home = self._keep(subprocess.Popen(["unshare", "--net", "sleep", "600"], text=True))  # noqa: S607
        own, mine = Path(f"/proc/{self._home.pid}/ns/net"), Path("/proc/self/ns/net").readlink()
        wait_until(lambda: own.readlink() != mine)
        self.run(["ip", "link", "set", "lo", "up"])

    def run(self, command: list[str], timeout: float = 100) -> CompletedProcess[str]:
        """Run a command in it, to its end."""
        return subprocess.run(
            self._inside(command), capture_output=True, text=True, check=False, timeout=timeout, cwd=self.folder,
            env=environment(),
        )  # fmt: skip

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """Start a command in it."""
        return self._keep(
            subprocess.Popen(
                self._inside(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                env=environment(),
            )
        )  # fmt: skip

    def serve(self, port: int = 5201, *options: str) -> subprocess.Popen[str]:
        """Start a server, and wait until it listens."""
        server = self.start(["iperf3", "--server", "--port", str(port), *(options or ["--json"])])
        wait_until(lambda: f":{port} " in self.run(["ss", "-Hltn"]).stdout)
        return server

    def perigee(self, *arguments: str, timeout: float = 100) -> CompletedProcess[str]:
        """Run perigee in it."""
        return self.run([*PERIGEE, *arguments], timeout)

    def end(self) -> None:
        """End what was started."""
        for process in reversed(self._started):
            process.kill()
            process.communicate(timeout=300)

    def _inside(self, command: list[str]) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._home.pid}/ns/net", "--", *command]

    def _keep(self, process: subprocess.Popen[str]) -> subprocess.Popen[str]:
        self._started.append(process)
        return process


def wait_until(condition: Callable[[], bool], seconds: float = 300) -> None:
    """Wait until something is so; it fails if that takes longer."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The client's side of a download: the client behind the link, and a capture beside it.

It imports little, so that the client begins soon after the link does, and at the same time in each run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from perigee.stacks.confined import confined

CAPTURE, DONE, SAID = Path("download.pcap"), Path("client.json"), Path("client.txt")
FRAME_BYTES = 128
"""Bytes of each packet that the capture keeps."""
SETTLE_S = 0.2
"""Time in which tcpdump reads what the kernel has captured."""


class Fault(Exception):  # noqa: N818 - no error of ours
    """A program did not do its work."""


@contextlib.contextmanager
def started(
    command: Sequence[str], readable: Sequence[Path], writable: Sequence[Path], said: BinaryIO
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, confined and in a group of its own, which is killed as the block ends."""
    words = confined(command, readable=readable, writable=writable)
    # No session of its own, which the kernel may schedule by itself, whatever the priority of the measurement is.
    process = subprocess.Popen(  # noqa: S603 - confined
        words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, process_group=0
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ending(code: int) -> str:
    """Return how a program ended, in words.

    Examples:
        >>> ending(1), ending(-11)
        ('exit code 1', 'signal 11')
    """
    return f"signal {-code}" if code < 0 else f"exit code {code}"


@contextlib.contextmanager
def _captured(port: int) -> Iterator[None]:
    """Capture while the block runs, which begins when the capture has begun."""
    shape = ["-i", "any", "-s", str(FRAME_BYTES), "-B", "16384", "--immediate-mode", "-Z", "root"]
    with subprocess.Popen(  # noqa: S603 - our words
        ["tcpdump", *shape, "-w", CAPTURE, f"port {port}"],  # noqa: S607 - found in PATH
        stderr=subprocess.PIPE,
    ) as capture:
        if not any(b"listening on" in line for line in capture.stderr or ()):
            sys.exit("tcpdump cannot capture here")
        try:
            yield
            time.sleep(SETTLE_S)
        finally:
            capture.terminate()
            capture.communicate()


def _dropped_by_sockets() -> int:
    """Return the datagrams of this network that found the buffer of their socket full."""
    names, values = (
        line.split() for line in Path("/proc/net/snmp").read_text("ascii").splitlines() if line[:4] == "Udp:"
    )
    return int(dict(zip(names, values, strict=True))["RcvbufErrors"])


def main() -> None:
    """Download as the job of the working directory says, and write how that ended."""
    job = json.loads(Path("job.json").read_text("utf-8"))
    readable = [*map(Path, job["readable"]), Path("authority.pem").resolve()]
    with SAID.open("wb") as said, _captured(job["port"]):
        begun = time.monotonic()
        with started(job["client"], readable, [Path("got").resolve()], said) as client:
            try:
                code = client.wait(job["limit_s"])
            except subprocess.TimeoutExpired:
                code = None
        took_s = time.monotonic() - begun
    done = {"exit_code": code, "took_s": took_s, "socket_drops": _dropped_by_sockets()}
    DONE.write_text(json.dumps(done), "utf-8")


if __name__ == "__main__":
    main()

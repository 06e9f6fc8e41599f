# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Has each installed QUIC stack move 10 MB over the loopback of a namespace, with each of its congestion controls.

Run it as root: `python validation/quic/stacks.py [--stacks FOLDER] [NAME...]`. It prints a line for each transfer, with
the time from the client's start to its end, and fails where a file does not arrive whole.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perigee.stacks.certificate import Certificate
from perigee.stacks.confined import confined
from perigee.stacks.install import default_folder
from perigee.stacks.table import Settings, Stack, client_command, find, installed, server_command

BYTES = 10_000_000
WINDOW = 4_000_000
"""Bytes; a tuned window that no stack has by default."""
NAME = "10m.bin"
PORT = 4433
LONGEST_S = 120
STARTS_S = 30
"""A server listens after this time at the latest, also on a busy machine."""
INSIDE = "--inside"


def main() -> None:
    """Enter a namespace of its own, and carry the transfers out there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="stacks; all that are installed if none")
    parser.add_argument("--stacks", type=Path, default=default_folder(), help="folder of the installed stacks")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside:
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv, INSIDE])  # noqa: S606 - no shell is meant
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    there = installed(given.stacks.absolute())
    names = given.names or list(there)
    for name in names:
        if name not in there:
            sys.exit(f"{name} is not installed in {given.stacks}: perigee quic install {name}")
    print("| stack | congestion control | windows | server's peer | s |\n|---|---|---|---|---:|")
    failures = 0
    for name in names:
        for line, is_whole in transfers(find(name), there):
            print(line, flush=True)
            failures += not is_whole
    if failures or not names:
        sys.exit(f"{failures} transfers failed of {len(names)} stacks")


def transfers(stack: Stack, there: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    """Yield a line of the table for each transfer of a stack's server, and whether it was whole."""
    for control in stack.controls:
        yield transfer(stack, stack, there, control=control)
    if stack.server.window and stack.client.window:
        yield transfer(stack, stack, there, control=stack.default, window=WINDOW)
    if stack.http3:
        for name in there:
            peer = find(name)
            if peer.http3 and peer != stack:
                yield transfer(stack, peer, there, control=stack.default)


def transfer(
    stack: Stack, peer: Stack, there: dict[str, Path], *, control: str, window: int | None = None
) -> tuple[str, bool]:
    """Have a stack's server serve a file to another's client, both confined; return a line, and whether it arrived."""
    with tempfile.TemporaryDirectory(prefix="perigee-quic-") as name:
        folder = Path(name)
        root, out = folder / "root", folder / "out"
        root.mkdir()
        out.mkdir()
        content = secrets.token_bytes(BYTES)
        (root / NAME).write_bytes(content)
        made = Certificate.make(folder)
        at: dict[str, Any] = {"address": "127.0.0.1", "port": PORT}
        serving, fetching = Settings(control, window), Settings(control if peer == stack else None, window)
        serve = server_command(
            stack, there[stack.name], certificate=made.certificate, key=made.key, root=root, settings=serving, **at
        )
        fetch = client_command(
            peer, there[peer.name], path=NAME, certificate=made.authority, out=out, settings=fetching, **at
        )
        readable = [there[stack.name], there[peer.name], folder]
        with (folder / "server").open("wb") as said:
            server = subprocess.Popen(confined(serve, readable=readable, writable=[]), stdout=said, stderr=said)
        try:
            listens(server)
            begun = time.monotonic()
            words = confined(fetch, readable=readable, writable=[out])
            try:
                client = subprocess.run(words, capture_output=True, timeout=LONGEST_S)
                ended, said_last = client.returncode, client.stderr[-300:]
            except subprocess.TimeoutExpired:
                ended, said_last = None, b""
            took_s = time.monotonic() - begun
        finally:
            server.kill()
            server.wait()
        arrived = out / NAME
        is_whole = ended == 0 and arrived.is_file() and arrived.read_bytes() == content
        windows = "its own" if window is None else f"{window:,} B"
        result = f"{took_s:.2f}"
        if not is_whole:
            result = f"failed ({ended}): {said_last!r}; the server: {(folder / 'server').read_bytes()[-300:]!r}"
        return f"| {stack.name} | {control} | {windows} | {peer.name} | {result} |", is_whole


def listens(server: subprocess.Popen[bytes]) -> None:
    """Wait until the server has its socket, which /proc/net/udp of the namespace has as `0100007F:PORT`."""
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until and server.poll() is None:
        sockets = Path("/proc/self/net/udp").read_text() + Path("/proc/self/net/udp6").read_text()
        if f":{PORT:04X} " in sockets:
            return
        time.sleep(0.02)


if __name__ == "__main__":
    main()

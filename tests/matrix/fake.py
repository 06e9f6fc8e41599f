# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A stack for tests: `serve` sends files over TCP, `fetch` gets one. Its controls are `fast`, `slow`, and `broken`."""

import socket
import sys
import time
from pathlib import Path


def serve(address: str, port: str, root: str, control: str) -> None:
    with socket.create_server((address, int(port))) as server:
        connection, _ = server.accept()
        name = connection.makefile().readline().strip()
        if control == "broken":
            sys.exit("broken on purpose")
        content = (Path(root) / name).read_bytes()
        for first in range(0, len(content), 20_000):
            connection.sendall(content[first : first + 20_000])
            time.sleep(0.1 if control == "slow" else 0)
        connection.close()
        time.sleep(60)


def fetch(url: str, out: str) -> None:
    host, _, name = url.removeprefix("https://").partition("/")
    address, _, port = host.partition(":")
    with socket.create_connection((address, int(port))) as connection:
        connection.sendall(f"{name}\n".encode())
        content = b"".join(iter(lambda: connection.recv(65536), b""))
    (Path(out) / name).write_bytes(content)


if __name__ == "__main__":
    _, side, *words = sys.argv
    serve(*words) if side == "serve" else fetch(*words)

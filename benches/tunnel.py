#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Ways to join two proxies over a lossy satellite link: TCP for each connection, one TCP for all, or QUIC. As root.

    benches/tunnel.py [--loss PERCENT] [--limit SECONDS] [VARIANT ...]

A network namespace of its own holds the server and the gateway. Behind `perigee exec --link geo` with 20 Mbit/s are the
client and the terminal. Eight downloads of 500 kB begin together; then an echo of 64 bytes goes back and forth beside a
transfer that never ends. See README.md beside this file. Needs Perigee in .venv (`make setup`), perigee-pep in
target/release (`cargo build --release -p perigee-pep`), and openssl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PERIGEE = ROOT / ".venv/bin/perigee"
PEP = ROOT / "target/release/perigee-pep"

FAR = "100.64.0.1"
SERVER, GATEWAY, TERMINAL, TUNNEL = 9000, 7001, 7000, 4433
DOWNLOADS, SIZE = 8, 500_000
ECHOES = 20
BULK = 1 << 40
ONE = "one TCP for all"
"""All downloads as one: what streams inside of a TLS connection share."""

VARIANTS = {
    "direct cubic": ("direct", "cubic"),
    "direct bbr": ("direct", "bbr"),
    "a TCP each, cubic": ("split", "cubic"),
    "a TCP each, bbr": ("split", "bbr"),
    f"{ONE}, cubic": ("split", "cubic"),
    f"{ONE}, bbr": ("split", "bbr"),
    "tunnel, cubic": ("tunnel", "cubic"),
    "tunnel, bbr": ("tunnel", "bbr"),
    "tunnel, fixed": ("tunnel", "fixed"),
}
"""How the two ends are joined, and the congestion control of what crosses the link."""


def serve(cc: str) -> None:
    """Answer `bytes to send`, or echo what comes if that is zero."""

    def answer(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(OSError):
            (size,) = struct.unpack("!Q", receive(connection, 8))
            block = bytes(65536)
            while size:
                size -= connection.send(block[: min(size, len(block))])
                if not size:
                    return
            while data := connection.recv(64):
                connection.sendall(data)

    with socket.create_server(("", SERVER), backlog=64) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        print("ready", flush=True)
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


def receive(connection: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the stream ended early")
        data += more
    return data


def ask(address: tuple[str, int], size: int, limit_s: float) -> socket.socket:
    """A connection that was asked for `size` bytes."""
    connection = socket.create_connection(address, timeout=limit_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(struct.pack("!Q", size))
    return connection


def measure(address: tuple[str, int], downloads: int, size: int, limit_s: float) -> dict[str, object]:
    """Times of downloads that begin together, and of echoes beside a transfer, s. `None`: not within the limit."""
    # A first connection, so that what is joined once has been joined.
    with ask(address, 1, limit_s) as first:
        receive(first, 1)
    times: list[float | None] = [None] * downloads

    def download(index: int) -> None:
        began = time.monotonic()
        with contextlib.suppress(OSError), ask(address, size, limit_s) as connection:
            left = size
            while left and time.monotonic() - began < limit_s:
                left -= len(connection.recv(min(left, 65536)))
            times[index] = None if left else time.monotonic() - began

    threads = [threading.Thread(target=download, args=(index,)) for index in range(downloads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    echoes: list[float] = []
    if downloads == 1:
        # Beside itself there is nothing.
        return {"downloads_s": times, "echoes_s": echoes}
    stop = threading.Event()

    def fill() -> None:
        with contextlib.suppress(OSError), ask(address, BULK, limit_s) as connection:
            while not stop.is_set():
                connection.recv(65536)

    beside = threading.Thread(target=fill, daemon=True)
    beside.start()
    time.sleep(5)
    with contextlib.suppress(OSError), ask(address, 0, limit_s) as connection:
        for _ in range(ECHOES):
            began = time.monotonic()
            connection.sendall(bytes(64))
            receive(connection, 64)
            echoes.append(time.monotonic() - began)
    stop.set()
    return {"downloads_s": times, "echoes_s": echoes}


def write_boxes(folder: Path, kind: str, cc: str) -> None:
    """The configurations of the two boxes."""
    near = f'[[forward]]\nlisten = "127.0.0.1:{TERMINAL}"\n'
    allow = '[allow]\nlocal = true\nsources = ["0.0.0.0/0"]\ndestinations = ["127.0.0.0/8", "100.64.0.0/10"]\n'
    if kind == "tunnel":
        path = f'bandwidth = "20 Mbit/s"\nround_trip = "600 ms"\ncongestion = "{cc}"\n'
        for name, other, end in (("terminal", "gateway", "gateway"), ("gateway", "terminal", "listen")):
            run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")  # fmt: skip
            tunnel = (
                f'[tunnel]\n{end} = "{FAR}:{TUNNEL}"\nkey = "{folder}/{name}.key"\n'
                f'certificate = "{folder}/{name}.pem"\npeers = "{folder}/{other}.pem"\n{path}'
            )
            rule = '[legs.local]\n[[rules]]\nname = "far"\nclient = "local"\nthrough = "tunnel"\n'
            more = f'{near}target = "{FAR}:{SERVER}"\n{rule}' if name == "terminal" else ""
            (folder / f"{name}.toml").write_text(f"{allow}{more}{tunnel}")
    else:
        legs = f'[legs.far]\ncongestion = "{cc}"\n[legs.local]\n[[rules]]\nname = "all"\n'
        terminal = f'{near}target = "{FAR}:{GATEWAY}"\n{legs}client = "local"\nserver = "far"\n'
        forward = f'[[forward]]\nlisten = "{FAR}:{GATEWAY}"\ntarget = "127.0.0.1:{SERVER}"\n'
        gateway = f'{forward}{legs}client = "far"\nserver = "local"\n'
        (folder / "terminal.toml").write_text(allow + terminal)
        (folder / "gateway.toml").write_text(allow + gateway)


def run(*command: str) -> None:
    """Execute a command that has to succeed."""
    subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def process(*command: str, until: str) -> Iterator[None]:
    """A process while the block runs, once it has printed `until`."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        try:
            if not any(until in line for line in child.stdout or ()):
                sys.exit(f"{command[0]} did not start")
            threading.Thread(target=lambda: [None for _ in child.stdout or ()], daemon=True).start()
            yield
        finally:
            child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(5)
            child.kill()


def behind(name: str, folder: Path, limit_s: float) -> None:
    """The client's end of the link: print what was measured."""
    kind = VARIANTS[name][0]
    downloads, size = (1, DOWNLOADS * SIZE) if name.startswith(ONE) else (DOWNLOADS, SIZE)
    with contextlib.ExitStack() as stack:
        address = (FAR, SERVER)
        if kind != "direct":
            # The gateway is at the link's far end, whose address is there only now.
            namespace = f"--net=/proc/{os.environ['BENCH_PID']}/ns/net"
            far = ("nsenter", namespace, str(PEP), "run", f"{folder}/gateway.toml")
            stack.enter_context(process(*far, until="ready"))
            near = (str(PEP), "run", f"{folder}/terminal.toml")
            stack.enter_context(process(*near, until="tunnel up" if kind == "tunnel" else "ready"))
            address = ("127.0.0.1", TERMINAL)
        print(json.dumps(measure(address, downloads, size, limit_s)))


def outside(name: str, loss: float, limit_s: float) -> dict[str, list[float]]:
    """Measure a variant."""
    kind, cc = VARIANTS[name]
    with tempfile.TemporaryDirectory() as written:
        if kind != "direct":
            write_boxes(Path(written), kind, cc)
        link = ["--link", "geo", "--set", "link.rate=20 Mbit/s", "--set", f"link.loss={loss:g} %",
                "--set", "link.queue=1.5 MB", "--quiet", "--drain", "0 s"]  # fmt: skip
        inner = [sys.executable, __file__, "--behind", name, "--folder", written, "--limit", f"{limit_s:g}"]
        environment = {**os.environ, "BENCH_PID": str(os.getpid())}
        server = (sys.executable, __file__, "--serve", "cubic" if kind == "tunnel" else cc)
        with process(*server, until="ready"):
            done = subprocess.run(
                [PERIGEE, "exec", *link, "--", *inner], env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
    measured: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    """Measure the variants, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"of: {', '.join(VARIANTS)}; default: all")
    parser.add_argument("--loss", type=float, default=1.0, help="lost packets in each direction, percent (1)")
    parser.add_argument("--limit", type=float, default=120.0, help="longest time of a download, s (120)")
    for hidden in ("--serve", "--behind", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
    if given.behind:
        behind(given.behind, Path(given.folder), given.limit)
        return
    if unknown := [name for name in given.variants if name not in VARIANTS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
    if os.geteuid() != 0:
        parser.error("network namespaces need root")
    if "BENCH_INSIDE" not in os.environ:
        # Its own namespace: nothing of this host's network is touched.
        command = ["unshare", "--net", sys.executable, __file__, *sys.argv[1:]]
        sys.exit(subprocess.run(command, env={**os.environ, "BENCH_INSIDE": "1"}, check=False).returncode)
    run("ip", "link", "set", "lo", "up")
    print(f"| {given.loss:g} % lost | first, s | last, s | echo p50, s | echo most, s |\n|---|---|---|---|---|")
    for name in given.variants or VARIANTS:
        measured = outside(name, given.loss, given.limit)
        times = [f"{time:.1f}" if time else f"over {given.limit:g}" for time in measured["downloads_s"]]
        if None not in measured["downloads_s"]:
            times.sort(key=float)
        first, last = times[0], times[-1]
        echoes = sorted(measured["echoes_s"])
        echo = f"{statistics.median(echoes):.2f} | {echoes[-1]:.2f}" if echoes else "- | -"
        print(f"| {name} | {first} | {last} | {echo} |", flush=True)


if __name__ == "__main__":
    main()

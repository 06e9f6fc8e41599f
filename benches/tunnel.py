#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Ways to join two proxies over a lossy satellite link: TCP for each connection, one TCP for all, or QUIC. As root.

    benches/tunnel.py [--loss PERCENT] [--limit SECONDS] [VARIANT ...]
    benches/tunnel.py --grid | --far [--limit SECONDS]

A network namespace of its own holds the server and the gateway. Behind `perigee exec --link geo` with 20 Mbit/s are the
client and the terminal. Eight downloads of 500 kB begin together; then an echo of 64 bytes goes back and forth beside a
transfer that never ends. `--grid` and `--far` are single downloads through the tunnel instead: over 600 ms, where they
lose what overflows the queue, and over 100 Mbit/s and 2 s. See README.md beside this file. Needs Perigee in .venv
(`make setup`), openssl, and `cargo build --release -p perigee-pep`, or the path of that program in PERIGEE_PEP.
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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PERIGEE = ROOT / ".venv/bin/perigee"
PEP = Path(os.environ.get("PERIGEE_PEP", ROOT / "target/release/perigee-pep"))

SERVED = "100.64.0.1"
SERVER, GATEWAY, TERMINAL, TUNNEL = 9000, 7001, 7000, 4433
DOWNLOADS, SIZE = 8, 500_000
ECHOES = 20
BULK = 1 << 40
ONE = "one TCP for all"
"""All downloads as one: what streams inside of a TLS connection share."""


@dataclass(frozen=True)
class Link:
    """The satellite link between the boxes."""

    mbit: int = 20
    round_trip_ms: int = 600
    loss_percent: float = 0
    queue_products: float = 1
    """The queue, bandwidth-delay products."""

    def product(self) -> int:
        """The bandwidth-delay product, bytes."""
        return self.mbit * self.round_trip_ms * 125

    def settings(self) -> list[str]:
        """The link as settings of `perigee exec`."""
        values = {
            "rate": f"{self.mbit} Mbit/s",
            "delay": f"{self.round_trip_ms / 2:g} ms",
            "loss": f"{self.loss_percent:g} %",
            "queue": f"{self.product() * self.queue_products:.0f} B",
        }
        return [word for key, value in values.items() for word in ("--set", f"link.{key}={value}")]


@dataclass(frozen=True)
class Cell:
    """One download through the tunnel."""

    cc: str
    link: Link
    seconds: int
    """How long it takes at the rate of the link."""


GRID = [
    Cell(cc, Link(mbit=mbit, queue_products=queue), 10)
    for mbit, queue, cc in product((20, 50, 100), (0.5, 1), ("reno", "cubic", "bbr"))
]
FAR = [Cell(cc, Link(mbit=100, round_trip_ms=2000), 30) for cc in ("fixed", "cubic")]

VARIANTS = {
    "direct cubic": ("direct", "cubic"),
    "direct bbr": ("direct", "bbr"),
    "a TCP each, cubic": ("split", "cubic"),
    "a TCP each, bbr": ("split", "bbr"),
    f"{ONE}, cubic": ("split", "cubic"),
    f"{ONE}, bbr": ("split", "bbr"),
    "tunnel, cubic": ("tunnel", "cubic"),
    "tunnel, bbr": ("tunnel", "bbr"),
    "tunnel, hybla": ("tunnel", "hybla"),
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


def fetch(address: tuple[str, int], size: int, limit_s: float) -> dict[str, object]:
    """Times of the first byte and of the last one of a download, s. `None`: not within the limit, or never."""
    with ask(address, 1, limit_s) as first:
        receive(first, 1)
    began, first_s, left = time.monotonic(), None, size
    with contextlib.suppress(OSError), ask(address, size, limit_s) as connection:
        while left and time.monotonic() - began < limit_s and (data := connection.recv(1 << 18)):
            first_s = first_s or time.monotonic() - began
            left -= len(data)
    return {"first_s": first_s, "last_s": None if left else time.monotonic() - began}


def write_boxes(folder: Path, kind: str, cc: str, link: Link) -> None:
    """The configurations of the two boxes."""
    near = f'[[forward]]\nlisten = "127.0.0.1:{TERMINAL}"\n'
    allow = '[allow]\nlocal = true\nsources = ["0.0.0.0/0"]\ndestinations = ["127.0.0.0/8", "100.64.0.0/10"]\n'
    if kind == "tunnel":
        path = f'bandwidth = "{link.mbit} Mbit/s"\nround_trip = "{link.round_trip_ms} ms"\ncc = "{cc}"\n'
        for name, other, end in (("terminal", "gateway", "gateway"), ("gateway", "terminal", "listen")):
            run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")  # fmt: skip
            tunnel = (
                f'[tunnel]\n{end} = "{SERVED}:{TUNNEL}"\nkey = "{folder}/{name}.key"\n'
                f'certificate = "{folder}/{name}.pem"\npeers = "{folder}/{other}.pem"\n{path}'
            )
            rule = '[legs.local]\n[[rules]]\nname = "far"\nclient = "local"\nthrough = "tunnel"\n'
            more = f'{near}target = "{SERVED}:{SERVER}"\n{rule}' if name == "terminal" else ""
            (folder / f"{name}.toml").write_text(f"{allow}{more}{tunnel}")
    else:
        legs = f'[legs.far]\ncongestion = "{cc}"\n[legs.local]\n[[rules]]\nname = "all"\n'
        terminal = f'{near}target = "{SERVED}:{GATEWAY}"\n{legs}client = "local"\nserver = "far"\n'
        forward = f'[[forward]]\nlisten = "{SERVED}:{GATEWAY}"\ntarget = "127.0.0.1:{SERVER}"\n'
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


def behind(kind: str, folder: Path, work: str, limit_s: float) -> None:
    """The client's end of the link: print what was measured. `work`: how many downloads of how many bytes."""
    downloads, size = map(int, work.split("x"))
    with contextlib.ExitStack() as stack:
        address = (SERVED, SERVER)
        if kind != "direct":
            # The gateway is at the link's far end, whose address is there only now.
            namespace = f"--net=/proc/{os.environ['BENCH_PID']}/ns/net"
            far = ("nsenter", namespace, str(PEP), "run", f"{folder}/gateway.toml")
            stack.enter_context(process(*far, until="ready"))
            near = (str(PEP), "run", f"{folder}/terminal.toml")
            stack.enter_context(process(*near, until="tunnel up" if kind == "tunnel" else "ready"))
            address = ("127.0.0.1", TERMINAL)
        print(json.dumps(measure(address, downloads, size, limit_s) if downloads else fetch(address, size, limit_s)))


def outside(kind: str, cc: str, link: Link, work: tuple[int, int], limit_s: float) -> dict[str, Any]:
    """Measure something over a link."""
    with tempfile.TemporaryDirectory() as written:
        if kind != "direct":
            write_boxes(Path(written), kind, cc, link)
        inner = [sys.executable, __file__, "--behind", kind, "--folder", written, "--limit", f"{limit_s:g}",
                 "--work", "{}x{}".format(*work)]  # fmt: skip
        environment = {**os.environ, "BENCH_PID": str(os.getpid())}
        server = (sys.executable, __file__, "--serve", "cubic" if kind == "tunnel" else cc)
        emulated = [str(PERIGEE), "exec", "--link", "geo", *link.settings(), "--quiet", "--drain", "0 s", "--", *inner]
        with process(*server, until="ready"):
            done = subprocess.run(emulated, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def compare(variants: list[str], loss: float, limit_s: float) -> None:
    """Measure variants, and print a table."""
    print(f"| {loss:g} % lost | first, s | last, s | echo p50, s | echo most, s |\n|---|---|---|---|---|")
    for name in variants:
        kind, cc = VARIANTS[name]
        work = (1, DOWNLOADS * SIZE) if name.startswith(ONE) else (DOWNLOADS, SIZE)
        measured = outside(kind, cc, Link(loss_percent=loss), work, limit_s)
        times = [f"{time:.1f}" if time else f"over {limit_s:g}" for time in measured["downloads_s"]]
        if None not in measured["downloads_s"]:
            times.sort(key=float)
        first, last = times[0], times[-1]
        echoes = sorted(measured["echoes_s"])
        echo = f"{statistics.median(echoes):.2f} | {echoes[-1]:.2f}" if echoes else "- | -"
        print(f"| {name} | {first} | {last} | {echo} |", flush=True)


def download(cells: list[Cell], limit_s: float) -> None:
    """Measure downloads through the tunnel, and print a table."""
    print("| link | queue, BDP | cc | size, MB | first byte, s | all, s | Mbit/s after the first byte |")
    print("|---|---|---|---|---|---|---|")
    for cell in cells:
        link, size = cell.link, cell.seconds * cell.link.mbit * 125_000
        measured = outside("tunnel", cell.cc, link, (0, size), limit_s)
        first_s, last_s = measured["first_s"], measured["last_s"]
        took = f"{last_s:.1f} | {size / (last_s - first_s) / 125_000:.1f}" if last_s else "not complete | -"
        where = f"{link.mbit} Mbit/s x {link.round_trip_ms} ms"
        print(
            f"| {where} | {link.queue_products:g} | {cell.cc} | {size / 1e6:g} | {first_s or 0:.2f} | {took} |",
            flush=True,
        )


def begin(parser: argparse.ArgumentParser, asked: Sequence[str], known: Collection[str]) -> None:
    """Go on in a network namespace of its own, so that nothing of this host's network is touched."""
    if unknown := [name for name in asked if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    if os.geteuid() != 0:
        parser.error("network namespaces need root")
    if "BENCH_INSIDE" not in os.environ:
        command = ["unshare", "--net", sys.executable, *sys.argv]
        os.execvpe(command[0], command, {**os.environ, "BENCH_INSIDE": "1"})  # noqa: S606
    run("ip", "link", "set", "lo", "up")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"of: {', '.join(VARIANTS)}; default: all")
    parser.add_argument("--loss", type=float, default=1.0, help="lost packets in each direction, percent (1)")
    parser.add_argument("--limit", type=float, default=120.0, help="longest time of a download, s (120)")
    parser.add_argument("--grid", action="store_true", help="18 downloads through the tunnel, over 600 ms")
    parser.add_argument("--far", action="store_true", help="downloads through the tunnel over 100 Mbit/s and 2 s")
    for hidden in ("--serve", "--behind", "--folder", "--work"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
    if given.behind:
        behind(given.behind, Path(given.folder), given.work, given.limit)
        return
    begin(parser, given.variants, VARIANTS)
    if given.grid or given.far:
        download([*(GRID if given.grid else ()), *(FAR if given.far else ())], given.limit)
    else:
        compare(given.variants or list(VARIANTS), given.loss, given.limit)


if __name__ == "__main__":
    main()

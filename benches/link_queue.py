#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Pages beside four transfers of other subscribers over a geostationary link, without and with `[link]`. As root.

    benches/link_queue.py [--pages N] [--seconds S] [VARIANT ...]

A network namespace of its own holds the servers and `perigee-pep` as the gateway, which sends onto
`perigee exec --link geo` with 20 and 2 Mbit/s. Behind it are clients with addresses of their own. A page is
12 objects, of 600 kB in all, over six connections. Variants: `idle`, `beside` (downloads) and `uploads`, which the
proxy receives from the link beside ten more clients that send 200 bytes each tenth of a second, each `without` and
`with` `[link]`, and `halves`: how long the proxy sends too much after its rate was halved. See README.md beside this
file. Needs Perigee in .venv (`make setup`) and target/local/perigee-pep (`cargo build --profile local -p perigee-pep`),
or another one in PERIGEE_PEP.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tunnel import BULK, PERIGEE, ROOT, begin, process, receive, run

PEP = Path(os.environ.get("PERIGEE_PEP", ROOT / "target/local/perigee-pep"))
FAR, NEAR, SERVER, GATEWAY = "100.64.0.1", "100.64.0.2", 9000, 7000
CLIENTS = [f"100.65.0.{number}" for number in range(1, 16)]
READER, TRANSFERS, TALKERS = CLIENTS[0], CLIENTS[1:5], CLIENTS[5:]
WORD, PAUSE_S = 200, 0.1
"""Bytes that each talker sends beside uploads, and how long after the last."""
OBJECTS, CONNECTIONS = [100_000, 20_000, 30_000] * 4, 6
UPLOAD = 0
"""Asked for in place of a number of bytes: the server reads for ever."""
GUARD = ("setpriv", "--pdeathsig", "KILL")
"""Ends a process with the one that has started it, which may have been killed."""
VARIANTS = (
    *(f"{load} {link}" for link in ("without", "with") for load in ("idle", "beside", "uploads")),
    "halves",
)
BYTES_ACKED = 120
"""Place of `tcpi_bytes_acked` in `struct tcp_info` (linux/tcp.h)."""


def serve() -> None:
    """Answer each number of bytes that is asked for, one after the other on a connection."""

    def answer(connection: socket.socket) -> None:
        block = bytes(65536)
        with connection, contextlib.suppress(OSError, ConnectionError):
            while True:
                (left,) = struct.unpack("!Q", receive(connection, 8))
                while left == UPLOAD and connection.recv(1 << 16):
                    pass
                while left:
                    left -= connection.send(block[: min(left, len(block))])

    with socket.create_server(("", SERVER), backlog=64) as server:
        print("ready", flush=True)
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


def connect(client: str) -> socket.socket:
    """A connection of a client through the gateway."""
    connection = socket.create_connection((FAR, GATEWAY), timeout=300, source_address=(client, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Transfer(threading.Thread):
    """A download or an upload without end."""

    def __init__(self, client: str, size: int) -> None:
        super().__init__(daemon=True)
        self.connection, self.size, self.received = connect(client), size, 0
        self.start()

    def run(self) -> None:
        """Receive or send for ever."""
        self.connection.sendall(struct.pack("!Q", self.size))
        while self.size == UPLOAD:
            self.connection.sendall(bytes(1 << 16))
        while data := self.connection.recv(1 << 16):
            self.received += len(data)

    def moved(self) -> int:
        """Bytes so far that have crossed the link."""
        if self.size != UPLOAD:
            return self.received
        info = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED + 8)
        (acked,) = struct.unpack_from("Q", info, BYTES_ACKED)
        return int(acked)


def talk(client: str) -> None:
    """Send a few bytes now and then, for ever."""
    with connect(client) as connection:
        connection.sendall(struct.pack("!Q", UPLOAD))
        while True:
            connection.sendall(bytes(WORD))
            time.sleep(PAUSE_S)


def load_page(client: str) -> float:
    """Seconds of a page: its connections take one object after the other."""
    objects, lock = list(OBJECTS), threading.Lock()

    def fetch() -> None:
        with connect(client) as connection:
            while True:
                with lock:
                    if not objects:
                        return
                    size = objects.pop()
                connection.sendall(struct.pack("!Q", size))
                left = size
                while left:
                    left -= len(connection.recv(min(left, 1 << 16)))

    began = time.monotonic()
    threads = [threading.Thread(target=fetch) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


def behind(variant: str, pages: int, seconds: float) -> dict[str, object]:
    """Measure at the clients' end of the link."""
    for client in CLIENTS:
        run("ip", "address", "add", f"{client}/32", "dev", "lo")
    outside = f"--net=/proc/{os.environ['BENCH_PID']}/ns/net"
    far = ("nsenter", outside)
    # The far end of the link has its address and its device only now.
    route = subprocess.run(
        [*far, "ip", "route", "get", NEAR], check=True, capture_output=True, text=True
    ).stdout.split()
    device = route[route.index("dev") + 1]
    run(*far, "ip", "route", "add", "100.65.0.0/24", "dev", device)
    Path(os.environ["BENCH_CONFIG"]).write_text(config(variant, device))
    with process(*far, *GUARD, str(PEP), "run", os.environ["BENCH_CONFIG"], until="ready"):
        size = UPLOAD if variant.startswith("uploads") else BULK
        others = [] if variant.startswith("idle") else [Transfer(client, size) for client in TRANSFERS]
        if size == UPLOAD:
            for client in TALKERS:
                threading.Thread(target=talk, args=(client,), daemon=True).start()
                time.sleep(PAUSE_S / len(TALKERS))
        if others:
            time.sleep(15)
        before, began = [transfer.moved() for transfer in others], time.monotonic()
        if variant == "halves":
            return halve(others)
        times = []
        for _ in range(pages):
            times.append(load_page(READER))
            # The next page is read first.
            time.sleep(2)
        shared = time.monotonic() - began
        moved = [transfer.moved() - start for transfer, start in zip(others, before, strict=True)]
        alone: list[int] = []
        if others:
            start = [transfer.moved() for transfer in others]
            time.sleep(seconds)
            alone = [transfer.moved() - first for transfer, first in zip(others, start, strict=True)]
        return {"pages_s": times, "beside_bytes": moved, "beside_s": shared, "alone_bytes": alone, "alone_s": seconds}


def halve(downloads: list[Transfer]) -> dict[str, object]:
    """Have the modem say half of its rate, and see when no more than that comes."""
    rate = Path(os.environ["BENCH_CONFIG"]).with_name("rate")
    rate.write_text("10 Mbit/s, 2 Mbit/s")
    told, rates, last = time.monotonic(), [], sum(download.moved() for download in downloads)
    for step in range(1, 41):
        time.sleep(max(0.0, told + step / 10 - time.monotonic()))
        received = sum(download.moved() for download in downloads)
        rates.append((received - last) * 80 / 1e6)
        last = received
    return {"rates_mbps": rates}


def modem(rate: Path) -> None:
    """Answer each GET with the rates in a file."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = rate.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002
            pass

    with HTTPServer(("127.0.0.1", 8999), Handler) as server:
        print("ready", flush=True)
        server.serve_forever()


def config(variant: str, device: str) -> str:
    """The gateway's configuration."""
    text = (
        '[allow]\nlocal = true\nsources = ["100.64.0.0/10"]\ndestinations = ["127.0.0.0/8"]\n'
        f'[[forward]]\nlisten = "{FAR}:{GATEWAY}"\ntarget = "127.0.0.1:{SERVER}"\n'
        '[legs.sky]\ncongestion = "cubic"\n[legs.town]\n'
        '[[rules]]\nname = "all"\nclient = "sky"\nserver = "town"\n[service]\nworkers = 2\n'
        # With another user it would outlive a bench that is killed.
        "confine = false\n"
    )
    if not variant.endswith("without"):
        text += f'[link]\nleg = "sky"\ninterface = "{device}"\nmodem = "http://127.0.0.1:8999/"\nevery = "50 ms"\n'
    return text


def outside(variant: str, pages: int, seconds: float) -> dict[str, object]:
    """Measure a variant, from the side of the servers."""
    with tempfile.TemporaryDirectory() as written:
        rate = Path(written, "rate")
        rate.write_text("20 Mbit/s, 2 Mbit/s")
        link = ["--link", "geo", "--set", "down.rate=20 Mbit/s", "--set", "up.rate=2 Mbit/s",
                "--set", "down.queue=1.5 MB", "--set", "up.queue=150 kB", "--quiet", "--drain", "0 s"]  # fmt: skip
        inner = [sys.executable, __file__, "--behind", variant, "--pages", str(pages), "--seconds", str(seconds)]
        environment = {**os.environ, "BENCH_PID": str(os.getpid()), "BENCH_CONFIG": f"{written}/pep.toml"}
        server = process(*GUARD, sys.executable, __file__, "--serve", until="ready")
        asked = process(*GUARD, sys.executable, __file__, "--modem", str(rate), until="ready")
        with server, asked:
            done = subprocess.run(
                [*GUARD, PERIGEE, "exec", *link, "--", *inner],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
    measured: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    """Measure the variants, and print what they show."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"of: {', '.join(VARIANTS)}; default: all")
    parser.add_argument("--pages", type=int, default=40, help="pages, one after the other (40)")
    parser.add_argument("--seconds", type=float, default=30.0, help="time of the others without pages, s (30)")
    for hidden in ("--behind", "--modem"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    if given.modem:
        modem(Path(given.modem))
    if given.behind:
        print(json.dumps(behind(given.behind, given.pages, given.seconds)))
        return
    begin(parser, given.variants, VARIANTS)
    for variant in given.variants or VARIANTS:
        show(variant, outside(variant, given.pages, given.seconds))


def show(variant: str, measured: dict[str, object]) -> None:
    """Print what a variant shows."""
    if isinstance(rates := measured.get("rates_mbps"), list):
        print(
            f"{variant}: Mbit/s in each 0.1 s after 10 Mbit/s was said: {' '.join(f'{rate:.1f}' for rate in rates)}",
            flush=True,
        )
        return
    times = sorted(measured["pages_s"])  # type: ignore[call-overload]
    p95 = statistics.quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
    line = (
        f"{variant}: page median {statistics.median(times):.2f} s, 95th percentile {p95:.2f} s, most {times[-1]:.2f} s"
    )
    moved = measured["alone_bytes"]
    if isinstance(moved, list) and moved:
        total = sum(moved)
        jain = total**2 / (len(moved) * sum(one**2 for one in moved))
        # Payload of 1448 bytes in packets of 1500.
        mbps = 2 if variant.startswith("uploads") else 20
        used = total * 8e-6 * 1500 / 1448 / float(measured["alone_s"]) / mbps  # type: ignore[arg-type]
        line += f"; the others alone: {100 * used:.1f} % of {mbps} Mbit/s, Jain's index {jain:.4f}"
    print(line, flush=True)


if __name__ == "__main__":
    main()

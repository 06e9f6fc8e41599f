#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Linux's TCP on the short leg in front of a proxy, beside the simulator's prediction in liu-2022, as root.

    benches/short_leg.py [--rounds N] [--seconds S]

Two network namespaces with a cable (veth) between them, 1 Gbit/s (tbf), packets of 1500 bytes, and the hosts' buffers
and PCC's coefficients of the study liu-2022. The reader reads at once, or as the study's proxy does: it holds up to
22 MB, which leave at 120 Mbit/s, and reads again once a third is free. See README.md beside this file.
Needs Perigee in .venv (`make setup`) and nothing beyond Python's own library.
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
import time
from collections.abc import Iterator

from kernel import ADDRESS, BLOCK, PERIGEE, PORT, RECEIVER, SENDER, path, run
from shown import table

BUFFER_BYTES = 22_000_000
DRAIN_BYTES_S = 15_000_000
PCC = "leg_vivace"
COEFFICIENTS = ("exponent=1", "latency=2", "loss=10", "start_gain=1.5")
ALGORITHMS = {"cubic": "cubic", "bbr": "bbr", PCC: "vivace"}
"""The algorithm that a socket requests, and its name in the table."""

READERS = {"at-once": "reads at once", "proxy": "holds 22 MB, passes on 120 Mbit/s"}

BUFFERS = ("net.ipv4.tcp_rmem=4096 87380 60000000", "net.ipv4.tcp_wmem=4096 16384 60000000")

ACKED_AT, LIMITED_AT = 120, 176
"""Where `struct tcp_info` has the bytes acknowledged, and the microseconds that the receiver's window was the limit."""


def read(kind: str) -> None:
    """Take one connection after the other, and read it at once or as a proxy."""
    with socket.create_server(("", PORT)) as server:
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                drain(connection, kind == "proxy")


def drain(connection: socket.socket, is_proxy: bool) -> None:
    """Read until the end of the stream; as a proxy, what has room among that which has not been passed on yet."""
    block = bytearray(BLOCK)
    held, is_full, last = 0.0, False, time.monotonic()
    while True:
        now = time.monotonic()
        held, last = max(0.0, held - DRAIN_BYTES_S * (now - last)), now
        room = BUFFER_BYTES - held
        if is_proxy and (room < 1 or (is_full and room < BUFFER_BYTES / 3)):
            is_full = True
            time.sleep(0.001)
            continue
        is_full = False
        length = connection.recv_into(block, int(min(room, BLOCK)) if is_proxy else BLOCK)
        if not length:
            return
        held += length


def send(cc: str, seconds: float) -> None:
    """Send for a time; print the goodput of the second half, and how long the receiver's window was the limit."""
    block = memoryview(bytearray(1 << 18))
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        connection.connect((ADDRESS, PORT))
        connection.settimeout(0.1)
        begin = time.monotonic()
        half: tuple[float, int] | None = None
        while (now := time.monotonic()) < begin + seconds:
            if half is None and now >= begin + seconds / 2:
                half = now, told(connection)[0]
            with contextlib.suppress(TimeoutError):
                connection.send(block)
        acked, limited_us = told(connection)
        start, before = half or (begin, 0)
        mbps = (acked - before) * 8 / (time.monotonic() - start) / 1e6
        print(json.dumps({"mbps": mbps, "limited_s": limited_us / 1e6}))


def told(connection: socket.socket) -> tuple[int, int]:
    """Bytes acknowledged of a connection, and microseconds that the receiver's window was the limit."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("Q", info, ACKED_AT)[0], struct.unpack_from("Q", info, LIMITED_AT)[0]


@contextlib.contextmanager
def leg() -> Iterator[None]:
    """Both namespaces, the cable and PCC in the kernel; gone in the end, whatever happens."""
    settings = [word for coefficient in COEFFICIENTS for word in ("--set", coefficient)]
    with path():
        for namespace, device in ((SENDER, "near"), (RECEIVER, "far")):
            run("ip", "-n", namespace, "link", "set", device, "gso_max_segs", "1")
            run("ip", "netns", "exec", namespace, "sysctl", "-qw", *BUFFERS)
        run(*f"ip netns exec {SENDER} tc qdisc add dev near root tbf rate 1gbit burst 32k limit 40mb".split())
        run(str(PERIGEE), "cc", "load", "vivace", *settings, "--as", PCC)
        try:
            yield
        finally:
            subprocess.run([str(PERIGEE), "cc", "unload", PCC], check=False, capture_output=True)


def measure(cc: str, reader: str, seconds: float) -> tuple[float, float]:
    """A transfer: goodput of its second half, Mbit/s, and share of time that the receiver's window was the limit."""
    script = [sys.executable, __file__]
    prefix = ["ip", "netns", "exec"]
    with subprocess.Popen([*prefix, RECEIVER, *script, "--read", reader], stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or not process.stdout.readline():
                sys.exit("the reader did not start")
            result = json.loads(run(*prefix, SENDER, *script, "--send", cc, "--seconds", str(seconds)))
        finally:
            process.kill()
    return float(result["mbps"]), float(result["limited_s"]) / seconds


def main() -> None:
    """Measure each algorithm with each reader in turn, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--read", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return read(options.read)
    if options.send:
        return send(options.send, options.seconds)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with leg():
        for _ in range(options.rounds):
            for cc in ALGORITHMS:
                for reader in READERS:
                    found.setdefault((cc, reader), []).append(measure(cc, reader, options.seconds))
    system = os.uname()
    print(f"Linux {system.release}, load {os.getloadavg()[0]:.1f}, {options.rounds} rounds of {options.seconds:g} s\n")
    rows = []
    for (cc, reader), results in found.items():
        rates, shares = ([result[column] for result in results] for column in (0, 1))
        figures = (f"{figure:.0f}" for figure in (statistics.median(rates), min(rates), max(rates)))
        rows.append([ALGORITHMS[cc], READERS[reader], *figures, f"{statistics.median(shares):.0%}"])
    table(["algorithm", "reader", "Mbit/s, median", "least", "most", "time limited by the window"], rows, names=2)
    return None


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cost of our congestion controls in the kernel: CPU seconds per gigabyte, beside the kernel's own, as root.

    benches/kernel.py [--rounds N] [--others N] [--seconds S] [--only NAME]...

Two network namespaces with a cable (veth) between them, one connection at full speed, sender and receiver on one core.
In each round the kernel's algorithm and ours take turns, ours first every other time. See README.md beside this file.
Needs Perigee in .venv (`make setup`) and nothing beyond Python's own library.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import math
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from shown import processor, table

ROOT = Path(__file__).resolve().parent.parent
PERIGEE = ROOT / ".venv/bin/perigee"

SENDER, RECEIVER = "perigee-bench-a", "perigee-bench-b"
ADDRESS = "192.0.2.2"
PORT = 5201
BLOCK = 1 << 20
PREFIX = "b_"
"""Ours are loaded under names of their own: none of the kernel's, and none that is loaded already."""

COUNTED = 3
"""Transfers in which the kernel counts the calls of ours."""

PEERS = {"cubic": "cubic", "bbr": "bbr", "bbr3": "bbr"}
"""Ours, and the kernel's of the same kind; all others are compared with the kernel's cubic."""


def used_s() -> float:
    """CPU time of this process, softirqs in its context included, to the nanosecond."""
    return int(Path("/proc/self/schedstat").read_text().split()[0]) / 1e9


def busy_s() -> float:
    """CPU time of the whole machine."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = fields[3:5]
    return (sum(fields) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def programs() -> tuple[int, int]:
    """Nanoseconds and calls of all struct_ops programs in the kernel, as far as it counts them."""
    libc = ctypes.CDLL(None)
    number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    next_id, descriptor_of_id, struct_ops = 11, 13, 27
    attributes = (ctypes.c_uint32 * 32)()
    spent, calls = 0, 0
    while libc.syscall(number, next_id, attributes, ctypes.sizeof(attributes)) == 0:
        program = attributes[1]
        request = (ctypes.c_uint32 * 32)(program)
        descriptor = libc.syscall(number, descriptor_of_id, request, ctypes.sizeof(request))
        if descriptor >= 0:
            lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
            os.close(descriptor)
            info = dict(line.split(":", 1) for line in lines)
            if int(info["prog_type"]) == struct_ops:
                spent += int(info["run_time_ns"])
                calls += int(info["run_cnt"])
        attributes = (ctypes.c_uint32 * 32)(program)
    return spent, calls


@contextlib.contextmanager
def counting() -> Iterator[None]:
    """The kernel counts what BPF programs take, which makes each call a little dearer."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    try:
        switch.write_text("1")
        yield
    finally:
        switch.write_text(before)


def receive() -> None:
    """Take connections one after the other; a line of JSON for each."""
    with socket.create_server(("", PORT)) as server:
        print("ready", flush=True)
        buffer = bytearray(BLOCK)
        while True:
            connection, _ = server.accept()
            with connection:
                before, total = used_s(), 0
                while length := connection.recv_into(buffer):
                    total += length
                print(json.dumps({"bytes": total, "used_s": used_s() - before}), flush=True)


def send(cc: str, seconds: float) -> None:
    """Send for a time, and print its cost."""
    block = memoryview(bytearray(BLOCK))
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        connection.connect((ADDRESS, PORT))
        before, busy, end = used_s(), busy_s(), time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(block)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        print(json.dumps({"used_s": used_s() - before, "busy_s": busy_s() - busy}))


def run(*command: str) -> str:
    """Run a command and return what it printed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def path() -> Iterator[None]:
    """Both namespaces and the cable; gone in the end, whatever happens."""
    try:
        for namespace in (SENDER, RECEIVER):
            run("ip", "netns", "add", namespace)
        run(*f"ip link add name near netns {SENDER} type veth peer name far netns {RECEIVER}".split())
        for namespace, device, address in ((SENDER, "near", "192.0.2.1"), (RECEIVER, "far", ADDRESS)):
            run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", device)
            run("ip", "-n", namespace, "link", "set", device, "up")
        yield
    finally:
        for namespace in (SENDER, RECEIVER):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


def inside(namespace: str, core: int, *arguments: str) -> list[str]:
    """The command that runs this script inside, on this core."""
    return ["ip", "netns", "exec", namespace, "taskset", "-c", str(core), sys.executable, __file__, *arguments]


class Link:
    """The path with its receiver: one transfer after the other."""

    def __init__(self, core: int) -> None:
        self.core = core
        self.receiver = subprocess.Popen(inside(RECEIVER, core, "--receive"), stdout=subprocess.PIPE, text=True)
        self._line()

    def transfer(self, cc: str, seconds: float) -> tuple[float, float, float]:
        """CPU seconds per gigabyte of both processes, of the whole machine, and Gbit/s."""
        sent = json.loads(run(*inside(SENDER, self.core, "--send", cc, "--seconds", str(seconds))))
        received = json.loads(self._line())
        gigabytes = received["bytes"] / 1e9
        used = (sent["used_s"] + received["used_s"]) / gigabytes
        return used, sent["busy_s"] / gigabytes, 8 * gigabytes / seconds

    def counted(self, cc: str, seconds: float) -> tuple[float, float]:
        """Nanoseconds of a call of ours, and what all calls take of the CPU time of both processes."""
        with counting():
            spent, calls = programs()
            sent = json.loads(run(*inside(SENDER, self.core, "--send", cc, "--seconds", str(seconds))))
            received = json.loads(self._line())
            now_spent, now_calls = programs()
        share = (now_spent - spent) / 1e9 / (sent["used_s"] + received["used_s"])
        return (now_spent - spent) / max(now_calls - calls, 1), share

    def close(self) -> None:
        """End the receiver."""
        self.receiver.kill()
        self.receiver.wait()

    def _line(self) -> str:
        if not (self.receiver.stdout and (line := self.receiver.stdout.readline())):
            raise RuntimeError("the receiver ended")
        return line


def interval(values: list[float]) -> str:
    """The 95 % interval of the median, from the order of the values (binomial); it takes six of them."""
    ordered, n = sorted(values), len(values)
    rank, below = 0, 0.5**n
    while below <= 0.025:
        rank += 1
        below += math.comb(n, rank) * 0.5**n
    return f"{ordered[rank - 1]:.3f} to {ordered[n - rank]:.3f}" if rank else "-"


def compare(link: Link, ours: str, theirs: str, rounds: int, seconds: float) -> list[str]:
    """A row: ours against theirs, alternated."""
    used: dict[str, list[float]] = {ours: [], theirs: []}
    busy: dict[str, list[float]] = {ours: [], theirs: []}
    speed: dict[str, list[float]] = {ours: [], theirs: []}
    for number in range(rounds):
        for cc in (ours, theirs) if number % 2 else (theirs, ours):
            seen = link.transfer(cc, seconds)
            for values, value in zip((used, busy, speed), seen, strict=True):
                values[cc].append(value)
    ratios = [a / b for a, b in zip(used[ours], used[theirs], strict=True)]
    whole = [a / b for a, b in zip(busy[ours], busy[theirs], strict=True)]
    counted = [link.counted(ours, seconds) for _ in range(COUNTED)]
    median = statistics.median
    return [
        ours.removeprefix(PREFIX),
        theirs,
        f"{median(speed[ours]):.1f}",
        f"{median(speed[theirs]):.1f}",
        f"{median(used[ours]):.3f}",
        f"{median(used[theirs]):.3f}",
        f"{median(ratios):.3f}",
        interval(ratios),
        f"{median(whole):.3f}",
        f"{median(call for call, _ in counted):.0f}",
        f"{median(share for _, share in counted):.2%}",
    ]


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=21, help="of each comparison with the same algorithm of the kernel"
    )
    parser.add_argument("--others", type=int, default=7, help="rounds of all others")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each transfer")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this algorithm; may be repeated")
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.receive:
        receive()
    if asked.send:
        send(asked.send, asked.seconds)
        return 0
    if os.geteuid() != 0:
        parser.error("loading a congestion control takes root")

    known = sorted(file.stem for file in (ROOT / "algorithms").glob("*.c"))
    chosen = sorted(asked.only or known, key=lambda name: (name not in PEERS, name))
    own = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for name in {PEERS.get(name, "cubic") for name in chosen} - set(own):
        parser.error(f"this kernel has no {name} of its own to compare with; `modprobe tcp_{name}` may bring it")
    # So that nothing is left behind then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    load = os.getloadavg()[0]
    print(f"{processor()}, {os.cpu_count()} cores, Linux {platform.release()}, load {load:.1f}")
    rounds = f"{asked.rounds} rounds of {', '.join(sorted(PEERS))}, {asked.others} of the others"
    print(f"Transfers of {asked.seconds:g} s, {rounds}\n", flush=True)
    loaded: list[str] = []
    rows = []
    try:
        for name in chosen:
            run(str(PERIGEE), "cc", "load", name, "--as", PREFIX + name)
            loaded.append(PREFIX + name)
        with path():
            link = Link(core=(os.cpu_count() or 1) - 1)
            try:
                for name in chosen:
                    count = asked.rounds if name in PEERS else asked.others
                    rows.append(compare(link, PREFIX + name, PEERS.get(name, "cubic"), count, asked.seconds))
            finally:
                link.close()
    finally:
        for name in loaded:
            subprocess.run([str(PERIGEE), "cc", "unload", name, "--force"], check=False, capture_output=True)
    head = ["Perigee's", "the kernel's", "Gbit/s", "Gbit/s of the kernel's", "CPU s/GB", "CPU s/GB of the kernel's"]
    table([*head, "ratio", "95 % interval", "whole machine", "ns per call", "calls, of the CPU time"], rows, names=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())

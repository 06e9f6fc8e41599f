# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A queue that drops from its front, beside Linux's `pfifo_head_drop`: the same packets of the same bursts arrive."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = shlex.quote(sys.executable)
PACKETS = 5
"""Limit of the queue, with the packet in service."""
PACKET_BYTES, ETHERNET_BYTES = 1000, 14
SERVICE_MS = 8.0
BURSTS = ((0, 10), (20, 3), (44, 7), (60, 1), (76, 12), (204, 4), (208, 4))
"""Instants (ms) and packets; but for the first of a busy time, each is half a service away from all departures."""
TRIES = 6

SENDER = f"""
import os, socket, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.connect((sys.argv[1], 5300))
# A device that has just come up sends packets of IPv6's own, which take the bucket's tokens.
time.sleep(2.5)
number, late, start = 0, 0.0, time.monotonic() + 0.05
for at_ms, packets in {BURSTS!r}:
    while time.monotonic() < start + at_ms / 1000:
        pass
    for _ in range(packets):
        link.send(number.to_bytes(4) + bytes({PACKET_BYTES} - 28 - 4))
        number += 1
    late = max(late, time.monotonic() - start - at_ms / 1000)
print("late", late, flush=True)
"""
RECEIVER = """
import socket
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.bind(("", 5300))
open("ready", "w").close()
link.settimeout(60)
numbers = []
try:
    while True:
        numbers.append(int.from_bytes(link.recv(2000)[:4]))
        link.settimeout(1)
except TimeoutError:
    print("arrived", *numbers, flush=True)
"""
KERNEL = """
ip link set lo up
unshare --net sleep 60 & inner=$!
while [ "$(readlink /proc/$inner/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
# Packets of IPv6's own (solicitations, groups) come at times of their own, and take tokens.
inside() { nsenter --net=/proc/$inner/ns/net "$@"; }
without="echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6"
if [ -e /proc/sys/net/ipv6 ]; then sh -c "$without"; inside sh -c "$without"; fi
ip link add outer type veth peer name inner netns $inner
ip addr add 10.9.0.1/24 dev outer && ip link set outer up
inside ip addr add 10.9.0.2/24 dev inner && inside ip link set inner up
inside tc qdisc add dev inner root handle 1: tbf rate RATEbit burst FRAME limit 1000000
QUEUE
inside ping -c 1 -W 5 10.9.0.1 >/dev/null
RECEIVE & receiver=$!
while [ ! -e ready ]; do sleep 0.05; done
sleep 0.3
inside SEND 10.9.0.1
wait $receiver; kill $inner
"""
BEHIND_HTB = f"""
inside tc qdisc add dev inner parent 1:1 handle 2: htb default 1
inside tc class add dev inner parent 2: classid 2:1 htb rate 10gbit quantum 60000
inside tc qdisc add dev inner parent 2:1 handle 3: pfifo_head_drop limit {PACKETS - 1}
"""
"""HTB takes the packet that waits for tbf's tokens out of the queue, so that it counts as in service."""
BEHIND_TBF = f"inside tc qdisc add dev inner parent 1:1 handle 3: pfifo_head_drop limit {PACKETS}"


def expected(head_is_safe: bool) -> list[int]:
    """The packets that arrive at a server with a bucket of one packet, by hand.

    Args:
        head_is_safe: the packet that waits for its tokens is in service; otherwise it is at the head of the queue.
    """
    queue: list[int] = []
    sent: list[int] = []
    tokens_at = -SERVICE_MS
    """When the bucket is full, ms."""
    number = 0
    for at_ms, packets in BURSTS:
        while queue and tokens_at <= at_ms:
            sent.append(queue.pop(0))
            tokens_at += SERVICE_MS
        for _ in range(packets):
            if not queue and tokens_at <= at_ms:
                sent.append(number)
                tokens_at = at_ms + SERVICE_MS
            else:
                if len(queue) == PACKETS:
                    queue.pop(1 if head_is_safe else 0)
                queue.append(number)
            number += 1
    return sent + queue


def arrived(folder: Path, script: str) -> list[int]:
    """Run a script that sends and receives, again where this machine sent a burst late; return the numbers in order."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    (folder / "send.py").write_text(SENDER)
    (folder / "receive.py").write_text(RECEIVER)
    script = script.replace("RECEIVE", f"{PYTHON} receive.py").replace("SEND", f"{PYTHON} send.py")
    for _ in range(TRIES):
        (folder / "ready").unlink(missing_ok=True)
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=100, check=False,  # noqa: S607
            cwd=folder,
        )  # fmt: skip
        if "qdisc kind is unknown" in done.stderr or "Operation not permitted" in done.stderr:
            pytest.skip(done.stderr.strip())
        lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
        assert set(lines) == {"late", "arrived"}, done.stderr
        if float(lines["late"][0]) < 0.002:
            return [int(number) for number in lines["arrived"]]
    pytest.skip(f"this machine sent bursts more than 2 ms late in {TRIES} tries")


@pytest.mark.quiet
@pytest.mark.parametrize(
    ("queue", "head_is_safe"), [(BEHIND_HTB, True), (BEHIND_TBF, False)], ids=["in service", "tbf"]
)
def test_the_kernel_s_queue_drops_what_is_expected(tmp_path: Path, queue: str, head_is_safe: bool) -> None:
    frame = PACKET_BYTES + ETHERNET_BYTES
    rate = str(round(8000 * frame / SERVICE_MS))
    script = KERNEL.replace("RATE", rate).replace("FRAME", str(frame)).replace("QUEUE", queue)
    assert arrived(tmp_path, script) == expected(head_is_safe)


@pytest.mark.quiet
def test_an_emulated_link_drops_the_same(tmp_path: Path) -> None:
    if not Path("/dev/net/tun").exists():
        pytest.skip("emulated links need /dev/net/tun")
    rate = f"{8000 * PACKET_BYTES / SERVICE_MS / 1e6:g} Mbit/s"
    queue = f'{{ kind = "drop-front", packets = {PACKETS} }}'
    keys = {"rate": rate, "burst": f"{PACKET_BYTES} B", "queue": queue, "delay": "1 ms"}
    settings = " ".join(f"--set {shlex.quote(f'up.{key}={value}')}" for key, value in keys.items())
    script = (
        "ip link set lo up; RECEIVE & receiver=$!\n"
        "while [ ! -e ready ]; do sleep 0.05; done\n"
        f"{PYTHON} -m perigee exec --quiet --link geo {settings} -- SEND 100.64.0.1 || exit\nwait $receiver"
    )
    assert arrived(tmp_path, script) == expected(head_is_safe=True)


def test_the_two_orders_differ_so_that_these_tests_tell_them_apart() -> None:
    safe, unsafe = expected(head_is_safe=True), expected(head_is_safe=False)
    assert safe != unsafe
    # Drop-tail would keep the first packets of the first burst.
    assert safe[:3] == [0, 1, 6]

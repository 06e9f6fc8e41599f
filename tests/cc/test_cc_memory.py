# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Careful Resume with a memory in the kernel: connections over an emulated link save, jump, retreat and forget."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import environment, needs_tun, own
from perigee.cc import kernel
from perigee.errors import InputError

NEAR = "100.64.0.1"
NETWORK = "100.64.0.0/24"
LINK = """
name = "{name}"
title = "A link of a test"
source = "the test"
[link]
rate = "{rate}"
delay = "50 ms"
queue = "{queue}"
"""

RECEIVER = """
import socket, threading
def read(one):
    while one.recv(1 << 20):
        pass
listener = socket.create_server(("0.0.0.0", 5001))
while True:
    threading.Thread(target=read, args=listener.accept()[:1], daemon=True).start()
"""

SENDER = """
import json, socket, struct, sys, threading, time
cc, seconds, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
connections = []
for _ in range(count):
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    one.connect(("100.64.0.1", 5001))
    connections.append(one)
began = time.monotonic()
def send(one):
    block = bytes(1 << 16)
    while time.monotonic() < began + seconds:
        one.send(block)
threads = [threading.Thread(target=send, args=(one,)) for one in connections]
for thread in threads:
    thread.start()
early = [0] * count
while any(thread.is_alive() for thread in threads):
    for place, one in enumerate(connections):
        window, = struct.unpack_from("I", one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 80)
        if time.monotonic() - began < 0.28:
            early[place] = max(early[place], window)
    time.sleep(0.001)
print(json.dumps(early))
"""
"""Sends for a time over some connections, and prints the largest window of each within two and a half round trips."""


class EmulatedPath:
    """An emulated path with a receiver at its near end."""

    def __init__(self, folder: Path, rate: str, queue: str) -> None:
        self.link = folder / f"link-{rate.split()[0]}.toml"
        self.link.write_text(LINK.format(name=self.link.stem, rate=rate, queue=queue))

    def send(self, cc: str, seconds: float) -> int:
        """Send over the path; return the largest window of the beginning, packets."""
        return self.send_at_once(cc, seconds, 1)[0]

    def send_at_once(self, cc: str, seconds: float, count: int) -> list[int]:
        """Send over some connections at the same time; return those windows."""
        python = shlex.quote(sys.executable)
        program = f"{python} -c {shlex.quote(SENDER)} {cc} {seconds} {count}"
        script = (
            f"ip link set lo up; {python} -c {shlex.quote(RECEIVER)} & receiver=$!\n"
            f"{python} -m perigee exec --quiet --link {self.link} -- {program}; code=$?\n"
            "kill $receiver; exit $code"
        )
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))


@pytest.fixture
def careful(machine: None) -> str:
    """A name in the kernel that remembers paths."""
    needs_tun()
    name = own("m")
    kernel.load("cubic", [("slow_start", "careful")], name=name, remember=kernel.Prefixes())
    return name


def remembered(name: str) -> list[dict[str, Any]]:
    return [path for path in kernel.memory() if path["cc"] == name]


def test_a_first_connection_fills_the_memory_and_a_second_one_jumps(careful: str, tmp_path: Path) -> None:
    path = EmulatedPath(tmp_path, "50 Mbit/s", "625 kB")
    assert remembered(careful) == []
    first = path.send(careful, 4)
    # Slow start has doubled ten packets twice, or a third time.
    assert first <= 90
    (saved,) = remembered(careful)
    assert saved["to"] == NETWORK
    # The path holds 416 packets of 1500 bytes, and its queue as many.
    assert 350 <= saved["window_packets"] <= 900
    assert saved["rtt_us"] == pytest.approx(100_000, rel=0.1)
    assert saved["age_s"] < 30
    assert not saved["is_claimed"]
    assert path.send(careful, 1) >= 0.45 * saved["window_packets"]
    assert not remembered(careful)[0]["is_claimed"], "the jump is over"


def test_of_connections_that_begin_together_one_jumps(careful: str, tmp_path: Path) -> None:
    path = EmulatedPath(tmp_path, "50 Mbit/s", "625 kB")
    kernel.remember(careful, NETWORK, window_packets=600, rtt_us=100_000)
    windows = sorted(path.send_at_once(careful, 1, 3))
    assert windows[1] <= 90 < 250 <= windows[2], windows


def test_a_memory_ten_times_too_large_retreats_and_is_forgotten(careful: str, tmp_path: Path) -> None:
    path = EmulatedPath(tmp_path, "2 Mbit/s", "15 kB")
    # The path holds 17 packets, and its queue 10.
    kernel.remember(careful, NETWORK, window_packets=270, rtt_us=100_000)
    assert path.send(careful, 3) >= 120, "it jumped"
    assert remembered(careful) == []


def test_what_was_measured_over_another_path_or_is_too_old_is_not_used(careful: str, tmp_path: Path) -> None:
    path = EmulatedPath(tmp_path, "50 Mbit/s", "625 kB")
    kernel.remember(careful, NETWORK, window_packets=2000, rtt_us=250_000)
    assert path.send(careful, 0.5) <= 90, "the round trip is less than half of the remembered one"
    kernel.load("cubic", [("slow_start", "careful"), ("lifetime", "0 s")], name=careful, remember=kernel.Prefixes())
    kernel.remember(careful, NETWORK, window_packets=2000, rtt_us=100_000)
    assert path.send(careful, 0.5) <= 90, "it is too old"


def test_a_new_version_keeps_the_memory_and_unload_leaves_none(careful: str) -> None:
    kernel.remember(careful, NETWORK, window_packets=400, rtt_us=100_000)
    kernel.remember(careful, "2001:db8:7::/48", window_packets=500, rtt_us=30_000)
    setting = [("slow_start", "careful"), ("beta", "80 %")]
    assert kernel.load("cubic", setting, name=careful, remember=kernel.Prefixes()).replaced
    assert [path["to"] for path in remembered(careful)] == [NETWORK, "2001:db8:7::/48"]
    assert [path["to"] for path in kernel.forget(careful, "2001:db8::/32")] == ["2001:db8:7::/48"]
    with pytest.raises(InputError, match="remembers prefixes of 24 bits"):
        kernel.remember(careful, "100.64.0.0/16", window_packets=400, rtt_us=100_000)
    assert kernel.load("cubic", setting, name=careful).replaced
    assert remembered(careful) == [], "the new version remembers nothing"
    with pytest.raises(InputError, match="was loaded without --remember"):
        kernel.remember(careful, NETWORK, window_packets=400, rtt_us=100_000)
    kernel.unload(careful)
    assert not Path(f"/sys/fs/bpf/perigee/{careful}").exists()


def test_only_careful_resume_remembers(machine: None) -> None:
    with pytest.raises(InputError, match="add --set slow_start=careful"):
        kernel.load("cubic", [], name=own("n"), remember=kernel.Prefixes())
    with pytest.raises(InputError, match="`bbr` has no Careful Resume"):
        kernel.load("bbr", [], name=own("n"), remember=kernel.Prefixes())

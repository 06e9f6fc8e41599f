# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Congestion controls of connections, by routes and by choice, and their view, each in a network namespace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from conftest import environment, next_line, own, running

# A connection over loopback; then commands, each with the algorithm of a new connection.
HOST = """
import json, socket, subprocess, sys

def connect(to):
    with socket.create_server((to, 0), backlog=1024) as server:
        client = socket.create_connection(server.getsockname())
        return client, server.accept()[0]

def cc(end):
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()

pair = connect("127.7.0.1")
for end in pair:
    end.sendall(bytes(100_000))
for line in sys.stdin:
    done = subprocess.run(
        [sys.executable, "-m", "perigee", "cc", *json.loads(line)], capture_output=True, text=True, check=False
    )
    new = connect("127.8.0.1")
    print(json.dumps({"code": done.returncode, "out": done.stdout, "said": done.stderr, "cc": cc(new[0])}), flush=True)
"""


# The algorithm of a connection that a user opens.
ONE = """
import os, socket, sys

with socket.create_server(("", 0)) as server:
    os.setuid(int(sys.argv[1]))
    client = socket.socket()
    client.connect(("198.51.100.1", server.getsockname()[1]))
    print(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
"""


class Host:
    """A network namespace with connections, in which commands are given."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __call__(self, *arguments: str) -> dict[str, Any]:
        """Give `perigee cc` these arguments; return code, output, and the algorithm of a connection afterwards."""
        assert self.process.stdin is not None
        print(json.dumps(arguments), file=self.process.stdin, flush=True)
        told = next_line(self.process.stdout)
        assert told, "the host has ended"
        return dict(json.loads(told))

    def ip(self, command: str) -> None:
        """Give a command of `ip` in it."""
        subprocess.run([*self._inside, "ip", *command.split()], check=True)

    def chosen(self, user: int = 0) -> str:
        """Return the algorithm of a connection that a user's program opens to 198.51.100.1."""
        command = [*self._inside, sys.executable, "-c", ONE, str(user)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    @property
    def _inside(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net"]


@pytest.fixture
def host(machine: None) -> Any:
    """A host of its own."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare of util-linux")
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" -c "$1"', sys.executable, HOST]
    with running(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Host(process)


def test_a_route_gives_a_loaded_algorithm_to_a_destination_and_to_a_user(host: Host) -> None:
    name = own("r")
    default = host("load", "hybla", "--as", name)["cc"]
    assert default != name
    host.ip("address add 198.51.100.1/32 dev lo")
    host.ip("rule add pref 10 lookup local")
    host.ip("rule delete pref 0")
    host.ip("rule add pref 1 uidrange 4242-4242 lookup 100")
    host.ip(f"route add local 198.51.100.0/24 dev lo table 100 congctl {name}")
    assert (host.chosen(), host.chosen(user=4242)) == (default, name)
    host.ip(f"route replace local 198.51.100.1 dev lo table local congctl {name}")
    assert host.chosen() == name
    # A new version of the name holds for the route as it is, and without the name there is the default.
    assert host("load", "hybla", "--as", name, "--set", "rtt0=50ms")["code"] == 0
    assert host.chosen() == name
    assert host("unload", name)["code"] == 0
    assert host.chosen() == default


# Pairs of algorithms of client and server; then what the client has once it is connected, and whether ECN is on.
ENDS = """
import json, socket, sys

def choose(end, name):
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())

for ours, theirs in json.loads(sys.argv[1]):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        choose(server, theirs)
        choose(client, ours)
        client.connect(server.getsockname())
        peer = server.accept()[0]
        client.sendall(bytes(100_000))
        received = 0
        while received < 100_000:
            received += len(peer.recv(100_000))
        name = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()
        has_ecn = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 6)[5] & 8 != 0
        print(json.dumps([name, has_ecn]), flush=True)
"""


def test_dctcp_has_ecn_with_its_like_and_leaves_other_connections_to_reno(host: Host) -> None:
    name = own("d")
    host("load", "dctcp", "--as", name)
    pairs = json.dumps([[name, name], [name, "reno"], ["reno", name]])
    # A namespace of its own has the kernel's default: ECN where the client asks for it.
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" -c "$1" "$2"', sys.executable, ENDS]
    done = subprocess.run([*command, pairs], capture_output=True, text=True, timeout=60, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[name, True], ["reno", False], ["reno", False]]
    assert host("unload", name)["code"] == 0


def test_top_shows_the_state_of_each_connection_and_refreshes(host: Host) -> None:
    name = own("t")
    host("load", "hybla", "--as", name)
    host.ip(f"route add local 127.8.0.0/16 dev lo src 127.0.0.1 table local congctl {name}")
    host("status")
    # The connection after a command is open until the next has ended.
    shown = host("top", "--count", "2", "--every", "0.2")["out"]
    assert shown.count("127.8.0.1:") == 2
    assert name in shown
    assert "127.7.0.1:" not in shown
    shown = json.loads(host("top", "--all", "--once", "--json")["out"])["sockets"]
    (first,) = (one for one in shown if one["peer"].startswith("127.7.0.1:"))
    assert (first["phase"], first["state"]) == ("slow start", "ESTABLISHED")
    assert first["acked_bytes"] >= 100_000
    assert first["repeated_share"] is not None

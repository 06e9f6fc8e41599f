# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Loading for open connections, rules for new ones, and the view of both, in network namespaces of their own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import Perigee, environment, next_line, own, running
from perigee.cc.kernel import add_rule, load, remove_rules, rules, status, unload

# Connections over loopback to two networks; then commands, each with the algorithms of these and of a new connection.
HOST = """
import json, socket, subprocess, sys

def connect(to):
    with socket.create_server((to, 0), backlog=1024) as server:
        client = socket.create_connection(server.getsockname())
        return client, server.accept()[0]

def cc(end):
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()

pairs = [connect(to) for to in ("127.7.0.1", "127.8.0.1")]
for end in pairs[0]:
    end.sendall(bytes(100_000))
pairs[1][0].setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
for line in sys.stdin:
    done = subprocess.run(
        [sys.executable, "-m", "perigee", "cc", *json.loads(line)], capture_output=True, text=True, check=False
    )
    new = connect("127.8.0.1")
    ends = [cc(end) for end in (pairs[0][0], pairs[1][0], *new)]
    print(json.dumps({"code": done.returncode, "out": done.stdout, "said": done.stderr, "cc": ends}), flush=True)
"""


class Host:
    """A network namespace with connections, in which commands are given."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __call__(self, *arguments: str) -> dict[str, Any]:
        """Give `perigee cc` these arguments; return code, output, and the algorithms of connections afterwards."""
        assert self.process.stdin is not None
        print(json.dumps(arguments), file=self.process.stdin, flush=True)
        told = next_line(self.process.stdout)
        assert told, "the host has ended"
        return dict(json.loads(told))


@pytest.fixture
def host(machine: None) -> Any:
    """A host of its own."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare of util-linux")
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" -c "$1"', sys.executable, HOST]
    with running(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Host(process)


def test_open_connections_get_a_loaded_algorithm_and_go_back_to_what_they_had(host: Host) -> None:
    name = own("e")
    default = host("status")["cc"][0]
    done = host("load", "hybla", "--as", name, "--existing", "--to", "127.7.0.0/16")
    assert (done["code"], done["out"], done["cc"][:2]) == (0, f"{name}\n", [name, "reno"]), done
    assert "1 open connection has it now" in done["said"]
    done = host("load", "hybla", "--as", name, "--existing")
    assert done["cc"] == [name, name, default, default], "open connections only"
    shown = json.loads(host("top", "--once", "--json")["out"])["sockets"]
    assert len(shown) >= 4
    (first,) = (one for one in shown if one["peer"].startswith("127.7.0.1:"))
    assert (first["cc"], first["phase"], first["state"]) == (name, "slow start", "ESTABLISHED")
    assert first["acked_bytes"] >= 100_000
    assert first["repeated_share"] is not None
    done = host("unload", name)
    assert (done["code"], done["cc"]) == (0, [default, "reno", default, default]), done
    assert "connections back at what they had" in done["said"]


def test_a_rule_chooses_for_new_connections_until_it_or_its_algorithm_is_removed(host: Host) -> None:
    name = own("r")
    default = host("load", "hybla", "--as", name)["cc"][2]
    done = host("rule", "add", name, "--to", "127.8.0.0/16")
    assert (done["code"], done["out"], done["cc"]) == (0, "1\n", [default, "reno", name, default]), done
    done = host("rule", "add", "reno", "--to", "127.8.0.0/24", "--interface", "lo")
    assert (done["out"], done["cc"][2]) == ("2\n", "reno")
    assert "there is no interface wan0 now" in host("rule", "add", "reno", "--interface", "wan0")["said"]
    shown = host("status")["out"]
    assert "to 127.8.0.0/24, over lo" in shown
    listed = json.loads(host("rule", "list", "--json")["out"])
    assert [(rule["number"], rule["cc"]) for rule in listed] == [(1, name), (2, "reno"), (3, "reno")]
    assert listed[0]["connections"] == 1
    assert listed[1]["connections"] >= 3
    done = host("rule", "remove", "2")
    assert (done["code"], done["cc"][2]) == (0, name)
    assert "rule 2 removed: reno, to 127.8.0.0/24, over lo" in done["said"]
    done = host("unload", name)
    assert (done["code"], done["cc"][2]) == (0, default), done
    assert "1 rule removed" in done["said"]
    done = host("rule", "remove", "--all")
    assert (done["code"], "rule 3 removed" in done["said"]) == (0, True)
    assert "there are no rules" in host("rule", "list")["out"]


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


def test_what_does_not_exist_is_told_so(host: Host) -> None:
    done = host("rule", "add", "hybla_", "--to", "192.0.2.0/24")
    assert (done["code"], "the kernel has no `hybla_` now, but reno" in done["said"]) == (2, True), done
    done = host("rule", "remove", "77")
    assert (done["code"], "there is no rule 77" in done["said"]) == (2, True), done


def test_top_shows_the_state_of_each_connection_and_refreshes(host: Host, perigee: Perigee) -> None:
    name = own("t")
    host("load", "hybla", "--as", name, "--existing", "--to", "127.7.0.0/16")
    shown = host("top", "--count", "2", "--every", "0.2")["out"]
    assert shown.count("127.7.0.1:") == 2
    assert name in shown
    assert "127.8.0.1:" not in shown
    assert "127.8.0.1:" in host("top", "--all", "--once")["out"]


def test_a_rule_that_is_added_by_a_command_that_is_killed_is_there_or_not(machine: None) -> None:
    if rules():
        pytest.skip("this machine has rules that are not a test's")
    name = own("k")
    load("hybla", [], name=name)
    program = (
        "from perigee.cc.kernel import add_rule; print('begun', flush=True);"
        f"add_rule({name!r}, to='127.9.0.0/16'); print('done', flush=True)"
    )

    def add_for(longest: float | None) -> float:
        with running([sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE) as process:
            assert next_line(process.stdout) == "begun\n"
            started = time.monotonic()
            if longest is None:
                assert next_line(process.stdout) == "done\n"
            else:
                time.sleep(longest)
                process.kill()
            return time.monotonic() - started

    def chosen() -> str:
        with socket.create_server(("127.9.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()

    whole = add_for(None)
    outcomes = set()
    for tenths in (*range(14), None):
        remove_rules()
        add_for(None if tenths is None else whole * tenths / 10)
        deadline = time.monotonic() + 60
        # The kernel detaches what a killed process attached a moment after its end.
        while (there := len(rules())) != (chosen() == name):
            assert time.monotonic() < deadline, "it chooses, and is not listed"
            time.sleep(0.01)
        outcomes.add(there)
    assert outcomes == {0, 1}, "the kills were all too early or too late"
    # The leftovers of a killed command are in nobody's way.
    remove_rules()
    assert add_rule(name, to="127.9.0.0/16").number == 1
    assert unload(name).rules == 1
    assert chosen() != name
    if not status()["loaded"]:
        assert not Path("/sys/fs/bpf/perigee").exists()

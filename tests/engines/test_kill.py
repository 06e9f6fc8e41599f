# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Emulated runs killed at any moment leave nothing behind and disturb no other process."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from conftest import needs_tun, next_line
from study_text import flow, link

PERIGEE = shlex.join([sys.executable, "-m", "perigee"])
SEED = 4

STUDY = (
    """
name = "killed"
nodes = ["server", "gateway", "client"]
[measure]
pcap = true
events = true
"""
    + link("wire", "server gateway", rate="100 Mbit/s", delay="1 ms")
    + link("satellite", "gateway client", rate="20 Mbit/s", delay="20 ms", queue="20 MB")
    + flow("download", "server client", duration="2 s", cc="hybla")
    + flow("own", "client server", ip="v6", duration="2 s", cc="./mycc/mycc.c")
    + flow("quic", "server client", transport="quic", duration="2 s", cc="./mycc/mycc.c")
    + flow(
        "pages",
        "server client",
        kind="request",
        request="400 B",
        response="20 kB",
        repeat=10,
        cc={"name": "cubic", "beta": "60 %"},
    )
    + flow("voice", "server client", kind="udp", rate="400 kbit/s", packet="200 B", duration="2 s")
    + flow("ping", "client server", kind="ping", interval="100 ms", packet="64 B", repeat=20)
)

USERS = (
    'name = "users"\nnodes = ["server", "client"]\n'
    + link("satellite", "server client", rate="10 Mbit/s", delay="20 ms")
    + flow("users", "server client", kind="web", connections_per_s=20, duration="1000 s")
)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A host of its own, a network namespace, in which commands are started; its folder has the study."""
    needs_tun()
    keeper = subprocess.Popen(  # the namespace lives as long as it does
        ["unshare", "--net", "sh", "-c", "ip link set lo up; echo up; exec sleep 600"],  # noqa: S607
        stdout=subprocess.PIPE,
        text=True,
    )
    if next_line(keeper.stdout) != "up\n":
        pytest.skip("no network namespaces")

    def start(command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["nsenter", f"--net=/proc/{keeper.pid}/ns/net", "sh", "-c", f"exec {command}"],  # noqa: S607
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "200", "TMPDIR": str(tmp_path / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    (tmp_path / "tmp").mkdir()
    (tmp_path / "killed.toml").write_text(STUDY)
    run(start, f"{PERIGEE} cc new mycc --dir .")
    yield start
    keeper.kill()
    keeper.communicate(timeout=300)


def run(host: Callable[..., subprocess.Popen[str]], command: str, timeout: float = 120) -> str:
    """Return the output of a command that succeeds."""
    started = host(command)
    out, error = started.communicate(timeout=timeout)
    if "BPF" in error and started.returncode == 2:
        pytest.skip(error.strip())
    assert started.returncode == 0, error
    return out


def algorithms(pid: int) -> list[str]:
    """Return the congestion controls that an emulator has in the kernel."""
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return [name for name in known if name.startswith(f"e{pid % 1_000_000}_")]


def namespaces(pid: int) -> set[str]:
    """The network namespaces that a process holds by descriptors."""
    return {link for link in _links(Path(f"/proc/{pid}/fd").glob("*")) if link.startswith("net:[")}


def connections(pid: int) -> int:
    """TCP sockets in network namespaces that threads of a process are in and it is not."""
    found, own = 0, set(_links([Path(f"/proc/{pid}/ns/net")]))
    for path in Path(f"/proc/{pid}/task").glob("*"):
        try:
            if own and {str((path / "ns/net").readlink())} != own:
                found += len((path / "net/tcp").read_text().splitlines()) - 1
        except OSError:
            continue
    return found


def holders(held: set[str]) -> list[str]:
    """Whoever has one of these namespaces, by descriptor or as its own."""
    patterns = ("[0-9]*/fd/*", "[0-9]*/task/*/ns/net")
    return [str(path) for pattern in patterns for path in Path("/proc").glob(pattern) if set(_links([path])) & held]


def members(session: int) -> list[str]:
    """Processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        state, fields = text.rpartition(")")[2].split()[0], text.rpartition(")")[2].split()
        if int(fields[3]) == session and state != "Z":
            found.append(text.split()[1])
    return found


def _links(paths: Iterator[Path] | list[Path]) -> Iterator[str]:
    for path in paths:
        try:
            yield str(path.readlink())
        except OSError:
            continue


@pytest.mark.alone  # `emu clean` removes what another test has left for it
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
def test_a_kill_at_any_moment_leaves_nothing_and_touches_nothing_else(
    host: Callable[..., subprocess.Popen[str]], tmp_path: Path, kills: int
) -> None:
    run(host, "ip tuntap add other mode tun")
    bystander = host(f"{PERIGEE} exec --quiet --link leo -- sleep 300")
    for _ in range(200):
        if "perigee" in run(host, "ip -br link show"):
            break
        time.sleep(0.05)
    before = run(host, "ip -br address show")
    draws = random.Random(SEED)  # noqa: S311  no secret is drawn
    for number in range(kills):
        command = f"{PERIGEE} run killed.toml --engine emu --out results{number}"
        emulator = host(command)
        # Half of them at any moment, half while packets move and algorithms are loaded.
        for _ in range(600 * (number % 2)):
            if algorithms(emulator.pid) or emulator.poll() is not None:
                break
            time.sleep(0.05)
        wait = draws.uniform(0.0, 2.0)
        print(f"seed {SEED}, kill {number}: after {wait:.3f} s")
        time.sleep(wait)
        held = namespaces(emulator.pid)
        if number % 2 and not held:
            _, error = emulator.communicate(timeout=300)
            pytest.skip(error) if "BPF" in error else pytest.fail(error)
        emulator.send_signal(signal.SIGKILL)
        emulator.communicate(timeout=300)
        cleaned = run(host, f"{PERIGEE} emu clean")
        assert all(line.startswith("removed ") for line in cleaned.splitlines()), cleaned
        assert not list((tmp_path / "tmp").iterdir())
        captures = [path.name for path in (tmp_path / f"results{number}").glob("captures/*")]
        assert all(name.startswith("run-") and name.endswith(".pcapng") for name in captures), captures
        for _ in range(100):
            left = (algorithms(emulator.pid), holders(held), members(emulator.pid))
            if not any(left):
                break
            time.sleep(0.05)
        assert not any(left), f"left {left} after {wait} s"
        assert run(host, "ip -br address show") == before
        assert bystander.poll() is None, "an emulator at work was ended"
    # The folder that the last kill has left is continued.
    run(host, command)
    flows = pl.read_parquet(tmp_path / f"results{kills - 1}" / "flows.parquet")
    assert flows["completed"].all(), flows
    events = pl.read_parquet(tmp_path / f"results{kills - 1}" / "events.parquet")
    assert set(events["flow"]) == {"download", "own", "pages"}
    assert run(host, "ip -br address show") == before
    os.killpg(bystander.pid, signal.SIGKILL)
    bystander.communicate(timeout=300)


def test_ctrl_c_while_users_come_and_go_ends_all_connections_and_leaves_nothing(
    host: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    (tmp_path / "users.toml").write_text(USERS)
    before = run(host, "ip -br address show")
    emulator = host(f"{PERIGEE} run users.toml --engine emu --out users")
    while not (sockets := connections(emulator.pid)) and emulator.poll() is None:
        time.sleep(0.05)
    if not sockets:
        _, error = emulator.communicate(timeout=120)
        pytest.fail(error)
    held = namespaces(emulator.pid) | set(_links(list(Path(f"/proc/{emulator.pid}/task").glob("*/ns/net"))))
    held -= set(_links([Path(f"/proc/{emulator.pid}/ns/net")]))
    emulator.send_signal(signal.SIGINT)
    _, error = emulator.communicate(timeout=300)
    assert emulator.returncode == 130, error
    assert "Traceback" not in error
    for _ in range(600):
        left = (holders(held), members(emulator.pid))
        if not any(left):
            break
        time.sleep(0.05)
    assert not any(left), left
    assert run(host, "ip -br address show") == before
    assert not list((tmp_path / "tmp").iterdir())
    assert not list((tmp_path / "users").glob("*.parquet"))


def test_two_emulations_at_once_do_not_disturb_each_other(
    host: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    both = [host(f"{PERIGEE} run killed.toml --engine emu --out results{number}") for number in range(2)]
    for emulation in both:
        _, error = emulation.communicate(timeout=300)
        if "BPF" in error and emulation.returncode == 2:
            pytest.skip(error.strip())
        assert emulation.returncode == 0, error
    for number in range(2):
        flows = pl.read_parquet(tmp_path / f"results{number}" / "flows.parquet")
        assert flows["completed"].all(), flows
        datagrams = flows.filter(pl.col("kind").is_in(["udp", "ping"]))
        assert datagrams["sent_packets"].to_list() == [500, 20]
        assert datagrams["lost_packets"].to_list() == [0, 0]
        assert flows.filter(pl.col("kind") == "request")["received_bytes"].to_list() == [200_000]

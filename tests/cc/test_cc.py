# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc` on the running kernel; skipped if the kernel or the process cannot load anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, Perigee, environment, next_line, own, running
from perigee.cc.kernel import load, status, unload

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
HALF = """// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Half: Reno with a settable reduction. Units: packets. */
#include "tcp.h"

#define PARAMETERS(P) P(keep, "1/1024", 512, 1, 1023, "window kept on a loss")
CC_PARAMETERS(PARAMETERS)

CC_CALLBACK(u32, half_ssthresh, struct sock *sk)
{
	return max32((u32)((u64)tcp_sk(sk)->snd_cwnd * param(sk, keep) >> 10), 2);
}

CC_CALLBACK(void, half_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_CALLBACK(u32, half_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_REGISTER(half, "Reno with a settable reduction", PARAMETERS,
	.ssthresh = OP(half_ssthresh),
	.cong_avoid = OP(half_cong_avoid),
	.undo_cwnd = OP(half_undo_cwnd))
"""


def registered() -> list[str]:
    return AVAILABLE.read_text().split()


@pytest.fixture
def half(tmp_path: Path) -> Path:
    path = tmp_path / "half.c"
    path.write_text(HALF)
    return path


def connection(cc: str) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection over loopback; the first end has this congestion control."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        return client, server.accept()[0]


@pytest.mark.parametrize("command", ["list", "show", "new", "check", "load", "unload", "status", "top", "memory add"])
def test_help_teaches_with_examples(perigee: Perigee, command: str) -> None:
    done = perigee("cc", *command.split(), "--help")
    assert f"perigee cc {command}" in done.stdout.split("Example", 1)[1]


def test_list_names_every_algorithm_with_its_state(perigee: Perigee) -> None:
    done = perigee("cc", "list")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    # No data in the private area of the socket, and more than that area holds in storage of its own.
    assert int(rows["vivace"].split("0 + ")[1].split()[0]) > 104
    assert "rtt0, pacing, estimate" in rows["hybla"]
    assert rows["westwood_plus"].split()[1] == "Westwood+"


def test_wrong_input_is_told_so_before_anything_is_done(perigee: Perigee, tmp_path: Path) -> None:
    for arguments, part in [
        (("load", "rneo"), "no congestion control `rneo`; did you mean `reno`?"),
        (("load", "hybla", "--set", "rtt0"), "write KEY=VALUE"),
        (("load", "hybla", "--set", "rtt=25 ms"), "did you mean `rtt0`?"),
        (("load", "hybla", "--set", "rtt0=25"), "has no unit"),
        (("load", "hybla", "--as", "a_name_that_is_too_long"), "at most 15"),
        (("load", "./nothing.c"), "nothing.c: cannot be read"),
        (("unload",), "give either the NAME to unload, or --all"),
        (("unload", "a", "--force", "--wait", "3"), "give either --wait or --force"),
        (("load", "hybla", "--existing"), "`perigee cc load --existing` is gone: open connections keep"),
        (("rule", "add", "hybla", "--to", "10.0.0.0/8"), "ip route replace PREFIX via GATEWAY congctl NAME"),
        (("top", "--once", "--count", "2"), "give either --once or --count"),
    ]:
        done = perigee("cc", *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert part in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr, arguments


def test_an_error_in_an_authors_file_shows_the_line(perigee: Perigee, half: Path) -> None:
    half.write_text(HALF.replace("return tcp_reno_undo_cwnd(sk);", "return colour;"))
    done = perigee("cc", "load", half)
    assert done.returncode == 2
    assert f"{half}:20:" in done.stderr
    assert "colour" in done.stderr


@pytest.mark.usefixtures("machine")
def test_load_prints_the_name_and_it_stays_until_unload(perigee: Perigee) -> None:
    name = own("l")
    done = perigee("cc", "load", "hybla", "--set", "rtt0=50 ms", "--as", name)
    assert (done.returncode, done.stdout) == (0, f"{name}\n"), done.stderr
    assert "hybla (rtt0=50 ms) loaded" in done.stderr
    assert name in registered()
    again = perigee("cc", "load", "hybla", "--as", name)
    assert "replaced the earlier version" in again.stderr
    assert name in perigee("cc", "list").stdout
    done = perigee("cc", "unload", name)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert name not in registered()
    done = perigee("cc", "unload", name)
    assert done.returncode == 2
    assert "was not loaded by perigee" in done.stderr


@pytest.mark.usefixtures("machine")
def test_an_authors_file_is_loaded_with_its_parameters(perigee: Perigee, half: Path) -> None:
    name = own("f")
    done = perigee("cc", "load", half.name, "--set", "keep=0.75", "--as", name)
    assert (done.returncode, done.stdout) == (0, f"{name}\n"), done.stderr
    (entry,) = (entry for entry in status()["loaded"] if entry["name"] == name)
    assert (entry["algorithm"], entry["parameters"], entry["origin"]) == ("half", "keep=75 %", str(half))
    listed = [line for line in perigee("cc", "list").stdout.splitlines() if name in line]
    assert len(listed) == 1
    assert listed[0].split()[0] == "half"


@pytest.mark.usefixtures("machine")
def test_what_new_writes_runs_in_the_kernel_as_it_is(perigee: Perigee) -> None:
    assert perigee("cc", "new", "mycc").returncode == 0
    done = perigee("cc", "load", "mycc/mycc.c", "--set", "decrease=20 %", "--as", own("n"))
    assert (done.returncode, done.stdout) == (0, own("n") + "\n"), done.stderr
    ends = connection(own("n"))
    ends[0].sendall(bytes(100_000))
    assert ends[1].recv(100_000, socket.MSG_WAITALL) == bytes(100_000)
    for end in ends:
        end.close()


@pytest.mark.usefixtures("machine")
def test_what_the_verifier_refuses_is_shown_with_its_words_and_kept_in_a_file(perigee: Perigee, half: Path) -> None:
    # A field that a congestion control may not write.
    half.write_text(HALF.replace("{\n\treturn max32", "{\n\t*(u32 *)&tcp_sk(sk)->srtt_us = 1;\n\treturn max32"))
    done = perigee("cc", "load", half, "--as", own("v"))
    assert done.returncode == 1, done.stderr
    assert "the kernel refused it" in done.stderr
    log = Path(done.stderr.rsplit("all that the kernel said is in ", 1)[1].strip())
    try:
        assert "BEGIN PROG LOAD LOG" in log.read_text()
    finally:
        log.unlink()
    assert own("v") not in registered()


@pytest.mark.usefixtures("machine")
def test_unload_in_use_names_the_sockets_and_force_leaves_them_working(perigee: Perigee) -> None:
    name = own("u")
    load("cubic", [], name=name)
    client, server = connection(name)
    with client, server:
        client.sendall(b"before")
        done = perigee("cc", "unload", name)
        assert done.returncode == 1
        assert f"127.0.0.1:{client.getsockname()[1]}" in done.stderr
        assert f"(process {os.getpid()})" in done.stderr
        shown = perigee("cc", "status").stdout
        assert f"{name}: cubic, built in" in shown
        assert f"({os.getpid()})" in shown
        (entry,) = (e for e in json.loads(perigee("cc", "status", "--json").stdout)["loaded"] if e["name"] == name)
        (seen,) = entry["sockets"]
        assert seen["cwnd_packets"] >= 2
        assert seen["acked_bytes"] >= len(b"before")

        started = time.monotonic()
        assert perigee("cc", "unload", name, "--wait", "1.2").returncode == 1
        assert time.monotonic() - started > 1.2
        assert name in registered()

        done = perigee("cc", "unload", name, "--force")
        assert done.returncode == 0, done.stderr
        assert "1 socket with it until closed" in done.stderr
        assert name not in registered()
        client.sendall(b" and after")
        assert server.recv(100) == b"before and after"
        assert "unloaded, and still used:" in perigee("cc", "status").stdout


@pytest.mark.usefixtures("machine")
def test_unload_waits_for_the_last_socket() -> None:
    name = own("w")
    load("reno", [], name=name)
    client, server = connection(name)
    command = [sys.executable, "-m", "perigee", "cc", "unload", name, "--wait", "60"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        time.sleep(1)
        assert process.poll() is None
        client.close()
        server.close()
        _, said = process.communicate(timeout=300)
    assert (process.returncode, name in registered()) == (0, False), said


def wait_until_ready(pid: int) -> None:
    """Wait until a command has installed its signal handlers: before that, Python's default handler ends it."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        caught = re.search(r"^SigCgt:\s+([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.05)
    raise AssertionError("the command was not ready")


@pytest.mark.usefixtures("machine")
def test_a_wait_that_is_interrupted_leaves_it_loaded() -> None:
    name = own("i")
    load("reno", [], name=name)
    client, server = connection(name)
    command = [sys.executable, "-m", "perigee", "cc", "unload", name, "--wait", "60"]
    with client, server, subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as process:
        wait_until_ready(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130
    assert name in registered()


@pytest.mark.alone  # namespaces that others make meanwhile have the default
@pytest.mark.usefixtures("machine")
def test_the_default_is_set_and_put_back(perigee: Perigee) -> None:
    name, before = own("d"), status()["default"]
    done = perigee("cc", "load", "hybla", "--as", name, "--default")
    assert f"before, that was {before}" in done.stderr
    assert status()["default"] == name
    done = perigee("cc", "unload", name, "--force")
    assert f"the machine's default is {before} again" in done.stderr
    assert status()["default"] == before


@pytest.mark.usefixtures("machine")
def test_all_that_was_loaded_is_unloaded_at_once(perigee: Perigee) -> None:
    if status()["loaded"]:
        pytest.skip("something is loaded on this machine that is not a test's")
    load("hybla", [], name=own("1"))
    load("reno", [], name=own("2"))
    done = perigee("cc", "unload", "--all")
    assert done.returncode == 0, done.stderr
    assert status()["loaded"] == []
    assert not Path("/sys/fs/bpf/perigee").exists()


@pytest.mark.usefixtures("machine")
def test_a_load_that_is_killed_leaves_nothing_or_all_of_it() -> None:
    name = own("k")
    program = (
        "from perigee.cc.kernel import load; print('begun', flush=True);"
        f"load('hybla', [], name={name!r}); print('done', flush=True)"
    )

    def load_for(longest: float | None) -> float:
        """Load in a process that is killed after `longest` seconds; return the seconds that it took."""
        with running([sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE) as process:
            assert next_line(process.stdout) == "begun\n"
            started = time.monotonic()
            if longest is None:
                assert next_line(process.stdout) == "done\n"
            else:
                time.sleep(longest)
                process.kill()
            return time.monotonic() - started

    whole = load_for(None)
    unload(name)
    outcomes: list[bool] = []
    # From its beginning to well after its usual end, and once to its end however long that takes on a busy machine.
    for longest in (*(whole * tenths / 10 for tenths in range(14)), None):
        load_for(longest)
        deadline = time.monotonic() + 60
        # The kernel frees the objects of the process a grace period after its end.
        while (there := name in registered()) != (known := any(e["name"] == name for e in status()["loaded"])):
            assert time.monotonic() < deadline, "registered, but not known to be loaded"
            time.sleep(0.01)
        outcomes.append(there)
        if known:
            unload(name)
    assert set(outcomes) == {False, True}, "the kills were all too early or too late"
    load("hybla", [], name=name)
    unload(name)
    assert name not in registered()


@pytest.mark.usefixtures("machine")
def test_capabilities_that_are_missing_are_named(perigee: Perigee) -> None:
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv of util-linux")
    load("reno", [], name=own("c"))
    for arguments in (("load", "hybla"), ("unload", own("c"))):
        command = ["setpriv", "--bounding-set", "-all", sys.executable, "-m", "perigee", "cc", *arguments]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 2, done.stderr
        assert "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN" in done.stderr


@pytest.mark.usefixtures("machine")
def test_a_kernel_without_type_information_is_told_what_it_lacks() -> None:
    if not shutil.which("unshare"):
        pytest.skip("needs unshare of util-linux")
    hidden = f"mount -t tmpfs none /sys/kernel/btf && exec {sys.executable} -m perigee cc load hybla"
    command = ["unshare", "--mount", "sh", "-c", hidden]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "no /sys/kernel/btf/vmlinux; it needs CONFIG_DEBUG_INFO_BTF=y" in done.stderr


class Shared:
    """A world-writable BPF file system, as /tmp, in a separate mount namespace."""

    def __init__(self) -> None:
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
        script = "mount -t bpf -o mode=1777 bpf /sys/fs/bpf && echo && exec cat"
        self.holder = subprocess.Popen([*command, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert next_line(self.holder.stdout) == b"\n"

    def run(self, script: str, *, nobody: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a script there, as root or as nobody."""
        user = ["--setuid=65534", "--setgid=65534"] if nobody else []
        command = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *user, "sh", "-c", script]
        environ = {**environment(), "PERIGEE": f"{sys.executable} -m perigee"}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=300)

    def close(self) -> None:
        """Remove everything."""
        self.run("rm -rf /sys/fs/bpf/perigee")
        self.holder.communicate(timeout=300)


@pytest.fixture
def shared(machine: None) -> Iterator[Shared]:
    """A world-writable folder above the loaded programs."""
    if not shutil.which("nsenter"):
        pytest.skip("needs nsenter")
    world = Shared()
    yield world
    world.close()


def test_what_is_loaded_is_in_a_folder_that_nobody_else_can_open_or_lock(shared: Shared) -> None:
    name = own("s")
    assert shared.run(f"$PERIGEE cc load hybla --as {name}").returncode == 0
    assert shared.run("stat -c '%a %u' /sys/fs/bpf/perigee /sys/fs/bpf/perigee/*").stdout == "700 0\n700 0\n"
    locked = shared.run("flock --nonblock --shared /sys/fs/bpf/perigee true", nobody=True)
    assert (locked.returncode == 0, "Permission denied" in locked.stderr) == (False, True)
    renamed = shared.run("mv /sys/fs/bpf/perigee /sys/fs/bpf/elsewhere", nobody=True)
    assert renamed.returncode != 0
    # An earlier version made the folder readable. Its contents are adopted, and its permissions restricted.
    assert shared.run(f"chmod 755 /sys/fs/bpf/perigee; $PERIGEE cc unload {name}").returncode == 0
    assert shared.run("test -e /sys/fs/bpf/perigee").returncode == 1


def test_a_folder_that_another_user_made_is_not_trusted_and_what_it_leads_to_is_left_alone(
    shared: Shared, tmp_path: Path
) -> None:
    name = own("t")
    precious = tmp_path / "precious"
    precious.mkdir()
    for file in ("link", "record"):
        (precious / file).write_text("precious")
    made = shared.run(f"mkdir /sys/fs/bpf/perigee && ln -s {precious} /sys/fs/bpf/perigee/x", nobody=True)
    assert made.returncode == 0, made.stderr
    before = status()["default"]
    for command in (f"load hybla --default --as {name}", f"unload {name}", "unload --all", "status"):
        done = shared.run(f"$PERIGEE cc {command}")
        assert (done.returncode, "it belongs to user 65534; perigee did not make it so" in done.stderr) == (1, True), (
            command,
            done.stderr,
        )
    assert (name in registered(), status()["default"]) == (False, before)
    assert [path.read_text() for path in precious.iterdir()] == ["precious", "precious"]
    assert shared.run("ls /sys/fs/bpf/perigee").stdout == "x\n"
    # A folder of root's is refused too if others may write in it, or if it is a symbolic link.
    for made_as, said in (("mkdir -m 777", "can be written by others"), (f"ln -s {precious}", "is no folder")):
        shared.run(f"rm -r /sys/fs/bpf/perigee; {made_as} /sys/fs/bpf/perigee")
        done = shared.run(f"$PERIGEE cc load hybla --as {name}")
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert len(list(precious.iterdir())) == 2


def test_a_sweep_removes_what_is_ours_and_follows_nothing(shared: Shared, tmp_path: Path) -> None:
    name = own("w")
    (tmp_path / "link").write_text("precious")
    script = (
        "mkdir -m 700 /sys/fs/bpf/perigee; cd /sys/fs/bpf/perigee\n"
        f"mkdir -m 700 left; mkdir -m 700 theirs; chown 65534 theirs; ln -s {tmp_path} away\n"
        f"$PERIGEE cc load hybla --as {name} && $PERIGEE cc unload {name}\n"
        "ls -A /sys/fs/bpf/perigee"
    )
    done = shared.run(script)
    assert (done.returncode, done.stdout) == (0, f"{name}\naway\ntheirs\n"), done.stderr
    assert (tmp_path / "link").read_text() == "precious"


@pytest.mark.usefixtures("machine")
def test_what_was_given_to_load_is_what_unload_takes(perigee: Perigee, half: Path) -> None:
    if any(entry["name"] == "p_reno" for entry in status()["loaded"]):
        pytest.skip("something is loaded on this machine that is not a test's")
    # Every kernel has a built-in reno.
    assert perigee("cc", "load", "reno").stdout == "p_reno\n"
    done = perigee("cc", "unload", "reno")
    assert (done.returncode, "p_reno unloaded" in done.stderr) == (0, True), done.stderr
    assert "p_reno" not in registered()
    assert perigee("cc", "load", half, "--as", own("g")).returncode == 0
    done = perigee("cc", "unload", half)
    assert (done.returncode, f"{own('g')} unloaded" in done.stderr) == (0, True), done.stderr

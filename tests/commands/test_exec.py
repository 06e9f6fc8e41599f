# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee exec` and `perigee emu`: real programs behind emulated links, each in a private network namespace."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PERIGEE = shlex.join([sys.executable, "-m", "perigee"])
NEAR = "100.64.0.1"


def _why_not() -> str | None:
    if os.geteuid() != 0:
        return "not root"
    if not Path("/dev/net/tun").exists():
        return "no /dev/net/tun"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)  # noqa: S607
    return None if tried.returncode == 0 else "no network namespaces"


@pytest.fixture(autouse=True)
def _emulation() -> None:
    if reason := _why_not():
        pytest.skip(f"emulated links need root, /dev/net/tun and namespaces: {reason}")


def inside(script: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a private network namespace with its loopback device up."""
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", f"ip link set lo up; {script}"],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_a_program_runs_behind_the_link_and_its_exit_code_is_ours() -> None:
    connect = (
        "import socket, sys, time\n"
        "begin = time.monotonic()\n"
        f"try: socket.create_connection(('{NEAR}', 9), 10)\n"
        "except ConnectionRefusedError: pass\n"
        "sys.exit(7 if 0.6 <= time.monotonic() - begin < 0.8 else 1)"
    )
    done = inside(f"{PERIGEE} exec --link geo -- {shlex.quote(sys.executable)} -c {shlex.quote(connect)}")
    assert done.returncode == 7, done.stderr
    assert f"the program reaches only this host, at {NEAR}" in done.stderr
    assert "round trip of the link 600 ms on average" in done.stderr


def test_links_nest_and_their_delays_add_up() -> None:
    ping = f"ping -c 2 {NEAR}"
    if subprocess.run(["sh", "-c", "command -v ping"], capture_output=True, check=False).returncode:  # noqa: S607
        pytest.skip("ping is not installed")
    done = inside(f"{PERIGEE} exec --link leo -- {PERIGEE} exec --link geo -- {ping}")
    assert done.returncode == 0, done.stderr
    assert 640 <= float(done.stdout.split("rtt min/avg/max/mdev = ")[1].split("/")[0]) < 660


def test_a_signal_that_ends_the_program_is_seen_as_by_a_shell() -> None:
    assert inside(f"{PERIGEE} exec --quiet --link leo -- sh -c 'kill -TERM $$'").returncode == 128 + signal.SIGTERM


def _signalled(program: str, signals: str, options: str = "--link leo") -> subprocess.CompletedProcess[str]:
    """Run a shell program behind a link, and send signals to `perigee exec` once it has written `ready`."""
    return inside(
        f"folder=$(mktemp -d); {PERIGEE} exec {options} -- sh -c {shlex.quote(program)} > $folder/said & emulator=$!\n"
        "for _ in $(seq 2000); do grep -q ready $folder/said && break; sleep 0.1; done\n"
        f"{signals}\nwait $emulator; code=$?; rm -r $folder; exit $code"
    )


def test_a_signal_to_the_command_is_the_programs_and_so_is_the_exit_code() -> None:
    trapped = _signalled("trap 'exit 7' TERM; echo ready; sleep 60 & wait", "kill -TERM $emulator")
    assert trapped.returncode == 7, trapped.stderr
    assert "note: ended processes that the program left running: sleep (process " in trapped.stderr
    for name in ("TERM", "HUP"):
        ended = _signalled("echo ready; exec sleep 60", f"kill -{name} $emulator")
        assert ended.returncode == 128 + signal.Signals[f"SIG{name}"], ended.stderr
        assert "ended what" not in ended.stderr


def test_what_a_program_has_sent_arrives_after_its_end_and_a_second_signal_gives_it_up() -> None:
    # The other end accepts and reads nothing, so that the program's data are never acknowledged completely.
    deaf = "import socket, time\ns = socket.create_server(('', 8080), backlog=1)\nc, _ = s.accept()\ntime.sleep(60)"
    send = (
        f"import socket, time\nc = socket.create_connection(('{NEAR}', 8080), 20)\nc.setblocking(False)\n"
        "for _ in range(20):\n"
        "    try: c.send(bytes(1_000_000))\n"
        "    except BlockingIOError: time.sleep(0.05)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    python = shlex.quote(sys.executable)
    begun = time.monotonic()
    done = inside(
        f"{python} -c {shlex.quote(deaf)} & server=$!; exec 3>&1\n"
        f"folder=$(mktemp -d); sleep 1; {PERIGEE} exec --link leo -- {python} -c {shlex.quote(send)} "
        "> $folder/said 2> $folder/errors & emulator=$!\n"
        "for _ in $(seq 2000); do grep -q ready $folder/said && break; sleep 0.1; done\n"
        "kill -TERM $emulator\n"
        "for _ in $(seq 2000); do grep -q 'has ended' $folder/errors && break; sleep 0.1; done\n"
        "kill -TERM $emulator; wait $emulator; code=$?\n"
        "kill $server; cat $folder/errors >&2; rm -r $folder; exit $code"
    )
    said = " ".join(done.stderr.split())
    assert done.returncode == 128 + signal.SIGTERM, said
    assert "note: the program has ended; " in said
    assert "waiting up to 30 s (--drain)" in said
    assert "note: not delivered: " in said
    assert time.monotonic() - begun < 28


def test_names_need_no_temporary_file_and_are_for_every_user() -> None:
    if not any(line.startswith("nameserver ") for line in Path("/etc/resolv.conf").read_text().splitlines()):
        pytest.skip("/etc/resolv.conf names no server")
    script = "setpriv --reuid 65534 --clear-groups cat /etc/resolv.conf; grep -c ' /etc/resolv.conf ' /proc/mounts"
    nested = f"{PERIGEE} exec --quiet --link leo -- sh -c {shlex.quote(script)}"
    done = inside(f"export TMPDIR=/nonexistent; umask 077; {PERIGEE} exec --quiet --link leo -- {nested}")
    lines = done.stdout.splitlines()
    assert "nameserver 100.64.0.5" in lines, done.stdout + done.stderr
    # The mount and its file are not visible outside.
    assert " /etc/resolv.conf tmpfs" not in Path("/proc/mounts").read_text()


def test_a_setting_of_the_link_holds_in_both_directions() -> None:
    # `leo` takes 20 ms each way, and has a table for each direction.
    done = inside(f"{PERIGEE} exec --quiet --link leo --set link.delay=100ms -- ping -c 1 -W 10 100.64.0.1")
    round_trip = re.search(r"time=([0-9.]+) ms", done.stdout)
    assert round_trip, done.stdout + done.stderr
    assert float(round_trip[1]) >= 200


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--link nowhere -- true", "no profile of that name; use one of geo, geo-"),
        ("--link geo --set down.rate=20 -- true", '`20` has no unit; write "20 Mbit/s"'),
        ("--link geo --set down.colour=red -- true", "unknown key `down.colour`"),
        ("--link leo --set link.colour=red -- true", "--set link.colour=red: unknown key `down.colour`"),
        ("--link geo --set down -- true", "the key or `=` is missing"),
        ("--link geo --trace no-such-file -- true", "cannot read `no-such-file`"),
        ("--link geo --drain 10 -- true", '--drain 10: not a time with a unit; write "200 ms"'),
        ("--link geo -- no-such-program", "`no-such-program` does not start"),
        ("--link geo", "COMMAND"),
    ],
)
def test_wrong_input_is_answered_with_the_fix_and_exit_code_2(arguments: str, said: str) -> None:
    done = inside(f"{PERIGEE} exec {arguments}")
    assert (done.returncode, said in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_without_root_it_says_so() -> None:
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"
    done = inside(f"{nobody} {PERIGEE} exec --link geo -- true")
    assert (done.returncode, "run the command as root" in done.stderr) == (2, True), done.stderr
    assert re.search(r"^run it as: sudo /\S+ -m perigee exec --link geo -- true$", done.stderr, re.MULTILINE)


@pytest.mark.alone  # `emu clean` removes what another test has left for it
def test_a_kill_leaves_no_device_and_what_the_program_started_is_found_and_ended(tmp_path: Path) -> None:
    # The program's child, in another session, outlives the program.
    child = f"sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 600'"
    program = shlex.quote(f"setsid {child} & wait")
    script = (
        f"{PERIGEE} exec --link leo -- sh -c {program} & emulator=$!\n"
        f"for _ in $(seq 200); do [ -e {tmp_path}/pid ] && break; sleep 0.1; done\n"
        "ip -br link show | grep -c perigee\n"
        "kill -KILL $emulator; sleep 0.3\n"
        "ip -br link show | grep -c perigee\n"
        f"{PERIGEE} emu clean\n"
    )
    done = inside(f"export TMPDIR={tmp_path}\n{script}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pid"]
    pid = (tmp_path / "pid").read_text().strip()
    assert done.stdout.split()[:2] == ["1", "0"], done.stdout + done.stderr
    assert f"ended sleep (process {pid})" in done.stdout
    assert _ends(int(pid))


def _ends(pid: int) -> bool:
    """Whether a process ends within some seconds; a zombie counts as ended."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.alone  # `emu clean` removes what another test has left for it
def test_a_folder_of_a_fit_that_was_killed_is_removed_and_one_at_work_stays(tmp_path: Path) -> None:
    make = (
        "import os, tempfile\nfrom perigee.core import native\n"
        "print(tempfile.mkdtemp(prefix=native.scratch_prefix('fit')), flush=True)\n"
    )
    python = shlex.quote(sys.executable)
    done = inside(
        f"export TMPDIR={tmp_path}\n"
        f"{python} -c {shlex.quote(make + 'import time; time.sleep(60)')} > {tmp_path}/kept & working=$!\n"
        f"for _ in $(seq 2000); do [ -s {tmp_path}/kept ] && break; sleep 0.1; done\n"
        # Last: who makes such a folder removes what others have left.
        f"{python} -c {shlex.quote(make + 'os._exit(9)')} > {tmp_path}/left\n"
        f"{PERIGEE} emu clean; kill $working"
    )
    left, kept = ((tmp_path / name).read_text().strip() for name in ("left", "kept"))
    assert done.stdout.strip() == f"removed {left}", done.stderr
    assert not Path(left).exists()
    assert Path(kept).exists()


@pytest.mark.alone  # `emu clean` removes what another test has left for it
def test_a_clean_machine_stays_as_it_is() -> None:
    done = inside(f"{PERIGEE} emu clean")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (0, "", "nothing to clean up")


def test_buffers_too_small_for_the_link_are_said_with_the_command_and_the_program_has_this_hosts() -> None:
    sizes = "echo '4096 16384 1000000' > /proc/sys/net/ipv4/tcp_wmem; echo '4096 131072 90000000' > {}"
    sizes = sizes.format("/proc/sys/net/ipv4/tcp_rmem")
    done = inside(f"{sizes}; {PERIGEE} exec --link geo -- cat /proc/sys/net/ipv4/tcp_wmem")
    assert (done.returncode, done.stdout.split()) == (0, ["4096", "16384", "1000000"]), done.stderr
    assert 'sudo sysctl -w net.ipv4.tcp_wmem="4096 16384 15000000"\n' in done.stderr
    assert "tcp_wmem ends at 1 MB, and one connection needs 15 MB to fill this link (100 Mbit/s x 600 ms" in done.stderr
    done = inside(f"{sizes}; {PERIGEE} exec --link geo --set link.rate='2 Mbit/s' -- true")
    assert (done.returncode, "tcp_wmem" in done.stderr) == (0, False), done.stderr


def test_a_live_line_each_second_has_rates_queues_and_drops_of_both_directions() -> None:
    done = inside(f"{PERIGEE} exec --link leo --live --quiet -- sleep 4")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("link ")]
    way = r"[0-9.]+ Mbit/s, queue [0-9.]+ MB, [0-9]+ dropped"
    assert lines
    assert all(re.fullmatch(rf"link [0-9]+ s: down {way}; up {way}", line) for line in lines), lines
    assert "\x1b" not in done.stderr, "no terminal, no line that is written over"

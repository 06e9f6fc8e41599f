# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee pep doctor --to`: a transfer with and without the proxy, also over an emulated link."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import environment, needs_tun, pep_program

PERIGEE = [sys.executable, "-m", "perigee"]
SERVER = "100.64.0.1:8000"
"""This host, as a program behind an emulated link sees it."""
ALLOW = '[allow]\nsources = ["10.1.0.0/24"]\ndestinations = ["100.64.0.0/10"]\n[limits]\nconnections = 9\n'
FORWARD = f'{ALLOW}[[forward]]\nlisten = "127.0.0.1:7000"\ntarget = "{SERVER}"\n'
RULE = (
    '[legs.near]\n[legs.far]\nreceive_buffer = "4 MiB"\n'
    '[[rules]]\nname = "web"\nclient = "near"\nserver = "far"\n'
)  # fmt: skip
FIRST = f"{ALLOW}[transparent]\n{RULE}connect_first = true\n"
BYTES = 600_000
SEND_AND_CHECK = """
ip link set lo up
{python} -m http.server 8000 --directory {folder} > /dev/null 2>&1 & server=$!
trap 'kill $server' EXIT
until (exec 3<> /dev/tcp/127.0.0.1/8000) 2> /dev/null; do sleep 0.05; done
{perigee} exec --quiet --link leo -- sh -c {inside}
"""


@pytest.fixture
def program() -> Path:
    """The program as it was built last."""
    return pep_program()


def _compared(config: str, program: Path, folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and comparison of a host whose sockets hold less than the link."""
    needs_tun()
    (folder / "pep.toml").write_text(config)
    (folder / "file").write_bytes(os.urandom(BYTES))
    options = ["--to", f"http://{SERVER}/file", "--rounds", "1", "--json"]
    limits = "for one in tcp_rmem tcp_wmem; do sysctl -qw net.ipv4.$one='4096 32768 32768'; done; "
    script = SEND_AND_CHECK.format(
        python=sys.executable,
        folder=folder,
        perigee=shlex.join(PERIGEE),
        inside=shlex.quote(limits + shlex.join([*PERIGEE, "pep", "doctor", f"{folder}/pep.toml", *options])),
    )
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", script],  # noqa: S607
        env={**environment(), "PERIGEE_PEP": str(program)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.startswith("{"), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert {one["name"] for one in told["checks"]} >= {"program", "descriptors"}
    return done.returncode, told["comparison"]


def test_a_buffer_that_fits_the_link_carries_more_than_the_hosts_own(program: Path, tmp_path: Path) -> None:
    code, compared = _compared(FORWARD + RULE, program, tmp_path)
    direct, proxied = compared["transfers"]
    assert (code, direct["way"], proxied["way"]) == (0, "direct", "proxied")
    assert compared["ratio"] > 1.2, compared
    assert compared["conclusion"].startswith("The proxy carried "), compared
    assert (compared["same"], compared["compared_bytes"]) == (True, BYTES)
    # The link's round trip is 40 ms; the proxied handshake is that over loopback.
    assert 40 <= direct["rtt_ms"] < 200, compared
    assert direct["handshake_ms"] >= 40 > proxied["handshake_ms"], compared
    assert min(direct["first_byte_ms"], proxied["first_byte_ms"]) >= 80, compared


def test_with_connect_first_the_client_waits_for_the_servers_handshake(program: Path, tmp_path: Path) -> None:
    code, compared = _compared(FIRST, program, tmp_path)
    # Nothing is intercepted there, which is missing.
    assert code == 1
    proxied = compared["transfers"][1]
    assert 40 <= proxied["handshake_ms"] <= proxied["first_byte_ms"] - 39, compared
    assert compared["same"], compared


def test_checks_come_first_and_either_failure_is_the_exit_code(tmp_path: Path) -> None:
    program, config = tmp_path / "perigee-pep", tmp_path / "pep.toml"
    words = [*PERIGEE, "pep", "doctor", str(config), "--to", "192.0.2.1:80/f", "--from", "10.1.0.2", "--seconds", "2"]
    env = {**environment(), "PERIGEE_PEP": str(program)}
    config.write_text("[limits]\nconnections = 1\n")
    program.touch(mode=0o755)
    for code in (0, 1, 2):
        program.write_text(f'#!/bin/sh\n[ "$1" = check ] && exit 0\necho "given: $*"\nexit {code}\n')
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        given = f"given: doctor {config} --to 192.0.2.1:80/f --rounds 2 --seconds 2.0 --bytes 100 MB --from 10.1.0.2\n"
        assert (done.returncode, done.stdout.splitlines(keepends=True)[-1]) == (code, given), done.stderr
        assert done.stdout.startswith("ok       program"), done.stdout
    # A case that fails has no comparison.
    program.write_text('#!/bin/sh\n[ "$1" = check ] && exit 0\necho "perigee-pep: refused" >&2\nexit 1\n')
    done = subprocess.run([*words, "--json"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["comparison"]) == (1, None)
    assert done.stderr == "perigee-pep: refused\n"
    # Where something is missing the transfer is made all the same.
    program.write_text('#!/bin/sh\n[ "$1" = check ] && exit 0\necho table\n')
    config.write_text("[limits]\nconnections = 4000000000\n")
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.endswith("\ntable\n")) == (1, True)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee pep`: what is handed over to the program, and where that is looked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, environment
from perigee.engines.proxy.checks import proxy_checks
from perigee.engines.proxy.program import CHECKOUT, find_program
from perigee.errors import InputError


def _program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('#!/bin/sh\necho "given: $*"\nexit 7\n')
    path.chmod(0o755)
    return path


def test_the_program_is_found_in_the_order_of_its_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, packaged = _program(tmp_path / "named"), tmp_path / "scripts"
    built = [_program(tmp_path / "checkout/target" / profile / "perigee-pep") for profile in ("release", "local")]
    # The one that was built last comes first.
    os.utime(built[0], (2, 2))
    os.utime(built[1], (1, 1))
    found = [_program(packaged / "perigee-pep"), *built]
    found += [_program(tmp_path / folder / "perigee-pep") for folder in ("path", "sbin")]
    monkeypatch.setattr("perigee.engines.proxy.program.SYSTEM", (str(tmp_path / "sbin"),))
    assert CHECKOUT == ROOT
    places = {"checkout": tmp_path / "checkout", "scripts": packaged}
    path = {"PATH": str(tmp_path / "path")}
    assert find_program({**path, "PERIGEE_PEP": str(named)}, **places) == named
    for program in found:
        assert find_program(path, **places) == program
        program.chmod(0o644)
    with pytest.raises(InputError, match="cargo build --profile local --workspace --bin perigee-pep"):
        find_program(path, **places)


@pytest.mark.parametrize("command", ["run", "check", "rules", "status"])
def test_commands_are_handed_over_with_their_exit_code(tmp_path: Path, command: str) -> None:
    env = {**environment(), "PERIGEE_PEP": str(_program(tmp_path / "perigee-pep"))}
    words = [sys.executable, "-m", "perigee", "pep", command, "a b.toml"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, f"given: {command} a b.toml\n"), done.stderr


def test_top_shows_rates_between_two_looks(tmp_path: Path) -> None:
    program = tmp_path / "perigee-pep"
    # Each time that it is asked, a megabyte more has come down.
    program.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/asked\nn=$(wc -l < {tmp_path}/asked)\n"
        "echo state running; echo running_s 5; echo open 3\n"
        "echo rule web open 3 accepted 7 bytes_up 0 bytes_down ${n}000000 complete 4 failed 0 unreached 0 aborted 0\n"
        "echo leg web client sent_bytes ${n}000000 retransmitted 0 round_trips 0 round_trips_us 0\n"
        "echo leg web server sent_bytes 0 retransmitted 2 round_trips $n round_trips_us ${n}600000\n"
    )
    program.chmod(0o755)
    env = {**environment(), "PERIGEE_PEP": str(program)}
    words = [sys.executable, "-m", "perigee", "pep", "top", "pep.toml", "--every", "0.1", "--count", "2"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("running: open 3") == 2
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if "web" in line]
    by_leg, by_rule = ([row for row in rows if (len(row) == 5) is is_leg] for is_leg in (True, False))
    assert (len(by_rule), len(by_leg)) == (2, 4)
    for rule, open_now, new, up, down, *_ in by_rule:
        assert (rule.strip(), open_now.strip(), new.strip(), up.strip()) == ("web", "3", "0.0", "0.000")
        assert 0 < float(down) <= 80
    for _, leg, sent, round_trip, again in by_leg:
        # Each look has one more round trip, and a second more of them.
        expected = {"client": "-", "server": "1000.0"}[leg.strip()]
        assert (round_trip.strip(), again.strip()) == (expected, "0.0")
        assert (float(sent) > 0) is (leg.strip() == "client")
    program.write_text('#!/bin/sh\necho "perigee-pep: pep.toml: no service answers" >&2\nexit 1\n')
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: pep.toml: no service answers\n")


def test_the_doctor_holds_a_configuration_against_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, config = _program(tmp_path / "perigee-pep"), tmp_path / "pep.toml"
    told = "network: IPv4, router: clients at lan0; before NAT\nsegment size: chain f: tcp; mss in the leg"
    program.write_text(f"#!/bin/sh\n[ $1 != doctor ] || echo '{told}'\n")
    monkeypatch.setenv("PERIGEE_PEP", str(program))
    sysctls = tmp_path / "proc/sys/net/ipv4"
    for name, text in {
        "conf/all/rp_filter": "1", "tcp_rmem": "4096 131072 6291456",
        "tcp_wmem": "4096 16384 400000", "tcp_available_congestion_control": "reno cubic",
    }.items():  # fmt: skip
        (sysctls / name).parent.mkdir(parents=True, exist_ok=True)
        (sysctls / name).write_text(f"{text}\n")
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/self/status").write_text("CapInh:\t0000000000000000\nCapEff:\t0000000000001400\n")
    legs = '[legs.sky]\ncongestion = ["hybla", "cubic"]\nbandwidth = "20 Mbit/s"\nround_trip = "600 ms"\n'
    rules = '[[rules]]\nname = "sky"\nconnect_first = true\n'
    config.write_text(f'[transparent]\ninterfaces = ["lan0", "lan1"]\n{legs}{rules}[limits]\nconnections = 1\n')
    found = {one.name: one for one in proxy_checks(config, tmp_path)}
    assert found["rp_filter, all"].fix == "sudo sysctl -w net.ipv4.conf.all.rp_filter=2"
    assert (found["network"].ok, found["network"].found) == (True, "IPv4, router: clients at lan0; before NAT")
    assert (found["segment size"].found, found["segment size"].fix) == ("chain f: tcp", "mss in the leg")
    assert (found["congestion, sky"].ok, found["congestion, sky"].found) == (False, "cubic is used")
    assert (found["tcp_rmem, sky"].ok, found["tcp_wmem, sky"].ok) == (True, False)
    assert found["tcp_wmem, sky"].fix == 'sudo sysctl -w net.ipv4.tcp_wmem="4096 16384 3000000"'
    assert found["descriptors"].ok
    assert found["connect_first"].fix == "sudo modprobe tun, or give the container /dev/net/tun"
    assert (found["CAP_NET_ADMIN"].ok, found["CAP_NET_RAW"].ok) == (True, False)
    assert found["CAP_NET_RAW"].fix == "start the service as root, or with AmbientCapabilities=CAP_NET_RAW in the unit"
    (tmp_path / "dev/net").mkdir(parents=True)
    (tmp_path / "dev/net/tun").touch()
    assert next(one for one in proxy_checks(config, tmp_path) if one.name == "connect_first").ok
    assert not any(one.fix for one in found.values() if one.ok)
    assert all(one.fix for one in found.values() if not one.ok)
    # The program's refusal is its line.
    program.write_text('#!/bin/sh\necho "perigee-pep: pep.toml:2: unknown key" >&2\nexit 2\n')
    with pytest.raises(InputError, match=r"^pep\.toml:2: unknown key$"):
        proxy_checks(config, tmp_path)


def test_a_program_that_is_not_there_is_one_line_with_the_fix() -> None:
    env = {**environment(), "PERIGEE_PEP": os.devnull}
    words = [sys.executable, "-m", "perigee", "pep", "check", "pep.toml"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: /dev/null: PERIGEE_PEP names no program; give the path of perigee-pep\n"


def test_chains_that_drop_forwarded_packets_are_found_by_policy_rule_and_jump() -> None:
    from perigee.engines.proxy.checks import restricting

    def chain(name: str, **more: str) -> dict[str, object]:
        return {"chain": {"family": "inet", "table": "f", "name": name, **more}}

    def rule(name: str, *expr: object) -> dict[str, object]:
        return {"rule": {"family": "inet", "table": "f", "chain": name, "expr": list(expr)}}

    hook = {"hook": "forward"}
    assert restricting({}) == []
    assert restricting({"nftables": [chain("c", **hook, policy="accept"), rule("c", {"accept": None})]}) == []
    assert restricting({"nftables": [chain("c", **hook, policy="drop")]}) == ["inet f c"]
    assert restricting({"nftables": [chain("c", hook="input", policy="drop")]}) == []
    for verdict in ({"drop": None}, {"reject": {"type": "tcp reset"}}):
        jump = {"jump": {"target": "other"}}
        items = [chain("c", **hook, policy="accept"), chain("other"), rule("c", jump), rule("other", verdict, jump)]
        assert restricting({"nftables": items}) == ["inet f c"]

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`--apply` sets all of a host's part of an advice or none of it, and its file takes back what it set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from namespaces import Lab
from perigee.advice.steps import Step, sysctl

UNDO = "perigee-advise-undo.json"
WMEM, RMEM = "net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"
CONTROL = "net.ipv4.tcp_congestion_control"
LARGER = "4096 131072 268435456"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("skipped: network namespaces need root")
    lab = Lab(tmp_path)
    yield lab
    lab.end()


def advised(host: Lab, *steps: Step) -> None:
    """Write a folder as --keep does, with one line of advice."""
    folder = host.folder / "kept"
    folder.mkdir(exist_ok=True)
    one = {"name": "Larger", "is_advised": True, "steps": [asdict(step) for step in steps]}
    (folder / "advice.json").write_text(json.dumps({"tried": [one]}))


def value(host: Lab, key: str) -> str:
    return " ".join(host.run(["sysctl", "-n", key]).stdout.split())


def applied(host: Lab, role: str, *options: str) -> CompletedProcess[str]:
    return host.perigee("advise", "kept", "--apply", "1", "--role", role, *options)


def with_device(host: Lab) -> None:
    for words in ("add far type veth peer name near", "set far up", "set near up"):
        host.run(["ip", "link", *words.split()])


def buffers() -> tuple[Step, ...]:
    return (
        sysctl("server", CONTROL, "reno"),
        sysctl("client", RMEM, f'"{LARGER}"'),
        sysctl("server", WMEM, f'"{LARGER}"'),
    )


def test_the_commands_of_a_role_are_carried_out_and_their_file_takes_them_back(host: Lab) -> None:
    advised(host, *buffers())
    before = {key: value(host, key) for key in (WMEM, RMEM, CONTROL)}
    done = applied(host, "server")
    assert done.returncode == 0, done.stderr
    assert {key: value(host, key) for key in before} == {WMEM: LARGER, RMEM: before[RMEM], CONTROL: "reno"}
    assert f"still to do at the client:\n  sysctl -n {RMEM} > tcp_rmem.before" in done.stderr
    again = applied(host, "server")
    assert (again.returncode, "is there already; undo that first" in again.stderr) == (2, True)
    undone = host.perigee("advise", "--undo", UNDO)
    assert undone.returncode == 0, undone.stderr
    assert {key: value(host, key) for key in before} == before
    assert not (host.folder / UNDO).exists()


def test_after_a_failure_in_the_middle_nothing_is_changed(host: Lab) -> None:
    advised(host, *buffers(), sysctl("server", CONTROL, "nosuch"))
    before = {key: value(host, key) for key in (WMEM, CONTROL)}
    done = applied(host, "server")
    assert (done.returncode, "what was done before it is undone" in done.stderr) == (1, True), done.stderr
    assert {key: value(host, key) for key in before} == before
    assert not (host.folder / UNDO).exists()


def test_the_initial_window_is_that_of_the_default_route_until_it_is_undone(host: Lab) -> None:
    from perigee.advice.menu import _initial_window

    advised(host, *_initial_window().steps)
    assert "there is none here that could be changed" in applied(host, "server").stderr
    with_device(host)
    for words in ("addr add 192.0.2.1/24 dev far", "route add default via 192.0.2.254 dev far"):
        host.run(["ip", *words.split()])
    before = host.run(["ip", "route", "show", "default"]).stdout
    done = applied(host, "server")
    assert done.returncode == 0, done.stderr
    assert "initcwnd 40" in host.run(["ip", "route", "show", "default"]).stdout
    assert host.perigee("advise", "--undo", UNDO).returncode == 0
    assert host.run(["ip", "route", "show", "default"]).stdout == before


def test_a_queue_discipline_of_ones_own_is_not_replaced(host: Lab) -> None:
    shaped = Step("gateway", "tc qdisc replace dev DEV root handle 1: htb default 1", "tc qdisc del dev DEV root")
    advised(host, shaped)
    with_device(host)
    assert "with --dev" in applied(host, "gateway").stderr
    done = applied(host, "gateway", "--dev", "far")
    assert done.returncode == 0, done.stderr
    assert "htb 1:" in host.run(["tc", "qdisc", "show", "dev", "far"]).stdout
    refused = applied(host, "gateway", "--dev", "far", "--undo-file", "other.json")
    assert (refused.returncode, "has a queue of your own (htb)" in refused.stderr) == (2, True)
    assert host.perigee("advise", "--undo", UNDO).returncode == 0
    assert "htb" not in host.run(["tc", "qdisc", "show", "dev", "far"]).stdout


def test_what_cannot_be_carried_out_is_refused_and_leaves_no_file(host: Lab) -> None:
    advised(host, sysctl("client", RMEM, '"4096 8192 8192"'))
    for options, said in (
        (("server",), "has no command for a server"),
        (("client",), "no less than in this advice"),
        (("user",), "one of server, client, gateway"),
    ):
        done = applied(host, *options)
        assert (done.returncode, said in done.stderr) in ((2, True), (1, True)), done.stderr
        assert not (host.folder / UNDO).exists()
    advised(host, Step("server", "rm -rf nothing", "true"))
    done = applied(host, "server")
    assert (done.returncode, "no command of an advice" in done.stderr) == (2, True)


def test_a_file_that_others_can_write_or_did_not_come_from_apply_is_not_run(host: Lab) -> None:
    advised(host, *buffers())
    assert applied(host, "client").returncode == 0
    file = host.folder / UNDO
    file.chmod(0o666)
    assert "others can write to it" in host.perigee("advise", "--undo", UNDO).stderr
    content = json.loads(file.read_text())
    content["entries"][0]["undo"] = ["rm", "-rf", "nothing"]
    file.write_text(json.dumps(content))
    file.chmod(0o600)
    refused = host.perigee("advise", "--undo", UNDO)
    assert (refused.returncode, "no command of an advice" in refused.stderr) == (2, True)
    content["entries"] = "none"
    file.write_text(json.dumps(content))
    assert "not what `perigee advise --apply` wrote" in host.perigee("advise", "--undo", UNDO).stderr


def test_a_value_that_was_changed_since_is_named_and_stays(host: Lab) -> None:
    advised(host, *buffers())
    before = {key: value(host, key) for key in (WMEM, CONTROL)}
    assert applied(host, "server").returncode == 0
    host.run(["sysctl", "-w", f"{WMEM}=4096 16384 8388608"])
    refused = host.perigee("advise", "--undo", UNDO)
    assert refused.returncode == 2
    assert f"{WMEM} was set to {LARGER}, and is 4096 16384 8388608 now" in " ".join(refused.stderr.split())
    assert (value(host, WMEM), value(host, CONTROL)) == ("4096 16384 8388608", "reno")
    host.run(["sysctl", "-w", f"{WMEM}={LARGER}"])
    assert host.perigee("advise", "--undo", UNDO).returncode == 0
    assert {key: value(host, key) for key in before} == before

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee probe`: over the loopback device, and over emulated links whose rate is known."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import answering, free_port, next_line, running
from perigee.analysis.recordings import analyze, keep
from perigee.errors import InputError, InterruptedRunError, RunError
from perigee.measuring.probe import ProbePlan, probe, read_log
from perigee.measuring.probe_steps import Step, capacity_bps
from perigee.measuring.server import Limits
from perigee.store.results import Results
from probed import PERIGEE, behind

Perigee = Callable[..., CompletedProcess[str]]
TOKEN = b"correct-horse"
LIMITS = Limits(rate_bps=30_000_000, time_s=5.0)


@pytest.fixture
def port() -> Iterator[int]:
    """A server in a thread."""
    with answering(TOKEN, LIMITS) as chosen:
        yield chosen


def plan(port: int, *rates_mbps: float, **changes: Any) -> ProbePlan:
    rates = tuple(round(rate * 1e6) for rate in rates_mbps)
    return replace(ProbePlan("127.0.0.1", TOKEN, rates, port=port, time_s=0.5), **changes)


def test_each_rate_goes_both_ways(port: int) -> None:
    steps = probe(plan(port, 2, 10))
    assert [(step.direction, step.offered_bps) for step in steps] == [
        ("up", 2_000_000),
        ("up", 10_000_000),
        ("down", 2_000_000),
        ("down", 10_000_000),
    ]
    for step in steps:
        assert (step.lost, step.received) == (0, step.sent)
        assert step.sent == round(0.5 * step.offered_bps / 12_000 - 0.5)
        assert step.lost_over_time.sum() == 0
        assert len(step.delays_ms["least"]) == len(step.lost_over_time)
        assert np.nanmin(step.delays_ms["least"]) == 0
    assert capacity_bps(steps, "up") is None


def test_a_server_at_all_addresses_answers_over_both_versions_of_ip() -> None:
    with answering(TOKEN, LIMITS, bind="") as chosen:
        assert [step.lost for step in probe(plan(chosen, 2))] == [0, 0]
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("this machine has no IPv6")
        over_6 = probe(plan(chosen, 2, host="::1"))
        assert [step.lost for step in over_6] == [0, 0]


def test_a_log_is_continued_where_it_ends(port: int, tmp_path: Path) -> None:
    log = tmp_path / "probe.jsonl"
    wanted = plan(port, 1, 2, directions=("up",))

    def stop_in_the_second(what: str, share: float) -> bool:
        return "2.00" not in what or share < 0.3

    with pytest.raises(InterruptedRunError):
        probe(wanted, log, stop_in_the_second)
    assert [step.offered_bps for step in read_log(log)] == [1_000_000]
    with log.open("ab") as file:
        file.write(b'{"direction":"up","offe')
    first = log.read_bytes().splitlines()[1]
    steps = probe(wanted, log)
    assert [step.offered_bps for step in steps] == [1_000_000, 2_000_000]
    assert [step.sent for step in read_log(log)] == [step.sent for step in steps]
    assert log.read_bytes().splitlines()[1] == first
    assert len(log.read_bytes().splitlines()) == 3
    with pytest.raises(InputError, match="holds something else"):
        probe(plan(port, 3), log)


def test_a_damaged_log_says_where(tmp_path: Path, port: int) -> None:
    log = tmp_path / "probe.jsonl"
    probe(plan(port, 1, 2, directions=("up",), time_s=0.1), log)
    lines = log.read_text().splitlines()
    log.write_text("\n".join([lines[0], "{}", *lines[1:]]) + "\n")
    with pytest.raises(InputError, match=r"probe.jsonl:2: not a rate that was measured"):
        read_log(log)
    log.write_text(lines[0].replace('"perigee_probe":1', '"perigee_probe":9') + "\n")
    with pytest.raises(InputError, match="version 9"):
        read_log(log)
    for text in ("", "unix_s,rtt_ms\n"):
        log.write_text(text)
        with pytest.raises(InputError, match="no log of `perigee probe`"):
            read_log(log)


def test_a_server_that_allows_less_says_how_much(port: int) -> None:
    with pytest.raises(InputError, match=r"allows a client 30.00 Mbit/s"):
        probe(plan(port, 31))
    with pytest.raises(InputError, match="allows 5 s"):
        probe(plan(port, 1, time_s=6.0))


def test_a_closed_port_and_a_wrong_token_have_different_errors(port: int) -> None:
    with pytest.raises(RunError, match="no server answers; start `perigee probe --serve` there"):
        probe(plan(free_port(socket.SOCK_DGRAM), 1))
    with pytest.raises(RunError, match="no answer arrived: check that the token is the same"):
        probe(plan(port, 1, token=b"wrong-horse"))


def step(offered_mbps: float, received_mbps: float, loss: float, **changes: Any) -> Step:
    """The outcome of a probe of 100 s."""
    offered = offered_mbps * 1e6
    per_block = round(0.1 * offered / 12_000)
    sent = per_block * 1000
    received = round(sent * (1 - loss))
    blocks = {"received": [round(per_block * (1 - loss))] * 1000}
    blocks |= {name: changes.get(name, [0] * 1000) for name in ("least_us", "mean_us", "most_us")}
    return Step(
        {
            "direction": "up",
            "offered_bps": round(offered),
            "began_unix_s": 1.7e9,
            "rtt_s": 0.6,
            "sent": {
                "packets": sent, "first_ns": 0, "last_ns": 100_000_000_000, "refused": 0, "slips": 0, "slipped_ns": 0,
                "late_max_ns": 0,
            },
            "report": {
                "received": received, "lost": sent - received, "duplicates": 0, "reordered": 0, "reordered_by": 0,
                "first_ns": 0, "last_ns": round(received * 12_000 / received_mbps * 1e3), "delay_ns": 0,
                "per_block": per_block, "runs": [[1, sent - received]], "blocks": blocks, "arrivals": [],
            },
        },
        1500,
    )  # fmt: skip


def test_a_lossy_path_is_distinguished_from_a_full_one() -> None:
    lossy = [step(1, 0.95, 0.05), step(2, 1.9, 0.05)]
    assert capacity_bps(lossy, "up") is None
    full = [step(1, 0.95, 0.05), step(4, 1.9, 0.525)]
    found = capacity_bps(full, "up")
    assert found is not None
    assert found[0] == pytest.approx(1.9e6, rel=1e-3)
    # At a single rate only a queue shows that the path is full.
    assert capacity_bps([step(1, 0.9, 0.1)], "up") is None
    assert capacity_bps([step(4, 1.9, 0.525, mean_us=[300_000] * 1000)], "up") is not None


def test_a_clock_s_drift_is_taken_out_of_delays_and_a_queue_s_growth_is_not() -> None:
    jitter = np.random.default_rng(1).exponential(2000, 1000)
    t_us = np.arange(1000) * 100_000
    for drift, largest_ms in ((50e-6, 25.0), (-50e-6, 25.0), (2e-3, 200.0)):
        least = list(jitter + drift * t_us)
        most = step(1, 1, 0, least_us=least, mean_us=least, most_us=least).delay_variation_ms[1]
        assert (most < 25.0) == (largest_ms == 25.0), drift
        assert most < largest_ms + 25.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["127.0.0.1"], "and start `perigee probe --serve` there, which makes one"),
        ([], "no host is given"),
        (["127.0.0.1", "--token", "short"], "5 letters are too few"),
        (["127.0.0.1", "--token-file", "no-such-file"], "--token-file no-such-file: cannot be read"),
        (["--token", "correct-horse"], "no host is given"),
        (["127.0.0.1", "--token", "correct-horse", "--rate", "2"], 'not a rate with a unit; write "2 Mbit/s"'),
        (["127.0.0.1", "--token", "correct-horse", "--direction", "left"], "one of up, down, both"),
        (["127.0.0.1", "--token", "correct-horse", "--packet", "60"], "between 100 and 9000 bytes"),
        (["127.0.0.1:99999", "--token", "correct-horse"], "a port is between 1 and 65535"),
        (["no-such-host.invalid", "--token", "correct-horse"], "give a name or an address"),
        (["here", "--serve", "--token", "correct-horse"], "--serve takes no host"),
        (["--summary", __file__], "no log of `perigee probe`"),
    ],
)
def test_wrong_input_is_answered_with_the_fix_and_exit_code_2(
    perigee: Perigee, arguments: list[str], said: str
) -> None:
    done = perigee("probe", *arguments)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_server_without_a_token_makes_one_in_a_file_that_only_its_user_can_read(
    perigee: Perigee, tmp_path: Path
) -> None:
    chosen = str(free_port(socket.SOCK_DGRAM))
    command = [sys.executable, "-m", "perigee", "probe", "--serve", "--bind", "127.0.0.1", "--port", chosen]
    environment = {name: value for name, value in os.environ.items() if name != "PERIGEE_TOKEN"}
    for arguments in ([], ["--token-file", str(tmp_path / "token")]):
        with running([*command, *arguments], stderr=subprocess.PIPE, env=environment) as server:
            said = next_line(server.stderr)
            assert "a token was made" in said
            assert "listening on 127.0.0.1" in next_line(server.stderr)
            token = arguments or ["--token", said.strip().rpartition("PERIGEE_TOKEN=")[2]]
            done = perigee("probe", "127.0.0.1", *token, "--port", chosen, "--time", "200 ms", "--direction", "up")
            assert "up: never full" in done.stdout, done.stderr
            server.send_signal(signal.SIGTERM)
            assert server.wait(300) == 0
    made = tmp_path / "token"
    assert made.stat().st_mode & 0o777 == 0o600
    assert re.fullmatch("[a-z2-7]{26}\n", made.read_text())
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused = perigee("probe", "--serve", "--port", chosen, "--token-file", tmp_path / "link")
    assert (refused.returncode, "cannot be read" in refused.stderr) == (2, True)
    assert not (tmp_path / "elsewhere").exists()


def test_one_datagram_does_not_let_a_dictionary_be_tried_at_the_speed_of_a_hash(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as spy:
        spy.bind(("127.0.0.1", 0))
        spy.settimeout(60)
        with pytest.raises(InterruptedRunError):
            probe(plan(spy.getsockname()[1], 1), watch=lambda _what, _share: False)
        hello = spy.recv(2048)
    # Magic, session, kind, then 16 bytes of code; the rest is padding.
    end = len(hello.rstrip(b"\0")) - 16
    # RFC 7914 with 32 MiB, three times over.
    stretched = hashlib.scrypt(TOKEN, salt=b"perigee ping and probe 2", n=32768, r=8, p=3, maxmem=1 << 27, dklen=32)
    codes = {
        key: [hmac.digest(key, hello[:at], "sha256")[:16] == hello[at : at + 16] for at in range(5, end + 17)]
        for key in (TOKEN, hashlib.sha256(TOKEN).digest(), stretched)
    }
    assert [sum(found) for found in codes.values()] == [0, 0, 1]


def test_the_command_takes_the_token_from_a_file_and_finds_what_a_path_carries(
    perigee: Perigee, port: int, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("correct-horse\n")
    to = ["probe", f"127.0.0.1:{port}", "--token-file", "token", "--time", "300 ms"]
    done = perigee(*to, "--rate", "1 Mbit/s", "--direction", "down", "--log", "a.jsonl")
    assert done.returncode == 0, done.stderr
    assert "down: never full" in done.stdout
    assert "up" not in done.stdout.split("down: never full")[0]
    assert perigee("probe", "--summary", "a.jsonl").stdout == done.stdout
    assert json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["host"] == "127.0.0.1"
    # The server allows 30 Mbit/s, at which a search ends.
    found = perigee(*to, "--rate", "8 Mbit/s", "--find")
    assert (found.returncode, "8.000" in found.stdout) == (0, True), found.stderr
    done = perigee(*to, "--rate", "31 Mbit/s", "--find")
    assert (done.returncode, "allows a client 30.00 Mbit/s" in done.stderr) == (2, True), done.stderr


def test_a_search_measures_at_the_rate_that_the_server_allows_and_ends_there(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = probe(plan(port, 2, directions=("up",)))
    asked = []

    def probe_once(*arguments: Any) -> dict[str, Any]:
        rate_bps = arguments[4]
        asked.append(rate_bps)
        if rate_bps > 30_000_000:
            return {"failure": {"rate_of_one": 30_000_000}, "said": ""}
        # The result over a path that is never full.
        part = known.offered_bps / rate_bps
        record = json.loads(json.dumps(known.record))
        for side, times in ((record["sent"], ("first_ns", "last_ns")), (record["report"], ("first_ns", "last_ns"))):
            for name in times:
                side[name] = round(side[name] * part)
        return {key: record[key] for key in ("sent", "report", "rtt_s")}

    monkeypatch.setattr("perigee.measuring.probe.native.probe_once", probe_once)
    said = []
    found = plan(port, 8, directions=("up", "down"), find=True)
    steps = probe(found, limited=lambda direction, limit_bps: said.append((direction, limit_bps)))
    assert [step.offered_bps / 1e6 for step in steps] == [8, 16, 30] * 2
    assert said == [("up", 30_000_000), ("down", 30_000_000)]
    assert [rate / 1e6 for rate in asked] == [8, 16, 32, 30] * 2


def test_ctrl_c_ends_it_at_once_with_its_exit_code(port: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perigee", "probe", f"127.0.0.1:{port}", "--token", "correct-horse"]
    with subprocess.Popen([*command, "--time", "5 s", "--log", str(tmp_path / "l")], stderr=subprocess.PIPE) as run:
        while not (tmp_path / "l").exists():
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        assert run.wait(300) == 130


def test_a_link_s_rate_is_found_within_a_hundredth_and_the_excess_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERIGEE_TEST_FOLDER", str(tmp_path))
    link = "--link leo --set down.rate='8 Mbit/s' --set up.rate='4 Mbit/s'"
    queues = "--set down.queue='100 kB' --set up.queue='100 kB'"
    rates = "--rate '3 Mbit/s' --rate '8 Mbit/s' --rate '16 Mbit/s' --time '3 s'"
    done = behind(f"{link} {queues}", f"{PERIGEE} probe 100.64.0.1 {rates} --log probe.jsonl")
    assert done.returncode == 0, done.stderr
    steps = {(s.direction, s.offered_bps): s for s in read_log(tmp_path / "probe.jsonl")}
    for direction, rate, below, twice in (("up", 4e6, 3e6, 8e6), ("down", 8e6, 3e6, 16e6)):
        low, high = steps[direction, int(below)], steps[direction, int(twice)]
        assert low.lost == 0, (direction, low.record)
        assert low.received_bps == pytest.approx(low.sent_bps, rel=0.01)
        assert high.received_bps == pytest.approx(rate, rel=0.01)
        # The queue takes 67 packets of the excess, once.
        lost = 1 - (rate / high.sent_bps) - 67 / high.sent
        assert high.loss == pytest.approx(lost, abs=0.005)
        # The queue's 100 kB, at the link's rate; where the machine stands still for a moment, single blocks have more.
        queue_ms = 100e3 * 8e3 / rate
        assert np.nanmedian(high.delays_ms["most"]) == pytest.approx(queue_ms, rel=0.15)
        assert high.delay_variation_ms[1] >= 0.85 * queue_ms
        found = capacity_bps(list(steps.values()), direction)
        assert found is not None
        assert found[0] == pytest.approx(rate, rel=0.01)


def test_a_search_ends_at_the_link_s_rate_and_a_packet_that_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERIGEE_TEST_FOLDER", str(tmp_path))
    done = behind(
        "--link leo --set up.rate='5 Mbit/s' --set up.queue='50 kB'",
        f"{PERIGEE} probe 100.64.0.1 --packet 1600; [ $? = 2 ] && "
        f"{PERIGEE} probe 100.64.0.1 --find --rate '2 Mbit/s' --time '2 s' --direction up --log probe.jsonl",
    )
    assert done.returncode == 0, done.stderr
    assert "the maximum packet size of the path is 1500 bytes" in done.stderr
    steps = read_log(tmp_path / "probe.jsonl")
    assert [round(step.offered_bps / 1e6, 1) for step in steps][:3] == [2, 4, 8]
    assert len(steps) == 4
    assert steps[3].offered_bps == pytest.approx(0.95 * 5e6, rel=0.01)
    assert steps[3].lost == 0


def test_a_log_is_analysed_as_flows_of_datagrams(port: int, tmp_path: Path) -> None:
    log = tmp_path / "probe.jsonl"
    steps = probe(plan(port, 2, 10, time_s=2.2), log)
    found = analyze([log])
    assert found is not None
    flows = found.table("flows")
    assert flows["flow"].to_list()[:2] == ["1: up 2 Mbit/s", "2: up 10 Mbit/s"]
    assert flows["kind"].to_list() == ["udp"] * 4
    assert flows["sent_packets"].to_list() == [step.sent for step in steps]
    assert flows["lost_packets"].to_list() == [0] * 4
    assert flows["goodput_mbps"].to_list() == pytest.approx([2 * 1472 / 1500, 10 * 1472 / 1500] * 2, rel=0.02)
    series = found.table("series")
    for flow in flows.iter_rows(named=True):
        own = series.filter(pl.col("flow") == flow["flow"])
        assert own["acked_bytes"].to_list()[-1] == flow["received_bytes"]
        assert own["t_s"].to_list()[-1] == pytest.approx(flow["start_s"] + flow["duration_s"])
    keep(found, [log], tmp_path / "out")
    assert Results(tmp_path / "out").table("flows").height == 4

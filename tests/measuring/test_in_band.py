# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee probe --in-band`: the delay in the flow beside pings, and the kind of a queue, over known queues."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Perigee, answering
from perigee.errors import InputError, InterruptedRunError, RunError
from perigee.fitting.fit import Measured, fit
from perigee.fitting.rate import fit_queue, fit_rate
from perigee.measuring.beside import IDLE_S, Pings, sent_and_answered
from perigee.measuring.in_band import LEVEL, fit_kind, waits
from perigee.measuring.probe import AROUND, ProbePlan, probe, read_log
from perigee.measuring.probe_steps import Step
from perigee.measuring.server import Limits
from probed import (
    MBPS,
    PACKET,
    PERIGEE,
    QUEUE,
    Arrivals,
    Floats,
    behind,
    drop_front,
    drop_tail,
    step,
    too_late_at_the_head,
)

TOKEN = b"correct-horse"
QUEUE_MS = 30.0
ATTEMPTS = 3


def pings(beside_ms: float, time_s: float = 4.0) -> Floats:
    """Round trips of 20 ms without load, and more beside it."""
    rng = np.random.default_rng(1)
    count = round((time_s + 1) / 0.1)
    rtt_ms = 20 + rng.exponential(0.2, count)
    rtt_ms[10:] += beside_ms
    return np.asarray(rtt_ms)


def long(value: object) -> Any:
    """A value that tests have in `make torture` only."""
    return pytest.param(value, marks=pytest.mark.long)


@pytest.mark.parametrize(("queue", "name"), [(drop_tail, "drop-tail"), (drop_front, "drop-front")])
@pytest.mark.parametrize("loads", [(1.25,), long((1.25, 2.0)), (3.0,)], ids=str)
@pytest.mark.parametrize("packets", [long(50), 170, long(500)])
@pytest.mark.parametrize(("loss", "swing"), [(0.0, 0.0), (0.01, 0.0), (0.0, 0.1)])
def test_the_end_of_a_rate_says_which_packets_a_full_queue_drops(
    queue: Arrivals, name: str, loads: tuple[float, ...], packets: int, loss: float, swing: float
) -> None:
    steps = [step(queue, load, packets, loss=loss, swing=swing) for load in (0.7, *loads)]
    found = fit_kind(steps, "down")
    assert found.name in (name, None), found
    # Swings, and losses elsewhere, may leave it open; queues alone do not.
    assert found.name == name or loss or swing, found


@pytest.mark.parametrize("seeds", [5, pytest.param(40, marks=pytest.mark.long)])
def test_a_wrong_kind_is_found_as_rarely_as_the_level_says(seeds: int) -> None:
    tries = [
        (name, fit_kind([step(queue, load, 60, 3.0, 10, 0.01, 0.3, seed) for load in (0.7, 1.2)], "down").name)
        for seed in range(seeds)
        for queue, name in ((drop_tail, "drop-tail"), (drop_front, "drop-front"))
    ]
    assert sum(found not in (name, None) for name, found in tries) <= 3 * LEVEL * len(tries)
    assert any(found for _, found in tries)


def test_losses_of_a_rate_barely_above_the_capacity_are_not_taken_for_those_of_the_path() -> None:
    steps = [step(drop_tail, load, time_s=6.0) for load in (0.7, 1.02, 1.06)]
    assert [one.is_full(steps) for one in steps] == [False, False, True]
    assert steps[1].loss > 0.01
    assert fit_kind(steps, "down").name == "drop-tail"


def test_a_limit_in_time_loses_the_same_packets_at_either_end_of_the_queue() -> None:
    sent_at = np.arange(5000) * PACKET * 8 / 29.7e6
    tail, late, front = (
        np.isnan(queue(sent_at, lambda _now: MBPS * 1e6, QUEUE))
        for queue in (drop_tail, too_late_at_the_head, drop_front)
    )
    assert np.array_equal(tail, late)
    # With a limit in packets, the front loses nothing of the last queue's worth, and has its first loss earlier.
    assert (tail[-QUEUE:].sum(), front[-QUEUE:].sum()) == (16, 0)
    assert np.argmax(tail) - np.argmax(front) == QUEUE - 1
    steps = [step(too_late_at_the_head, load) for load in (0.7, 1.5)]
    assert fit_kind(steps, "down").name == "drop-tail"


def test_the_kind_is_undecided_without_a_rate_that_fills_it_or_one_below() -> None:
    below, above, short = step(drop_front, 0.7), step(drop_front, 1.5), step(drop_front, 1.5, packets=2)
    assert fit_kind([below], "down").why.endswith("no rate filled the path")
    for steps in ([above], [below, short]):
        found = fit_kind(steps, "down")
        assert (found.name, "it takes a rate below the capacity" in found.why) == (None, True)
    assert fit_kind([below, above], "up").name is None


def test_a_queue_that_drops_from_its_front_has_its_size_from_the_rate_sent() -> None:
    for queue, load in ((drop_tail, 1.5), (drop_front, 1.25), (drop_front, 2.0)):
        steps = [step(queue, share, pings_ms=pings(0.0)) for share in (0.7, load)]
        rate = fit_rate(steps, "down")
        assert rate is not None
        found = fit_queue(steps, rate)
        assert found is not None
        assert found.bytes_ == pytest.approx(QUEUE * PACKET, rel=0.04)
        # Packets that wait in it pass faster if others ahead of them are dropped.
        assert found.delay_ms == pytest.approx(QUEUE_MS / (1 if queue is drop_tail else load), rel=0.05)


@pytest.mark.parametrize(
    ("beside_ms", "hidden", "said"),
    [
        (0.0, True, "the busy flow waits 29."),
        (1.7, True, "the busy flow waits 27."),
        (29.0, False, "a ping sees the queue: the flow waits 29."),
        (14.55, None, "20 pings leave open whether they wait with it"),
        (np.nan, False, "and no ping comes back"),
    ],
)
def test_the_difference_to_pings_is_a_finding(beside_ms: float, hidden: bool | None, said: str) -> None:
    steps = [step(drop_tail, 0.7, pings_ms=pings(0.0)), step(drop_tail, 1.5, pings_ms=pings(beside_ms))]
    (found,) = waits(steps, "down")
    assert (found.hidden, said in found.finding) == (hidden, True), found.finding
    assert found.pings == 20
    assert found.flow_ms == pytest.approx((QUEUE - 1) * PACKET * 8 / (MBPS * 1e3), rel=0.02)
    assert found.ping_ms == pytest.approx(beside_ms, abs=0.2, nan_ok=True)
    assert waits(steps, "up") == []
    assert waits([step(drop_tail, 0.7), step(drop_tail, 1.5)], "down") == []


def test_a_few_pings_do_not_say_anything() -> None:
    steps = [step(drop_tail, load, time_s=1.0, pings_ms=pings(0.0, 1.0)) for load in (0.7, 1.5)]
    (found,) = waits(steps, "down")
    assert (found.pings, found.hidden) == (5, None)
    unanswered = [step(drop_tail, load, pings_ms=np.full(50, np.nan)) for load in (0.7, 1.5)]
    (found,) = waits(unanswered, "down")
    assert (found.pings, found.hidden) == (0, None)


def test_a_fit_has_the_queue_of_the_flow_its_kind_and_the_finding() -> None:
    steps = [step(drop_front, load, pings_ms=pings(0.3)) for load in (0.7, 1.25)]
    fitted = fit("front", Measured(steps=steps))
    queue = tomllib.loads(fitted.text)["down"]["queue"]
    assert queue["kind"] == "drop-front"
    assert float(queue["bytes"].removesuffix(" kB")) == pytest.approx(75, rel=0.04)
    assert any("a ping does not see" in note and "Pings queue apart" in note for note in fitted.notes)
    assert "The queue drops from its front" in fitted.text.replace("\n# ", " ")
    # A probe without pings keeps its plain queue.
    plain = fit("front", Measured(steps=[step(drop_front, load) for load in (0.7, 1.25)]))
    assert "drop-front" not in plain.text
    assert plain.notes == ()


def test_a_search_goes_on_below_at_and_above_what_the_path_carried() -> None:
    plan = ProbePlan("there", TOKEN, (10_000_000,), directions=("down",), find=True, in_band=True)
    done: list[Step] = []
    while (following := plan.next_step(done)) is not None:
        done.append(step(drop_tail, following[1] / (MBPS * 1e6)))
    rates = [round(one.offered_bps / 1e6, 1) for one in done]
    assert rates[:3] == [10, 20, 40]
    assert rates[3:] == [round(share * MBPS, 1) for share in AROUND]
    limited = [one for one in done[:6] if one.offered_bps <= 40e6]
    assert plan.next_step(limited, {"down": 30_000_000}) is None


def test_over_this_host_pings_go_beside_each_rate_and_nothing_fills_it(perigee: Perigee, tmp_path: Path) -> None:
    with answering(TOKEN, Limits(rate_bps=30_000_000)) as port:
        to = [
            "probe",
            f"127.0.0.1:{port}",
            "--token",
            TOKEN.decode(),
            "--in-band",
            "--direction",
            "down",
            "--log",
            "a.jsonl",
        ]
        done = perigee(*to, "--rate", "1 Mbit/s", "--rate", "2 Mbit/s", "--time", "500 ms")
    assert done.returncode == 0, done.stderr
    assert "down: never full" in done.stdout
    assert "no rate filled the path" in done.stderr
    again = perigee("probe", "--summary", "a.jsonl")
    assert (again.stdout, "no rate filled" in again.stderr) == (done.stdout, True)
    for one in read_log(tmp_path / "a.jsonl"):
        assert one.pings is not None
        sent_s, rtt_ms = one.pings
        assert -IDLE_S - 0.2 < sent_s[0] < -IDLE_S / 3
        assert np.isfinite(rtt_ms).sum() >= 10
        assert one.interval_s == PACKET * 8 / one.offered_bps
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["in_band"] is True
    broken = {**json.loads(lines[1]), "pings": {"sent_s": [0.1], "rtt_ms": []}}
    (tmp_path / "a.jsonl").write_text(f"{lines[0]}\n{json.dumps(broken)}\n{lines[2]}\n")
    with pytest.raises(InputError, match=r"a.jsonl:2: .*`pings` is missing or no such value"):
        read_log(tmp_path / "a.jsonl")


def test_a_host_that_answers_no_ping_is_named_and_pings_that_end_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perigee.measuring.probe.IDLE_S", 0.5)
    with answering(TOKEN, Limits()) as port:
        plan = ProbePlan("127.0.0.1", TOKEN, (1_000_000,), port=port, in_band=True)
        # A reserved address, to which nothing of this machine is sent.
        monkeypatch.setattr("perigee.measuring.probe.Pings", lambda _host, longest_s: Pings("240.0.0.1", longest_s))
        with pytest.raises(RunError, match=r"^240.0.0.1: "):
            probe(plan)
        monkeypatch.setattr("perigee.measuring.beside._LINE", re.compile("()()()()nothing"))
        monkeypatch.setattr("perigee.measuring.probe.Pings", Pings)
        with pytest.raises(RunError, match=r"127.0.0.1: answers no ping; allow ICMP echo"):
            probe(plan)


def test_pings_have_the_instant_at_which_they_were_sent_late_answers_too() -> None:
    text = (
        "PING x (192.0.2.1) 56(84) bytes of data.\n"
        "[1700000010.600000] no answer yet for icmp_seq=1\n"
        "[1700000011.000000] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=600 ms\n"
        "[1700000010.800000] no answer yet for icmp_seq=2\n"
        "[1700000010.810000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=10.0 ms\n"
    )
    found = sent_and_answered(text, 0.2, -1.7e9)
    assert [sent for sent, _ in found] == pytest.approx([10.4, 10.6, 10.8])
    assert [rtt for _, rtt in found] == pytest.approx([600, np.nan, 10], nan_ok=True)


def test_it_stops_while_only_pings_are_sent() -> None:
    with answering(TOKEN, Limits()) as port:
        plan = ProbePlan("127.0.0.1", TOKEN, (1_000_000,), port=port, in_band=True)
        with pytest.raises(InterruptedRunError):
            probe(plan, watch=lambda what, _share: not what.startswith("idle before up"))


TWO_BANDS = f"""
ip link set lo up
unshare --net sleep 200 & inner=$!
while [ "$(readlink /proc/$inner/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link add outer type veth peer name inner netns $inner
ip addr add 10.9.0.1/24 dev outer && ip link set outer up
inside() {{ nsenter --net=/proc/$inner/ns/net "$@"; }}
inside ip addr add 10.9.0.2/24 dev inner && inside ip link set inner up
inside tc qdisc add dev inner root handle 1: htb default 1 &&
inside tc class add dev inner parent 1: classid 1:1 htb rate 1mbit quantum 1514 &&
inside tc class add dev inner parent 1: classid 1:2 htb rate {MBPS * 1514 * 10**6 // PACKET}bit burst 1514 cburst 1514 quantum 1514 &&
inside tc qdisc add dev inner parent 1:2 KIND limit {QUEUE} &&
inside nft add table ip bulk && inside nft add chain ip bulk out '{{ type filter hook output priority 0; }}' &&
inside nft add rule ip bulk out meta length '>' 1000 meta priority set 1:2 || exit 9
{PERIGEE} probe --serve 2>serving & server=$!
for _ in $(seq 300); do grep -q listening serving && break; sleep 0.1; done
inside {PERIGEE} probe 10.9.0.1 --in-band --rate '{0.7 * MBPS} Mbit/s' --rate '{1.25 * MBPS} Mbit/s' --time '5 s' \\
  --direction up --log probe.jsonl; code=$?
kill $server $inner; exit $code
"""  # noqa: E501
"""Linux's own queues: large packets in one class of HTB, pings in another."""


def repeated(
    folder: Path, run: Callable[[Path], subprocess.CompletedProcess[str]], hold: Callable[[Path], Any]
) -> None:
    """Measure and hold, again where other processes of this machine were in the way."""
    for attempt in range(ATTEMPTS):
        place = folder / str(attempt)
        place.mkdir()
        done = run(place)
        assert done.returncode == 0, done.stderr
        try:
            hold(place)
            break
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise


def between_namespaces(kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Probe through Linux's queues."""
    if os.geteuid() != 0 or shutil.which("nft") is None:
        pytest.skip("network namespaces need root, and marks of packets nft")
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", TWO_BANDS.replace("KIND", kind)],  # noqa: S607
        capture_output=True, text=True, timeout=200, check=False, cwd=folder,
        env={**os.environ, "PERIGEE_TOKEN": TOKEN.decode()},
    )  # fmt: skip
    if done.returncode == 9 or "Operation not permitted" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done


@pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param("pfifo", "drop-tail", marks=pytest.mark.long), ("pfifo_head_drop", "drop-front")],
)
def test_a_queue_of_30_ms_that_pings_do_not_see_is_found_in_the_flow(tmp_path: Path, kind: str, name: str) -> None:
    def hold(folder: Path) -> None:
        steps = read_log(folder / "probe.jsonl")
        (found,) = waits(steps, "up")
        assert found.hidden is True, found
        assert found.ping_ms < 2
        rate = fit_rate(steps, "up")
        assert rate is not None
        queue = fit_queue(steps, rate)
        assert queue is not None
        assert queue.kind is not None
        assert queue.kind.name == name, queue.kind
        assert queue.bytes_ * 8e3 / (MBPS * 1e6) == pytest.approx(QUEUE_MS, rel=0.1)
        if name == "drop-tail":
            assert found.flow_ms == pytest.approx(QUEUE_MS, rel=0.1)

    repeated(tmp_path, lambda folder: between_namespaces(kind, folder), hold)


@pytest.mark.parametrize("name", [pytest.param("drop-tail", marks=pytest.mark.long), "drop-front"])
def test_an_emulated_queue_has_its_kind_and_pings_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, perigee: Perigee, name: str
) -> None:
    queue = f'{{ kind = "{name}", bytes = "{QUEUE * PACKET // 1000} kB" }}'
    settings = {"down.rate": f"{MBPS} Mbit/s", "down.delay": "10 ms", "up.delay": "10 ms", "down.queue": queue}
    link = "--link leo " + " ".join(f"--set {shlex.quote(f'{key}={value}')}" for key, value in settings.items())
    rates = f"--rate '{0.7 * MBPS} Mbit/s' --rate '{1.5 * MBPS} Mbit/s' --time '5 s' --direction down"

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("PERIGEE_TEST_FOLDER", str(folder))
        return behind(link, f"{PERIGEE} probe 100.64.0.1 --in-band {rates} --log probe.jsonl")

    def hold(folder: Path) -> None:
        done = perigee("fit", "--probe", folder / "probe.jsonl", "--out", folder / "fitted.toml")
        assert done.returncode == 0, done.stderr
        assert "note: probe.jsonl, down: a ping sees the queue" in done.stderr
        fitted = tomllib.loads((folder / "fitted.toml").read_text())["down"]["queue"]
        kind, size = (fitted["kind"], fitted["bytes"]) if isinstance(fitted, dict) else ("drop-tail", fitted)
        assert kind == name
        assert float(size.removesuffix(" kB")) == pytest.approx(QUEUE * PACKET / 1000, rel=0.1)

    repeated(tmp_path, run, hold)

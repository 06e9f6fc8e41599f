# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Links fitted to logs of other programs: a profile of any that carries enough, and what could not be known."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT, Perigee
from perigee.errors import InputError
from perigee.fitting.captured import Ceiling, transfers_of
from perigee.fitting.fit import Measured, fit
from perigee.fitting.loss import Runs
from perigee.fitting.series import joined, read_pings
from perigee.fitting.sources import measured_by
from perigee.fitting.written_losses import part_of_losses

DATA = ROOT / "tests" / "data" / "logs"
PINGS = (
    "lost-at-both-ends.txt", "no-answer-yet.txt", "macos.txt", "busybox.txt", "windows.txt", "linux-ipv6.txt",
    "fping.txt",
)  # fmt: skip


@pytest.mark.parametrize("name", PINGS)
def test_a_dozen_pings_of_any_system_make_a_profile_that_says_what_it_does_not_know(
    perigee: Perigee, tmp_path: Path, name: str
) -> None:
    done = perigee("fit", "--ping", DATA / name, "--down", "20 Mbit/s", "--up", "2 Mbit/s", "-o", "x.toml")
    assert done.returncode == 0, done.stderr
    made = tomllib.loads((tmp_path / "x.toml").read_text())
    assert (made["down"]["rate"], made["up"]["rate"]) == ("20 Mbit/s", "2 Mbit/s")
    assert float(made["down"]["delay"].split()[0]) == pytest.approx(300, abs=0.6)
    assert "not known: how the delay varies:" in done.stderr
    assert "90 % interval of loss of pings" in done.stderr


def test_mixed_logs_make_one_link_each_by_what_it_is(perigee: Perigee, tmp_path: Path) -> None:
    files = [DATA / name for name in ("windows.txt", "text-after.json", "rrul.flent.gz")]
    done = perigee("fit", *files, "-o", "x.toml")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "x.toml").read_text()
    made = tomllib.loads(text)
    # Five seconds on end of flent's download, which goes from 50 to 58 Mbit/s in 1.8 s, have 54.2 Mbit/s; iperf3's
    # upload carried more than flent's.
    assert float(made["down"]["rate"].split()[0]) == pytest.approx(54.2 * 1500 / 1448, rel=0.01)
    assert float(made["up"]["rate"].split()[0]) == pytest.approx(10 * 1500 / 1448, rel=0.03)
    assert "those of windows.txt are left out" in done.stderr
    assert "# Not known: losses: the log has answered pings only." in text
    assert "90 % interval of down.rate:" in done.stderr


def test_bunched_losses_that_are_too_few_and_a_readers_caveat_are_said(perigee: Perigee, tmp_path: Path) -> None:
    done = perigee("fit", DATA / "lost-at-both-ends.txt", DATA / "interrupted.json", "-o", "x.toml")
    assert done.returncode == 0, done.stderr
    text = " ".join((tmp_path / "x.toml").read_text().replace("\n# ", " ").split())
    assert "note: Losses (pings) are bunched, 9 in 2 events" in done.stderr
    assert "Runs of losses: 2, up to 6 long, too few to fit: independent ones, half of them each way" in text
    assert "note: interrupted.json: iperf3 did not hear how much arrived" in done.stderr
    assert "what its sender wrote, ahead of the link by its buffer: the link may carry less" in text
    assert "the link carries this or more" not in text
    assert "interval of up.rate: not known Mbit/s (a sender wrote this, ahead of the link)" in done.stderr


def test_the_systems_ping_fits_as_the_own_one_does(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    rtt_ms = 600 + draws.uniform(0, 40, 2000).round(1)
    lost = draws.random(2000) < 0.02
    own = tmp_path / "own.csv"
    lines = [
        f"{1000 + 0.2 * at:.3f},{'' if gone else f'{rtt:.3f}'}\n"
        for at, (rtt, gone) in enumerate(zip(rtt_ms, lost, strict=True))
    ]
    own.write_text("# perigee ping: to x, every 200000 us, 56 bytes, lost after 9 us\nunix_s,rtt_ms\n" + "".join(lines))
    system = tmp_path / "ping.txt"
    answers = [f"64 bytes from 192.0.2.1: icmp_seq={at} ttl=50 time={rtt:.1f} ms\n"
               for at, (rtt, gone) in enumerate(zip(rtt_ms, lost, strict=True), 1) if not gone]  # fmt: skip
    counts = f"2000 packets transmitted, {2000 - lost.sum()} received, 2% packet loss, time 399800ms\n"
    system.write_text("PING x (192.0.2.1) 56(84) bytes of data.\n" + "".join(answers) + "\n" + counts)
    mine, theirs = read_pings(own), read_pings(system)
    np.testing.assert_array_equal(mine.rtt_ms, theirs.rtt_ms)
    np.testing.assert_array_equal(mine.place, theirs.place)
    assert theirs.interval_s == pytest.approx(0.2)
    assert (theirs.size, theirs.system) == (56, "ping of Linux (iputils)")


def flood(folder: Path, arrived: list[int], lost: int) -> Path:
    """Write what a client of `iperf3 --udp --reverse` would: bytes that arrived in each second, and lost datagrams."""
    streams = [
        {"socket": 5, "start": at, "end": at + 1, "seconds": 1, "bytes": count, "jitter_ms": 0.1, "sender": False}
        for at, count in enumerate(arrived)
    ]
    end = {"socket": 5, "end": len(arrived), "seconds": len(arrived), "bytes": sum(arrived), "jitter_ms": 0.1,
           "lost_packets": lost, "packets": lost + sum(arrived) // 1448, "sender": False}  # fmt: skip
    test = {"protocol": "UDP", "num_streams": 1, "blksize": 1448, "duration": len(arrived), "bytes": 0, "reverse": 1}
    document = {
        "start": {"connected": [{"socket": 5}], "version": "iperf 3.12", "test_start": test},
        "intervals": [{"streams": [stream]} for stream in streams],
        "end": {"streams": [{"udp": end}]},
    }
    (folder / "udp.json").write_text(json.dumps(document))
    return folder / "udp.json"


@pytest.mark.parametrize(
    ("first", "lost", "rate", "burst"),
    [
        (1_000_000, 5_000, 8 * 1476 / 1448, 0),
        (1_500_000, 5_000, 8 * 1476 / 1448, 500 * 1476 / 1448),
        (1_000_000, 100, 8 * 1476 / 1448, 0),
    ],
)
def test_what_arrives_of_a_flood_is_the_rate_and_what_arrives_before_it_settles_a_policers_burst(
    perigee: Perigee, tmp_path: Path, first: int, lost: int, rate: float, burst: float
) -> None:
    log = flood(tmp_path, [first, *[1_000_000] * 9], lost)
    done = perigee("fit", "--ping", DATA / "windows.txt", log, "-o", "x.toml")
    assert done.returncode == 0, done.stderr
    down = tomllib.loads((tmp_path / "x.toml").read_text())["down"]
    assert float(down["rate"].split()[0]) == pytest.approx(rate, rel=0.001)
    assert float(down.get("burst", "0 kB").split()[0]) == pytest.approx(burst, rel=0.001)
    is_bound = lost < 500
    assert ("the link carries 8 Mbit/s or more" in (tmp_path / "x.toml").read_text()) == is_bound
    assert ("did not fill the path: its rate is a lower bound" in done.stderr) == is_bound
    mbps = 8 * 1476 / 1448
    ends = f"{0.99 * mbps:.3f} {'or more' if is_bound else f'to {1.01 * mbps:.3f}'} Mbit/s"
    assert f"90 % interval of down.rate: {ends}" in done.stderr


def test_a_flood_whose_sender_paused_is_a_lower_bound(tmp_path: Path) -> None:
    tcp = download(tmp_path, [(0, 30.0)] * 10)
    for arrived, is_flood in ([1_000_000, 1_300_000] * 5, False), ([1_150_000] * 10, True):
        found = {one.is_udp: one for one in transfers_of([tcp, flood(tmp_path, arrived, 5_000)])}
        assert (found[True].is_flood, found[True].burst_bytes) == (is_flood, 0.0)
        assert any("its sender paused" in note for note in found[True].notes) != is_flood


def test_growth_of_sampled_round_trips_counts_from_idle_pings_and_that_of_captures_from_their_own() -> None:
    one = Ceiling("a", "b", "down", 8e6, 20, 150.0, 50.0, None, assumed=False, how="mean", is_sampled=True)
    assert (one.above(100.0).grown_ms, one.above(100.0).queue_bytes()) == (100.0, 100e3)
    assert one.above(160.0) is one
    assert replace(one, is_sampled=False).above(100.0).grown_ms == 50.0


def test_losses_stand_in_the_direction_that_logs_tell_where_they_tell_enough() -> None:
    assert part_of_losses("down", Measured(lost={"down": 9, "up": 1})) == pytest.approx(0.9)
    assert part_of_losses("down", Measured(lost={"down": 4, "up": 0})) == 0.5
    assert part_of_losses("up", Measured()) == 0.5


def download(folder: Path, seconds: list[tuple[int, float]]) -> Path:
    """Write what `iperf3 -R --get-server-output` would of 1,000 packets a second: sent again, and round trip, ms."""
    streams = [
        {"socket": 5, "start": at, "end": at + 1, "seconds": 1, "bytes": 1_448_000, "retransmits": again,
         "snd_cwnd": 144_800, "rtt": round(1000 * rtt_ms), "sender": True}
        for at, (again, rtt_ms) in enumerate(seconds)
    ]  # fmt: skip
    total = {"socket": 5, "start": 0, "end": len(seconds), "seconds": len(seconds), "bytes": 1_448_000 * len(seconds)}
    sent = {**total, "retransmits": sum(again for again, _ in seconds), "sender": True}
    test = {"protocol": "TCP", "num_streams": 1, "duration": len(seconds), "bytes": 0, "reverse": 1}
    start = {"connected": [{"socket": 5}], "version": "iperf 3.12", "test_start": test}
    end = {"streams": [{"sender": sent, "receiver": {**total, "sender": False}}], "sum_sent": sent}
    kept = ("socket", "start", "end", "seconds", "bytes")
    received = [{"streams": [{**{key: one[key] for key in kept}, "sender": False}]} for one in streams]
    document = {
        "start": start,
        "intervals": received,
        "end": end,
        "server_output_json": {"start": start, "intervals": [{"streams": [one]} for one in streams], "end": end},
    }
    (folder / "tcp.json").write_text(json.dumps(document))
    return folder / "tcp.json"


def test_packets_sent_again_while_no_queue_stood_were_lost_on_the_path_where_pings_say_less(tmp_path: Path) -> None:
    start, full = [(0, 31.0), (300, 31.0), (4, 32.0), (0, 32.0)], [(40, 80.0), (0, 70.0)]
    quiet = [(at % 2, 31.0) for at in range(9)]
    pings = read_pings(pinged(tmp_path / "ping.txt", [30.0] * 300))
    (one,) = transfers_of([download(tmp_path, [*start, *full, *quiet])])
    # Nine seconds without a queue, the first of which has the queue of the second before it at its beginning.
    assert (one.quiet.sent, one.quiet.lost) == (9 * 1000 + 4, 4)
    lost = Measured(pings=pings, captured=[one])
    assert fit("x", lost).down.loss.toml == '"0.0444 %"'  # type: ignore[union-attr]
    # A queue always, a policer, or more than pings can have lost: they are no losses of the path.
    assert one.above(20.0).quiet.sent == 0
    policed = replace(one, is_udp=True, is_flood=True, burst_bytes=1e5)
    for other in ([one, policed], [replace(one, quiet=Runs(9000, ((1, 400),)))]):
        assert fit("x", replace(lost, captured=other)).down.loss.toml == '"0 %"'  # type: ignore[union-attr]


def test_logs_of_one_interval_as_two_clocks_tell_it_are_joined_and_of_two_intervals_are_not(tmp_path: Path) -> None:
    def log(name: str, interval_s: float) -> Path:
        lines = [
            f"[{1.7e9 + interval_s * place:.6f}] 64 bytes from 192.0.2.1: icmp_seq={place + 1} ttl=64 time=30.0 ms\n"
            for place in range(10)
        ]
        (tmp_path / name).write_text("PING x (192.0.2.1) 56(84) bytes of data.\n" + "".join(lines))
        return tmp_path / name

    series = [read_pings(log(name, interval_s)) for name, interval_s in (("a", 0.2), ("b", 0.2003), ("c", 0.21))]
    assert len(joined(series[:2]).rtt_ms) == 20
    with pytest.raises(InputError, match=r"c: pings of 56 bytes each 210 ms, those of .*a are of .* 200 ms; fit them"):
        joined(series)


def pinged(path: Path, rtt_ms: list[float], *, head: bool = True, tail: str = "") -> Path:
    """Write what `ping -D -i 0.2` would, from 1 700 000 000 s on; without a head its first lines are missing."""
    lines = [
        f"[{1.7e9 + 0.2 * at + rtt / 1000:.6f}] 64 bytes from 192.0.2.1: icmp_seq={at + 1} ttl=64 time={rtt:.1f} ms\n"
        for at, rtt in enumerate(rtt_ms)
    ]
    path.write_text("".join(["PING x (192.0.2.1) 56(84) bytes of data.\n", *lines] if head else lines[50:]) + tail)
    return path


def test_pings_beside_a_transfer_are_not_of_the_idle_path(tmp_path: Path) -> None:
    # 60 s of pings at 5/s, the transfer from the 20th to the 30th second.
    is_beside = [0.2 * at + 0.03 > 19 and 0.2 * at < 31 for at in range(300)]
    log = pinged(tmp_path / "ping.txt", [200.0 if beside else 30.0 for beside in is_beside])
    transfer = flood(tmp_path, [1_000_000] * 10, 5_000)
    document = json.loads(transfer.read_text())
    document["start"]["timestamp"] = {"timesecs": 1_700_000_020}
    transfer.write_text(json.dumps(document))
    found = measured_by([log, transfer]).pings
    assert found is not None
    assert (len(found.rtt_ms), set(found.rtt_ms)) == (300 - sum(is_beside), {30.0})
    assert f"{sum(is_beside)} of 300 pings were beside transfers" in found.notes[-1]
    # A gap in place of those that were left out, and no losses.
    assert (int(found.lost.sum()), int((~found.follows).sum())) == (0, 1)
    # Where there are no others, their least is all that is taken of them.
    document["start"]["timestamp"] = {"timesecs": 1_699_999_990}
    document["end"]["streams"][0]["udp"]["end"] = 100
    transfer.write_text(json.dumps(document))
    loaded = measured_by([log, transfer]).pings
    assert loaded is not None
    assert (loaded.is_loaded, loaded.is_short, loaded.has_losses, len(loaded.rtt_ms)) == (True, True, False, 300)


def test_behind_a_log_without_its_first_lines_nothing_is_known_to_be_lost(tmp_path: Path) -> None:
    summary = "\n--- x ping statistics ---\n300 packets transmitted, 300 received, 0% packet loss, time 60000ms\n"
    found = read_pings(pinged(tmp_path / "tail.txt", [30.0] * 300, head=False, tail=summary))
    assert (len(found.rtt_ms), int(found.lost.sum())) == (250, 0)
    whole = read_pings(pinged(tmp_path / "ping.txt", [30.0] * 290, tail=summary.replace("300 rec", "290 rec")))
    assert (len(whole.rtt_ms), int(whole.lost.sum())) == (300, 10)

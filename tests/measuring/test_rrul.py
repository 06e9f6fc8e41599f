# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee rrul` with real iperf3, behind an emulated link and on this host."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import Perigee, needs_tun
from perigee.engines.live.under_load import PLAN, SYSTEM_PINGS, TRANSFERS, LoadPlan, UnderLoad, read
from perigee.report.pages.load import compared, page, sentence

pytestmark = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")

COMMAND = f"{shlex.quote(sys.executable)} -m perigee"
THERE = "100.64.0.1"
"""The host outside of `perigee exec`, as the program behind the link sees it."""


def behind(folder: Path, link: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script behind a link, on a separate host that runs iperf3."""
    needs_tun()
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:  # noqa: S607
        pytest.skip("emulated links need network namespaces")
    whole = (
        "ip link set lo up; iperf3 --server --json --port 5201 >/dev/null & transfers=$!\n"
        f"{COMMAND} exec {link} -- sh -c {shlex.quote(script)}; code=$?\n"
        "kill $transfers; wait; exit $code"
    )
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", whole], capture_output=True, text=True, timeout=200, check=False,  # noqa: S607
        cwd=folder,
    )  # fmt: skip


@pytest.mark.quiet  # a ping that waits for the processor waits for no queue
def test_the_queue_that_transfers_fill_is_what_pings_beside_them_wait_for(tmp_path: Path) -> None:
    # 100 kB are 100 ms at 8 Mbit/s; the way up stays free of everything but acknowledgements.
    link = "--link geo --set link.rate='8 Mbit/s' --set link.delay='20 ms' --set link.queue='100 kB'"
    load = f"{COMMAND} rrul {THERE} --direction down --streams 2 --time '5 s' --idle '2 s' --interval '50 ms' -o m"
    done = behind(tmp_path, link, load)
    assert done.returncode == 0, done.stderr
    measured = read(tmp_path / "m")
    idle, loaded = measured.pings(loaded=False), measured.pings(loaded=True)
    assert idle.quantile_ms(0.5) == pytest.approx(40, abs=3)
    # Slow start fills the queue. Later Cubic stays for seconds below the window at which it lost.
    assert loaded.quantile_ms(1.0) > 125
    # The last of a hundred pings is one for which the processor was not free.
    assert loaded.quantile_ms(0.9) < 155
    assert idle.quantile_ms(0.5) + 30 < loaded.quantile_ms(0.5) <= 145
    # Headers take a twentieth.
    assert 0.7 * 8 < measured.mean_mbps("down") < 8
    assert list(measured.rates) == ["down"]
    # The server says what its transfers see: the same queue, smoothed.
    assert measured.flow_quantiles_ms("down", (0.5,))[0] == pytest.approx(loaded.quantile_ms(0.5), abs=15)
    assert "of the transfers down" in done.stdout
    between = measured.difference("down")
    assert between is not None
    assert between.hidden is False
    assert "down: a ping sees the queue" in done.stdout
    # After the load the queue empties.
    after = measured.rtt_ms[measured.sent_s > measured.load_s[1] + 1]
    assert float(np.nanmedian(after)) == pytest.approx(40, abs=3)
    assert "<svg" in (tmp_path / "m" / "report.html").read_text()


@pytest.mark.quiet  # likewise
def test_transfers_in_a_queue_of_their_own_wait_for_what_the_systems_pings_do_not_see(
    perigee: Perigee, tmp_path: Path
) -> None:
    if shutil.which("ping") is None:
        pytest.skip("ping is not installed")
    # FQ-CoDel with a target that is never reached: one FIFO per flow, 50 ms in all, and sparse flows first. Two
    # transfers keep it from emptying.
    queue = '{ bytes = "50 kB", aqm = { kind = "fq-codel", target = "10 s", interval = "100 s" } }'
    keys = {"link.rate": "8 Mbit/s", "link.delay": "20 ms", "link.queue": queue}
    link = "--link geo " + " ".join(f"--set {shlex.quote(f'{key}={value}')}" for key, value in keys.items())
    load = f"{COMMAND} rrul {THERE} --direction down --streams 2 --time '5 s' --idle '2 s' --interval '50 ms' -o m"
    done = behind(tmp_path, link, load)
    assert done.returncode == 0, done.stderr
    measured = read(tmp_path / "m")
    assert (tmp_path / "m" / SYSTEM_PINGS).exists()
    assert measured.pings(loaded=False).quantile_ms(0.5) == pytest.approx(40, abs=3)
    between = measured.difference("down")
    assert between is not None
    assert between.hidden is True, between
    assert between.ping_ms < 2 < 10 < between.flow_ms
    assert "that a ping does not see" in done.stdout
    (tmp_path / "base.csv").write_text(
        "# perigee ping: to there, every 50000 us, 20 bytes, lost after 5000000 us\nunix_s,rtt_ms\n"
        + "".join(f"{1.7e9 + at / 20:.3f},40.{at % 10:03d}\n" for at in range(400))
    )
    fitted = perigee("fit", "--ping", "base.csv", "--load", "m", "--out", "fitted.toml")
    assert fitted.returncode == 0, fitted.stderr
    assert "note: m, TCP, down: the busy flow waits" in fitted.stderr
    assert "# m, TCP, down: the busy flow waits" in (tmp_path / "fitted.toml").read_text()


def test_a_load_in_both_directions_has_the_rates_of_both_and_is_shown_again_the_same(
    perigee: Perigee, tmp_path: Path
) -> None:
    link = "--link geo --set down.rate='8 Mbit/s' --set up.rate='4 Mbit/s' --set link.delay='10 ms'"
    queue = "--set link.queue='50 kB'"
    done = behind(tmp_path, f"{link} {queue}", f"{COMMAND} rrul {THERE} --time '3 s' --idle '1 s' -o m")
    assert done.returncode == 0, done.stderr
    measured = read(tmp_path / "m")
    assert 0.5 * 8 < measured.mean_mbps("down") < 8
    assert 0.5 * 4 < measured.mean_mbps("up") < 4
    assert all(count is not None for count in measured.retransmitted.values())
    again = perigee("rrul", "--summary", "m", "--figure", "again.pdf")
    assert again.returncode == 0, again.stderr
    assert again.stdout.replace("again.pdf\n", "").strip() in done.stdout
    assert (tmp_path / "again.pdf").read_bytes().startswith(b"%PDF")
    (tmp_path / "m" / PLAN).write_text('{"host": 1}')
    broken = perigee("rrul", "--summary", "m")
    assert (broken.returncode, "damaged" in broken.stderr) == (2, True), broken.stderr


def measurement(loaded_ms: float, down_mbps: float) -> UnderLoad:
    """A measurement with pings of 0.03 ms without load, and others beside a download of 8 s."""
    sent_s = np.arange(0, 12, 0.2)
    rtt_ms = np.where((sent_s >= 2) & (sent_s <= 10), loaded_ms, 0.03)
    rates = {"down": np.full(8, down_mbps)}
    return UnderLoad(LoadPlan("h"), sent_s, rtt_ms, (2.0, 10.0), rates, {"down": 3}, {"down": np.array([])}, ())


def test_medians_are_those_of_the_pings_and_not_of_bins() -> None:
    assert measurement(0.07, 1.0).pings(loaded=False).quantile_ms(0.5) == 0.03
    assert measurement(0.07, 1.0).pings(loaded=True).quantile_ms(0.5) == 0.07


def test_a_round_trip_of_microseconds_keeps_its_digits_and_one_transfer_is_no_plural() -> None:
    one = replace(measurement(0.07, 8.0), plan=LoadPlan("h", streams=1, direction="down"))
    said = "A round trip takes 0.030 ms, and 0.070 ms under a load of 8.0 Mbit/s down."
    assert sentence(one) == said
    shown = page({"m": one}).replace("\u00a0", " ")
    assert said in shown and "1 transfer down for" in shown and ">0.070<" in shown


def test_two_evenings_are_held_against_each_other() -> None:
    several = {"monday": measurement(100.0, 8.0), "tuesday": measurement(140.0, 7.9)}
    said = "tuesday against monday: the round trip under load is 140 ms, +40 %; the download is about the same, "
    said += "7.9 Mbit/s."
    assert compared(several) == said
    shown = page(several)
    assert said in shown
    assert shown.count("<svg") == 3, "one of both, and one of each over time"
    assert "how far two evenings differ by chance is not known" in shown


def test_a_host_without_iperf3_is_named_with_its_fix_and_nothing_is_written(perigee: Perigee, tmp_path: Path) -> None:
    done = perigee("rrul", "127.0.0.1:9", "--idle", "1 s", "--out", "m")
    assert done.returncode == 1, done.stderr
    assert "127.0.0.1, TCP port 9" in done.stderr
    assert "iperf3 --server --json" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_pings_and_transfers_and_writes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perigee", "rrul", "127.0.0.1:9", "--idle", "60 s", "--out", str(tmp_path / "m")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path) as run:
        while not list(tmp_path.glob(f".m.*/{SYSTEM_PINGS}")):
            assert run.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text(encoding="ascii").split()
        run.send_signal(signal.SIGINT)
        assert run.wait(300) == 130
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no host is given"),
        (["127.0.0.1", "--direction", "left"], "one of both, down, up"),
        (["127.0.0.1", "--time", "1.5 s"], "iperf3 takes whole seconds"),
        (["127.0.0.1", "--time", "30"], 'not a time with a unit; write "200 ms"'),
        (["127.0.0.1", "--figure", "a.txt"], "use a name that ends in .png, .pdf, .svg"),
        (["127.0.0.1", "--summary", "a"], "--summary takes no host"),
        (["127.0.0.1", "--out", "."], "exists already"),
        (["--summary", "no-such-folder"], "no-such-folder"),
    ],
)
def test_wrong_input_is_answered_with_the_fix_and_exit_code_2(
    perigee: Perigee, arguments: list[str], said: str
) -> None:
    done = perigee("rrul", *arguments)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_what_iperf3_wrote_may_be_cut_off(perigee: Perigee, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    plan = {"host": "a", "port": 1, "direction": "down", "streams": 1, "time_s": 1, "idle_s": 1.0, "interval_s": 0.2}
    (folder / PLAN).write_text(json.dumps({**plan, "cc": None, "ping_port": None, "load_began_unix_s": 3.0}))
    head = "PING a (192.0.2.1) 56(84) bytes of data.\n"
    lines = "".join(f"[{at}.0] 64 bytes from a: icmp_seq={at} ttl=64 time=20 ms\n" for at in range(1, 6))
    (folder / SYSTEM_PINGS).write_text(head + lines)
    (folder / TRANSFERS).write_text('{"start": {')
    done = perigee("rrul", "--summary", "m")
    assert (done.returncode, "cut off or damaged" in done.stderr) == (2, True), done.stderr

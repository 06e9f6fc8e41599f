# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""tcpdump on the nodes of an emulated run, and the emulator's own series: they agree within one percent."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from conftest import environment, needs_tun, next_line
from perigee.analysis.recordings import analyze
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "seen"
nodes = ["server", "client"]
hosts.mss = "1397 B"
[measure]
rtt = true
"""
    + link("overhead", "server client", rate="20 Mbit/s", delay="50 ms", queue="500 kB", loss="0.02 %")
    + flow("download", "server client", cc="cubic", start="6 s", duration="9 s")
)
IN_FLIGHT = 500_000 + 250_000
"""Bytes that queue and path hold: 20 Mbit/s x 0.1 s."""
DEVICES = "mtu 1437"
"""A packet size of no other study and of no trial run of the emulator."""
ATTEMPTS = 3
FIRST_NODE = "10.71.0.1"
SECOND_NODE = "10.71.0.2"


def namespaces(pid: int) -> Iterator[Path]:
    """The network namespaces that a process holds open."""
    folder = Path(f"/proc/{pid}/fd")
    own = Path(f"/proc/{pid}/ns/net").readlink()
    for entry in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        try:
            target = entry.readlink()
        except OSError:
            continue
        if str(target).startswith("net:[") and target != own:
            yield entry


def namespace_of(pid: int, address: str, until: float) -> Path:
    """The namespace of the node that has an address, once the devices of the study are there.

    Before the study the emulator tries itself out, with nodes of the same addresses but packets of other sizes.
    """
    while time.monotonic() < until:
        for entry in namespaces(pid):
            command = ["nsenter", f"--net={entry}", "sh", "-c", "ip -o link show; ip -o addr show"]
            shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            if f" {address}/32 " in shown and f" {DEVICES} " in shown:
                return entry
        time.sleep(0.05)
    raise AssertionError(f"no namespace with {address}")


def tcpdump(namespace: Path, file: Path) -> subprocess.Popen[str]:
    """A capture at all devices of a node; it has begun when this function returns."""
    command = ["nsenter", f"--net={namespace}", "tcpdump", "-i", "any", "-s", "120", "-B", "32768", "-U", "-Z", "root"]
    started = subprocess.Popen([*command, "-w", str(file)], stderr=subprocess.PIPE, text=True)
    said = ""
    while "listening on" not in said:
        line = next_line(started.stderr)
        assert line, f"tcpdump ended: {said}"
        said += line
    return started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for captures of emulated runs; skips where they cannot be taken."""
    needs_tun()
    for program in ("tcpdump", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return tmp_path


def capture(folder: Path) -> tuple[Path, Path, Path]:
    """Results of an emulated run, and captures at its sender and its receiver."""
    folder.mkdir()
    study, out = folder / "seen.toml", folder / "emu"
    study.write_text(STUDY)
    files = (folder / "server.pcap", folder / "client.pcap")
    command = [sys.executable, "-m", "perigee", "run", str(study), "--engine", "emu", "--out", str(out)]
    captures: list[subprocess.Popen[str]] = []
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as run:
        try:
            until = time.monotonic() + 300
            for address, file in zip((FIRST_NODE, SECOND_NODE), files, strict=True):
                captures.append(tcpdump(namespace_of(run.pid, address, until), file))
            _, said = run.communicate(timeout=300)
        finally:
            run.kill()
            for one in captures:
                one.send_signal(signal.SIGINT)
            dropped = [one.communicate(timeout=300)[1] for one in captures]
    assert run.returncode == 0, said
    assert all("\n0 packets dropped by kernel" in text for text in dropped), dropped
    return out, *files


@pytest.mark.quiet  # a rate of a second is as exact as threads are woken
def test_a_capture_taken_with_tcpdump_agrees_with_the_engine(folder: Path) -> None:
    # One late wake-up shifts the time of one packet, such as the handshake's, by more than 1 %.
    for attempt in range(ATTEMPTS):
        captured = capture(folder / str(attempt))
        try:
            agree(*captured)
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            break


def agree(out: Path, server: Path, client: Path) -> None:
    """Compare the captures with the tables of the engine."""
    engine = Results(out)
    truth = engine.table("flows").row(0, named=True)
    for file, side in ((server, "sender"), (client, "receiver")):
        found = analyze([file], study="seen")
        assert found is not None
        row = found.table("flows").row(0, named=True)
        assert found.table("connections")["side"][0] == side
        # The sender's side knows only acknowledged data, and a loss in the last round trip delays acknowledgements.
        unacknowledged = IN_FLIGHT / truth["received_bytes"] if side == "sender" else 0.0
        share = row["goodput_mbps"] / truth["goodput_mbps"]
        assert 0.99 - unacknowledged < share < 1.01, (side, share)
        # The engine counts until the end of the flow, the capture until the end of the connection.
        assert abs(row["retransmitted_packets"] - truth["retransmitted_packets"]) <= 0.01 * truth["sent_packets"]
        if side == "sender":
            for column in ("rtt_mean_ms", "rtt_p50_ms", "rtt_min_ms", "handshake_ms"):
                assert row[column] == pytest.approx(truth[column], rel=0.01), column
    found = analyze([client], study="seen")
    assert found is not None
    own = found.table("series").select("t_s", pl.col("goodput_mbps").alias("captured"))
    theirs = engine.table("series").with_columns((pl.col("t_s") - truth["start_s"]).round(3))
    both = own.join(theirs, on="t_s").filter(pl.col("t_s") < 9)
    assert both.height >= 7
    # Cumulative sums, since a late wake-up moves packets into the next second: 0.2 Mbit is
    # what the link carries in 10 ms.
    for row in both.sort("t_s").with_columns(pl.col("captured", "goodput_mbps").cum_sum()).iter_rows(named=True):
        assert row["captured"] == pytest.approx(row["goodput_mbps"], abs=0.2), row

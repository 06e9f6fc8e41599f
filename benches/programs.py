# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The programs that are compared: their command lines, runs and counts."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
OURS = TARGET / "release/examples/download"
NS3 = HERE / "peers/build/ns3-download"
PERF = ("perf", "stat", "-x", ",", "-e", "instructions:u")

MB = 1_000_000
GB = 1000 * MB
PAYLOAD = 1448
"""Payload of a packet of 1500 bytes with timestamps."""


@dataclasses.dataclass(frozen=True)
class Download:
    """One download over the path; the arguments of every program."""

    size: int
    cc: str = "cubic"
    loss: float = 0.0
    buffer: int = 60 * MB
    settings: tuple[str, ...] = ()
    """Further settings of ours: where the peer's congestion control differs without them, or no peer takes part."""
    study: str = ""
    """A study of ours in place of download.toml, taken as it is."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The output of a program, and the most memory it held."""

    segments: int
    retransmitted: int | None
    wall_s: float
    peak_mib: float
    sent: int = 0
    connections: int = 0
    """Number of connections of a population."""
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    """CPU time of the whole process, reading of the study included."""

    @property
    def speed(self) -> float:
        """Segments delivered per second of wall clock."""
        return self.segments / self.wall_s


def ours(download: Download) -> list[str]:
    """Our command line."""
    if download.study:
        return [str(OURS), str(ROOT / download.study), *download.settings]
    settings = [
        f"flow.size={download.size} B",
        f"flow.cc={download.cc}",
        f"links.satellite.down.loss={download.loss * 100:g} %",
        f"hosts.cwnd_clamp={download.buffer // PAYLOAD}",
    ]
    return [str(OURS), str(HERE / "download.toml"), *settings, *download.settings]


def ns2(download: Download) -> list[str]:
    """The command line of ns-2."""
    numbers = [download.size, download.loss, download.buffer]
    return ["ns", str(HERE / "peers/ns2.tcl"), download.cc, *map(str, numbers)]


def ns3(download: Download) -> list[str]:
    """The command line of ns-3."""
    cc = {"bbr": "TcpBbr", "cubic": "TcpCubic", "hybla": "TcpHybla", "reno": "TcpLinuxReno"}[download.cc]
    return [str(NS3), f"--cc={cc}", f"--size={download.size}", f"--loss={download.loss}"]


PEERS: dict[str, Callable[[Download], list[str]]] = {"ns-2": ns2, "ns-3": ns3}


WINDOWS = (10, 100, 1_000, 10_000, 100_000)
WINDOW_LOSSES = (0.0, 0.01)
WINDOW_SEGMENTS = 1_000_000
PACKET_BITS = 1500 * 8
ROUND_TRIP_S = 0.6


def window(packets: int, loss: float) -> Download:
    """A download whose path holds `packets` packets: its rate is window / round trip; its queue holds as many again."""
    rate = round(packets * PACKET_BITS / ROUND_TRIP_S)
    queue = max(packets, 10) * 1500
    return Download(
        # At least twenty round trips, so that the window is there most of the time.
        size=max(WINDOW_SEGMENTS, 20 * packets) * PAYLOAD,
        cc="bbr",
        loss=loss,
        buffer=4 * max(packets, 100) * 1500,
        settings=(
            f"links.satellite.rate={rate} bit/s",
            f"links.satellite.queue={queue} B",
            "links.internet.rate=10 Gbit/s",
            "links.home.rate=10 Gbit/s",
            # Their rows come with simulated time, not with packets: a small window would pay for them.
            "measure.series=off",
        ),
    )


def cpu_and_output(command: list[str], cwd: Path = ROOT) -> tuple[str, resource.struct_rusage]:
    """Run a program to its end; return its output and what it used. Raises RuntimeError where it failed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{err.read().strip()[-2000:]}")
        return out.read(), usage


def run(command: list[str]) -> Outcome:
    """Run a program to its end and read its line of JSON. Raises RuntimeError where it failed or printed none."""
    printed, usage = cpu_and_output(command)
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"{' '.join(command)}: no line of JSON")
    said = json.loads(lines[0])
    return Outcome(
        said["segments"],
        said.get("retransmitted"),
        said["wall_s"],
        usage.ru_maxrss / 1024,
        said.get("sent", 0),
        said.get("connections", 0),
        said.get("simulated_s", 0.0),
        usage.ru_utime + usage.ru_stime,
    )


@functools.cache
def counter() -> str | None:
    """Return the instruction counter of this host: perf where the kernel allows it, else valgrind, else nothing."""
    if shutil.which("perf"):
        tried = subprocess.run([*PERF, "true"], capture_output=True, text=True, check=False)
        if re.search(r"^\d+,", tried.stderr, re.MULTILINE):
            return "perf"
    return "callgrind" if shutil.which("valgrind") else None


def counted(command: list[str]) -> int:
    """Instructions of a program. Raises RuntimeError where it failed or nothing was counted."""
    with tempfile.TemporaryDirectory() as folder:
        callgrind = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out")
        under = [*(PERF if counter() == "perf" else callgrind), *command]
        done = subprocess.run(under, capture_output=True, text=True, check=False, cwd=ROOT)
    found = re.search(r"Collected : (\d+)|^(\d+),", done.stderr, re.MULTILINE)
    if done.returncode or not found:
        raise RuntimeError(f"{' '.join(under)}: exit code {done.returncode}\n{done.stderr.strip()[-2000:]}")
    return int(found[1] or found[2])


def three_digits(value: float) -> str:
    """Three significant digits, thousands separated."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Times `perigee analyze` on a large capture, beside tshark on the same file in turns.

    benches/analyze.py [--repeats N] [--size SIZE]

The capture is the simulator's own, of the study capture.toml beside this file. Programs run on one core, one after the
other; the table has the processor time of each, since other work on the machine stretches the wall clock. Needs
nothing beyond Python's own library.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from shown import processor

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
OURS = TARGET / "release/examples/speed"


def programs(capture: Path) -> dict[str, list[str]]:
    """Return the compared programs: name and command."""
    perigee = [str(ROOT / ".venv/bin/perigee"), "analyze", str(capture)]
    tshark = ["tshark", "-q", "-r", str(capture)]
    return {
        "Perigee": [str(OURS), str(capture)],
        "perigee analyze (with Python)": perigee,
        "tshark -z io,stat": [*tshark, "-z", "io,stat,1"],
        "tshark, round trips": [*tshark[:1], *tshark[2:], "-T", "fields", "-e", "tcp.analysis.ack_rtt"],
    }


def take(command: list[str]) -> float:
    """Processor time that a command takes, s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    one_core = ["taskset", "-c", "0"] if shutil.which("taskset") else []
    subprocess.run([*one_core, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Make the capture, take turns, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="turns [default: 3]")
    parser.add_argument("--size", default="1 GB", help='payload of the captured download [default: "1 GB"]')
    asked = parser.parse_args()
    cargo = ["cargo", "build", "--release", "--quiet", "-p", "perigee-analyze", "--example", "speed"]
    subprocess.run(cargo, cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        run = [str(ROOT / ".venv/bin/perigee"), "run", str(HERE / "capture.toml"), "--set", f"flow.size={asked.size}"]
        subprocess.run([*run, "--out", f"{folder}/results"], check=True, stdout=subprocess.DEVNULL)
        capture = Path(folder) / "results/captures/run-000000-server.pcapng"
        counted = subprocess.run([OURS, capture], check=True, capture_output=True, text=True).stdout
        packets = int(re.findall(r'"packets": (\d+)', counted)[0])
        print(f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ", end="")
        print(f"{packets:,} packets, {capture.stat().st_size / 1e6:.0f} MB\n")
        found = {name: command for name, command in programs(capture).items() if shutil.which(command[0])}
        seconds: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(asked.repeats):
            for name, command in found.items():
                seconds[name].append(take(command))
    ours = statistics.median(seconds["Perigee"])
    print("| program | packets/s of processor time | spread | Perigee is x faster |\n|---|---:|---:|---:|")
    for name, taken in seconds.items():
        median = statistics.median(taken)
        ratio = "" if name == "Perigee" else f"{median / ours:.3g}"
        print(f"| {name} | {packets / median:,.0f} | {(max(taken) - min(taken)) / median:.0%} | {ratio} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

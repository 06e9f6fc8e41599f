#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Load of an emulated link, lateness of its releases and its cost, beside a cable with tbf, as root.

    benches/emulator.py [--rounds N] [--seconds S]

Perigee is `crates/perigee-emu/examples/emulate.rs` with the study `emulator.toml`; the peer is a veth cable between two
namespaces with a qdisc `tbf` of 1 Gbit/s, with packets of 1500 bytes as on Perigee's link, and with large segments. All
take turns. Prints the tables of README.md beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import kernel
from kernel import ROOT, busy_s, run
from shown import processor, table

PROGRAM = ROOT / "target/release/examples/emulate"
LAST_CORE = (os.cpu_count() or 1) - 1
RATES = ("150 Mbit/s", "500 Mbit/s", "1 Gbit/s", "2 Gbit/s", "4 Gbit/s")
TBF = "tbf rate 1gbit burst 128kb latency 50ms"

Seen = dict[str, float]


def emulate(rate: str, seconds: float, *, one_core: bool = False) -> Seen:
    """One run of ours: what the example prints, and the machine's `busy_s` meanwhile."""
    command = [str(PROGRAM), "benches/emulator.toml", f"link.link.rate={rate}", f"flow.duration={seconds:g} s"]
    if one_core:
        command = ["taskset", "-c", str(LAST_CORE), *command]
    before = busy_s()
    seen: Seen = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    seen["busy_s"] = busy_s() - before
    return seen


@contextlib.contextmanager
def cable(*, whole_packets: bool) -> Iterator[kernel.Link]:
    """The cable with tbf, and its receiver; sender and receiver on one core."""
    with kernel.path():
        if whole_packets:
            for namespace, device in ((kernel.SENDER, "near"), (kernel.RECEIVER, "far")):
                run("ip", "-n", namespace, "link", "set", device, "gso_max_segs", "1")
        run("ip", "netns", "exec", kernel.SENDER, "tc", "qdisc", "add", "dev", "near", "root", *TBF.split())
        link = kernel.Link(core=LAST_CORE)
        try:
            yield link
        finally:
            link.close()


def over_cable(seconds: float, *, whole_packets: bool) -> Seen:
    """One transfer of the peer, in the figures of ours."""
    with cable(whole_packets=whole_packets) as link:
        used, busy, gbps = link.transfer("cubic", seconds)
    gigabytes = gbps * seconds / 8
    return {
        "goodput_mbps": 1e3 * gbps,
        "cpu_s": used * gigabytes,
        "busy_s": busy * gigabytes,
        "received_bytes": 1e9 * gigabytes,
    }


def throughput(rounds: int, seconds: float) -> list[list[str]]:
    """Rows of what carries how much at which cost."""
    programs: dict[str, Callable[[], Seen]] = {
        "Perigee's link, two cores": lambda: emulate("1 Gbit/s", seconds),
        "Perigee's link, one core": lambda: emulate("1 Gbit/s", seconds, one_core=True),
        "veth and tbf, one core, packets of 1500 bytes": lambda: over_cable(seconds, whole_packets=True),
        "veth and tbf, one core, large segments": lambda: over_cable(seconds, whole_packets=False),
        "Perigee's link without a limit, one core": lambda: emulate("100 Gbit/s", seconds, one_core=True),
    }
    seen: dict[str, list[Seen]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            seen[name].append(program())
    rows = []
    for name, results in seen.items():
        median = {
            key: statistics.median(result[key] / (result["received_bytes"] / 1e9) for result in results)
            for key in ("cpu_s", "busy_s")
        }
        goodput = statistics.median(result["goodput_mbps"] for result in results)
        steady = "-"
        if "rate_mbps" in results[0]:
            steady = f"{statistics.median(result['rate_mbps'] for result in results):.2f}"
        rows.append([name, f"{goodput:.0f}", steady, f"{median['cpu_s']:.2f}", f"{median['busy_s']:.2f}"])
    return rows


def lateness(rounds: int, seconds: float) -> list[list[str]]:
    """Rows of how late releases are."""
    rows = []
    for rate in RATES:
        for one_core in (False, True):
            results = [emulate(rate, seconds, one_core=one_core) for _ in range(rounds)]
            late = [statistics.median(result[key] for result in results) for key in ("late_p50_us", "late_p99_us")]
            latest = max(result["late_max_us"] for result in results)
            carried = statistics.median(result["rate_mbps"] for result in results)
            number, unit = rate.split()
            asked = float(number) * (1000 if unit.startswith("G") else 1)
            error = f"{100 * abs(carried / asked - 1):.3f} %"
            cores = "one" if one_core else "two"
            rows.append(
                [rate, cores, f"{late[0]:.1f}", f"{late[1]:.0f}", f"{latest / 1000:.1f}", f"{carried:.3f}", error]
            )
    return rows


def main() -> int:
    """Build, run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each program")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each transfer")
    asked = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("emulated links take root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "perigee-emu", "--example", "emulate"], check=True, cwd=ROOT
    )
    before = os.getloadavg()[0]
    carried = throughput(asked.rounds, asked.seconds)
    late = lateness(asked.rounds, asked.seconds)
    load = f"load {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    print(
        f"Of {datetime.now(UTC):%d %B %Y}, {processor()}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"{load}; medians of {asked.rounds} rounds of {asked.seconds:g} s, `ms at most` the largest of all:\n"
    )
    head = ["one `cubic` flow at 1 Gbit/s", "goodput, Mbit/s", "link, Mbit/s", "CPU s/GB", "whole machine, s/GB"]
    table(head, carried)
    print()
    head = ["rate set", "cores", "p50, us", "p99, us", "ms at most", "delivered, Mbit/s", "error"]
    table(head, late)
    return 0


if __name__ == "__main__":
    sys.exit(main())

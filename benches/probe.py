#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How constant a probe's rate is: both ways over the loopback device, at several rates.

    .venv/bin/python benches/probe.py [--seconds S] [--rate MBPS]...

Prints the table of README.md beside this file. As root the sender has real-time priority.
"""

from __future__ import annotations

import argparse
import os
import socket
import threading

import numpy as np

from perigee.measuring.probe import ProbePlan, probe
from perigee.measuring.server import Limits, serve

TOKEN = b"correct-horse"
MOST_MBPS = 2000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each rate (10)")
    parser.add_argument("--rate", type=float, action="append", help="Mbit/s (1, 20, 150, 500, 1000)")
    given = parser.parse_args()
    rates = tuple(round(rate * 1e6) for rate in given.rate or (1, 20, 150, 500, 1000))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done, limits = threading.Event(), Limits(rate_bps=MOST_MBPS * 1_000_000, total_bps=MOST_MBPS * 1_000_000)
    server = threading.Thread(
        target=serve, args=("127.0.0.1", port, TOKEN, limits, lambda _answered, _clients, _older: not done.is_set())
    )
    server.start()
    steps = probe(ProbePlan("127.0.0.1", TOKEN, rates, port=port, time_s=given.seconds))
    done.set()
    server.join()
    print(f"load {os.getloadavg()[0]:.1f}")
    print("| way | asked Mbit/s | sent Mbit/s | off by | lost | latest packet ms | usual spread in 100 ms, ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for step in steps:
        spread = float(np.nanmedian(step.delays_ms["most"] - step.delays_ms["least"]))
        late = step.record["sent"]["late_max_ns"] / 1e6
        off = 100 * abs(step.sent_bps / step.offered_bps - 1)
        print(
            f"| {step.direction} | {step.offered_bps / 1e6:g} | {step.sent_bps / 1e6:.3f} | {off:.3f} % "
            f"| {step.lost} | {late:.2f} | {spread:.3f} |"
        )


if __name__ == "__main__":
    main()

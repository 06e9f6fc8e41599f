#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A mixed load for perigee-pep, for as long as is asked: its memory stays flat, and no socket is left.

    benches/pep_soak.py [--minutes 30] [--rows 30]

Transfers of both directions, half-closes, late readers, resets and short connections take turns, and each is checked to
the byte. After every turn the service's memory (Pss) and descriptors are read. Ends with 1 where it has more sockets
in the end than before the first turn or more pipes than it keeps for the next connections, or where its largest memory
of the last third is above that of the first by more than a fifth and the buffers that it keeps. Network, rights and end
are those of pep.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pep_cases import both_ways, late_reader, messages, one_end_answers, reset_by, reset_of_a_reader
from pep_ends import MB, LostError, await_closed, data
from pep_service_cases import answers
from pep_world import Proxy, begin, running
from shown import table

BYTES = data(2 * MB, 9)
GROWTH = 1.2
KEPT_PIPES, KEPT_MB = 64, 4.2
"""Pipes that a worker keeps for the next connections, and the size of 64 buffers of 64 KiB."""

TURN: tuple[Callable[[Proxy], None], ...] = (
    lambda proxy: both_ways(proxy, BYTES, BYTES[::-1]),
    lambda proxy: one_end_answers(proxy, BYTES),
    lambda proxy: messages(proxy, [1, 1000, 50_000, 300_000] * 5),
    lambda proxy: late_reader(proxy, late_s=0.2, count=MB),
    lambda proxy: late_reader(proxy, upload=True, late_s=0.2, count=MB),
    lambda proxy: reset_by(proxy, "client", BYTES[:100_000]),
    lambda proxy: reset_by(proxy, "server", BYTES[:100_000]),
    reset_of_a_reader,
    lambda proxy: answers(proxy, 200, 20),
)


@dataclass(frozen=True)
class Look:
    """The service after a turn."""

    minutes: float
    turns: int
    memory_mb: float
    sockets: int
    pipe_ends: int


def soak(proxy: Proxy, minutes: float, sockets: int) -> list[Look]:
    """Take turns for some minutes, at least three; return a look after each, once only `sockets` are open again."""
    began, looks = time.monotonic(), list[Look]()
    while len(looks) < 3 or time.monotonic() < began + 60 * minutes:
        for act in TURN:
            act(proxy)
        with suppress(LostError):
            await_closed(proxy, sockets)
        counts = proxy.descriptors("socket"), proxy.descriptors("pipe")
        looks.append(Look((time.monotonic() - began) / 60, len(looks) + 1, proxy.memory_mb(), *counts))
    return looks


def faults(looks: list[Look], sockets: int) -> list[str]:
    """Return what has grown, a line each; the service had `sockets` sockets before."""
    found = []
    if (left := looks[-1].sockets - sockets) > 0:
        found.append(f"{left} sockets are left")
    if (pipes := looks[-1].pipe_ends // 2) > KEPT_PIPES:
        found.append(f"{pipes} pipes are left")
    third = max(len(looks) // 3, 1)
    first, last = (max(look.memory_mb for look in part) for part in (looks[:third], looks[-third:]))
    if last > GROWTH * first + KEPT_MB:
        found.append(f"memory grew from {first:.1f} MB to {last:.1f} MB")
    return found


def main() -> int:
    """Soak and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=30, help="of the table, at most")
    asked = parser.parse_args()
    begin()
    with running("perigee") as proxy:
        try:
            sockets = proxy.descriptors("socket")
            looks = soak(proxy, asked.minutes, sockets)
        except LostError as lost:
            print(f"lost: {lost}")
            return 1
    step = -(-len(looks) // asked.rows)
    shown = looks[::-step][::-1]
    rows = [
        [f"{one.minutes:.1f}", str(one.turns), f"{one.memory_mb:.2f}", str(one.sockets), str(one.pipe_ends)]
        for one in shown
    ]
    table(["minutes", "turns", "memory, MB", "sockets", "ends of pipes"], rows)
    wrong = faults(looks, sockets)
    print("\n" + ("; ".join(wrong) or "memory is flat, and no socket is left"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

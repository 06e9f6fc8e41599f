# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The cost of QUIC: downloads over 100 Mbit/s x 40 ms by our algorithms and by the stack's own control, beside TCP."""

from __future__ import annotations

import json
import statistics
from typing import Any

from programs import MB, TARGET, Download, counted, counter, cpu_and_output, ours, run, three_digits
from record import Record
from shown import table

COST = TARGET / "release/examples/cost"
STACK = "stack-reno"
CONTROLS = (STACK, "reno", "cubic", "bbr3")
SIZE_MB, COUNTED_MB = 200, (5, 10)
"""Sizes of downloads that are timed, and of the two between which instructions are counted."""
SAME_PATH = (
    "links.satellite.rate=100 Mbit/s",
    "links.satellite.delay=14 ms",
    "links.satellite.queue=500000 B",
)


def quic(repeats: int | None, record: Record) -> None:
    """Time the controls in turns, count their instructions by data packet, and print the table."""
    rounds = [_downloads(SIZE_MB) for _ in range(repeats or 3)]
    cpu_s = {control: statistics.median(one[control]["cpu_s"] for one in rounds) for control in CONTROLS}
    rows = []
    for control in CONTROLS:
        packets = rounds[0][control]["data"] / cpu_s[control]
        row = [control, f"{packets:,.0f}", three_digits(cpu_s[control] / cpu_s[STACK]), "-", "-", "-"]
        if counter():
            instructions = _by_data_packet(control)
            row[3:] = [f"{instructions:,.0f}", *record.note(f"quic: {control}, by data packet", instructions)]
        rows.append(row)
    tcp = [run(ours(Download(SIZE_MB * MB, cc="reno", settings=SAME_PATH))) for _ in range(repeats or 3)]
    speed = statistics.median(outcome.segments / outcome.cpu_s for outcome in tcp)
    rows.append(["TCP: reno", f"{speed:,.0f}", "-", "-", "-", "-"])
    print(f"QUIC, keys that cost nothing, {SIZE_MB} MB over 100 Mbit/s x 40 ms:\n")
    head = ("control", "data packets a CPU second", "time, times the stack's Reno", "instructions by data packet")
    table((*head, "before", "change"), rows)
    print()
    print(f"One end of an idle connection: {_said(['memory'])[0]['bytes_of_an_end'] // 1000} kB\n")


def _downloads(megabytes: int) -> dict[str, dict[str, Any]]:
    """A download by each control, one after the other in one program."""
    return {one["control"]: one for one in _said([str(megabytes), *CONTROLS])}


def _by_data_packet(control: str) -> float:
    """Instructions between a smaller download and a larger one, by data packet of their difference."""
    less, more = COUNTED_MB
    executed = [counted([str(COST), str(size), control]) for size in (less, more)]
    packets = [_said([str(size), control])[0]["data"] for size in (less, more)]
    return float(executed[1] - executed[0]) / float(packets[1] - packets[0])


def _said(arguments: list[str]) -> list[dict[str, Any]]:
    """Return the lines of JSON that the program prints."""
    printed, _ = cpu_and_output([str(COST), *arguments])
    return [json.loads(line) for line in printed.splitlines()]

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the simulator and its peers on the same path, one after the other, and prints medians and ratios.

    benches/run.py [--long] [--only CASE]... [--repeats N] [--no-peers] [--record | --append EARLIER] [--most PERCENT]

See README.md beside this file for the path, the cases and what is counted. Beside instructions stand those on record.
Needs nothing beyond Python's own library.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from instructions import instructions
from programs import (
    GB,
    HERE,
    MB,
    NS3,
    OURS,
    PAYLOAD,
    PEERS,
    ROOT,
    WINDOW_LOSSES,
    WINDOWS,
    Download,
    Outcome,
    counted,
    counter,
    cpu_and_output,
    ours,
    run,
    three_digits,
    window,
)
from quic import quic
from record import Record
from shown import processor, table


@dataclasses.dataclass(frozen=True)
class Case:
    """A download, and the peers that take part in it."""

    download: Download
    peers: tuple[str, ...] = ()
    repeats: int = 5
    long: bool = False


CASES = {
    "clean": Case(Download(GB, buffer=40 * MB), ("ns-2",)),
    "overflow": Case(Download(GB, settings=("flow.cc.slow_start=classic",)), ("ns-2",)),
    "random": Case(Download(GB, loss=0.001), ("ns-2",)),
    "ns-3": Case(Download(100 * MB, cc="bbr"), ("ns-3",), repeats=3),
    "ns-3 long": Case(Download(GB, cc="bbr"), ("ns-3",), repeats=1, long=True),
    "viasat2": Case(Download(GB, study="studies/claypool-2021/study.toml", settings=("--run", "1"))),
}

OTHERS = ("windows", "instructions", "population", "terminals", "users", "split", "quic", "short", "study")

NS2_CELL = ROOT / "validation/ns2"
CELL_RATE_BPS = 155_000_000
CELL_QUEUE_PACKETS = 2583
"""0.2 bandwidth-delay products of 1500-byte packets."""
CELL_WEB, CELL_WEB_BACK = 800, 200
"""New web connections per second, forward and in reverse."""
CELL_FROM_S, CELL_UNTIL_S = 10, 20
"""The other users join at the first, everybody leaves at the second."""

SPLIT = ("split",)
LEGS = ("first", "second", "third")
"""Flows of split.toml: over three legs, and over each of them."""

CONNECTIONS = 2_000

GROWN = """\
If nobody meant it, find the commit (`cargo test -p perigee-sim --test instructions` counts six paths) and mend it.
If it buys something, land in one commit the reason, in benches/README.md under *Instructions*, and what this writes:
    python3 benches/run.py --no-peers --only instructions --only split --only population --record
"""
"""Advice to the owner of a path that takes more instructions."""


def population(repeats: int | None, record: Record) -> None:
    """Measure the cost of a population of short connections: instructions and time, by segment and by connection."""
    command = [str(OURS), str(HERE / "population.toml")]
    seen = [run(command) for _ in range(repeats or 3)]
    wall, all_of_them = statistics.median(outcome.wall_s for outcome in seen), seen[0]
    print(
        f"Population (60 s, {all_of_them.connections:,} connections, {all_of_them.sent:,} data segments): "
        f"{wall:.2f} s, {wall * 1e6 / all_of_them.connections:.1f} us by connection, {all_of_them.peak_mib:.0f} MiB"
    )
    if counter():
        executed = counted(command)
        of_each = {"data segment": all_of_them.sent, "connection": all_of_them.connections}
        for unit, number in of_each.items():
            before, change = record.note(f"population, by {unit}", executed / number)
            print(f"Instructions by {unit}: {executed / number:,.0f}, before {before} ({change})")
        print()
    else:
        print("Instructions are not counted: neither perf nor valgrind can\n")


def terminals(repeats: int | None) -> None:
    """Measure the cost of a channel of a thousand terminals."""
    seen = [run([str(OURS), str(HERE / "rcs2.toml")]) for _ in range(repeats or 3)]
    cpu = [outcome.cpu_s for outcome in seen]
    print(
        f"Terminals (1,000 of one channel, {seen[0].simulated_s:.0f} s, {seen[0].sent:,} data segments): "
        f"{statistics.median(cpu):.1f} s of CPU time, from {min(cpu):.1f} to {max(cpu):.1f} s, "
        f"{seen[0].peak_mib:.0f} MiB\n"
    )


def users(repeats: int | None, with_peers: bool) -> None:
    """A stretch of wu-2008 at its own rates, in ns-2 and here: CPU time by simulated second."""
    stay = CELL_UNTIL_S - CELL_FROM_S
    durations = {"web": CELL_UNTIL_S, "web-back": CELL_UNTIL_S, "fast": 2} | dict.fromkeys(
        ("probe", "voice", "ftp", "hftp"), stay
    )
    settings = {
        "links.satellite.rate": f"{CELL_RATE_BPS} bit/s",
        "links.satellite.down.queue.packets": CELL_QUEUE_PACKETS,
        "sender": "cubic",
        "flows.web.connections_per_s": CELL_WEB,
        "flows.web-back.connections_per_s": CELL_WEB_BACK,
        # Long enough for what is under way at the end.
        "time_limit": f"{2 * CELL_UNTIL_S} s",
        **{f"flows.{flow}.duration": f"{long} s" for flow, long in durations.items()},
        **{f"flows.{flow}.warmup": "1 s" for flow in ("web", "web-back", "probe", "voice")},
    }
    command = [str(OURS), str(NS2_CELL / "cell.toml"), *(f"{key}={value}" for key, value in settings.items())]
    seen = [run(command) for _ in range(repeats or 3)]
    own = statistics.median(outcome.cpu_s / outcome.simulated_s for outcome in seen)
    print(
        f"Users of wu-2008 ({CELL_UNTIL_S} s at 155 Mbit/s, {seen[0].connections:,} connections): "
        f"Perigee {own * 1000:.1f} ms of CPU time by simulated second"
    )
    if not with_peers or not shutil.which("ns"):
        print("ns-2 is not measured: " + ("`--no-peers`" if not with_peers else "there is no `ns`") + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        numbers = [
            "cubic",
            CELL_QUEUE_PACKETS,
            CELL_RATE_BPS,
            CELL_WEB,
            CELL_WEB_BACK,
            CELL_UNTIL_S,
            CELL_FROM_S,
            f"{folder}/call",
        ]
        _, usage = cpu_and_output(["ns", str(NS2_CELL / "cell.tcl"), *map(str, numbers)], Path(folder))
    theirs = (usage.ru_utime + usage.ru_stime) / CELL_UNTIL_S
    print(f"ns-2 {theirs * 1000:,.0f} ms: Perigee is {three_digits(theirs / own)} x faster\n")


def split_study(flows: Iterable[str], size: int, *settings: str) -> list[str]:
    """The command that carries `size` bytes over each of these flows of split.toml."""
    return [str(OURS), str(HERE / "split.toml"), *(f"flows.{flow}.size={size} B" for flow in flows), *settings]


def split(record: Record) -> None:
    """Measure the cost of two proxies: instructions beside those of the three legs alone, and memory."""
    of_split, of_legs = (
        counted(split_study(flows, 100 * MB)) - counted(split_study(flows, 50 * MB)) for flows in (SPLIT, LEGS)
    )
    for path, executed in {"split download": of_split, "its legs alone": of_legs}.items():
        by_segment = executed * PAYLOAD / (50 * MB)
        before, change = record.note(path, by_segment)
        print(f"Instructions by segment, {path} (50 MB to 100 MB): {by_segment:,.0f}, before {before} ({change})")
    print(f"Split to legs: {of_split / of_legs:.3f}\n")
    many = (f"flows.split.count={CONNECTIONS}", "measure.series=60 s", "measure.goodput_bin=60 s")
    for enabled in ("true", "false"):
        one, all_of_them = (
            run(split_study(SPLIT, 200_000, f"proxy.enabled={enabled}", *settings)) for settings in ((), many)
        )
        kib = (all_of_them.peak_mib - one.peak_mib) * 1024 / CONNECTIONS
        print(f"Memory of a connection, {CONNECTIONS} at once, proxy.enabled = {enabled}: {kib:.0f} KiB\n")


def again(outcome: Outcome) -> str:
    """Segments sent again, where the program counts them."""
    return "-" if outcome.retransmitted is None else f"{outcome.retransmitted:,}"


def compare(cases: dict[str, Case], repeats: int | None, with_peers: bool) -> None:
    """The cases: ours and the peers, alternated."""
    rows = []
    for name, case in cases.items():
        programs = {"Perigee": ours} | ({peer: PEERS[peer] for peer in case.peers} if with_peers else {})
        outcomes: dict[str, list[Outcome]] = {program: [] for program in programs}
        for _ in range(repeats or case.repeats):
            for program, command in programs.items():
                outcomes[program].append(run(command(case.download)))
        median = {program: statistics.median(o.speed for o in seen) for program, seen in outcomes.items()}
        for program, seen in outcomes.items():
            speeds = [outcome.speed for outcome in seen]
            rows.append(
                [
                    f"{name}: {program}",
                    f"{case.download.cc}, {case.download.size // MB} MB",
                    three_digits(median[program]),
                    f"{(max(speeds) - min(speeds)) / median[program]:.0%}",
                    again(seen[0]),
                    f"{max(outcome.peak_mib for outcome in seen):.0f}",
                    "" if program == "Perigee" else three_digits(median["Perigee"] / median[program]),
                ]
            )
    table(("case: program", "download", "segments/s", "spread", "sent again", "MiB", "Perigee is x faster"), rows)
    print()


def windows(repeats: int | None) -> None:
    """Cost against the window, without and with loss."""
    print("Nanoseconds per delivered segment against the window in packets (BBR):\n")
    rows, every = [], []
    for loss in WINDOW_LOSSES:
        row = [f"{loss:.0%} lost"]
        for packets in WINDOWS:
            seen = [run(ours(window(packets, loss))) for _ in range(repeats or 3)]
            nanoseconds = 1e9 / statistics.median(outcome.speed for outcome in seen)
            every.append(nanoseconds)
            row.append(f"{nanoseconds:.0f}")
        rows.append(row)
    table(("", *(f"{packets:,}" for packets in WINDOWS)), rows)
    print()
    print(f"Dearest to cheapest: {max(every) / min(every):.2f}\n")


def short() -> None:
    """A hundred thousand runs of a millisecond, and the report on them: what runs cost besides their packets."""
    perigee = str(ROOT / ".venv/bin/perigee")
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/results"
        for command in (["run", str(HERE / "short.toml"), "--out", out], ["report", out]):
            started = time.monotonic()
            _, usage = cpu_and_output([perigee, *command])
            cpu_s, wall_s = usage.ru_utime + usage.ru_stime, time.monotonic() - started
            print(f"perigee {command[0]} (short, 100,000 runs): {cpu_s:.1f} s of CPU time, {wall_s:.1f} s", flush=True)
    print()


def study() -> None:
    """The whole study with its report, on all cores, as `make study` does it."""
    perigee = ROOT / ".venv/bin/perigee"
    with tempfile.TemporaryDirectory() as folder:
        for command in (["run", "claypool-2021", "--out", f"{folder}/results"], ["report", f"{folder}/results"]):
            started = time.monotonic()
            subprocess.run([perigee, *command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
            print(f"perigee {command[0]} (claypool-2021): {time.monotonic() - started:.1f} s", flush=True)
    print()


def build(with_ns3: bool) -> None:
    """Compile ours and, where asked for, the peer that has to be compiled."""
    for crate, program in (("perigee-sim", "download"), ("perigee-quic", "cost")):
        cargo = ["cargo", "build", "--release", "--quiet", "-p", crate, "--example", program]
        subprocess.run(cargo, cwd=ROOT, check=True)
    if with_ns3:
        NS3.parent.mkdir(exist_ok=True)
        modules = ["core", "network", "internet", "point-to-point", "applications"]
        libraries = [f"-lns3-{module}" for module in modules]
        command = ["c++", "-std=c++17", "-O2", "-DNDEBUG", "-o", str(NS3), str(HERE / "peers/ns3.cc"), *libraries]
        subprocess.run(command, check=True)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="with the downloads that take a peer many minutes")
    parser.add_argument("--only", action="append", choices=[*CASES, *OTHERS], help="only this case; may be repeated")
    parser.add_argument("--repeats", type=int, help="of every measurement [default: 1 to 5, by case]")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--append", type=Path, metavar="EARLIER", help="add the instructions to those of nights before")
    parser.add_argument("--most", type=float, metavar="PERCENT", help="fail where a path takes more instructions by it")
    parser.add_argument("--record", action="store_true", help="put the instructions on record, as what was before")
    asked = parser.parse_args()

    chosen = asked.only or [
        *(name for name, case in CASES.items() if asked.long or not case.long),
        *OTHERS,
    ]
    cases = {name: CASES[name] for name in chosen if name in CASES}
    peers = {peer for case in cases.values() for peer in case.peers} if not asked.no_peers else set()
    if "instructions" in chosen and not asked.no_peers:
        peers |= set(PEERS)
    build(with_ns3="ns-3" in peers)

    record = Record()
    print(f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n", flush=True)
    if cases:
        compare(cases, asked.repeats, with_peers=not asked.no_peers)
    if "windows" in chosen:
        windows(asked.repeats)
    if {"instructions", "split"} & set(chosen) and not counter():
        print("instructions: neither perf nor valgrind can count them here")
        return 1
    if "split" in chosen:
        split(record)
    if "instructions" in chosen:
        instructions(record, with_peers=not asked.no_peers)
    if "population" in chosen:
        population(asked.repeats, record)
    if "terminals" in chosen:
        terminals(asked.repeats)
    if "users" in chosen:
        users(asked.repeats, with_peers=not asked.no_peers)
    if "quic" in chosen:
        quic(asked.repeats, record)
    if "short" in chosen:
        short()
    if "study" in chosen:
        study()
    if asked.record:
        record.write()
    elif asked.append:
        record.append(asked.append)
    grown = record.grown(asked.most / 100) if asked.most is not None else []
    if grown:
        print(f"{asked.most:g} % and more above the record:", *grown, GROWN, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

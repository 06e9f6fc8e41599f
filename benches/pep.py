#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The proxy perigee-pep beside HAProxy and a direct connection: what it carries, delays and needs, and what it loses.

    benches/pep.py [--only figures instructions workers cases satellite] [--rounds N] [--seconds S] [--cases WORDS]
                   [--kinds direct perigee] [--active 500 4000]

A client, a router with the proxy and a server are network namespaces with cables (veth) between them. HAProxy (Debian:
haproxy) is in TCP mode, transparent towards both ends, with `splice-auto`; both proxies have one thread. Needs root,
Perigee in .venv, and `cargo build --release -p perigee-pep`, or the path of that program in PERIGEE_PEP. Prints the
tables of README.md beside this file and of docs/models/proxy.md. The kernel removes everything with this process,
however it ends.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pep_figures as figures
import pep_scale as scale
from pep_cases import CASES, Case, run
from pep_world import HAPROXY, OWN_FILES, available, begin, running, tie_to
from shown import processor, table

KINDS = {"direct": "direct", "perigee": "perigee-pep", "haproxy": "HAProxy"}
SECTIONS = ("figures", "instructions", "workers", "cases", "satellite")
AT_ONCE = 6

Figures = dict[str, dict[str, float]]


def measured(kind: str, asked: argparse.Namespace) -> Figures:
    """One round of a kind of proxy."""
    found: Figures = {}
    seconds: float = asked.seconds
    with running(kind) as proxy:
        found["bulk"] = figures.bulk(proxy, seconds)
        found["idle"] = figures.echoes(proxy, seconds, beside_bulk=False)
        found["beside"] = figures.echoes(proxy, seconds, beside_bulk=True)
    return found


def print_figures(kinds: list[str], asked: argparse.Namespace) -> None:
    """Measure all kinds in turns, and print the medians of the rounds."""
    rounds: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    for _ in range(asked.rounds):
        for kind in kinds:
            rounds[kind].append(measured(kind, asked))
    opened = scale.opened_and_closed(kinds, math.ceil(asked.rounds * asked.seconds / scale.TURN_S))

    def cell(kind: str, what: str, which: str, form: str) -> str:
        return format(statistics.median(found[what][which] for found in rounds[kind]), form)

    columns = {
        "bulk, Gbit/s": ("bulk", "gbps", ".2f"),
        "CPU s/GB": ("bulk", "cpu_s", ".3f"),
        "whole machine, s/GB": ("bulk", "machine_s", ".2f"),
        "echo p50, ms": ("idle", "p50_ms", ".3f"),
        "p99, ms": ("idle", "p99_ms", ".2f"),
        "beside bulk p50, ms": ("beside", "p50_ms", ".3f"),
        "p99, ms ": ("beside", "p99_ms", ".2f"),
    }
    more = {kind: (f"{opened[kind]['per_s']:.0f}", f"{opened[kind]['cpu_us']:.1f}") for kind in kinds}
    table(
        ["", *columns, "opened and closed, 1/s", "CPU us each"],
        [[KINDS[kind], *(cell(kind, *column) for column in columns.values()), *more[kind]] for kind in kinds],
    )
    print(flush=True)
    print_memory([kind for kind in kinds if kind != "direct"], asked)


def print_memory(kinds: list[str], asked: argparse.Namespace) -> None:
    """Print the memory of the proxies with connections that are idle, and with readers that do not read."""
    rows = []
    for kind in kinds:
        with running(kind) as proxy:
            idle = figures.idle_memory(proxy, asked.idle)
        row = [f"{idle['before_mb']:.1f}", f"{idle['connections']:.0f}", f"{idle['mb']:.1f}"]
        row.append(f"{1e6 * (idle['mb'] - idle['before_mb']) / idle['connections']:.0f}")
        for count in asked.active:
            with running(kind) as proxy:
                active = figures.active_memory(proxy, count)
            row += [f"{active['mb']:.1f}", f"{active['sockets_mb']:.0f}"]
        rows.append([KINDS[kind], *row])
    head = ["", "at first, MB", "idle", "with them, MB", "bytes each"]
    table([*head, *(f"{count} unread, {which}" for count in asked.active for which in ("MB", "sockets, MB"))], rows)


def print_instructions(kinds: list[str], asked: argparse.Namespace) -> None:
    """Print the instructions that each proxy executes itself for a connection; of the service also on a link."""
    counted: dict[str, tuple[str, scale.Settings]] = {KINDS[kind]: (kind, {}) for kind in kinds if kind != "direct"}
    if "haproxy" in kinds:
        counted["HAProxy, a line for each"] = ("haproxy", scale.WITH_LINES)
    if "perigee" in kinds:
        counted["perigee-pep, with `[link]`"] = ("perigee", scale.WITH_LINK)
    found = scale.instructions(counted, 2 * asked.seconds)
    table(["", "instructions of a connection"], [[name, f"{count:,.0f}"] for name, count in found.items()])


def print_workers(asked: argparse.Namespace) -> None:
    """Print what the service takes with one worker and with two, and on a link."""
    found = scale.workers(round(2 * asked.rounds * asked.seconds))
    rows = [
        [
            kind,
            f"{one['connection_us']:.1f}",
            f"{one['gb_s']:.3f}",
            f"{one['futexes']:.2f}",
        ]
        for kind, one in found.items()
    ]
    table(["workers", "CPU us of a connection", f"CPU s/GB, {scale.DOWNLOADS} downloads", "futex calls/GB"], rows)


def print_cases(kinds: list[str], asked: argparse.Namespace) -> int:
    """Carry the cases out, some at a time, and print their table; return how many perigee-pep fails."""
    chosen = [case for case in CASES if asked.cases in case.name]
    work = [(case, kind) for case in chosen for kind in kinds]
    context = multiprocessing.get_context("fork")
    tied = partial(_begin_worker, os.getpid())
    with ProcessPoolExecutor(AT_ONCE, mp_context=context, initializer=tied) as pool:
        results = list(pool.map(_carry_out, ((CASES.index(case), kind) for case, kind in work)))
    found = dict(zip(((case.name, kind) for case, kind in work), results, strict=True))
    table(["case", *(KINDS[kind] for kind in kinds)], [_row(case, kinds, found) for case in chosen])
    counts = [f"{KINDS[kind]} {_passed(kind, found)}" for kind in kinds]
    print(f"\n{len(chosen)} cases; nothing lost: {', '.join(counts)}", flush=True)
    return sum(result not in ("yes", "-") for (_, kind), result in found.items() if kind == "perigee")


def _begin_worker(parent: int) -> None:
    tie_to(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _carry_out(which: tuple[int, str]) -> str:
    return run(CASES[which[0]], which[1])


def _row(case: Case, kinds: list[str], found: dict[tuple[str, str], str]) -> list[str]:
    return [case.name, *(" ".join(found[case.name, kind].split()).replace("|", "/") for kind in kinds)]


def _passed(kind: str, found: dict[tuple[str, str], str]) -> str:
    of_it = [result for (_, each), result in found.items() if each == kind and result != "-"]
    return f"{of_it.count('yes')} of {len(of_it)}"


def print_satellite(asked: argparse.Namespace) -> None:
    """Print how long a download over an emulated GEO link takes."""
    found = figures.satellite(Path(OWN_FILES), asked.size)
    rows = [
        ["direct", f"{found['direct_s']:.2f}", f"{found['direct_s'] / found['ideal_s']:.2f}"],
        ["perigee-pep", f"{found['proxied_s']:.2f}", f"{found['proxied_s'] / found['ideal_s']:.2f}"],
        ["ideal", f"{found['ideal_s']:.2f}", "1.00"],
    ]
    table([f"{asked.size} over 600 ms, 20 Mbit/s", "s", "to the ideal"], rows)


def _provenance() -> str:
    said = (
        subprocess.run([HAPROXY, "-v"], capture_output=True, text=True, check=True).stdout if HAPROXY else "no HAProxy"
    )
    haproxy = " ".join(said.split()[:3])
    return (
        f"{processor()}, {os.cpu_count()} cores, Linux {platform.release()}, {haproxy}, load {os.getloadavg()[0]:.1f}"
    )


def main() -> int:
    """Measure and print what is asked for; 1 where perigee-pep loses something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add: Any = parser.add_argument
    add(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=SECTIONS,
        metavar="SECTION",
        help="figures, instructions, workers, cases, satellite",
    )
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help="direct, perigee, haproxy")
    add("--rounds", type=int, default=3, help="of the figures, of which the median is printed")
    add("--seconds", type=float, default=1.0, help="of each measurement")
    add("--idle", type=int, default=10000, help="idle connections")
    add("--active", type=int, nargs="+", default=[500], metavar="COUNT", help="downloads that nobody reads")
    add("--cases", default="", metavar="WORDS", help="only cases with these words in their name")
    add("--size", default="5 MB", help="of the download over the satellite")
    asked = parser.parse_args()
    begin()
    kinds, reasons = available(asked.kinds)
    for reason in reasons:
        print(f"skipped: {reason}")
    lost = 0
    print(f"{_provenance()}\n", flush=True)
    if "figures" in asked.only:
        print_figures(kinds, asked)
        print()
    if "instructions" in asked.only and shutil.which("valgrind"):
        print_instructions(kinds, asked)
        print()
    if "workers" in asked.only and "perigee" in kinds:
        print_workers(asked)
        print()
    if "cases" in asked.only:
        lost = print_cases(kinds, asked)
        print()
    if "satellite" in asked.only:
        print_satellite(asked)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())

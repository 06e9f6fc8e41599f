# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries the short transfers of the study `validation` out on both engines; docs/models/validation-transfers.md."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

import cells
from beside import ROOT, reasons

PAGE = ROOT / "docs" / "models" / "validation-transfers.md"

HEAD = """\
# Short transfers beside the kernel

`make validate`, as root, carries the transfers of the study [validation](../../studies/validation/README.md) out on
both engines and writes this page: handshakes over long round trips, with a SYN, a SYN-ACK or the last ACK lost, and
uploads and downloads of a byte to 100 kB, over 10 Mbit/s and 300 ms, or as the name says. *down* is opened by the
client, *up* by the server, which then is who uploads; `15 kB loaded` is beside a download that fills a queue of 1.2 s.
Each takes {rounds} rounds on each engine; those of the kernel with a release more than {late:.0f} us late in one of 100
cases are left out. Within: the means of the durations differ by at most {goodput:.0f} %, or their distributions are
alike (D, the distance of Kolmogorov and Smirnov, has a p of at least {alike}). The simulator has this machine's
lateness, {noise}, on the link `wire`, and its hosts have this kernel's tick, {tick:g} ms.

Of {date}, Linux {kernel}, {cores} cores.
**{within} of {transfers} are within: {by_tolerance} by tolerance, {alike_only} only as a distribution.**

| transfer | s: simulated | kernel | difference | D | p | rounds | within |
|---|---:|---:|---:|---:|---:|---:|---|
"""


def page(found: Sequence[cells.Compared], noise: cells.Noise) -> str:
    """Return the page."""
    inside = [one for one in found if not one.misses()]
    by_tolerance = sum(one.agrees_by_tolerance() for one in inside)
    head = HEAD.format(
        rounds=cells.ROUNDS,
        late=cells.LATE_US,
        goodput=100 * cells.TOLERANCE.goodput,
        alike=cells.ALIKE,
        noise=noise,
        date=datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        kernel=platform.release(),
        cores=os.cpu_count(),
        within=len(inside),
        tick=cells.kernel_tick_ns() / 1e6,
        transfers=len(found),
        by_tolerance=by_tolerance,
        alike_only=len(inside) - by_tolerance,
    )
    missed = [one.cell.label for one in found if one.misses()]
    return "".join([head, *map(_row, found), *reasons(missed, cells.known_of([cells.TRANSFERS]))])


def main() -> None:
    """Carry both engines out, compare, write the page."""
    options = cells.arguments(__doc__, PAGE)
    options.page.write_text(page(*cells.carried_out(options, [cells.TRANSFERS])), encoding="utf-8")
    print(options.page)


def _row(one: cells.Compared) -> str:
    here, there = one.sim[0], one.emu[0]
    difference = f"{100 * (statistics.fmean(there) / statistics.fmean(here) - 1):+.1f} %"
    distances = [f"{value:.2f}" for value in one.distance(0)]
    parts = [
        one.cell.label,
        cells.spread(here, 3),
        cells.spread(there, 3),
        difference,
        *distances,
        str(len(there)),
        cells.within(one),
    ]
    return "| " + " | ".join(parts) + " |\n"


if __name__ == "__main__":
    main()

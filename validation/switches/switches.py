# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries each switch of TCP out on the simulator and on the kernel, and writes a page of docs/models."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

from beside import ROOT, Run, Tolerance, differences, perigee, reasons, toml  # noqa: E402

STUDY = FOLDER / "study.toml"
DIFFERENCES = FOLDER / "differences.toml"
PAGE = ROOT / "docs" / "models" / "validation-switches.md"
TOLERANCE = Tolerance(goodput=0.05, rtt=0.05, retransmitted=1.5)

LATE_US = 1000.0
"""A run whose releases are later than this, in one of 100 cases, says nothing about TCP."""

TRIES = 4
"""Emulated runs of a cell, at most; the least late one counts."""

AT_ONCE = 3
"""Emulated runs at a time: they wait most of theirs."""

HEAD = """\
# Each switch of TCP beside the kernel

`make validate`, as root, carries each experiment of [validation/switches](../../validation/switches/README.md) out on
both engines and writes this page: each setting that the kernel has too, on a path on which it acts, with Linux's
default and with other values. Everything else is the same. Within: throughput and mean round trip differ by at
most 5 %, the retransmitted share by a factor of at most 1.5 or 0.1 percentage points.

Of {date}, Linux {kernel}, {cores} cores; one run of a cell on each engine. A run whose releases were more than
{limit:.0f} us late in one of 100 cases was repeated, up to {tries} times in all; those of this page were at most
{late:.0f} us late.

{within} of {cells} cells are within.

| setting | value | Mbit/s: simulated | kernel | difference \
| round trip, ms: simulated | kernel | difference \
| retransmitted, %: simulated | kernel | within |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""


@dataclass(frozen=True)
class Switch:
    """One value of one setting.

    Attributes:
        name: of the setting, and of its experiment.
        key: its key path in studies.
        value: as TOML writes it.
        default: whether Linux has it so.
        path: what the path is, in words.
    """

    name: str
    key: str
    value: str
    default: bool
    path: str

    @property
    def label(self) -> str:
        """Name and value."""
        return f"{self.name} = {self.value}"

    def arguments(self, engine: str, out: Path) -> list[str]:
        """Return those of `perigee` that carry it out."""
        chosen = ["--experiment", self.name, "--set", f"{self.key}={self.value}"]
        return ["run", str(STUDY), *chosen, "--engine", engine, "--out", str(out), "--fresh"]


@dataclass(frozen=True)
class Measured:
    """The outcome of a run of a switch.

    Attributes:
        goodput_mbps: payload over time.
        rtt_ms: mean round trip.
        retransmitted: share of the packets, per cent.
        late_us: lateness of releases that 99 of 100 do not exceed; of the simulator zero.
    """

    goodput_mbps: float
    rtt_ms: float
    retransmitted: float
    late_us: float


@dataclass(frozen=True)
class Compared:
    """A switch on both engines."""

    switch: Switch
    sim: Measured
    emu: Measured

    @property
    def misses(self) -> list[str]:
        """The quantities that differ by more than the page allows."""
        here, there = ((one.goodput_mbps, one.rtt_ms, one.retransmitted) for one in (self.sim, self.emu))
        return TOLERANCE.misses(here, there)

    def row(self) -> str:
        """Return its row of the page's table."""
        sim, emu, switch = self.sim, self.emu, self.switch
        parts = [switch.name, f"`{switch.value}`" + (", the default" if switch.default else "")]
        for here, there, digits in ((sim.goodput_mbps, emu.goodput_mbps, 2), (sim.rtt_ms, emu.rtt_ms, 1)):
            parts += [f"{here:.{digits}f}", f"{there:.{digits}f}", f"{100 * (there / here - 1):+.1f} %"]
        parts += [f"{sim.retransmitted:.2f}", f"{emu.retransmitted:.2f}"]
        parts.append("no: " + ", ".join(self.misses) if self.misses else "yes")
        return "| " + " | ".join(parts) + " |\n"


def switches() -> list[Switch]:
    """Return all values of all settings, in the order of the study."""
    found = []
    for experiment in toml(STUDY)["experiments"]:
        ((key, values),) = experiment["vary"].items()
        for place, value in enumerate(values):
            found.append(Switch(experiment["name"], key, _written(value), place == 0, experiment["about"]))
    return found


def simulated(run: Run, folder: Path) -> dict[str, Measured]:
    """Simulate all switches; return what they came to by their labels."""
    run(["run", str(STUDY), "--out", str(folder), "--fresh"])
    flows = pl.read_parquet(folder / "flows.parquet")
    found = {}
    for row in range(flows.height):
        point = json.loads(flows["point"][row])
        name = point.pop("experiment")
        (value,) = point.values()
        found[f"{name} = {_written(value)}"] = _measured(flows[row], None)
    return found


def emulated(run: Run, folder: Path, chosen: Sequence[Switch], at_once: int, tries: int) -> dict[str, Measured]:
    """Run switches on the kernel, `at_once` at a time; late ones again, one by one, up to `tries` times.

    Returns:
        What they came to by their labels.
    """

    def once(number: int) -> Measured:
        out = folder / str(number)
        run(chosen[number].arguments("emu", out))
        return _measured(pl.read_parquet(out / "flows.parquet"), pl.read_parquet(out / "releases.parquet"))

    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(once, range(len(chosen))))
    for number, first in enumerate(found):
        best = first
        for _ in range(tries - 1):
            if best.late_us <= LATE_US:
                break
            best = min(best, once(number), key=lambda one: one.late_us)
        found[number] = best
    return {switch.label: one for switch, one in zip(chosen, found, strict=True)}


def page(cells: Sequence[Compared]) -> str:
    """Return the page with these cells."""
    missed = [cell.switch.label for cell in cells if cell.misses]
    head = HEAD.format(
        date=datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        kernel=platform.release(),
        cores=os.cpu_count(),
        limit=LATE_US,
        tries=TRIES,
        late=max(cell.emu.late_us for cell in cells),
        within=len(cells) - len(missed),
        cells=len(cells),
    )
    rows = [cell.row() for cell in cells]
    return "".join([head, *rows, *_paths(cells), *reasons(missed, differences(DIFFERENCES))])


def main() -> None:
    """Carry both engines out, compare, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "switches", help="where all results go")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args()
    chosen = switches()
    here = simulated(perigee, options.out / "sim")
    there = emulated(perigee, options.out / "emu", chosen, AT_ONCE, TRIES)
    cells = [Compared(switch, here[switch.label], there[switch.label]) for switch in chosen]
    options.page.write_text(page(cells), encoding="utf-8")
    print(options.page)


def _measured(flows: pl.DataFrame, releases: pl.DataFrame | None) -> Measured:
    (flow,) = flows.iter_rows(named=True)
    late = 0.0 if releases is None else float(releases.select(pl.max("late_p99_us")).item())
    share = 100 * flow["retransmitted_packets"] / flow["sent_packets"]
    return Measured(flow["goodput_mbps"], flow["rtt_mean_ms"], share, late)


def _paths(cells: Sequence[Compared]) -> Iterator[str]:
    yield "\n## The paths\n\n"
    yield "10 Mbit/s, 50 ms there and back, a queue of 60 kB, 4 s of a transfer with Reno, but for what is said.\n\n"
    for name, path in {cell.switch.name: cell.switch.path for cell in cells}.items():
        yield f"- **{name}.** {path}\n"


def _written(value: Any) -> str:
    """Return a value as TOML has it; JSON writes these alike."""
    return json.dumps(value)


if __name__ == "__main__":
    main()

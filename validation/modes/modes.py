# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cells near a bistable point: the kernel's rounds beside the modes of the simulated cell and its neighbours.

    modes.py                  simulates, emulates (as root; ten minutes), and writes docs/models/validation-modes.md
    modes.py --cell pie       one of them; may be given several times
    modes.py --simulated      the simulator's modes alone, printed
    modes.py --recorded       keeps the kernel's results of --out, of any build

A neighbour has a packet of queue more or less, or a delay that is up to 0.3 ms longer. Sorted, the values of a mode
lie close together (`QUANTITIES`). A cell agrees where each round of the kernel lies within one of the modes, by the
tolerances of the other comparisons.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

from beside import ROOT, Run, perigee, toml  # noqa: E402

STUDY = FOLDER / "study.toml"
PAGE = ROOT / "docs" / "models" / "validation-modes.md"
LONGER_MS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
PACKET = 1500


@dataclass(frozen=True)
class Quantity:
    """A column of the table of flows.

    Attributes:
        column: its name.
        title: how the page names it.
        digits: after the point.
        close: factor between values that follow one another within a mode.
        tolerance: factor by which a round of the kernel may lie outside.
        least: difference that is none, whatever the factor.
    """

    column: str
    title: str
    digits: int
    close: float
    tolerance: float
    least: float = 0.0


QUANTITIES = (
    Quantity("goodput_mbps", "Mbit/s", 2, 1.1, 1.02),
    Quantity("rtt_mean_ms", "round trip, ms", 1, 1.02, 1.03),
    Quantity("retransmitted_packets", "retransmitted", 0, 1.5, 1.2, least=10.0),
)


def modes(values: Sequence[float], quantity: Quantity) -> list[list[float]]:
    """Split values where one exceeds the one before by more than the quantity's factor and its least difference."""
    found: list[list[float]] = []
    for value in sorted(values):
        if found and value <= max(found[-1][-1] * quantity.close, found[-1][-1] + quantity.least):
            found[-1].append(value)
        else:
            found.append([value])
    return found


def outside(value: float, of: Sequence[Sequence[float]], quantity: Quantity) -> bool:
    """Whether a value is in none of the modes."""

    def holds(mode: Sequence[float]) -> bool:
        low = min(mode[0] / quantity.tolerance, mode[0] - quantity.least)
        high = max(mode[-1] * quantity.tolerance, mode[-1] + quantity.least)
        return low <= value <= high

    return not any(holds(mode) for mode in of)


def simulated(run: Run, cell: dict[str, Any], folder: Path) -> pl.DataFrame:
    """Simulate a cell with its neighbours; its flows."""
    link = toml(STUDY)["links"][0]
    run([*of_cell(cell, folder), "--set", "rounds=1", *neighbours(link, cell["set"])])
    return pl.read_parquet(folder / "flows.parquet")


def neighbours(link: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Return the options that vary the delay and the queue of the link `path` around what a study and a cell set."""
    delay_ms = float(settings.get("links.path.delay", link["delay"]).removesuffix(" ms"))
    queue = settings.get("links.path.queue", link["queue"])
    size = settings.get("links.path.queue.bytes", queue if isinstance(queue, str) else queue["bytes"])
    amount, unit = size.split()
    octets = int(amount) * {"kB": 1000, "MB": 1_000_000}[unit]
    delays = ",".join(f"{delay_ms + longer:g} ms" for longer in LONGER_MS)
    queues = ",".join(f"{octets + packets * PACKET} B" for packets in (-1, 0, 1))
    return ["--vary", f"links.path.delay={delays}", "--vary", f"links.path.queue.bytes={queues}"]


def emulated(run: Run, cell: dict[str, Any], folder: Path) -> None:
    """Carry a cell out on the kernel."""
    run([*of_cell(cell, folder), "--engine", "emu", "--force"])


def of_cell(cell: dict[str, Any], folder: Path) -> list[str]:
    """Return the command that carries a cell out."""
    return ["run", str(STUDY), "--experiment", cell["name"], "--out", str(folder), "--fresh"]


def rows(cell: dict[str, Any], sim: pl.DataFrame, emu: pl.DataFrame | None) -> list[str]:
    """Return the rows of the page's table for a cell."""
    found = []
    for name in sim["flow"].unique(maintain_order=True):
        for quantity in QUANTITIES:
            here = of_flow(sim, name, quantity)
            there = [] if emu is None else of_flow(emu, name, quantity)
            split = modes(here, quantity)
            missed = [value for value in there if outside(value, split, quantity)]
            parts = [cell["name"], name, quantity.title, describe(split, quantity), shown(there, quantity)]
            found.append("| " + " | ".join([*parts, shown(missed, quantity) or "none"]) + " |\n")
    return found


def of_flow(flows: pl.DataFrame, name: str, quantity: Quantity) -> list[float]:
    """Return a quantity of one flow, run by run."""
    return flows.filter(pl.col("flow") == name)[quantity.column].cast(pl.Float64).to_list()


def describe(split: Sequence[Sequence[float]], quantity: Quantity) -> str:
    """Say which modes there are, and how many runs each has."""
    texts = []
    for mode in split:
        ends = dict.fromkeys(shown([end], quantity) for end in (mode[0], mode[-1]))
        texts.append(f"{' to '.join(ends)} ({len(mode)})")
    count = {1: "", 2: "two modes: ", 3: "three modes: "}.get(len(texts), f"{len(texts)} modes: ")
    return count + ", ".join(texts)


def shown(values: Sequence[float], quantity: Quantity) -> str:
    """Return values as text."""
    return ", ".join(f"{value:.{quantity.digits}f}" for value in values)


def page(table: Sequence[str]) -> str:
    """Return the page: `page.txt`, which says why, with this table."""
    return (FOLDER / "page.txt").read_text(encoding="utf-8").replace("TABLE\n", "".join(table))


def main() -> None:
    """Carry both engines out, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [cell["name"] for cell in toml(STUDY)["experiments"]]
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "validation-modes", help="where all results go")
    parser.add_argument("--cell", action="append", choices=names, help="only this one; the table is printed")
    parser.add_argument("--simulated", action="store_true", help="the simulator alone; the table is printed")
    parser.add_argument("--recorded", action="store_true", help="keep the kernel's results in --out, of any build")
    options = parser.parse_args()
    table: list[str] = []
    for cell in toml(STUDY)["experiments"]:
        if cell["name"] in (options.cell or names):
            sim = simulated(perigee, cell, options.out / "sim" / cell["name"])
            folder = options.out / "emu" / cell["name"]
            if not (options.simulated or (options.recorded and folder.exists())):
                emulated(perigee, cell, folder)
            emu = None if options.simulated else pl.read_parquet(folder / "flows.parquet")
            table += rows(cell, sim, emu)
    if options.cell or options.simulated:
        print("".join(table), end="")
    else:
        PAGE.write_text(page(table), encoding="utf-8")
        print(PAGE)


if __name__ == "__main__":
    main()

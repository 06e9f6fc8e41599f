# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries out the study `validation` on the simulator and on the kernel, and writes docs/models/validation.md."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "models" / "validation.md"

HEAD = """\
# The simulator beside the kernel

`make validate`, as root, carries the study [validation](../../studies/validation/README.md) out on both engines and
writes this page. Each cell is the mean over {rounds} rounds of {seconds} s; ± is half of the way from the least to the
largest. Within: throughput and mean round trip differ by at most 5 %, the retransmitted share by a factor of at most
1.5 or 0.1 percentage points.

Of {date}, Linux {kernel}, {cores} cores. Releases were at most {late} us late in 99 of 100 cases.

{within} of {cells} cells are within.

"""
COLUMNS = (
    "| link | congestion control | Mbit/s: simulated | kernel | difference "
    "| round trip, ms: simulated | kernel | difference "
    "| retransmitted, %: simulated | kernel | within |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n"
)
MISSES = "\n## What misses, and why\n\n"


@dataclass(frozen=True)
class Cell:
    """One link and congestion control: mean and half spread of each quantity, by engine."""

    link: str
    cc: str
    goodput: dict[str, tuple[float, float]]
    rtt: dict[str, tuple[float, float]]
    retransmitted: dict[str, tuple[float, float]]

    def misses(self) -> list[str]:
        """Return the quantities that differ by more than the page allows."""
        found = [
            name
            for name, values in (("throughput", self.goodput), ("round trip", self.rtt))
            if abs(values["emu"][0] / values["sim"][0] - 1) > 0.05
        ]
        sim, emu = self.retransmitted["sim"][0], self.retransmitted["emu"][0]
        if abs(sim - emu) > 0.1 and max(sim, emu) > 1.5 * min(sim, emu):
            found.append("retransmissions")
        return found

    def row(self) -> str:
        """Return its row of the page's table."""
        parts = [self.link, self.cc]
        for values in (self.goodput, self.rtt):
            parts += [_spread(values["sim"], 1), _spread(values["emu"], 1)]
            parts.append(f"{100 * (values['emu'][0] / values['sim'][0] - 1):+.1f} %")
        parts += [_spread(self.retransmitted[engine], 2) for engine in ("sim", "emu")]
        missed = self.misses()
        parts.append("no: " + ", ".join(missed) if missed else "yes")
        return "| " + " | ".join(parts) + " |\n"


def main() -> None:
    """Carry both engines out, compare, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="where both results go")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], help="of the study, as perigee run has it"
    )
    options = parser.parse_args()
    tables = {}
    for engine in ("sim", "emu"):
        folder = options.out / f"validation-{engine}"
        settings = [part for setting in options.settings for part in ("--set", setting)]
        command = [
            sys.executable,
            "-m",
            "perigee",
            "run",
            "validation",
            "--engine",
            engine,
            "--out",
            str(folder),
            "--fresh",
        ]
        if subprocess.run([*command, *settings], cwd=ROOT, check=False).returncode:
            sys.exit(f"validate.py: the study failed on the engine {engine}")
        tables[engine] = pl.read_parquet(folder / "flows.parquet")
    late = pl.read_parquet(options.out / "validation-emu" / "releases.parquet")["late_p99_us"]
    cells = _cells(tables)
    options.page.write_text(_page(cells, tables["emu"], float(late.quantile(0.99) or 0.0), options.page))
    print(options.page)
    results = [str(options.out / f"validation-{engine}") for engine in ("sim", "emu")]
    overlay = str(options.out / "validation-overlay.html")
    compared = [sys.executable, "-m", "perigee", "compare", *results, "--out", overlay]
    if subprocess.run(compared, cwd=ROOT, check=False).returncode:
        sys.exit("validate.py: the two results could not be compared; the page is written")


def _cells(tables: dict[str, pl.DataFrame]) -> list[Cell]:
    found = []
    for link, cc in tables["sim"].select("to_node", "cc").unique(maintain_order=True).iter_rows():
        parts = {engine: table.filter(to_node=link, cc=cc) for engine, table in tables.items()}
        share = pl.col("retransmitted_packets") / pl.col("sent_packets") * 100
        found.append(
            Cell(
                link,
                cc,
                {engine: _mean(part["goodput_mbps"]) for engine, part in parts.items()},
                {engine: _mean(part["rtt_mean_ms"]) for engine, part in parts.items()},
                {engine: _mean(part.select(share).to_series()) for engine, part in parts.items()},
            )
        )
    return found


def _page(cells: list[Cell], flows: pl.DataFrame, late_us: float, page: Path) -> str:
    within = sum(not cell.misses() for cell in cells)
    head = HEAD.format(
        rounds=flows["round"].n_unique(),
        seconds=round(float(flows.select(pl.median("duration_s")).item())),
        date=datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        kernel=platform.release(),
        cores=os.cpu_count(),
        late=f"{late_us:.0f}",
        within=within,
        cells=len(cells),
    )
    return head + COLUMNS + "".join(cell.row() for cell in cells) + MISSES + _explained(page)


def _explained(page: Path) -> str:
    """Return what people wrote of the misses, which a new run does not know better."""
    text = page.read_text() if page.exists() else ""
    return text.partition(MISSES)[2] or "Not looked into yet.\n"


def _mean(values: pl.Series) -> tuple[float, float]:
    numbers = [float(value) for value in values.to_list()]
    return sum(numbers) / len(numbers), (max(numbers) - min(numbers)) / 2


def _spread(value: tuple[float, float], digits: int) -> str:
    return f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


if __name__ == "__main__":
    main()

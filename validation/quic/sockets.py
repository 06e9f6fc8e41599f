# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries downloads over QUIC out on both engines, and writes docs/models/validation-quic.md.

Ctrl-C loses nothing but the run under way: the same command goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

from beside import ROOT, Run, Tolerance, differences, perigee, reasons, toml  # noqa: E402

STUDY = FOLDER / "study.toml"
PAGE = ROOT / "docs" / "models" / "validation-quic.md"
TOLERANCE = Tolerance(goodput=0.02, rtt=0.03, retransmitted=1.2)

CC = "flows.download.cc"
"""The key that varies on each link."""

LATE = "2 ms"
"""A round with a release later than this is carried out again, up to three times in all."""

LATE_US = 500.0
"""A round whose releases are later than this, in one of 100 cases, is not judged: the machine had other work."""

ONE = "one of each cell: one value, no mean"
HEAD = """\
# QUIC on sockets beside QUIC in virtual time

**Of the study's {study} cells {cells} were compared here, and {missing} are missing. Of those compared {judged} \
can be judged, and {within} are within. {missed}**{absent}

`make validate`, as root, carries the study [validation/quic](../../validation/quic/study.toml) out on both engines
and writes this page: the same flow and the same stack, once with links and keys that cost nothing in virtual time,
once with real keys over UDP sockets between namespaces ([the model](quic.md#on-sockets)). Rounds of 20 s, {rounds}.
A link's name has its Mbit/s and its round trip in ms. Within: throughput and mean round trip differ by at most 2 and
3 %, the share of packets deemed lost by a factor of at most 1.2 or 0.1 percentage points.

Of {date}, Linux {kernel}, {cores} cores.
A round with a release more than {late} late was repeated, up to three times in all. Cells are judged by rounds whose
releases were at most {limit:.0f} us late in 99 of 100 cases; a cell without any shows what the others came to, and is
not judged.

| link | congestion control | Mbit/s: simulated | sockets | difference \
| round trip, ms: simulated | sockets | difference | lost, %: simulated | sockets | within |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""


@dataclass(frozen=True)
class Means:
    """Mean throughput, Mbit/s, round trip, ms, and losses, per cent, of rounds up to `late_us` late (simulated: 0)."""

    values: tuple[float, float, float]
    late_us: float


@dataclass(frozen=True)
class Cell:
    """A congestion control on a link, on both engines."""

    link: str
    cc: str
    sim: Means
    emu: Means

    @property
    def label(self) -> str:
        """How the page names it: `20x600, reno`."""
        return f"{self.link}, {self.cc}"

    @property
    def is_judged(self) -> bool:
        """Whether its rounds were on time."""
        return self.emu.late_us <= LATE_US

    @property
    def misses(self) -> list[str]:
        """The quantities that differ by more than the page allows; none of a cell that is not judged."""
        found = TOLERANCE.misses(self.sim.values, self.emu.values) if self.is_judged else []
        return ["losses" if one == "retransmissions" else one for one in found]

    def row(self) -> str:
        """Return its row of the page's table."""
        parts = [self.link, self.cc]
        sim, emu = self.sim.values, self.emu.values
        for here, there, digits in zip(sim[:2], emu[:2], (2, 1), strict=True):
            parts += [f"{here:.{digits}f}", f"{there:.{digits}f}", f"{100 * (there / here - 1):+.1f} %"]
        verdict = "no: " + ", ".join(self.misses) if self.misses else "yes"
        parts += [
            f"{sim[2]:.2f}",
            f"{emu[2]:.2f}",
            verdict if self.is_judged else f"not judged: {self.emu.late_us:.0f} us late",
        ]
        return "| " + " | ".join(parts) + " |\n"


def measured(run: Run, engine: str, only: str, rounds: int, folder: Path) -> dict[str, Means]:
    """Carry congestion controls out on a link, or of `LINK/CONTROL` this one; return the means of each."""
    link, _, cc = only.partition("/")
    late = ["--repeat-late", LATE] if engine == "emu" else []
    chosen = ["--experiment", link, "--set", f"rounds={rounds}", *(["--set", f"{CC}={cc}"] if cc else [])]
    run(["run", str(STUDY), *chosen, "--engine", engine, "--out", str(folder), *late])
    return read(folder, engine, cc)


def read(folder: Path, engine: str, cc: str = "") -> dict[str, Means]:
    """Return the means of each congestion control in a folder, or of `cc` alone: of its rounds on time, or of all."""
    flows = pl.read_parquet(folder / "flows.parquet")
    lost = (100 * pl.col("lost_packets") / pl.col("sent_packets")).alias("lost")
    names = [cc or json.loads(point)[CC] for point in flows["point"]]
    rounds = flows.with_columns(pl.Series("name", names), lost, late=pl.lit(0.0))
    if engine == "emu":
        late = pl.read_parquet(folder / "releases.parquet").group_by("run").agg(late=pl.max("late_p99_us"))
        rounds = rounds.drop("late").join(late, on="run")
    found = {}
    for (name,), of_cell in rounds.group_by("name", maintain_order=True):
        on_time = of_cell.filter(pl.col("late") <= LATE_US)
        chosen = on_time if on_time.height else of_cell
        means = chosen.select(pl.mean("goodput_mbps"), pl.mean("rtt_mean_ms"), pl.mean("lost"), pl.max("late"))
        goodput, rtt, share, late_us = means.row(0)
        found[str(name)] = Means((goodput, rtt, share), late_us)
    return found


def page(cells: Sequence[Cell], rounds: int) -> str:
    """Return the page with these cells, of which the study may have others."""
    controls = _controls()
    missed = [cell.label for cell in cells if cell.misses]
    there = {cell.label for cell in cells}
    absent = {link: [cc for cc in all_of if f"{link}, {cc}" not in there] for link, all_of in controls.items()}
    said = [
        link if others == controls[link] else f"{link} with {', '.join(others)}"
        for link, others in absent.items()
        if others
    ]
    head = HEAD.format(
        rounds=ONE if rounds == 1 else f"{rounds} of each cell, whose means are compared",
        date=datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        kernel=platform.release(),
        cores=os.cpu_count(),
        late=LATE,
        limit=LATE_US,
        within=sum(cell.is_judged and not cell.misses for cell in cells),
        judged=sum(cell.is_judged for cell in cells),
        cells=len(cells),
        study=sum(map(len, controls.values())),
        missing=sum(map(len, absent.values())),
        absent=f" Missing: {'; '.join(said)}." if said else "",
        missed=_missed(cells),
    )
    why = {label: reason for label, reason in differences(FOLDER / "differences.toml").items() if label in there}
    return "".join([head, *(cell.row() for cell in cells), *reasons(missed, why)])


def _missed(cells: Sequence[Cell]) -> str:
    """Return how many cells miss over a geostationary satellite without loss, and elsewhere, of those judged."""
    judged = [cell for cell in cells if cell.is_judged]
    far = [bool(cell.misses) for cell in judged if cell.link.endswith("x600")]
    near = [bool(cell.misses) for cell in judged if not cell.link.endswith("x600")]
    return f"Over 600 ms without loss {sum(far)} of {len(far)} miss, elsewhere {sum(near)} of {len(near)}."


def main() -> None:
    """Carry both engines out, compare, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "validation-quic", help="where all results go")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    names = [*_controls(), *(f"{link}/{cc}" for link, controls in _controls().items() for cc in controls)]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="LINK[/CONTROL]", help="in place of all; may be given again"
    )
    parser.add_argument("--rounds", type=int, default=int(toml(STUDY)["rounds"]), help="rounds of a cell")
    options = parser.parse_args()
    cells = []
    for only in options.only or _controls():
        here, there = (
            measured(perigee, engine, only, options.rounds, options.out / engine / only.replace("/", "-"))
            for engine in ("sim", "emu")
        )
        cells += [Cell(only.partition("/")[0], cc, here[cc], there[cc]) for cc in here]
    options.page.write_text(page(cells, options.rounds), encoding="utf-8")
    print(options.page)


def _controls() -> dict[str, list[str]]:
    """Return the congestion controls of the study by its links."""
    return {experiment["name"]: experiment["vary"][CC] for experiment in toml(STUDY)["experiments"]}


if __name__ == "__main__":
    main()
